//! Finds and reads files. A file that can't be read is an error like any other.

use rowstream_core::diagnostic::encoding::{EncodingError, read_utf8};
use rowstream_core::diagnostic::{Collector, Diagnostic, did_you_mean};
use rowstream_upstream::FileStamp;

use super::unserved::lower_extension;
use super::{Config, Reason, UnservedFile, dotenv};
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// A deeper folder is treated as an endless loop through a link to a folder above.
const DEEPEST: usize = 32;

/// A snapshot of a configuration's files: their paths, the times of their last changes, and their
/// lengths. Taking such snapshots repeatedly needs no support by the system. It works on every file
/// system, also if files are replaced by links.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Files(Vec<FileStamp>);

impl Files {
    /// The files of `config`, which was read from the file at `path`.
    pub(crate) fn of(path: &Path, config: &Config) -> Self {
        let folder = &config.folder;
        let below =
            endpoints(folder, &Collector::default()).served.into_iter().map(|below| folder.join(below));
        let tls = config.tls.iter().flat_map(|tls| tls.identity.files.clone());
        let beside = dotenv::path(path.parent().unwrap_or(Path::new("")));
        let keys = config.jwt.iter().filter_map(|jwt| jwt.file.clone());
        let watched = config.watched.iter().cloned();
        let files = [path.to_owned(), beside].into_iter().chain(tls).chain(keys).chain(watched).chain(below);
        Self(files.map(stamped).collect())
    }
}

/// A file, the time of its last change, and its length.
pub(super) fn stamped(path: PathBuf) -> FileStamp {
    let metadata = fs::metadata(&path).ok();
    let changed = metadata.and_then(|metadata| Some((metadata.modified().ok()?, metadata.len())));
    (path, changed)
}

/// The text of a file. Returns `None` and records the reason if it can't be read.
pub(super) fn read_text(path: &Path, errors: &Collector) -> Option<String> {
    let bytes = match fs::read(path) {
        Ok(bytes) => bytes,
        Err(error) => {
            errors.add_to_file(path, reason(&error), None);
            return None;
        }
    };
    let (message, (line, column)) = match read_utf8(bytes) {
        Ok(text) => return Some(text),
        Err(EncodingError::Utf16) => ("the file is UTF-16", (1, 1)),
        Err(EncodingError::From(line, column)) => ("the file is not UTF-8 from here on", (line, column)),
    };
    let (message, hint) = (message.to_owned(), Some("save it as UTF-8".to_owned()));
    errors.add(Diagnostic { file: path.to_owned(), line, column, message, hint });
    None
}

/// See [`Config::near_file`].
pub(super) fn near(path: &Path) -> Option<PathBuf> {
    let wanted = path.file_name()?.to_str()?;
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let entries = fs::read_dir(folder).ok()?.flatten();
    let mut names: Vec<_> = entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
    names.sort();
    did_you_mean(wanted, names.iter().map(String::as_str)).map(|near| path.with_file_name(near))
}

fn reason(error: &std::io::Error) -> String {
    match error.kind() {
        ErrorKind::NotFound => "the file doesn't exist".to_owned(),
        ErrorKind::IsADirectory => "this is a folder, not a file".to_owned(),
        ErrorKind::PermissionDenied => "the file may not be read".to_owned(),
        _ => format!("the file cannot be read: {error}"),
    }
}

/// The contents of a folder of endpoints.
#[derive(Debug, Default)]
pub(super) struct FolderContents {
    /// The paths of the endpoint files, relative to the folder and sorted.
    pub(super) served: Vec<PathBuf>,
    /// Files that look like endpoints but aren't served.
    pub(super) unserved: Vec<UnservedFile>,
}

/// Finds the endpoint files below a folder. Links are followed, because Kubernetes mounts
/// configuration as links into a folder whose name begins with a dot. That folder itself is
/// skipped.
pub(super) fn endpoints(folder: &Path, errors: &Collector) -> FolderContents {
    let mut found = FolderContents::default();
    walk(folder, Path::new(""), 0, errors, &mut found);
    found.served.sort();
    found.unserved.sort_by(|a, b| a.path.cmp(&b.path));
    found
}

fn walk(root: &Path, below: &Path, depth: usize, errors: &Collector, found: &mut FolderContents) {
    let folder = root.join(below);
    if depth > DEEPEST {
        return errors.add_to_file(
            &folder,
            "the folders are nested too deeply",
            Some("is one of them a link to a folder above it?"),
        );
    }
    let entries = match fs::read_dir(&folder).and_then(Iterator::collect::<Result<Vec<_>, _>>) {
        Ok(entries) => entries,
        Err(error) => {
            return errors.add_to_file(&folder, format!("the folder cannot be read: {error}"), None);
        }
    };
    for entry in entries {
        let name = entry.file_name();
        let Some(name) = name.to_str() else {
            errors.add_to_file(
                &entry.path(),
                "the name of this file is not UTF-8",
                Some("rename it: it becomes a URL"),
            );
            continue;
        };
        if name.starts_with('.') {
            continue;
        }
        let (path, aside) = (below.join(name), name.starts_with('_'));
        let mut unserved = |reason| found.unserved.push(UnservedFile { path: root.join(&path), reason });
        match fs::metadata(entry.path()) {
            _ if aside && holds_endpoints(&entry.path(), depth) => unserved(Reason::Underscore),
            _ if aside => {}
            Ok(metadata) if metadata.is_dir() => walk(root, &path, depth + 1, errors, found),
            Ok(_) if is_endpoint(&path) => found.served.push(path),
            Ok(_) if is_like_endpoint(&path) => unserved(Reason::Case),
            Ok(_) => {}
            Err(error) => errors.add_to_file(&entry.path(), reason(&error), None),
        }
    }
}

fn is_endpoint(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "sql" || extension == "toml")
}

fn is_like_endpoint(path: &Path) -> bool {
    matches!(lower_extension(path).as_str(), "sql" | "toml")
}

/// Returns true if a path that begins with `_` is, or contains, a file that would otherwise be an
/// endpoint. Paths that can't be read are ignored.
fn holds_endpoints(path: &Path, depth: usize) -> bool {
    let Ok(entries) = fs::read_dir(path) else { return is_like_endpoint(path) && path.is_file() };
    depth <= DEEPEST && entries.flatten().any(|entry| holds_endpoints(&entry.path(), depth + 1))
}
