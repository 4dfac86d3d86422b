//! Diagnostics of configuration: each with file, line, column and a hint, collected so that all are
//! shown at once.
//!
//! Reading goes on after an error, with a default in the place of what was wrong, so that one run
//! of the server or of `rowstream check` tells everything. What was read is thrown away when any
//! error was found.

pub mod encoding;
pub mod reader;
mod variables;

pub use self::variables::Template;

use std::cell::RefCell;
use std::fmt;
use std::path::{Path, PathBuf};

/// One error of a configuration or endpoint file.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Diagnostic {
    /// The file, as the user named it.
    pub file: PathBuf,
    /// Line, from 1; 0 where there are none, as in an argument of the command line.
    pub line: usize,
    /// Column in characters, from 1.
    pub column: usize,
    /// What is wrong.
    pub message: String,
    /// What to do about it.
    pub hint: Option<String>,
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.line, self.column) {
            (0, _) => write!(f, "{}: {}", self.file.display(), self.message)?,
            (line, column) => write!(f, "{}:{line}:{column}: {}", self.file.display(), self.message)?,
        }
        match &self.hint {
            Some(hint) => write!(f, "\n    hint: {hint}"),
            None => Ok(()),
        }
    }
}

/// The code of each error, for programs.
pub const CODE: &str = "configuration";

/// All errors of all files, by file, line and column; never empty where it is an error.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Diagnostics(Vec<Diagnostic>);

impl Diagnostics {
    /// The errors, in their order.
    pub fn iter(&self) -> std::slice::Iter<'_, Diagnostic> {
        self.0.iter()
    }
}

impl<'a> IntoIterator for &'a Diagnostics {
    type Item = &'a Diagnostic;
    type IntoIter = std::slice::Iter<'a, Diagnostic>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl fmt::Display for Diagnostics {
    /// One error after the other, each on its own line with its hint below; no line end after the
    /// last.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, error) in self.0.iter().enumerate() {
            if i > 0 {
                f.write_str("\n")?;
            }
            error.fmt(f)?;
        }
        Ok(())
    }
}

impl std::error::Error for Diagnostics {}

/// Where errors go while files are read. Shared by everything that reads, hence the cell.
#[derive(Debug, Default)]
pub struct Collector {
    errors: RefCell<Vec<Diagnostic>>,
    /// The files that a reload reads again, readable or not: secrets, certificates of clients.
    files: RefCell<Vec<PathBuf>>,
}

impl Collector {
    /// Keeps an error.
    pub fn add(&self, error: Diagnostic) {
        self.errors.borrow_mut().push(error);
    }

    /// Keeps the paths of files that a reload reads again.
    fn note_files(&self, files: impl IntoIterator<Item = PathBuf>) {
        self.files.borrow_mut().extend(files);
    }

    /// The files that were noted until now.
    pub fn files(&self) -> Vec<PathBuf> {
        self.files.borrow().clone()
    }

    /// Keeps an error of a file whose text is not there to point into.
    pub fn add_to_file(&self, file: &Path, message: impl Into<String>, hint: Option<&str>) {
        let hint = hint.map(str::to_owned);
        self.add(Diagnostic { file: file.to_owned(), line: 1, column: 1, message: message.into(), hint });
    }

    /// Keeps what is wrong with an argument of the command line, which has no lines.
    pub fn add_to_argument(&self, name: &str, message: impl Into<String>, hint: impl Into<String>) {
        let (message, hint) = (message.into(), Some(hint.into()));
        self.add(Diagnostic { file: PathBuf::from(name), line: 0, column: 0, message, hint });
    }

    /// `value` if there was no error.
    ///
    /// # Errors
    /// The errors.
    pub fn finish<T>(self, value: T) -> Result<T, Diagnostics> {
        if self.errors.borrow().is_empty() { Ok(value) } else { Err(self.into_diagnostics()) }
    }

    /// The errors, sorted; the same error at the same place is reported once.
    pub fn into_diagnostics(self) -> Diagnostics {
        let mut errors = self.errors.into_inner();
        errors.sort();
        errors.dedup();
        Diagnostics(errors)
    }
}

