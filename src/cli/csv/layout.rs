//! The layout of a CSV: its encoding, its delimiter, and the start of the columns' names.

use std::fs::File;
use std::io::Read as _;
use std::path::Path;

use rowstream_core::diagnostic::encoding::is_utf16;

use super::CsvError;
use crate::cli::init::shell_word;

/// The first line must end within this many bytes.
const HEAD: u64 = 64 << 10;
const MARK: &[u8] = "\u{feff}".as_bytes();
/// A first line that begins with this sets the delimiter for Excel.
const TOLD: &[u8] = b"sep=";
const DELIMITERS: [u8; 4] = *b"|\t;,";

#[derive(Debug, PartialEq, Eq)]
pub(super) struct CsvLayout {
    pub(super) delimiter: u8,
    /// The start of the columns' names, in bytes.
    pub(super) begin: u64,
    /// The number of lines before them.
    pub(super) lines: u64,
}

impl CsvLayout {
    pub(super) fn read(path: &Path) -> Result<Self, CsvError> {
        let mut head = Vec::new();
        File::open(path)?.take(HEAD).read_to_end(&mut head)?;
        if is_utf16(&head) {
            return Err(format!("the file is UTF-16\n    hint: {}", convert(path, "UTF-16")).into());
        }
        let layout = Self::of_head(&head);
        let names = head.get(usize::try_from(layout.begin)?..).unwrap_or_default();
        if names.trim_ascii().is_empty() {
            return Err("the file is empty\n    hint: its first line has the names of the columns".into());
        }
        Ok(layout)
    }

    fn of_head(head: &[u8]) -> Self {
        let mark = if head.starts_with(MARK) { MARK.len() } else { 0 };
        let line = first_line(&head[mark..]);
        let told = line.get(..TOLD.len()).filter(|begin| begin.eq_ignore_ascii_case(TOLD));
        match told.map(|_| &line[TOLD.len()..]) {
            Some(&[delimiter]) if delimiter != b'"' => {
                let after = &head[mark + line.len()..];
                let end = if after.starts_with(b"\r\n") { 2 } else { after.len().min(1) };
                Self { delimiter, begin: (mark + line.len() + end) as u64, lines: 1 }
            }
            _ => Self { delimiter: likeliest(&head[mark..]), begin: mark as u64, lines: 0 },
        }
    }
}

fn first_line(text: &[u8]) -> &[u8] {
    text.split(|byte| matches!(byte, b'\n' | b'\r')).next().unwrap_or_default()
}

/// The delimiter that occurs most often in the first line with text, outside of quotes.
fn likeliest(text: &[u8]) -> u8 {
    let is_line_end = |byte: &&u8| matches!(byte, b'\n' | b'\r');
    // Inside a value without quotes, a quote is an ordinary character.
    let (mut in_quotes, mut may_open) = (false, true);
    let outside = text.iter().skip_while(is_line_end).filter(|byte| {
        match (in_quotes, **byte) {
            // In quotes, two quotes are one character.
            (true, b'"') => (in_quotes, may_open) = (false, true),
            (true, _) => {}
            (false, b'"') => in_quotes = may_open,
            (false, byte) => may_open = DELIMITERS.contains(&byte),
        }
        !in_quotes
    });
    let outside: Vec<_> = outside.take_while(|byte| !is_line_end(byte)).collect();
    let count = |delimiter: &u8| outside.iter().filter(|byte| **byte == delimiter).count();
    // If several are equal, the last one wins.
    *DELIMITERS.iter().max_by_key(|delimiter| count(delimiter)).unwrap_or(&b',')
}

/// A command that writes another file, after its purpose.
pub(super) fn command(path: &Path, purpose: &str, command: &str, prefix: &str) -> String {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let (from, to) = (shell_word(&name), shell_word(&format!("{prefix}-{name}")));
    format!("{purpose}: `{command} {from} > {to}`")
}

/// The command that converts a file to UTF-8.
pub(super) fn convert(path: &Path, encoding: &str) -> String {
    command(path, "write it as UTF-8", &format!("iconv -f {encoding} -t UTF-8"), "utf8")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layouts() {
        for (head, delimiter, begin, lines) in [
            ("a,b\n1;2;3,4\n", b',', 0, 0),
            ("a;b", b';', 0, 0),
            ("a", b',', 0, 0),
            ("a\tb\r1,2,3", b'\t', 0, 0),
            ("\"a;b;c\",d\n", b',', 0, 0),
            ("\u{feff}a|b\n", b'|', 3, 0),
            ("sep=;\na,b;c\n", b';', 6, 1),
            ("\u{feff}sep=\t\r\na\tb\r\n", b'\t', 10, 1),
            ("sep=,", b',', 5, 1),
            ("SEP=;\na,b;c\n", b';', 6, 1),
            ("\n\r\na;b\n", b';', 0, 0),
            ("\"a\nb,c,d\";e\n1,2,3;4\n", b';', 0, 0),
            ("name,Diagonal (\")\n\"a; b; c\",15\n", b',', 0, 0),
            ("\"a \"\";;\"\" b\",c\n", b',', 0, 0),
            ("sep=ab,c\n", b',', 0, 0),
            ("", b',', 0, 0),
        ] {
            assert_eq!(
                CsvLayout::of_head(head.as_bytes()),
                CsvLayout { delimiter, begin, lines },
                "{head:?}"
            );
        }
    }
}
