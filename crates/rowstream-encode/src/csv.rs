//! Rows as CSV (RFC 4180): records that end in CRLF, with quotes doubled inside quotes.
//!
//! The RFC has no NULL. Here NULL is the dialect's `null`, never quoted, and a text with the same
//! characters is quoted. By default NULL is empty and an empty text is `""`, as in PostgreSQL's
//! `COPY`.

use crate::append::{ROOM, Room, Slot, put};
use crate::datetime::{self, LastHour, Zone};
use crate::rows::RowWriter;
use crate::{BytesForm, Column, Format, Value, ValueOptions, escape, hex, integer, json, options};

/// The differences between programs that read CSV.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CsvDialect {
    /// The character between two values.
    pub separator: Separator,
    /// If true, the first record contains the names of the columns.
    pub header: bool,
    /// The values to put in quotes.
    pub quote: Quote,
    /// The text for NULL.
    pub null: String,
    /// If true, the file begins with a byte order mark. Without one, Excel reads it in the system's
    /// legacy encoding.
    pub bom: bool,
    /// If true, a text that a spreadsheet would run as a formula gets an apostrophe before it. This
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

/// The character between two values. None of them occurs in a number or a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Separator {
    /// `,`
    Comma = b',',
    /// `;`, for programs in languages with decimal commas.
    Semicolon = b';',
    /// A tab.
    Tab = b'\t',
    /// `|`
    Pipe = b'|',
}

impl Separator {
    /// Every separator.
    pub const ALL: [Self; 4] = [Self::Comma, Self::Semicolon, Self::Tab, Self::Pipe];

    /// The character as text.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Comma => ",",
            Self::Semicolon => ";",
            Self::Tab => "\t",
            Self::Pipe => "|",
        }
    }

    /// The separator with this name, or with this character.
    pub fn from_name(name: &str) -> Option<Self> {
        let names = [
            ("comma", Self::Comma),
            ("semicolon", Self::Semicolon),
            ("tab", Self::Tab),
            ("pipe", Self::Pipe),
        ];
        let named = names.into_iter().find(|(own, _)| *own == name).map(|(_, separator)| separator);
        named.or_else(|| Self::ALL.into_iter().find(|separator| separator.as_str() == name))
    }

    #[inline]
    fn byte(self) -> u8 {
        self as u8
    }
}

/// The parts of a dialect that a reader may choose.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CsvChoice {
    /// The character between two values.
    pub separator: Option<Separator>,
    /// True if the file begins with a byte order mark.
    pub bom: Option<bool>,
    /// The text for NULL.
    pub null: Option<String>,
    /// True if texts get the guard against formulas. A reader can't remove the dialect's own.
    pub guard: Option<bool>,
}

/// The longest text that a reader may choose for NULL, in bytes.
const LONGEST_NULL: usize = 16;

impl CsvChoice {
    /// Reads a text for NULL. It can't be a formula or be taken for a part of the file, because the
    /// reader of a file isn't always the one who wrote its URL.
    ///
    /// # Errors
    /// The reason why it isn't allowed.
    pub fn null(text: &str) -> Result<String, String> {
        let is_allowed =
            |c: char| c.is_ascii_alphanumeric() || matches!(c, '\\' | '_' | '.' | '<' | '>' | '/');
        if text.len() <= LONGEST_NULL && text.chars().all(is_allowed) {
            return Ok(text.to_owned());
        }
        Err(format!("write at most {LONGEST_NULL} letters, digits and characters of \\ _ . < > /"))
    }

    /// The dialect with these choices. `None` if they change nothing.
    pub fn over(self, dialect: &CsvDialect) -> Option<CsvDialect> {
        if self == Self::default() {
            return None;
        }
        let Self { separator, bom, null, guard } = self;
        let chosen = CsvDialect {
            separator: separator.unwrap_or(dialect.separator),
            bom: bom.unwrap_or(dialect.bom),
            null: null.unwrap_or_else(|| dialect.null.clone()),
            guard: dialect.guard || guard.unwrap_or(false),
            ..dialect.clone()
        };
        (chosen != *dialect).then_some(chosen)
    }
}

