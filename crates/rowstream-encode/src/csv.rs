//! Rows as CSV (RFC 4180): records that end in CRLF, quotes doubled within quotes.
//!
//! The RFC knows no NULL. Here NULL is the dialect's `null`, never quoted, and a text that reads
//! the same is quoted: with the default, NULL is nothing at all and an empty text is `""`, as
//! PostgreSQL's `COPY` has it.

use crate::append::{ROOM, Room, Slot};
use crate::datetime::{self, LastHour, Zone};
use crate::rows::RowWriter;
use crate::{BytesForm, Column, Format, Value, ValueOptions, escape, hex, integer, json, options};

/// What varies among programs that read CSV.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CsvDialect {
    /// What stands between two values.
    pub separator: Separator,
    /// Whether the first record has the names of the columns.
    pub header: bool,
    /// Which values stand in quotes.
    pub quote: Quote,
    /// How NULL is written.
    pub null: String,
    /// Whether a byte order mark comes first: Excel takes a file without one for the system's old
    /// encoding.
    pub bom: bool,
    /// Whether a text that a spreadsheet would run as a formula gets an apostrophe before it. This
    /// changes data.
    pub guard: bool,
}

impl Default for CsvDialect {
    fn default() -> Self {
        Self {
            separator: Separator::Comma,
            header: true,
            quote: Quote::Needed,
            null: String::new(),
            bom: false,
            guard: false,
        }
    }
}

/// What stands between two values: none of these occurs in a number or a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Separator {
    /// `,`
    Comma = b',',
    /// `;`, for programs in whose language the comma is the decimal point.
    Semicolon = b';',
    /// A tabulator.
    Tab = b'\t',
    /// `|`
    Pipe = b'|',
}

impl Separator {
    /// Every separator.
    pub const ALL: [Self; 4] = [Self::Comma, Self::Semicolon, Self::Tab, Self::Pipe];

    /// Its only character.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Comma => ",",
            Self::Semicolon => ";",
            Self::Tab => "\t",
            Self::Pipe => "|",
        }
    }

    #[inline]
    fn byte(self) -> u8 {
        self as u8
    }
}

/// Which values stand in quotes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Quote {
    /// Those that could not be read without.
    Needed,
    /// All but NULL.
    All,
}

/// Writes the rows of one statement as CSV.
///
/// The calls are those of [`crate::RowEncoder`].
#[derive(Debug)]
pub struct CsvEncoder {
    dialect: CsvDialect,
    options: ValueOptions,
    columns: usize,
    /// Whether most values stand as they are: by the default, in rows that are never blank.
    plain: bool,
    /// What stands before the first row.
    start: Vec<u8>,
    rows: u64,
    /// The column that the next value belongs to.
    column: usize,
    last_hour: LastHour,
    /// Bytes as base64.
    scratch: String,
}

impl CsvEncoder {
    /// An encoder for rows of `columns`; the header is written here, once.
    pub fn new(dialect: CsvDialect, columns: &[Column]) -> Self {
        let quotes_more = dialect.quote == Quote::All || dialect.guard || !dialect.null.is_empty();
        let mut encoder = Self {
            plain: !quotes_more && columns.len() > 1,
            dialect,
            options: ValueOptions::DEFAULT,
            columns: columns.len(),
            start: Vec::new(),
            rows: 0,
            column: 0,
            last_hour: LastHour::default(),
            scratch: String::new(),
        };
        encoder.start = encoder.write_start(columns);
        encoder
    }

    /// The same with values by `options`, as far as they have a meaning in CSV.
    pub fn with_options(self, options: ValueOptions) -> Self {
        Self { options: options.in_format(Format::Csv), ..self }
    }

