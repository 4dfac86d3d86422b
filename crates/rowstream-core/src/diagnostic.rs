//! Errors in configuration files, each with its file, line, column and a hint. They're collected
//! and shown together.
//!
//! After an error we continue with a default in place of the bad value. So one run of the server or
//! of `rowstream check` reports everything. After any error the result is discarded.

pub mod encoding;
pub mod reader;
mod variables;

pub use self::variables::Template;

use std::cell::RefCell;
use std::fmt;
use std::path::{Path, PathBuf};

/// An error in a configuration or endpoint file.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Diagnostic {
    /// The file, as the user named it.
    pub file: PathBuf,
    /// The line, from 1. Arguments of the command line have no lines, and 0 here.
    pub line: usize,
    /// The column in characters, from 1.
    pub column: usize,
    /// The error message.
    pub message: String,
    /// The remedy.
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

/// The code of all these errors, for programs.
pub const CODE: &str = "configuration";

/// All errors of all files, by file, line and column. It isn't empty if it's an error.
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
    /// Writes each error on its own line with its hint below, without a line end after the last.
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

/// Collects errors while files are read. All readers share it, so it uses cells.
#[derive(Debug, Default)]
pub struct Collector {
    errors: RefCell<Vec<Diagnostic>>,
    /// The files that a reload reads again, even if they couldn't be read: secrets and client
    /// certificates.
    files: RefCell<Vec<PathBuf>>,
}

impl Collector {
    /// Adds an error.
    pub fn add(&self, error: Diagnostic) {
        self.errors.borrow_mut().push(error);
    }

    /// The number of errors so far.
    pub fn count(&self) -> usize {
        self.errors.borrow().len()
    }

    /// Adds the paths of files that a reload reads again.
    fn note_files(&self, files: impl IntoIterator<Item = PathBuf>) {
        self.files.borrow_mut().extend(files);
    }

    /// The files that were noted so far.
    pub fn files(&self) -> Vec<PathBuf> {
        self.files.borrow().clone()
    }

    /// Adds an error about a file whose text isn't available.
    pub fn add_to_file(&self, file: &Path, message: impl Into<String>, hint: Option<&str>) {
        let hint = hint.map(str::to_owned);
        self.add(Diagnostic { file: file.to_owned(), line: 1, column: 1, message: message.into(), hint });
    }

    /// Adds an error about an argument of the command line, which has no lines.
    pub fn add_to_argument(&self, name: &str, message: impl Into<String>, hint: impl Into<String>) {
        let (message, hint) = (message.into(), Some(hint.into()));
        self.add(Diagnostic { file: PathBuf::from(name), line: 0, column: 0, message, hint });
    }

    /// Returns `value` if there were no errors.
    ///
    /// # Errors
    /// All errors.
    pub fn finish<T>(self, value: T) -> Result<T, Diagnostics> {
        if self.errors.borrow().is_empty() { Ok(value) } else { Err(self.into_diagnostics()) }
    }

    /// The errors, sorted and without duplicates.
    pub fn into_diagnostics(self) -> Diagnostics {
        let mut errors = self.errors.into_inner();
        errors.sort();
        errors.dedup();
        Diagnostics(errors)
    }
}

/// A file that's being read. Errors point into its text.
#[derive(Clone, Copy)]
pub struct File<'a> {
    /// The file, as the user named it.
    pub path: &'a Path,
    /// Its whole text.
    pub text: &'a str,
    /// The treatment of `${NAME}` in its strings.
    pub variables: Variables<'a>,
    /// The collector of its errors.
    pub errors: &'a Collector,
}

/// The treatment of `${NAME}` in a file's strings.
#[derive(Clone, Copy)]
pub enum Variables<'a> {
    /// It's kept: endpoint files contain no secrets, and `$rows` in them is a placeholder.
    Keep,
    /// It's replaced by the environment variable that the function returns.
    Expand(&'a Environment<'a>),
}

/// Looks up an environment variable. It's a parameter because tests can't safely change their own
/// environment.
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

/// The line and column, both from 1, of a byte offset. Columns are characters, as in editors.
pub fn place(text: &str, offset: usize) -> (usize, usize) {
    let before = &text[..text.floor_char_boundary(offset)];
    let line_start = before.rfind('\n').map_or(0, |end| end + 1);
    let line = before.bytes().filter(|&byte| byte == b'\n').count() + 1;
    (line, before[line_start..].chars().count() + 1)
}

/// The line of a byte offset with its number, and a caret below the place. A long line is cut
/// around it.
pub fn excerpt(text: &str, offset: usize) -> String {
    const BEFORE: usize = 60;
    const AFTER: usize = 40;
    let offset = text.floor_char_boundary(offset);
    let (line, column) = place(text, offset);
    let rest = text[offset..].lines().next().unwrap_or_default();
    let before = text[..offset].chars().rev().take((column - 1).min(BEFORE)).collect::<Vec<_>>();
    // Each character should fill one column, even one that a terminal would interpret.
    let plain = |c: char| if is_invisible(c) { ' ' } else { c };
    let shown: String = before.iter().rev().copied().chain(rest.chars().take(AFTER)).map(plain).collect();
    let (shown, number) = (shown.trim_end(), line.to_string());
    let (margin, indent) = (" ".repeat(number.len()), " ".repeat(before.len()));
    format!("    {number} | {shown}\n    {margin} | {indent}^")
}

/// The candidate that `name` is probably a typo of; `None` if none is similar.
pub fn did_you_mean<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    // A request's names can be long, and the cost is the product of the lengths.
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
        // Every name of one letter would be a typo of every other.
        .filter(|&(distance, candidate)| distance < name.chars().count().max(candidate.chars().count()))
        .min_by_key(|&(distance, _)| distance)
        .map(|(_, candidate)| candidate)
}

/// "did you mean `x`?", or else the list of known names.
pub fn suggest<'a>(what: &str, name: &str, known: impl IntoIterator<Item = &'a str> + Clone) -> String {
    match did_you_mean(name, known.clone()) {
        Some(near) => format!("did you mean `{near}`?"),
        None => format!("{what} {}", list(known)),
    }
}

/// `` `a`, `b`, `c` ``, or "none".
pub fn list<'a>(names: impl IntoIterator<Item = &'a str>) -> String {
    let names: Vec<_> = names.into_iter().map(shown).collect();
    if names.is_empty() { "none".to_owned() } else { names.join(", ") }
}

/// A foreign text for messages: in backticks, cut, and without characters that move the cursor or
/// change the direction of text.
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

/// Returns true for control characters, and for those that reorder or hide text or are invisible
/// (bidirectional marks, line separators, fillers, tags, BOM).
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
