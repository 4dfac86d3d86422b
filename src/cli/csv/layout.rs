//! The layout of a CSV: its encoding, its delimiter, and a check that quotes are closed.

use std::fs::File;
use std::io::{BufRead, BufReader, Read as _, Seek as _, SeekFrom};
use std::path::Path;

use rowstream_core::diagnostic::encoding::is_utf16;

use super::CsvError;

/// The first line must end within this many bytes.
const HEAD: u64 = 64 << 10;
const MARK: &[u8] = "\u{feff}".as_bytes();
/// A first line that begins with this sets the delimiter for Excel.
const TOLD: &[u8] = b"sep=";

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
        let mut file = File::open(path)?;
        file.by_ref().take(HEAD).read_to_end(&mut head)?;
        if is_utf16(&head) {
            return Err(format!("the file is UTF-16\n    hint: {}", convert(path, "UTF-16")).into());
        }
        let layout = Self::of_head(&head);
        let names = head.get(usize::try_from(layout.begin)?..).unwrap_or_default();
        if names.trim_ascii().is_empty() {
            return Err("the file is empty\n    hint: its first line has the names of the columns".into());
        }
        file.seek(SeekFrom::Start(layout.begin))?;
        layout.check_quotes(BufReader::new(file))?;
        Ok(layout)
    }

    fn of_head(head: &[u8]) -> Self {
        let mark = if head.starts_with(MARK) { MARK.len() } else { 0 };
        let line = first_line(&head[mark..]);
        match line.strip_prefix(TOLD) {
            Some(&[delimiter]) => {
                let after = &head[mark + line.len()..];
                let end = if after.starts_with(b"\r\n") { 2 } else { after.len().min(1) };
                Self { delimiter, begin: (mark + line.len() + end) as u64, lines: 1 }
            }
            _ => Self { delimiter: likeliest(line), begin: mark as u64, lines: 0 },
        }
    }

    /// Refuses a quote that isn't closed, because it would make one value of all rows after it.
    fn check_quotes(&self, mut text: impl BufRead) -> Result<(), CsvError> {
        let mut quotes = Quotes::new(self);
        loop {
            let piece = text.fill_buf()?;
            if piece.is_empty() {
                return quotes.finish();
            }
            piece.iter().try_for_each(|byte| quotes.read(*byte))?;
            let length = piece.len();
            text.consume(length);
        }
    }
}

fn first_line(text: &[u8]) -> &[u8] {
    text.split(|byte| matches!(byte, b'\n' | b'\r')).next().unwrap_or_default()
}

/// The delimiter that occurs most often in the first line.
fn likeliest(line: &[u8]) -> u8 {
    // Only outside of quotes.
    let outside: Vec<_> = line.split(|byte| *byte == b'"').step_by(2).collect();
    let count = |delimiter: &u8| outside.concat().iter().filter(|byte| *byte == delimiter).count();
    // If several are equal, the last one wins.
    *b"|\t;,".iter().max_by_key(|delimiter| count(delimiter)).unwrap_or(&b',')
}

/// The command that converts a file to UTF-8.
pub(super) fn convert(path: &Path, encoding: &str) -> String {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    format!("write it as UTF-8: `iconv -f {encoding} -t UTF-8 {name} > utf8-{name}`")
}

/// The state of a reader of CSV, as the crate `csv` reads it.
enum CsvPosition {
    /// Before a value.
    Begin,
    /// In a value without quotes. A quote is an ordinary character there.
    Value,
    /// After an opening quote on this line.
    Quoted(u64),
    /// After a quote that closes the one on this line, unless another quote follows.
    Ended(u64),
}

struct Quotes {
    delimiter: u8,
    line: u64,
    last: u8,
    place: CsvPosition,
}

impl Quotes {
    fn new(layout: &CsvLayout) -> Self {
        Self { delimiter: layout.delimiter, line: layout.lines + 1, last: 0, place: CsvPosition::Begin }
    }

    fn read(&mut self, byte: u8) -> Result<(), CsvError> {
        let divides = byte == self.delimiter || matches!(byte, b'\n' | b'\r');
        self.place = match self.place {
            CsvPosition::Begin if byte == b'"' => CsvPosition::Quoted(self.line),
            CsvPosition::Quoted(from) if byte == b'"' => CsvPosition::Ended(from),
            CsvPosition::Quoted(from) => CsvPosition::Quoted(from),
            CsvPosition::Ended(from) if byte == b'"' => CsvPosition::Quoted(from),
            CsvPosition::Begin | CsvPosition::Value | CsvPosition::Ended(_) if divides => CsvPosition::Begin,
            CsvPosition::Ended(from) if byte != b' ' => return Err(self.text_after(from)),
            CsvPosition::Begin | CsvPosition::Value | CsvPosition::Ended(_) => CsvPosition::Value,
        };
        if byte == b'\r' || (byte == b'\n' && self.last != b'\r') {
            self.line += 1;
        }
        self.last = byte;
        Ok(())
    }

    fn text_after(&self, from: u64) -> CsvError {
        let message = format!("line {from}: the quote ends on line {} with text right behind it", self.line);
        format!("{message}\n    hint: a quote within a quoted value is written twice").into()
    }

    fn finish(&self) -> Result<(), CsvError> {
        match self.place {
            CsvPosition::Quoted(from) => Err(format!("line {from}: the quote isn't closed").into()),
            _ => Ok(()),
        }
    }
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

    #[test]
    fn quotes_are_closed() {
        for (text, expected) in [
            ("id,t\n1,\"abc\n2,b\n", "line 2: the quote isn't closed"),
            ("id,t\r\n1,\"a\r\nb\"\r\n2,\"b", "line 4: the quote isn't closed"),
            ("id,t\r1,\"a\rb\"\r2,\"b", "line 4: the quote isn't closed"),
            ("\"", "line 1: the quote isn't closed"),
            ("1,\"a\"\"", "line 1: the quote isn't closed"),
            (
                "id,t\n1,\"abc\n2,\"b\"\n",
                "line 2: the quote ends on line 3 with text right behind it\n    hint: a quote within a quoted value is written twice",
            ),
            ("1,5\" screw\n2,\"a \"\"b\"\"\"\n", ""),
            ("\"a\" ,\"\"\n\"b,\n\"\n", ""),
            ("", ""),
        ] {
            let layout = CsvLayout { delimiter: b',', begin: 0, lines: 0 };
            let told = layout
                .check_quotes(text.as_bytes())
                .map_or_else(|error| error.to_string(), |()| String::new());
            assert_eq!(told, expected, "{text:?}");
        }
    }
}