    fn write_start(&mut self, columns: &[Column]) -> Vec<u8> {
        let mut start = Vec::new();
        if self.dialect.bom {
            start.extend_from_slice("\u{feff}".as_bytes());
        }
        if self.dialect.header {
            self.begin_row(&mut start);
            for column in columns {
                self.value(Value::Text(&column.name), &mut start);
            }
            self.end_row(&mut start);
            self.rows = 0;
        }
        // Excel takes a file that begins with these letters for another format, SYLK.
        if start.starts_with(b"ID")
            && let Some(Column { name, .. }) = columns.first()
        {
            start.splice(..name.len(), format!("\"{name}\"").into_bytes());
        }
        start
    }

    /// Rows begun so far.
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// Writes what stands before the first row.
    pub fn start(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.start);
    }

    /// A text, in quotes where it needs them.
    fn write_text(&self, text: &str, out: &mut Vec<u8>) {
        let guarded = self.dialect.guard && is_formula(text);
        if self.dialect.quote == Quote::Needed && !guarded && !self.needs_quotes(text) {
            out.extend_from_slice(text.as_bytes());
            return;
        }
        out.push(b'"');
        if guarded {
            out.push(b'\'');
        }
        for (index, part) in text.split('"').enumerate() {
            if index > 0 {
                out.extend_from_slice(b"\"\"");
            }
            out.extend_from_slice(part.as_bytes());
        }
        out.push(b'"');
    }

    fn needs_quotes(&self, text: &str) -> bool {
        let separator = self.dialect.separator.byte();
        // Without a branch, so that the compiler makes vector instructions of the loop.
        let special = |byte: u8| (byte == separator) | (byte == b'"') | (byte == b'\n') | (byte == b'\r');
        let found = text.bytes().fold(false, |found, byte| found | special(byte));
        found || text == self.dialect.null || (self.columns == 1 && text.is_empty())
    }

    /// Puts a value that stands as it is after the first byte of `room`, which it may write over;
    /// gives its length, or `None` where it is longer or may need quotes.
    ///
    /// JSON's quotes are written around the place of a text, so that it need not be moved: a
    /// processor waits long for bytes that were only just written in smaller pieces.
    #[inline(always)]
    fn put_value(&mut self, value: Value<'_>, room: &mut [u8; 1 + ROOM]) -> Option<usize> {
        let plain: &mut Room = room.last_chunk_mut()?;
        match value {
            Value::Null => return Some(0),
            Value::Bool(true) => return Some(json::put(b"true", plain)),
            Value::Bool(false) => return Some(json::put(b"false", plain)),
            Value::Int(int) | Value::Int4(int) => return Some(integer::put_int(int, plain)),
            _ => {}
        }
        let room: &mut Room = room.first_chunk_mut()?;
        let quoted = match value {
            // An empty text is no NULL.
            Value::Text("") => return None,
            Value::Text(text) | Value::Number(text) => {
                escape::put_string(text, self.dialect.separator.byte(), room)?
            }
            Value::Uuid(uuid) => hex::put_uuid(uuid, room),
            Value::Date(days) => datetime::put_date(days, room)?,
            Value::Timestamp(micros) => self.last_hour.put_timestamp(micros, Zone::None, room)?,
            Value::TimestampTz(micros) => self.last_hour.put_timestamp(micros, Zone::Utc, room)?,
            _ => return None,
        };
        Some(quoted - 2)
    }

    /// Any value, by any dialect.
    #[inline(never)]
    fn write_value(&mut self, value: Value<'_>, out: &mut Vec<u8>) {
        match value {
            Value::Null => self.write_null(out),
            Value::Text(text) | Value::Json(text) => self.write_text(text, out),
            Value::Bytes(bytes) => self.write_bytes(bytes, out),
            plain => self.write_plain(plain, out),
        }
    }

    /// NULL. Many readers skip a blank line, and a row would be lost: alone in its row, an empty
    /// NULL is an empty text, in quotes.
    fn write_null(&self, out: &mut Vec<u8>) {
        let null: &[u8] = match self.dialect.null.as_bytes() {
            b"" if self.columns == 1 => b"\"\"",
            null => null,
        };
        out.extend_from_slice(null);
    }

    /// A value whose JSON is a string without escapes, or no string: CSV has the same without
    /// JSON's quotes.
    fn write_plain(&mut self, value: Value<'_>, out: &mut Vec<u8>) {
        let start = out.len();
        json::write_next_value(value, &mut self.last_hour, Slot::new(out));
        let is_string = out[start] == b'"';
        match self.dialect.quote {
            Quote::Needed if is_string => {
                let end = out.len() - 1;
                out.copy_within(start + 1..end, start);
                out.truncate(end - 1);
            }
            Quote::All if !is_string => {
                out.insert(start, b'"');
                out.push(b'"');
            }
            Quote::Needed | Quote::All => {}
        }
        if !self.dialect.null.is_empty() {
            self.quote_like_null(start, out);
        }
    }

    /// Puts the value from `start` on into quotes if it reads as NULL does: `NaN`, say, where that
    /// is how NULL is written.
    #[cold]
    fn quote_like_null(&self, start: usize, out: &mut Vec<u8>) {
        if out[start..] == *self.dialect.null.as_bytes() {
            out.insert(start, b'"');
            out.push(b'"');
        }
    }

    #[inline(never)]
    fn write_bytes(&mut self, bytes: &[u8], out: &mut Vec<u8>) {
        if self.options.bytes == BytesForm::Base64 {
            return self.write_base64(bytes, out);
        }
        let quote: &[u8] = if self.dialect.quote == Quote::All { b"\"" } else { b"" };
        let start = out.len();
        out.extend_from_slice(quote);
        out.extend_from_slice(b"\\x");
        hex::write_hex(bytes, out);
        out.extend_from_slice(quote);
        self.quote_like_null(start, out);
    }

    /// As any text: base64 can be empty, and begin with a plus.
    #[cold]
    fn write_base64(&mut self, bytes: &[u8], out: &mut Vec<u8>) {
        options::put_base64(bytes, &mut self.scratch);
        self.write_text(&self.scratch, out);
    }
}