/// A file that is being read, for errors that point into it.
#[derive(Clone, Copy)]
pub struct File<'a> {
    /// The file, as the user named it.
    pub path: &'a Path,
    /// Its whole text.
    pub text: &'a str,
    /// What `${NAME}` in its strings means.
    pub variables: Variables<'a>,
    /// Where its errors go.
    pub errors: &'a Collector,
}

/// What `${NAME}` in a file's strings means.
#[derive(Clone, Copy)]
pub enum Variables<'a> {
    /// Nothing: endpoint files hold no secrets, and `$rows` in them is a placeholder.
    Keep,
    /// The variable of the environment that the function gives.
    Expand(&'a Environment<'a>),
}

/// Looks up a variable of the environment; injected, because tests cannot change a process's own
/// safely.
pub type Environment<'a> = dyn Fn(&str) -> Option<String> + 'a;

impl File<'_> {
    /// Records an error at a byte offset of the text.
    pub fn error(&self, offset: usize, message: impl Into<String>, hint: Option<String>) {
        let (line, column) = place(self.text, offset);
        self.errors.add(Diagnostic {
            file: self.path.to_owned(),
            line,
            column,
            message: message.into(),
            hint,
        });
    }
}

/// Line and column, both from 1, of a byte offset. The column counts characters, as editors do.
pub fn place(text: &str, offset: usize) -> (usize, usize) {
    let before = &text[..text.floor_char_boundary(offset)];
    let line_start = before.rfind('\n').map_or(0, |end| end + 1);
    let line = before.bytes().filter(|&byte| byte == b'\n').count() + 1;
    (line, before[line_start..].chars().count() + 1)
}

/// The line of a byte offset with its number, and a caret below the place. Of a long line, only
/// what stands around the place.
pub fn excerpt(text: &str, offset: usize) -> String {
    const BEFORE: usize = 60;
    const AFTER: usize = 40;
    let offset = text.floor_char_boundary(offset);
    let (line, column) = place(text, offset);
    let rest = text[offset..].lines().next().unwrap_or_default();
    let before = text[..offset].chars().rev().take((column - 1).min(BEFORE)).collect::<Vec<_>>();
    // Each character takes one column, whatever it does to a terminal.
    let plain = |c: char| if is_invisible(c) { ' ' } else { c };
    let shown: String = before.iter().rev().copied().chain(rest.chars().take(AFTER)).map(plain).collect();
    let (shown, number) = (shown.trim_end(), line.to_string());
    let (margin, indent) = (" ".repeat(number.len()), " ".repeat(before.len()));
    format!("    {number} | {shown}\n    {margin} | {indent}^")
}

/// The candidate that `name` is most likely a slip of; `None` when none is near.
pub fn did_you_mean<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    // Names of requests come from anybody, and the distance costs the product of the lengths.
    const LONGEST: usize = 64;
    if name.len() > LONGEST {
        return None;
    }
    let lower = name.to_lowercase();
    let distance = |candidate: &str| strsim::osa_distance(&lower, &candidate.to_lowercase());
    let near = |candidate: &str| (name.chars().count().max(candidate.chars().count()) / 3).max(1);
    candidates
        .into_iter()
        .map(|candidate| (distance(candidate), candidate))
        .filter(|&(distance, candidate)| distance <= near(candidate))
        // Of a name of one letter, any other one is a slip away.
        .filter(|&(distance, candidate)| distance < name.chars().count().max(candidate.chars().count()))
        .min_by_key(|&(distance, _)| distance)
        .map(|(_, candidate)| candidate)
}

/// "did you mean `x`?", or else the list of what is known.
pub fn suggest<'a>(what: &str, name: &str, known: impl IntoIterator<Item = &'a str> + Clone) -> String {
    match did_you_mean(name, known.clone()) {
        Some(near) => format!("did you mean `{near}`?"),
        None => format!("{what} {}", list(known)),
    }
}

