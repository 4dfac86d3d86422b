//! The syntax of a CSV, as RFC 4180 describes it, byte by byte. Text that programs read in different
//! ways is an error.

use std::mem;
use std::path::Path;

use super::CsvError;
use super::layout::{CsvLayout, command};

/// The meaning of a byte, or of the file's end.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum CsvToken {
    /// A byte of a value.
    Value(u8),
    /// A quote around a value, or the second byte of a line end.
    Nothing,
    ValueEnd,
    RowEnd,
    EmptyLine,
    FileEnd,
}

/// The place of the next byte.
#[derive(Clone, Copy)]
enum CsvPlace {
    /// At the start of a line.
    Line,
    /// At the start of a value that isn't a line's first.
    Begin,
    /// In a value without quotes. A quote is an ordinary character there.
    Bare,
    /// After an opening quote on this line.
    Quoted(u64),
    /// After a quote that closes the one on this line, unless another quote follows.
    Closed(u64),
    /// After spaces behind a closing quote.
    Padded(u64),
}

/// The way in which a file's lines end.
#[derive(Clone, Copy, PartialEq, Eq)]
enum CsvLineEnd {
    /// LF, perhaps with CR before it.
    Lf,
    /// CR alone.
    Cr,
}

/// A reader of the syntax.
pub(super) struct CsvSyntax<'a> {
    /// The file, for hints.
    path: &'a Path,
    delimiter: u8,
    /// The line of the next byte.
    line: u64,
    place: CsvPlace,
    last: u8,
    line_end: Option<CsvLineEnd>,
}

impl<'a> CsvSyntax<'a> {
    pub(super) fn new(path: &'a Path, layout: &CsvLayout) -> Self {
        let CsvLayout { delimiter, lines, .. } = *layout;
        Self { path, delimiter, line: lines + 1, place: CsvPlace::Line, last: 0, line_end: None }
    }

    pub(super) fn line(&self) -> u64 {
        self.line
    }

    pub(super) fn read(&mut self, byte: u8) -> Result<CsvToken, CsvError> {
        let last = mem::replace(&mut self.last, byte);
        let (place, token) = match self.place {
            _ if byte == 0 => return Err(self.nul()),
            CsvPlace::Quoted(from) if byte == b'"' => (CsvPlace::Closed(from), CsvToken::Nothing),
            CsvPlace::Quoted(from) => (CsvPlace::Quoted(from), CsvToken::Value(byte)),
            CsvPlace::Closed(from) if byte == b'"' => (CsvPlace::Quoted(from), CsvToken::Value(byte)),
            _ => self.read_unquoted(last, byte)?,
        };
        self.place = place;
        self.line += u64::from(byte == b'\r' || (byte == b'\n' && last != b'\r'));
        Ok(token)
    }

    fn read_unquoted(&mut self, last: u8, byte: u8) -> Result<(CsvPlace, CsvToken), CsvError> {
        if byte == b'\n' {
            self.check_line_end(last, CsvLineEnd::Lf)?;
        } else if last == b'\r' {
            self.check_line_end(last, CsvLineEnd::Cr)?;
        }
        Ok(match (self.place, byte) {
            (place, b'\n') if last == b'\r' => (place, CsvToken::Nothing),
            (CsvPlace::Line, b'\n' | b'\r') => (CsvPlace::Line, CsvToken::EmptyLine),
            (_, b'\n' | b'\r') => (CsvPlace::Line, CsvToken::RowEnd),
            (_, byte) if byte == self.delimiter => (CsvPlace::Begin, CsvToken::ValueEnd),
            (CsvPlace::Line | CsvPlace::Begin, b'"') => (CsvPlace::Quoted(self.line), CsvToken::Nothing),
            (CsvPlace::Closed(from) | CsvPlace::Padded(from), b' ') => {
                (CsvPlace::Padded(from), CsvToken::Value(byte))
            }
            (CsvPlace::Closed(from) | CsvPlace::Padded(from), _) => return Err(self.text_after(from)),
            _ => (CsvPlace::Bare, CsvToken::Value(byte)),
        })
    }

    /// The last token, or the one before it if the last row has no line end.
    pub(super) fn finish(&mut self) -> Result<CsvToken, CsvError> {
        match mem::replace(&mut self.place, CsvPlace::Line) {
            CsvPlace::Quoted(from) => {
                let hint = r#"close it, or write a value that begins with a quote as `"""a"`"#;
                Err(format!("line {from}: the quote isn't closed\n    hint: {hint}").into())
            }
            CsvPlace::Line => Ok(CsvToken::FileEnd),
            _ => Ok(CsvToken::RowEnd),
        }
    }