/// The values that are put in quotes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Quote {
    /// Those that couldn't be read without quotes.
    Needed,
    /// All except NULL.
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
    /// Most values are written unquoted: the default dialect, in rows that are never blank.
    plain: bool,
    /// The bytes before the first row.
    start: Vec<u8>,
    rows: u64,
    /// The column of the next value.
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

    /// The same encoder with the options that apply to CSV.
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
        // Excel treats a file that begins with these letters as SYLK, another format.
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

    /// Writes the bytes before the first row.
    pub fn start(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.start);
    }

    /// A text, in quotes if it needs them.
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
        // The loop has no branch, so that the compiler can vectorise it.
        let special = |byte: u8| (byte == separator) | (byte == b'"') | (byte == b'\n') | (byte == b'\r');
        let found = text.bytes().fold(false, |found, byte| found | special(byte));
        found || text == self.dialect.null || (self.columns == 1 && text.is_empty())
    }

    /// Puts an unquoted value after the first byte of `room`, which it may overwrite. Returns its
    /// length, or `None` if the value is longer or may need quotes.
    ///
    /// For a text, JSON's quotes are written around its final position, so that it needn't be
    /// moved. A load from bytes that were just written in smaller pieces would stall the processor.
    #[inline(always)]
    fn put_value(&mut self, value: Value<'_>, room: &mut [u8; 1 + ROOM]) -> Option<usize> {
        let plain: &mut Room = room.last_chunk_mut()?;
        match value {
            Value::Null => return Some(0),
            Value::Bool(true) => return Some(put(b"true", 0, plain)),
            Value::Bool(false) => return Some(put(b"false", 0, plain)),
            Value::Int(int) | Value::Int4(int) => return Some(integer::put_int(int, plain)),
            _ => {}
        }
        let room: &mut Room = room.first_chunk_mut()?;
        let quoted = match value {
            // An empty text must differ from NULL.
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

    /// Any value in any dialect.
    #[inline(never)]
    fn write_value(&mut self, value: Value<'_>, out: &mut Vec<u8>) {
        match value {
            Value::Null => self.write_null(out),
            Value::Text(text) | Value::Json(text) => self.write_text(text, out),
            Value::Bytes(bytes) => self.write_bytes(bytes, out),
            plain => self.write_plain(plain, out),
        }
    }

    /// NULL. Many readers skip a blank line and would lose the row. So an empty NULL that is alone
    /// in its row is written as an empty text in quotes.
    fn write_null(&self, out: &mut Vec<u8>) {
        let null: &[u8] = match self.dialect.null.as_bytes() {
            b"" if self.columns == 1 => b"\"\"",
            null => null,
        };
        out.extend_from_slice(null);
    }

    /// A value whose JSON is a string without escapes, or isn't a string. CSV is the same without
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

    /// Quotes the value from `start` on if it equals the dialect's NULL, for example `NaN`.
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

    /// Base64 is treated as any text, because it can be empty or begin with a plus.
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

    // As a separate function it would save and restore six registers for each value.
    #[inline(always)]
    fn value(&mut self, value: Value<'_>, out: &mut Vec<u8>) {
        if self.column == self.columns {
            return;
        }
        self.column += 1;
        // We write the last byte of the previous row again, so that the first value has a prefix
        // too.
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

/// Returns true if a spreadsheet would read `text` as a formula (OWASP, "CSV Injection"). Some skip
/// blanks and controls before the first character of the formula. East Asian locales read its
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

    /// Excel refused this file: "the file format and extension don't match".
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

    /// Texts of different lengths are scanned in different ways.
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

    /// Only texts were compared with NULL. With NULL written as `NaN`, a missing float looked like
    /// NaN.
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
        // With another NULL, an empty text wasn't quoted, and its row was lost.
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
            // These passed the guard: a line feed, characters that spreadsheets skip before a
            // formula, and full-width signs.
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
