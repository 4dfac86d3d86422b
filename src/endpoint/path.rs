//! An endpoint's path template, from its file's contents or from the file's own path.

use std::path::Path;

use rowstream_core::diagnostic::reader::Table;
use rowstream_core::diagnostic::{File, shown};
use rowstream_core::sql::is_name;
use rowstream_encode::Format;

use crate::route::parameter_name;

/// The most parameters of a path. The router has one letter for each, and one more.
pub(crate) const MOST_PARAMS: usize = 25;

pub(super) struct PathTemplate {
    /// The text: `/authors/{id}`.
    pub(super) text: String,
    /// The names of the `{name}` segments.
    pub(super) names: Vec<String>,
    /// Its offset in the file, in bytes. 0 if it's the file's own path.
    pub(super) offset: usize,
}

/// Reads the template from `path = "…"`, or else from the file's path below the folder of
/// endpoints. Records errors.
pub(super) fn read(file: File<'_>, table: &mut Table<'_>, relative: &Path) -> PathTemplate {
    let (text, offset) = match table.take("path") {
        Some(value) => (value.string().unwrap_or_else(|| "/".to_owned()), value.offset()),
        None => (of_file(relative), 0),
    };
    let names = check(&text).unwrap_or_else(|error| {
        file.error(offset, format!("the path {} {}", shown(&text), error.message), Some(error.hint));
        Vec::new()
    });
    PathTemplate { text, names, offset }
}

/// `authors/{id}.sql` becomes `/authors/{id}`, and `authors/index.sql` becomes `/authors`.
fn of_file(relative: &Path) -> String {
    let bare = relative.with_extension("");
    let mut segments: Vec<_> = bare.iter().map(|segment| segment.to_string_lossy()).collect();
    if segments.last().is_some_and(|last| last == "index") {
        segments.pop();
    }
    format!("/{}", segments.join("/"))
}

/// An error in a template. The message continues the text "the path `…`".
struct PathError {
    message: &'static str,
    hint: String,
}

fn error<T>(message: &'static str, hint: impl Into<String>) -> Result<T, PathError> {
    Err(PathError { message, hint: hint.into() })
}

/// Checks a template, and returns the names of its parameters.
fn check(path: &str) -> Result<Vec<String>, PathError> {
    let Some(inner) = path.strip_prefix('/') else {
        return error("does not begin with a slash", format!("write `/{path}`"));
    };
    if inner.is_empty() {
        return Ok(Vec::new());
    }
    let mut names = Vec::new();
    for segment in inner.split('/') {
        if let Some(name) = check_segment(segment)? {
            if names.contains(&name) {
                return error("has two parameters with the same name", format!("rename one `{{{name}}}`"));
            }
            names.push(name);
        }
    }
    check_reserved(inner)?;
    if names.len() > MOST_PARAMS {
        return error("has more than 25 parameters", "let some of them be in the query instead");
    }
    Ok(names)
}

/// The name of the parameter if the segment is one.
fn check_segment(segment: &str) -> Result<Option<String>, PathError> {
    if segment.is_empty() {
        return error("has an empty segment", "leave out the slash at the end and repeated slashes");
    }
    if matches!(segment, "." | "..") {
        return error("has a segment `.` or `..`", "clients remove such segments from a URL: leave it out");
    }
    if let Some(name) = parameter_name(segment) {
        return match is_name(name) {
            true => Ok(Some(name.to_owned())),
            false => error(
                "has a parameter whose name can't be read",
                "names are ASCII letters, digits and underscores",
            ),
        };
    }
    if segment.contains(['{', '}']) {
        return error("has a brace within a segment", "a parameter is a whole segment: `/authors/{id}`");
    }
    if segment.contains(|c: char| matches!(c, '%' | '?' | '#' | '\\') || c.is_control()) {
        return error(
            "has a character that a path can't contain",
            "leave out `%`, `?`, `#` and `\\`; write other characters as they are",
        );
    }
    Ok(None)
}

fn check_reserved(inner: &str) -> Result<(), PathError> {
    if inner.split('/').next() == Some("_rowstream") {
        return error("is the server's own", "choose a path that isn't below `/_rowstream`");
    }
    match inner.rsplit_once('.') {
        Some((before, suffix)) if Format::from_name(suffix).is_some() => error(
            "ends in a format",
            format!("leave out the suffix: `/{before}` answers at `/{before}.{suffix}`, too"),
        ),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::route::{Route, Router, Suffixes};

    #[test]
    fn files_have_paths() {
        for (file, path) in [
            ("authors.sql", "/authors"),
            ("authors/{id}.sql", "/authors/{id}"),
            ("index.sql", "/"),
            ("authors/index.toml", "/authors"),
            ("index/a.sql", "/index/a"),
            ("v1.2/a.b.sql", "/v1.2/a.b"),
        ] {
            assert_eq!(of_file(Path::new(file)), path);
        }
    }

    /// The router panicked at the 26th parameter.
    #[test]
    fn a_path_has_as_many_parameters_as_the_router_takes() {
        let path = |most: usize| (0..most).map(|number| format!("/{{p{number}}}")).collect::<String>();
        assert_eq!(check(&path(MOST_PARAMS)).ok().map(|names| names.len()), Some(MOST_PARAMS));
        let most = path(MOST_PARAMS);
        Router::new([Route { path: &most, suffixes: Suffixes::Formats }].into_iter()).unwrap();
        assert_eq!(
            check(&path(MOST_PARAMS + 1)).err().map(|error| error.message),
            Some("has more than 25 parameters")
        );
    }

    #[test]
    fn templates_are_checked() {
        for (path, expected) in [
            ("/", Ok("")),
            ("/a/b", Ok("")),
            ("/a/{id}/b/{name}", Ok("id name")),
            ("/größe x/a.b", Ok("")),
            ("/_rowstreams/a", Ok("")),
            ("a", Err("does not begin with a slash")),
            ("", Err("does not begin with a slash")),
            ("/a/", Err("has an empty segment")),
            ("//a", Err("has an empty segment")),
            ("/a/../b", Err("has a segment `.` or `..`")),
            ("/a/{id}.x", Err("has a brace within a segment")),
            ("/a/x{id}", Err("has a brace within a segment")),
            ("/a/{}", Err("has a parameter whose name can't be read")),
            ("/a/{*rest}", Err("has a parameter whose name can't be read")),
            ("/{a}/{a}", Err("has two parameters with the same name")),
            ("/a%20b", Err("has a character that a path can't contain")),
            ("/a?b", Err("has a character that a path can't contain")),
            ("/_rowstream", Err("is the server's own")),
            ("/_rowstream/a", Err("is the server's own")),
            ("/a.json", Err("ends in a format")),
            ("/a/b.ndjson", Err("ends in a format")),
        ] {
            let names = check(path).map(|names| names.join(" ")).map_err(|error| error.message);
            assert_eq!(names.as_deref().map_err(|message| *message), expected, "{path}");
        }
    }
}
