//! Replaces `${…}` in a configuration by an environment variable, a file's text or a systemd
//! credential. A message contains the name of the variable, but never its value.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs;
use std::io::{ErrorKind, Read as _};
use std::path::{Path, PathBuf};

use super::{Environment, shown};

/// The origins of the values for `${…}`.
pub(super) struct Origins<'a> {
    environment: &'a Environment<'a>,
    /// The folder that relative paths start from.
    folder: &'a Path,
    /// The files that were looked for, even if they don't exist.
    files: RefCell<Vec<PathBuf>>,
}

impl<'a> Origins<'a> {
    /// The origins for one configuration file.
    pub(super) fn of(file: &'a Path, environment: &'a Environment<'a>) -> Self {
        Self::below(file.parent().unwrap_or(Path::new("")), environment)
    }

    fn below(folder: &'a Path, environment: &'a Environment<'a>) -> Self {
        Self { environment, folder, files: RefCell::default() }
    }

    /// The files that were looked for.
    pub(super) fn into_files(self) -> Vec<PathBuf> {
        self.files.into_inner()
    }

    fn file(&self, path: PathBuf) -> VariableResult {
        let found = of_file(&path);
        self.files.borrow_mut().push(path);
        found
    }
}

/// A text with `${…}` in it. It's expanded again after its files have changed.
#[derive(Clone, PartialEq, Eq)]
pub struct Template {
    text: String,
    folder: PathBuf,
    /// The environment variables that it names. They don't change.
    variables: BTreeMap<String, String>,
}

impl Template {
    /// `None` if `text` mentions no files. `file` is the configuration that contains it.
    pub(super) fn of(text: &str, file: &Path, environment: &Environment<'_>) -> Option<Self> {
        let variables = RefCell::new(BTreeMap::new());
        let noting = |name: &str| {
            let value = environment(name)?;
            variables.borrow_mut().insert(name.to_owned(), value.clone());
            Some(value)
        };
        let origins = Origins::of(file, &noting);
        expand(text, &origins).ok()?;
        let (folder, files) = (origins.folder.to_owned(), origins.into_files());
        let variables = variables.into_inner();
        (!files.is_empty()).then(|| Self { text: text.to_owned(), folder, variables })
    }

    /// The text with the current contents of its files; `None` if one can't be read.
    pub fn expand(&self) -> Option<String> {
        expand(&self.text, &Origins::below(&self.folder, &|name| self.variables.get(name).cloned())).ok()
    }
}

/// The largest file for a `${file:…}`, in bytes.
const LONGEST_SECRET: u64 = 64 << 10;
/// The folder of systemd's credentials (systemd.exec(5), `LoadCredential=`).
const CREDENTIALS: &str = "CREDENTIALS_DIRECTORY";

/// The reason why a `${…}` can't be replaced. It contains the variable's name, but never a value.
#[derive(Debug)]
pub(super) struct ExpansionError {
    pub(super) message: String,
    pub(super) hint: String,
}

/// The inner result is the value, or the reason why there's none; a default can replace either. The
/// outer `Err` rules out a default.
type VariableResult = Result<Result<String, ExpansionError>, ExpansionError>;

/// Replaces `${NAME}`, `${file:PATH}` and `${credential:NAME}`. A default (`${NAME:-default}`)
/// replaces a missing or empty value, as in a shell, but not one that can't be read. `$${` means a
/// literal `${`. Every other `$` is kept.
pub(super) fn expand(text: &str, origins: &Origins<'_>) -> Result<String, ExpansionError> {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(dollar) = rest.find('$') {
        let (before, from) = rest.split_at(dollar);
        out.push_str(before);
        if let Some(inner) = from.strip_prefix("${") {
            let end = inner.find('}').ok_or_else(|| unclosed(inner))?;
            out.push_str(&variable(&inner[..end], origins)?);
            rest = &inner[end + 1..];
        } else {
            let escaped = from.strip_prefix("$${");
            out.push_str(if escaped.is_some() { "${" } else { "$" });
            rest = escaped.unwrap_or(&from[1..]);
        }
    }
    out.push_str(rest);
    Ok(out)
}

fn variable(inner: &str, origins: &Origins<'_>) -> Result<String, ExpansionError> {
    let (name, default) = match inner.split_once(":-") {
        Some((name, default)) => (name, Some(default)),
        None => (inner, None),
    };
    let found = if let Some(path) = name.strip_prefix("file:") {
        origins.file(origins.folder.join(path))
    } else if let Some(name) = name.strip_prefix("credential:") {
        of_credential(name, origins)
    } else {
        of_environment(name.strip_prefix("env:").unwrap_or(name), origins.environment)
    };
    match (found?, default) {
        (Ok(value), None) => Ok(value),
        (Ok(value), Some(_)) if !value.is_empty() => Ok(value),
        (_, Some(default)) => Ok(default.to_owned()),
        (Err(missing), None) => Err(missing),
    }
}

/// The value of an environment variable.
fn of_environment(name: &str, environment: &Environment<'_>) -> VariableResult {
    if !crate::sql::is_name(name) {
        return Err(ExpansionError {
            message: format!("{} is not the name of an environment variable", shown(name)),
            hint: "write `${NAME}`, `${NAME:-default}`, `${file:PATH}` or `${credential:NAME}`, or `$${` for the characters themselves".to_owned(),
        });
    }
    Ok(environment(name).ok_or_else(|| ExpansionError {
        message: format!("the environment variable `{name}` is not set"),
        hint: format!("set it, or give a default: `${{{name}:-…}}`"),
    }))
}