impl RowWriter for CsvEncoder {
    #[inline]
    fn begin_row(&mut self, _out: &mut Vec<u8>) {
        self.rows += 1;
        self.column = 0;
    }

    // As a function of its own it saves and restores six registers for each value.
    #[inline(always)]
    fn value(&mut self, value: Value<'_>, out: &mut Vec<u8>) {
        if self.column == self.columns {
            return;
        }
        self.column += 1;
        // What ends the row before a first value is written again, so that it has a prefix, too.
        let before = match self.column {
            1 => out.pop(),
            _ => Some(self.dialect.separator.byte()),
        };
        let Some(before) = before else { return self.write_value(value, out) };
        let mut slot = Slot::after(before, out);
        let room = slot.with_prefix();
        let length = if self.plain { self.put_value(value, room) } else { None };
        room[0] = before;
        match length {
            Some(length) => slot.keep(length),
            None => self.write_value(value, slot.release()),
        }
    }

    #[inline]
    fn end_row(&mut self, out: &mut Vec<u8>) {
        out.extend_from_slice(b"\r\n");
    }

    #[inline]
    fn options(&self) -> ValueOptions {
        self.options
    }
}

/// Whether a spreadsheet would take `text` for a formula (OWASP, "CSV Injection"): some skip blanks
/// and controls before the character that makes it one, and those of East Asian locales read its
/// full-width form as the character itself.
fn is_formula(text: &str) -> bool {
    let is_skipped = |c: char| {
        c.is_whitespace() || c.is_control() || matches!(c, '\u{200b}'..='\u{200f}' | '\u{2060}' | '\u{feff}')
    };
    text.starts_with(['\t', '\r', '\n'])
        || text.trim_start_matches(is_skipped).starts_with(['=', '+', '-', '@', '＝', '＋', '－', '＠'])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ColumnKind, Nulls, Numbers};

    fn encode(dialect: CsvDialect, names: &[&str], rows: &[&[Value<'_>]]) -> String {
        let column = |name: &&str| Column {
            name: (*name).to_owned(),
            type_name: String::new(),
            kind: ColumnKind::Text,
        };
        let columns: Vec<_> = names.iter().map(column).collect();
        let mut encoder = CsvEncoder::new(dialect, &columns);
        let mut out = Vec::new();
        encoder.start(&mut out);
        for row in rows {
            encoder.begin_row(&mut out);
            row.iter().for_each(|value| encoder.value(*value, &mut out));
            encoder.end_row(&mut out);
        }
        assert_eq!(encoder.rows(), rows.len() as u64);
        String::from_utf8(out).unwrap()
    }

    /// One row of several values, without a header.
    fn record(dialect: CsvDialect, values: &[Value<'_>]) -> String {
        let names = vec!["c"; values.len()];
        encode(CsvDialect { header: false, ..dialect }, &names, &[values])
    }

    /// Excel said of it that "the file format and extension don't match", and opened nothing.
    #[test]
    fn a_header_that_begins_as_another_format_is_quoted() {
        let semicolons = CsvDialect { separator: Separator::Semicolon, ..CsvDialect::default() };
        for (dialect, names, expected) in [
            (CsvDialect::default(), &["ID", "NAME"][..], "\"ID\",NAME\r\n"),
            (CsvDialect::default(), &["ID"], "\"ID\"\r\n"),
            (semicolons, &["IDENTITY", "ID"], "\"IDENTITY\";ID\r\n"),
            (CsvDialect { quote: Quote::All, ..CsvDialect::default() }, &["ID"], "\"ID\"\r\n"),
            (CsvDialect::default(), &["ID,x"], "\"ID,x\"\r\n"),
            (CsvDialect::default(), &["id", "ID"], "id,ID\r\n"),
            (CsvDialect { bom: true, ..CsvDialect::default() }, &["ID"], "\u{feff}ID\r\n"),
        ] {
            assert_eq!(encode(dialect, names, &[]), expected, "{names:?}");
        }
    }

    #[test]
    fn a_header_and_records() {
        let rows: &[&[Value<'_>]] = &[&[Value::Int(1), Value::Text("x")], &[Value::Null, Value::Text("")]];
        let csv = encode(CsvDialect::default(), &["a", "b,c"], rows);
        assert_eq!(csv, "a,\"b,c\"\r\n1,x\r\n,\"\"\r\n");
        let bare = CsvDialect { header: false, ..CsvDialect::default() };
        assert_eq!(encode(bare, &["a", "b"], rows), "1,x\r\n,\"\"\r\n");
        let excel = CsvDialect { separator: Separator::Semicolon, bom: true, ..CsvDialect::default() };
        assert_eq!(encode(excel, &["a;", "b,c"], &[]), "\u{feff}\"a;\";b,c\r\n");
    }

    #[test]
    fn each_value() {
        let day = Value::Date(19_782);
        let instant = Value::TimestampTz(1_709_208_000_250_000);
        for (value, needed, all) in [
            (Value::Bool(true), "true", "\"true\""),
            (Value::Int(i64::MIN), "-9223372036854775808", "\"-9223372036854775808\""),
            (Value::Int4(-1), "-1", "\"-1\""),
            (Value::Float(1.5), "1.5", "\"1.5\""),
            (Value::Float(f64::NAN), "NaN", "\"NaN\""),
            (Value::Float4(f32::NEG_INFINITY), "-Infinity", "\"-Infinity\""),
            (Value::Number("-12.50"), "-12.50", "\"-12.50\""),
            (Value::Text("a b"), "a b", "\"a b\""),
            (Value::Text("a,b"), "\"a,b\"", "\"a,b\""),
            (Value::Text("a\"b\"\""), "\"a\"\"b\"\"\"\"\"", "\"a\"\"b\"\"\"\"\""),
            (Value::Text("a\nb"), "\"a\nb\"", "\"a\nb\""),
            (Value::Text("a\rb"), "\"a\rb\"", "\"a\rb\""),
            (Value::Text("é;|\t"), "é;|\t", "\"é;|\t\""),
            (Value::Json(r#"{"a":1}"#), r#""{""a"":1}""#, r#""{""a"":1}""#),
            (Value::Bytes(b"hi\xff"), "\\x6869ff", "\"\\x6869ff\""),
            (day, "2024-02-29", "\"2024-02-29\""),
            (Value::Time(0), "00:00:00", "\"00:00:00\""),
            (instant, "2024-02-29T12:00:00.25Z", "\"2024-02-29T12:00:00.25Z\""),
            (Value::Timestamp(i64::MAX), "infinity", "\"infinity\""),
            (
                Value::Uuid([0xab; 16]),
                "abababab-abab-abab-abab-abababababab",
                "\"abababab-abab-abab-abab-abababababab\"",
            ),
            (Value::Null, "", ""),
        ] {
            let row = [Value::Int(7), value];
            assert_eq!(record(CsvDialect::default(), &row), format!("7,{needed}\r\n"), "{value:?}");
            let quoted = CsvDialect { quote: Quote::All, ..CsvDialect::default() };
            assert_eq!(record(quoted, &row), format!("\"7\",{all}\r\n"), "{value:?}");
        }
    }

    #[test]
    fn each_separator_is_quoted_where_it_is_data() {
        for separator in Separator::ALL {
            let text = format!("a{}b", separator.as_str());
            let dialect = CsvDialect { separator, ..CsvDialect::default() };
            let expected = format!("\"{text}\"{}1\r\n", separator.as_str());
            assert_eq!(record(dialect, &[Value::Text(&text), Value::Int(1)]), expected);
        }
    }

    /// Texts of different lengths are looked through in different ways.
    #[test]
    fn a_text_of_any_length_is_quoted_for_any_byte_that_needs_it() {
        for separator in Separator::ALL {
            let dialect = CsvDialect { separator, ..CsvDialect::default() };
            for (length, offset) in (1..=40).flat_map(|length| (0..length).map(move |at| (length, at))) {
                for byte in 0..0x80 {
                    let mut text = vec![b'x'; length];
                    text[offset] = byte;
                    let text = String::from_utf8(text).unwrap();
                    let quoted = [separator.byte(), b'"', b'\n', b'\r'].contains(&byte);
                    let value =
                        if quoted { format!("\"{}\"", text.replace('"', "\"\"")) } else { text.clone() };
                    let expected = format!("{value}{}1\r\n", separator.as_str());
                    assert_eq!(record(dialect.clone(), &[Value::Text(&text), Value::Int(1)]), expected);
                }
            }
        }
    }

    #[test]
    fn null_is_told_from_a_text_that_reads_the_same() {
        let dialect = CsvDialect { null: "NULL".to_owned(), ..CsvDialect::default() };
        let row = [Value::Null, Value::Text("NULL"), Value::Text("")];
        assert_eq!(record(dialect, &row), "NULL,\"NULL\",\r\n");
    }

    /// Only texts were compared with NULL: of floats whose NULL is `NaN`, none could tell which was
    /// missing.
    #[test]
    fn null_is_told_from_every_value_that_reads_the_same() {
        for (null, value) in [
            ("NaN", Value::Float(f64::NAN)),
            ("0", Value::Int(0)),
            ("true", Value::Bool(true)),
            ("-1.50", Value::Number("-1.50")),
            ("1970-01-01", Value::Date(0)),
            ("\\x", Value::Bytes(b"")),
            ("[]", Value::Json("[]")),
        ] {
            for quote in [Quote::Needed, Quote::All] {
                let dialect = CsvDialect { null: null.to_owned(), quote, ..CsvDialect::default() };
                assert_eq!(record(dialect, &[Value::Null, value]), format!("{null},\"{null}\"\r\n"));
            }
        }
    }

    #[test]
    fn no_row_is_a_blank_line() {
        assert_eq!(record(CsvDialect::default(), &[Value::Null]), "\"\"\r\n");
        assert_eq!(record(CsvDialect::default(), &[Value::Text("")]), "\"\"\r\n");
        // An empty text needed no quotes where NULL is something else, and its row was lost.
        let dialect = CsvDialect { null: "NULL".to_owned(), ..CsvDialect::default() };
        assert_eq!(record(dialect.clone(), &[Value::Text("")]), "\"\"\r\n");
        assert_eq!(record(dialect, &[Value::Null]), "NULL\r\n");
    }

    #[test]
    fn bytes_are_base64_on_request() {
        let options = ValueOptions {
            bytes: BytesForm::Base64,
            numbers: Numbers::String,
            nulls: Nulls::Omit,
            ..ValueOptions::DEFAULT
        };
        let column = Column { name: "c".to_owned(), type_name: String::new(), kind: ColumnKind::Text };
        let columns = [column.clone(), column];
        for (dialect, expected) in [
            (CsvDialect::default(), "+/8=,\r\n\"\",1\r\n"),
            (CsvDialect { guard: true, ..CsvDialect::default() }, "\"'+/8=\",\r\n\"\",1\r\n"),
            (CsvDialect { quote: Quote::All, ..CsvDialect::default() }, "\"+/8=\",\r\n\"\",\"1\"\r\n"),
        ] {
            let dialect = CsvDialect { header: false, ..dialect };
            let mut encoder = CsvEncoder::new(dialect, &columns).with_options(options);
            let mut out = Vec::new();
            for row in [[Value::Bytes(b"\xfb\xff"), Value::Null], [Value::Bytes(b""), Value::Int(1)]] {
                encoder.begin_row(&mut out);
                row.into_iter().for_each(|value| encoder.value(value, &mut out));
                encoder.end_row(&mut out);
            }
            assert_eq!(String::from_utf8(out).unwrap(), expected);
            assert_eq!(encoder.options(), ValueOptions { bytes: BytesForm::Base64, ..ValueOptions::DEFAULT });
        }
    }

    #[test]
    fn formulas_are_guarded_on_request() {
        let guard = CsvDialect { guard: true, ..CsvDialect::default() };
        for (text, plain, guarded) in [
            ("=1+1", "=1+1", "\"'=1+1\""),
            ("+1", "+1", "\"'+1\""),
            ("-1", "-1", "\"'-1\""),
            ("@a", "@a", "\"'@a\""),
            ("\tx", "\tx", "\"'\tx\""),
            ("\r", "\"\r\"", "\"'\r\""),
            ("a=1", "a=1", "a=1"),
            // These went through: a line feed, what spreadsheets skip before a formula, and its
            // signs in full width.
            ("\n=1", "\"\n=1\"", "\"'\n=1\""),
            ("\nx", "\"\nx\"", "\"'\nx\""),
            (" =1+1", " =1+1", "\"' =1+1\""),
            (" \u{a0}\u{3000}@a", " \u{a0}\u{3000}@a", "\"' \u{a0}\u{3000}@a\""),
            ("\0\u{b}\u{1f}-1", "\0\u{b}\u{1f}-1", "\"'\0\u{b}\u{1f}-1\""),
            ("\u{feff}=1", "\u{feff}=1", "\"'\u{feff}=1\""),
            ("\u{200b}\u{2060}+1", "\u{200b}\u{2060}+1", "\"'\u{200b}\u{2060}+1\""),
            ("＝1", "＝1", "\"'＝1\""),
            ("＋1", "＋1", "\"'＋1\""),
            ("－1", "－1", "\"'－1\""),
            (" ＠a", " ＠a", "\"' ＠a\""),
            (" a=1", " a=1", " a=1"),
            ("", "\"\"", "\"\""),
            (" ", " ", " "),
        ] {
            assert_eq!(record(CsvDialect::default(), &[Value::Text(text)]), format!("{plain}\r\n"));
            assert_eq!(record(guard.clone(), &[Value::Text(text)]), format!("{guarded}\r\n"));
        }
        for number in [Value::Int(-1), Value::Int4(-1), Value::Float(-1.0), Value::Number("-1")] {
            let written = record(guard.clone(), &[number]);
            assert!(written.starts_with("-1"), "{written}");
        }
    }
}