/// `` `a`, `b`, `c` ``; "none" for nothing.
pub fn list<'a>(names: impl IntoIterator<Item = &'a str>) -> String {
    let names: Vec<_> = names.into_iter().map(shown).collect();
    if names.is_empty() { "none".to_owned() } else { names.join(", ") }
}

/// A foreign text as messages show it: in backticks, cut, and without characters that would move a
/// cursor or change the direction of writing.
pub fn shown(text: &str) -> String {
    const LONGEST: usize = 60;
    let mut out = String::from("`");
    for (i, c) in text.chars().enumerate() {
        if i == LONGEST {
            out.push('…');
            break;
        }
        if is_invisible(c) { out.extend(c.escape_unicode()) } else { out.push(c) }
    }
    out.push('`');
    out
}

/// Control characters, and those that order, hide or look like nothing (bidirectional marks, line
/// separators, fillers, tags, BOM).
pub fn is_invisible(c: char) -> bool {
    c.is_control()
        || matches!(
            c,
            '\u{ad}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
                | '\u{2060}'..='\u{206f}' | '\u{3164}' | '\u{feff}' | '\u{ffa0}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}'
        )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_count_characters() {
        let text = "ab\näöü:x\n";
        for (offset, expected) in [
            (0, (1, 1)),
            (2, (1, 3)),
            (3, (2, 1)),
            (5, (2, 2)),
            (4, (2, 1)),
            (9, (2, 4)),
            (12, (3, 1)),
            (99, (3, 1)),
        ] {
            assert_eq!(place(text, offset), expected, "offset {offset}");
        }
    }

    #[test]
    fn excerpts_have_a_caret_below_the_place() {
        let text = "select 1\n\tfröm x\u{1b}[2J y\r\nend";
        for (offset, expected) in [
            (0, "    1 | select 1\n      | ^"),
            (8, "    1 | select 1\n      |         ^"),
            (16, "    2 |  fröm x [2J y\n      |       ^"),
            (text.len(), "    3 | end\n      |    ^"),
            (999, "    3 | end\n      |    ^"),
        ] {
            assert_eq!(excerpt(text, offset), expected, "offset {offset}");
        }
        let long = format!("{}here{}", "a".repeat(1000), "b".repeat(1000));
        let expected =
            format!("    1 | {}here{}\n      | {}^", "a".repeat(60), "b".repeat(36), " ".repeat(60));
        assert_eq!(excerpt(&long, 1000), expected);
    }

    #[test]
    fn slips_are_recognised() {
        let known = ["listen", "endpoints", "max_streams", "url", "q", "no"];
        for (name, expected) in [
            ("lisen", Some("listen")),
            ("Listen", Some("listen")),
            ("endpoint", Some("endpoints")),
            ("max-streams", Some("max_streams")),
            ("uri", Some("url")),
            ("password", None),
            ("", None),
            ("n", Some("no")),
            ("N", Some("no")),
            ("x", None),
        ] {
            assert_eq!(did_you_mean(name, known), expected, "{name}");
        }
    }

    #[test]
    fn foreign_text_is_tamed() {
        assert_eq!(shown("a b"), "`a b`");
        assert_eq!(shown("a\u{1b}[2Jb\n"), "`a\\u{1b}[2Jb\\u{a}`");
        assert_eq!(shown("\u{202e}x"), "`\\u{202e}x`");
        assert_eq!(shown(&"x".repeat(61)), format!("`{}…`", "x".repeat(60)));
        assert_eq!(shown(&"x".repeat(60)), format!("`{}`", "x".repeat(60)));
    }

    #[test]
    fn faults_are_sorted_and_told_once() {
        let errors = Collector::default();
        let late = File { path: Path::new("b"), text: "x\ny", variables: Variables::Keep, errors: &errors };
        let early = File { path: Path::new("a"), ..late };
        late.error(2, "second", None);
        late.error(0, "first", Some("a hint".to_owned()));
        early.error(2, "zeroth", None);
        late.error(2, "second", None);
        let report = errors.finish(()).unwrap_err().to_string();
        assert_eq!(report, "a:2:1: zeroth\nb:1:1: first\n    hint: a hint\nb:2:1: second");
    }
}
