//! `.env` beside the configuration: variables for those that the environment lacks. Other tools
//! read the same format.
//!
//! The process's own environment isn't changed, so that a reload reads the file again.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use rowstream_core::diagnostic::{Collector, Diagnostic};

use super::files;

const NAME: &str = ".env";

/// The path of the file for a configuration in `folder`. The file needn't exist.
pub(super) fn path(folder: &Path) -> PathBuf {
    folder.join(NAME)
}

/// The variables of the file in `folder`, if it exists. If a name occurs twice, the last value
/// counts.
pub(super) fn read(folder: &Path, errors: &Collector) -> BTreeMap<String, String> {
    let path = path(folder);
    // It may also be a folder: Python keeps packages in folders of this name.
    if !path.is_file() {
        return BTreeMap::new();
    }
    files::read_text(&path, errors).map(|text| parse(&path, &text, errors)).unwrap_or_default()
}

fn parse(path: &Path, text: &str, errors: &Collector) -> BTreeMap<String, String> {
    let begun = Cell::new(0);
    let lines = CountedLines { rest: text.as_bytes(), begun: &begun };
    let mut variables = BTreeMap::new();
    let mut entries = dotenvy::from_read_iter(lines);
    loop {
        let before = begun.get();
        let Some(entry) = entries.next() else { return variables };
        match entry {
            Ok((name, value)) => {
                let written = text.lines().skip(before).take(begun.get() - before);
                if let Some(at) = written.into_iter().position(|line| replaces_unknown(line, &variables)) {
                    errors.add(unknown(path, before + at + 1));
                }
                variables.insert(name, value);
            }
            Err(dotenvy::Error::LineParse(entry, _)) => {
                let line = begun.get() + 1 - entry.lines().count().max(1);
                errors.add(unreadable(path, line));
            }
            Err(error) => errors.add_to_file(path, error.to_string(), None),
        }
    }
}

/// Returns true if a line has a `$NAME` of an unknown variable. It would be replaced by nothing, so
/// a password would silently become shorter.
fn replaces_unknown(line: &str, before: &BTreeMap<String, String>) -> bool {
    let (mut quote, mut last, mut chars) = (None, ' ', line.chars());
    if line.trim_start().starts_with('#') {
        return false;
    }
    while let Some(c) = chars.next() {
        match c {
            '\\' if quote != Some('\'') => drop(chars.next()),
            '#' if quote.is_none() && last.is_whitespace() => return false,
            '\'' | '"' if quote == Some(c) => quote = None,
            '\'' | '"' if quote.is_none() => quote = Some(c),
            '$' if quote != Some('\'') => {
                let rest = chars.as_str();
                let rest = rest.strip_prefix('{').unwrap_or(rest);
                let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(rest.len());
                let name = &rest[..end];
                if name.is_empty() || (std::env::var_os(name).is_none() && !before.contains_key(name)) {
                    return true;
                }
            }
            _ => {}
        }
        last = c;
    }
    false
}

fn unknown(path: &Path, line: usize) -> Diagnostic {
    Diagnostic {
        file: path.to_owned(),
        line,
        column: 1,
        message: "a value has a `$` with the name of a variable that doesn't exist".to_owned(),
        hint: Some(
            "put a value with `$` into single quotes, which prevent replacement: NAME='a$b'".to_owned(),
        ),
    }
}

/// The error for a line that can't be read. It doesn't show the line, which may contain a secret.
fn unreadable(path: &Path, line: usize) -> Diagnostic {
    Diagnostic {
        file: path.to_owned(),
        line,
        column: 1,
        message: "this is not `NAME=VALUE`, or its quotes don't match".to_owned(),
        hint: Some("put a value with spaces, quotes, `$` or `\\` into single quotes: NAME='a b'".to_owned()),
    }
}

/// Reads a text one line at a time, and counts the lines that were begun. We need the count because
/// the reader of entries doesn't report line numbers.
struct CountedLines<'a> {
    rest: &'a [u8],
    begun: &'a Cell<usize>,
}

impl Read for CountedLines<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let line = self.rest.split_inclusive(|&byte| byte == b'\n').next().unwrap_or_default();
        let length = line.len().min(into.len());
        into[..length].copy_from_slice(&line[..length]);
        self.rest = &self.rest[length..];
        // A line that's longer than the buffer counts once, when its end is read.
        self.begun.set(self.begun.get() + usize::from(length > 0 && length == line.len()));
        Ok(length)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_text(text: &str) -> Result<Vec<(String, String)>, Vec<String>> {
        let errors = Collector::default();
        let variables = parse(Path::new(".env"), text, &errors);
        let read = errors.finish(variables.into_iter().collect());
        read.map_err(|errors| errors.iter().map(ToString::to_string).collect())
    }

    #[test]
    fn variables_and_their_quotes() {
        for (text, value) in [
            ("A=b", "b"),
            ("A=b\r\n", "b"),
            ("# note\n\nexport A = b # note\n", "b"),
            ("A='b $c \\d'", "b $c \\d"),
            ("A=\"b\\nc\"", "b\nc"),
            ("A='b\nc'\n", "b\nc"),
            ("A=", ""),
            ("A=b\nA=c\n", "c"),
            ("A=b # $c", "b"),
            ("A='b$c'", "b$c"),
            ("A=b\\$c", "b$c"),
            ("A=b\nA=$A-${A}c", "b-bc"),
            ("A=b\nA=\"$A c\"", "b c"),
            ("A=postgres://u:p%40@h/d?sslmode=require", "postgres://u:p%40@h/d?sslmode=require"),
        ] {
            assert_eq!(read_text(text), Ok(vec![("A".to_owned(), value.to_owned())]), "{text}");
        }
    }

    /// Such a password once lost its end without an error.
    #[test]
    fn what_would_be_replaced_by_nothing_is_an_error() {
        for (text, line) in [
            ("A=pa$$word", 1),
            ("A=b\n\n# $no\nexport B=pa$secret", 4),
            ("A=\"pa${secret}\"", 1),
            ("A='b$c'\nB='b'pa$secret", 2),
            ("A=pa$", 1),
            ("A=$B\nB=c", 1),
        ] {
            let errors = read_text(text).unwrap_err();
            assert!(
                errors[0].starts_with(&format!(".env:{line}:1: a value has a `$`")),
                "{text}: {errors:?}"
            );
            assert!(!format!("{errors:?}").contains("secret"), "{errors:?}");
        }
    }

    /// The crate's own message quotes the line.
    #[test]
    fn errors_have_their_line_and_no_secret() {
        let long = format!("A={}\nsecret", "x".repeat(20_000));
        for (text, line) in [
            ("secret", 1),
            ("A=b\n\n# note\nsecret\nB=c", 4),
            ("A=secret word", 1),
            ("A='b\nc'\nB=se cret\n", 3),
            ("A=b\nB='secret\nC=d\nD=e", 2),
            ("A=b\nB='secret\nC=d\n", 2),
            (&long, 2),
        ] {
            let errors = read_text(text).unwrap_err();
            assert!(errors[0].starts_with(&format!(".env:{line}:1: this is not")), "{text}: {errors:?}");
            assert!(!format!("{errors:?}").contains("secret"), "{errors:?}");
        }
    }
}