    /// Refuses a CR alone beside other line ends: it could be a part of a value.
    fn check_line_end(&mut self, last: u8, end: CsvLineEnd) -> Result<(), CsvError> {
        if *self.line_end.get_or_insert(end) == end {
            return Ok(());
        }
        let line = if last == b'\r' { self.line - 1 } else { self.line };
        let hint = "end all lines with LF, and write a value that contains CR in quotes";
        Err(format!("line {line}: only some lines end with CR alone\n    hint: {hint}").into())
    }

    fn text_after(&self, from: u64) -> CsvError {
        let message = format!("line {from}: the quote ends on line {} with text behind it", self.line);
        let hint = r#"a quote within a quoted value is written twice: `"a ""b"" c"`"#;
        format!("{message}\n    hint: {hint}").into()
    }

    fn nul(&self) -> CsvError {
        let hint = command(self.path, "remove it", r"tr -d '\0' <", "clean");
        format!("line {}: there's a NUL byte\n    hint: {hint}", self.line).into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The rows as a list of lists, or the error without its hint.
    fn read(text: &str) -> Result<String, String> {
        let layout = CsvLayout { delimiter: b',', begin: 0, lines: 0 };
        let mut syntax = CsvSyntax::new(Path::new("u.csv"), &layout);
        let mut shown = String::new();
        let mut bytes = text.bytes();
        loop {
            let token = match bytes.next() {
                Some(byte) => syntax.read(byte),
                None => syntax.finish(),
            };
            match token.map_err(|error| error.to_string().lines().next().unwrap_or_default().to_owned())? {
                CsvToken::Value(byte) => shown.push(char::from(byte)),
                CsvToken::Nothing => {}
                CsvToken::ValueEnd => shown.push('|'),
                CsvToken::RowEnd => shown.push(';'),
                CsvToken::EmptyLine => shown.push('-'),
                CsvToken::FileEnd => return Ok(shown),
            }
        }
    }

    #[test]
    fn rows_and_values() {
        for (text, expected) in [
            ("", ""),
            ("a", "a;"),
            ("a,b\n1,\n", "a|b;1|;"),
            ("a\n\n1\n", "a;-1;"),
            ("a\n1\n\n", "a;1;-"),
            ("\na\r\n\r\n1\r\n", "-a;-1;"),
            ("a\r\r1\r", "a;-1;"),
            ("a\n1\r\n", "a;1;"),
            ("\"\"\n\"\"\"\"", ";\";"),
            ("\"a\" ,\"\"\n\"b,\r\n\"\n", "a |;b,\r\n;"),
            ("1,5\" screw\n2,\"a \"\"b\"\"\"\n", "1|5\" screw;2|a \"b\";"),
            (" \"a\"\n", " \"a\";"),
        ] {
            assert_eq!(read(text).as_deref(), Ok(expected), "{text:?}");
        }
    }

    #[test]
    fn texts_that_programs_read_in_different_ways() {
        for (text, expected) in [
            ("id,t\n1,\"abc\n2,b\n", "line 2: the quote isn't closed"),
            ("id,t\r\n1,\"a\r\nb\"\r\n2,\"b", "line 4: the quote isn't closed"),
            ("id,t\r1,\"a\rb\"\r2,\"b", "line 4: the quote isn't closed"),
            ("\"", "line 1: the quote isn't closed"),
            ("1,\"a\"\"", "line 1: the quote isn't closed"),
            ("id,t\n1,\"abc\n2,\"b\"\n", "line 2: the quote ends on line 3 with text behind it"),
            ("id\n\"a\"b\n", "line 2: the quote ends on line 2 with text behind it"),
            ("id\n\"a\"  b\n", "line 2: the quote ends on line 2 with text behind it"),
            ("id\n\"a\" \"b\"\n", "line 2: the quote ends on line 2 with text behind it"),
            ("id\n1\r2\n", "line 2: only some lines end with CR alone"),
            ("id\r\n1\r\n2\r3\r\n", "line 3: only some lines end with CR alone"),
            ("id\r\r\n1\r\r\n", "line 2: only some lines end with CR alone"),
            ("id\r1\n2\r", "line 2: only some lines end with CR alone"),
            ("id\n\"1\n\0\"", "line 3: there's a NUL byte"),
        ] {
            assert_eq!(read(text), Err(expected.to_owned()), "{text:?}");
        }
    }
}