/// The text of a file, without its byte order mark and its line end.
fn of_file(path: &Path) -> VariableResult {
    let wrong = |why: String| ExpansionError {
        message: format!("the file {} {why}", shown(&path.display().to_string())),
        hint: "write the secret into it, as one line of text".to_owned(),
    };
    let mut text = String::new();
    let read = fs::File::open(path).and_then(|file| file.take(LONGEST_SECRET + 1).read_to_string(&mut text));
    if let Err(error) = read {
        let unreadable = wrong(format!("cannot be read: {error}"));
        return if error.kind() == ErrorKind::NotFound { Ok(Err(unreadable)) } else { Err(unreadable) };
    }
    if text.len() as u64 > LONGEST_SECRET {
        return Err(wrong(format!("has more than {LONGEST_SECRET} bytes")));
    }
    // Editors on Windows write a byte order mark.
    let line = text.strip_prefix('\u{feff}').unwrap_or(&text);
    let line = line.strip_suffix('\n').unwrap_or(line);
    Ok(Ok(line.strip_suffix('\r').unwrap_or(line).to_owned()))
}

/// A credential from the service manager.
fn of_credential(name: &str, origins: &Origins<'_>) -> VariableResult {
    let wrong = |message: String| ExpansionError {
        message,
        hint: "set `LoadCredential=NAME:PATH` in the unit".to_owned(),
    };
    if name.is_empty() || name.contains('/') || name.starts_with('.') {
        return Err(wrong(format!("{} is not the name of a credential", shown(name))));
    }
    match (origins.environment)(CREDENTIALS) {
        Some(folder) => origins.file(Path::new(&folder).join(name)),
        None => {
            Ok(Err(wrong(format!("{} isn't available, because the service has no credentials", shown(name)))))
        }
    }
}

fn unclosed(inner: &str) -> ExpansionError {
    let name: String = inner.chars().take_while(|&c| c.is_ascii_alphanumeric() || c == '_').collect();
    ExpansionError {
        message: format!("`${{{name}` has no closing brace"),
        hint: format!("write `${{{name}}}`, or `$${{` for the characters themselves"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables() {
        let environment = |name: &str| match name {
            "A" => Some("x".to_owned()),
            "EMPTY" => Some(String::new()),
            "NESTED" => Some("${A}".to_owned()),
            _ => None,
        };
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &[u8]| fs::write(folder.path().join(name), text).unwrap();
        write("secret", b"hunter2\r\n");
        write("lines", b"a\nb\n\n");
        write("none", b"\n");
        write("bytes", b"\xff");
        write("long", &[b'x'; LONGEST_SECRET as usize + 1]);
        let handed = folder.path().display().to_string();
        let environment =
            |name: &str| if name == CREDENTIALS { Some(handed.clone()) } else { environment(name) };
        for (text, expected) in [
            ("plain", Ok("plain")),
            ("${env:A}", Ok("x")),
            ("u:${file:secret}@h", Ok("u:hunter2@h")),
            ("${file:lines}", Ok("a\nb\n")),
            ("${file:none:-d}", Ok("d")),
            ("${file:missing:-d}", Ok("d")),
            ("${credential:secret}", Ok("hunter2")),
            ("${credential:missing:-d}", Ok("d")),
            ("${credential:../secret:-d}", Err("`../secret` is not the name of a credential")),
            ("${credential:../secret}", Err("`../secret` is not the name of a credential")),
            ("${env:}", Err("`` is not the name of an environment variable")),
            ("${A}", Ok("x")),
            ("a${A}b${A}", Ok("axbx")),
            ("${EMPTY}", Ok("")),
            ("${EMPTY:-d}", Ok("d")),
            ("${B:-d:-e}", Ok("d:-e")),
            ("${B:-}", Ok("")),
            ("${NESTED}", Ok("${A}")),
            ("$$", Ok("$$")),
            ("$${A}", Ok("${A}")),
            ("a$${A}${A}", Ok("a${A}x")),
            ("$$${", Ok("$${")),
            ("$${", Ok("${")),
            ("$A $", Ok("$A $")),
            ("${B}", Err("the environment variable `B` is not set")),
            ("${1}", Err("`1` is not the name of an environment variable")),
            ("${}", Err("`` is not the name of an environment variable")),
            ("x${A", Err("`${A` has no closing brace")),
        ] {
            let expanded = expand(text, &Origins::of(&folder.path().join("f"), &environment))
                .map_err(|error| error.message);
            assert_eq!(expanded.as_deref().map_err(String::as_str), expected, "{text}");
        }
        for (name, why) in [
            ("missing", "cannot be read"),
            ("bytes", "cannot be read"),
            ("long", "has more than 65536 bytes"),
        ] {
            let file = folder.path().join("f");
            let origins = Origins::of(&file, &environment);
            let error = expand(&format!("${{file:{name}}}"), &origins).unwrap_err();
            assert!(error.message.contains(why) && error.message.contains(name), "{error:?}");
            // A default replaces a missing file, but not one that can't be read.
            let is_there = expand(&format!("${{file:{name}:-d}}"), &origins).is_err();
            assert_eq!(is_there, name != "missing", "{name}");
        }
        let nothing = Origins::of(Path::new("f"), &|_: &str| None);
        assert!(expand("${credential:secret}", &nothing).is_err());
    }
}
