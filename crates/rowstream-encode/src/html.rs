//! Rows as rows of an HTML table (HTML standard, "Tables"). The caller writes the page around them.
//!
//! Every text is escaped, so a value can't begin an element or end an attribute. The URL of a link
//! consists of the caller's text and of values whose reserved characters are percent-encoded, so a
//! value can't choose the host, the scheme or another path.

use crate::append::Slot;
use crate::datetime::LastHour;
use crate::rows::RowWriter;
use crate::{Column, Format, Value, ValueOptions, hex, json};

/// The longest value in a URL, in bytes. Servers refuse longer URLs.
const LONGEST_SEGMENT: usize = 1024;

/// The order of a table's cells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HtmlLayout {
    /// A line for each row.
    Lines,
    /// A line for each value, which begins with its column's name.
    Fields,
}

/// A link in each row. It's in the cell of the last column that its URL contains.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RowLink {
    /// The parts of its URL.
    pub url: Vec<UrlPart>,
    /// The text that is linked.
    pub text: LinkText,
}

/// A part of a URL.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UrlPart {
    /// A text in the form that URLs have.
    Text(String),
    /// A row's value as a segment of the path, by the index of its column.
    Column(usize),
}

/// The text of a link.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LinkText {
    /// The cell's value.
    Value,
    /// This text, after the value.
    Label(String),
}

/// Writes the rows of one statement as rows of a table.
///
/// The calls are those of [`crate::RowEncoder`], except `finish`.
#[derive(Debug)]
pub struct HtmlEncoder {
    layout: HtmlLayout,
    options: ValueOptions,
    columns: Box<[HtmlColumn]>,
    /// The values of this row that are in URLs.
    segments: Vec<UrlSegment>,
    /// The bytes before the first row.
    start: Vec<u8>,
    rows: u64,
    /// The column of the next value.
    column: usize,
    last_hour: LastHour,
    /// The text of the value.
    text: Vec<u8>,
}

/// A column of the table.
#[derive(Debug)]
struct HtmlColumn {
    /// The bytes before its cell.
    before: Vec<u8>,
    /// Its place among the values that are in URLs.
    segment: Option<usize>,
    links: Vec<CellLink>,
}

/// A link in a cell, with its bytes escaped.
#[derive(Debug)]
struct CellLink {
    /// The text before each value, and the value's place among those that are in URLs.
    url: Vec<(Vec<u8>, usize)>,
    end: Vec<u8>,
    /// `None`: the cell's value.
    label: Option<Vec<u8>>,
}

/// A value, percent-encoded. Its memory is used for all rows.
#[derive(Debug, Default)]
struct UrlSegment {
    text: Vec<u8>,
    /// False for a value that can't be a segment of a path.
    is_valid: bool,
}

impl HtmlEncoder {
    /// An encoder for rows of `columns`. `start` are the bytes before the first row.
    pub fn new(layout: HtmlLayout, columns: &[Column], links: &[RowLink], start: Vec<u8>) -> Self {
        let before = |column: &Column| match layout {
            HtmlLayout::Lines => Vec::new(),
            HtmlLayout::Fields => [b"<tr><th scope=\"row\">", &*escaped(&column.name)].concat(),
        };
        let column =
            |column: &Column| HtmlColumn { before: before(column), segment: None, links: Vec::new() };
        let mut encoder = Self {
            layout,
            options: ValueOptions::DEFAULT,
            columns: columns.iter().map(column).collect(),
            segments: Vec::new(),
            start,
            rows: 0,
            column: 0,
            last_hour: LastHour::default(),
            text: Vec::new(),
        };
        links.iter().for_each(|link| encoder.add(link));
        encoder
    }

    /// The same encoder with the options that apply to HTML.
    pub fn with_options(self, options: ValueOptions) -> Self {
        Self { options: options.in_format(Format::Html), ..self }
    }

    /// Adds a link. Ignores one without a column, or with a column that doesn't exist.
    fn add(&mut self, link: &RowLink) {
        let indices = link.url.iter().filter_map(|part| match part {
            UrlPart::Column(index) => Some(*index),
            UrlPart::Text(_) => None,
        });
        let Some(last) = indices.max().filter(|last| *last < self.columns.len()) else { return };
        let (mut url, mut text) = (Vec::new(), Vec::new());
        for part in &link.url {
            match part {
                UrlPart::Text(part) => escape(part, &mut text),
                UrlPart::Column(index) => url.push((std::mem::take(&mut text), self.segment(*index))),
            }
        }
        let label = match &link.text {
            LinkText::Value => None,
            LinkText::Label(label) => Some(escaped(label)),
        };
        self.columns[last].links.push(CellLink { url, end: text, label });
    }

    /// The place of a column's value among those that are in URLs.
    fn segment(&mut self, column: usize) -> usize {
        *self.columns[column].segment.get_or_insert_with(|| {
            self.segments.push(UrlSegment::default());
            self.segments.len() - 1
        })
    }

    /// Rows begun so far.
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// Writes the bytes before the first row, and frees them.
    pub fn start(&mut self, out: &mut Vec<u8>) {
        out.append(&mut std::mem::take(&mut self.start));
    }

    /// Puts the text of a value into `self.text`.
    fn read_text(&mut self, value: Value<'_>) {
        self.text.clear();
        let mut scratch = String::new();
        match self.options.apply(value, &mut scratch) {
            Value::Text(text) | Value::Json(text) | Value::Number(text) => {
                self.text.extend_from_slice(text.as_bytes());
            }
            Value::Bytes(bytes) => {
                self.text.extend_from_slice(b"\\x");
                hex::write_hex(bytes, &mut self.text);
            }
            value => {
                json::write_next_value(value, &mut self.last_hour, Slot::new(&mut self.text));
                // Other strings have no escapes.
                if self.text.len() > 1 && self.text.first() == Some(&b'"') {
                    self.text.pop();
                    self.text.remove(0);
                }
            }
        }
    }
}

impl RowWriter for HtmlEncoder {
    fn begin_row(&mut self, out: &mut Vec<u8>) {
        self.rows += 1;
        self.column = 0;
        if self.layout == HtmlLayout::Lines {
            out.extend_from_slice(b"<tr>");
        }
    }

    fn value(&mut self, value: Value<'_>, out: &mut Vec<u8>) {
        if self.column >= self.columns.len() {
            return;
        }
        let is_null = value == Value::Null;
        if !is_null {
            self.read_text(value);
        }
        let column = &self.columns[self.column];
        if let Some(segment) = column.segment {
            self.segments[segment].set(Some(&*self.text).filter(|_| !is_null && is_finite(value)));
        }
        out.extend_from_slice(&column.before);
        out.extend_from_slice(if is_number(value) { b"<td class=\"n\">" } else { b"<td>" });
        // Escaped texts have no elements, so this differs from the text `NULL`.
        let text = if is_null { None } else { Some(&*self.text) };
        column.write(text, &self.segments, out);
        if self.layout == HtmlLayout::Fields {
            out.extend_from_slice(b"</tr>\n");
        }
        self.column += 1;
    }

    fn end_row(&mut self, out: &mut Vec<u8>) {
        if self.layout == HtmlLayout::Lines {
            out.extend_from_slice(b"</tr>\n");
        }
    }
}

impl HtmlColumn {
    /// Writes the content of a cell; `None` is NULL.
    fn write(&self, text: Option<&[u8]>, segments: &[UrlSegment], out: &mut Vec<u8>) {
        let is_whole = |link: &&CellLink| link.url.iter().all(|(_, segment)| segments[*segment].is_valid);
        let links = self.links.iter().filter(is_whole);
        let on_value = links.clone().find(|link| link.label.is_none());
        if let Some(link) = on_value {
            link.write(segments, out);
        }
        match text {
            Some(text) => escape_bytes(text, out),
            None => out.extend_from_slice(b"<i>NULL</i>"),
        }
        if on_value.is_some() {
            out.extend_from_slice(b"</a>");
        }
        for link in links {
            if let Some(label) = &link.label {
                out.push(b' ');
                link.write(segments, out);
                out.extend_from_slice(label);
                out.extend_from_slice(b"</a>");
            }
        }
    }
}

impl CellLink {
    /// Writes the tag that begins it.
    fn write(&self, segments: &[UrlSegment], out: &mut Vec<u8>) {
        out.extend_from_slice(b"<a href=\"");
        for (text, segment) in &self.url {
            out.extend_from_slice(text);
            out.extend_from_slice(&segments[*segment].text);
        }
        out.extend_from_slice(&self.end);
        out.extend_from_slice(b"\">");
    }
}

impl UrlSegment {
    /// Replaces its value. `None` is NULL.
    fn set(&mut self, value: Option<&[u8]>) {
        self.text.clear();
        // Browsers resolve segments of dots, even encoded ones.
        let value = value.filter(|value| !matches!(*value, b"" | b"." | b".."));
        let value = value.filter(|value| value.len() <= LONGEST_SEGMENT);
        self.is_valid = value.is_some();
        for &byte in value.unwrap_or_default() {
            if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
                self.text.push(byte);
            } else {
                self.text.push(b'%');
                self.text.extend(hex::digits(byte).map(|digit| digit.to_ascii_uppercase()));
            }
        }
    }
}

/// False for infinite floats and NaN, which no parameter can be.
fn is_finite(value: Value<'_>) -> bool {
    match value {
        Value::Float(float) | Value::Real(float) => float.is_finite(),
        Value::Float4(float) => float.is_finite(),
        _ => true,
    }
}

/// True for a number, which is aligned to the right.
fn is_number(value: Value<'_>) -> bool {
    use Value::{Float, Float4, Int, Int4, Number, Real};
    matches!(value, Int(_) | Int4(_) | Float(_) | Float4(_) | Real(_) | Number(_))
}

/// Appends a text in the form that it has between tags and in quoted attributes.
///
/// A NUL isn't allowed in HTML, and becomes U+FFFD. A carriage return would become a line feed, so
/// it's a reference.
pub fn escape(text: &str, out: &mut Vec<u8>) {
    escape_bytes(text.as_bytes(), out);
}

/// The result of [`escape`].
fn escaped(text: &str) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    escape(text, &mut out);
    out
}

fn escape_bytes(mut text: &[u8], out: &mut Vec<u8>) {
    let is_special = |byte: &u8| matches!(byte, b'&' | b'<' | b'>' | b'"' | b'\'' | b'\r' | 0);
    while let Some(place) = text.iter().position(is_special) {
        out.extend_from_slice(&text[..place]);
        let reference: &[u8] = match text[place] {
            b'&' => b"&amp;",
            b'<' => b"&lt;",
            b'>' => b"&gt;",
            b'"' => b"&#34;",
            b'\'' => b"&#39;",
            b'\r' => b"&#13;",
            _ => "\u{fffd}".as_bytes(),
        };
        out.extend_from_slice(reference);
        text = &text[place + 1..];
    }
    out.extend_from_slice(text);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{BytesForm, ColumnKind};

    fn columns(names: &[&str]) -> Vec<Column> {
        let column = |name: &&str| Column {
            name: (*name).to_owned(),
            type_name: String::new(),
            kind: ColumnKind::Any,
        };
        names.iter().map(column).collect()
    }

    fn rows(mut encoder: HtmlEncoder, rows: &[&[Value<'_>]]) -> String {
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

    fn link(url: &[UrlPart], text: LinkText) -> RowLink {
        RowLink { url: url.to_vec(), text }
    }

    fn text(text: &str) -> UrlPart {
        UrlPart::Text(text.to_owned())
    }

    fn label(text: &str) -> LinkText {
        LinkText::Label(text.to_owned())
    }

    #[test]
    fn rows_are_lines_or_fields() {
        let values: &[Value<'_>] = &[Value::Int(1), Value::Text("x")];
        let nulls: &[Value<'_>] = &[Value::Null, Value::Text("NULL")];
        let names = columns(&["a", "<b>"]);
        let lines = HtmlEncoder::new(HtmlLayout::Lines, &names, &[], b"<table>".to_vec());
        assert_eq!(
            rows(lines, &[values, nulls]),
            "<table><tr><td class=\"n\">1<td>x</tr>\n<tr><td><i>NULL</i><td>NULL</tr>\n"
        );
        let fields = HtmlEncoder::new(HtmlLayout::Fields, &names, &[], Vec::new());
        assert_eq!(
            rows(fields, &[values]),
            "<tr><th scope=\"row\">a<td class=\"n\">1</tr>\n<tr><th scope=\"row\">&lt;b&gt;<td>x</tr>\n"
        );
        let lines = HtmlEncoder::new(HtmlLayout::Lines, &columns(&["a"]), &[], Vec::new());
        assert_eq!(rows(lines, &[values]), "<tr><td class=\"n\">1</tr>\n", "a value without a column");
    }

    #[test]
    fn values_are_those_of_csv() {
        for (value, expected) in [
            (Value::Bool(true), "<td>true"),
            (Value::Int4(-5), "<td class=\"n\">-5"),
            (Value::Float(1.5), "<td class=\"n\">1.5"),
            (Value::Float(f64::NAN), "<td class=\"n\">NaN"),
            (Value::Number("12.50"), "<td class=\"n\">12.50"),
            (Value::Json("{\"a\": [1]}"), "<td>{&#34;a&#34;: [1]}"),
            (Value::Bytes(b"hi"), "<td>\\x6869"),
            (Value::Bytes(b""), "<td>\\x"),
            (Value::Date(0), "<td>1970-01-01"),
            (Value::Timestamp(0), "<td>1970-01-01T00:00:00"),
            (Value::Uuid([0; 16]), "<td>00000000-0000-0000-0000-000000000000"),
            (Value::Text(""), "<td>"),
        ] {
            let encoder = HtmlEncoder::new(HtmlLayout::Lines, &columns(&["a"]), &[], Vec::new());
            assert_eq!(rows(encoder, &[&[value]]), format!("<tr>{expected}</tr>\n"), "{value:?}");
        }
        let options = ValueOptions { bytes: BytesForm::Base64, ..ValueOptions::DEFAULT };
        let encoder = HtmlEncoder::new(HtmlLayout::Lines, &columns(&["a"]), &[], Vec::new());
        assert_eq!(rows(encoder.with_options(options), &[&[Value::Bytes(b"hi")]]), "<tr><td>aGk=</tr>\n");
    }

    #[test]
    fn texts_are_escaped() {
        for (text, expected) in [
            ("<script>alert(1)</script>", "&lt;script&gt;alert(1)&lt;/script&gt;"),
            ("\"' onclick=x", "&#34;&#39; onclick=x"),
            ("a & b &amp; c", "a &amp; b &amp;amp; c"),
            ("a\0b", "a\u{fffd}b"),
            ("a\r\nb\tc", "a&#13;\nb\tc"),
            ("\u{1}\u{7f}\u{85}", "\u{1}\u{7f}\u{85}"),
            ("\u{202e}abc\u{2066}", "\u{202e}abc\u{2066}"),
            ("é€😀", "é€😀"),
        ] {
            assert_eq!(String::from_utf8(escaped(text)).unwrap(), expected);
        }
        let long = "<".repeat(100_000);
        assert_eq!(escaped(&long), "&lt;".repeat(100_000).into_bytes());
    }

    #[test]
    fn links_contain_values() {
        use UrlPart::Column as At;
        let links = [
            link(&[text("./customers/"), At(1)], LinkText::Value),
            link(&[text("./pairs/"), At(1), text("/"), At(0), text("/\"list\"")], label("<list>")),
        ];
        let encoder = HtmlEncoder::new(HtmlLayout::Lines, &columns(&["a", "b"]), &links, Vec::new());
        let row: &[Value<'_>] = &[Value::Int(1), Value::Text("x/é\"<")];
        let segment = "x%2F%C3%A9%22%3C";
        assert_eq!(
            rows(encoder, &[row]),
            format!(
                "<tr><td class=\"n\">1<td><a href=\"./customers/{segment}\">x/é&#34;&lt;</a> \
                 <a href=\"./pairs/{segment}/1/&#34;list&#34;\">&lt;list&gt;</a></tr>\n"
            )
        );
    }

    /// Browsers resolve `..`, so such a link would lead elsewhere.
    #[test]
    fn a_link_needs_all_of_its_values() {
        let links = [link(&[text("./a/"), UrlPart::Column(0)], LinkText::Value)];
        let long = "x".repeat(LONGEST_SEGMENT + 1);
        let texts = ["", ".", "..", &long].map(Value::Text);
        for value in texts.into_iter().chain([Value::Null, Value::Float(f64::INFINITY)]) {
            let encoder = HtmlEncoder::new(HtmlLayout::Lines, &columns(&["a"]), &links, Vec::new());
            assert!(!rows(encoder, &[&[value]]).contains("<a"), "{value:?}");
        }
        let encoder = HtmlEncoder::new(HtmlLayout::Lines, &columns(&["a"]), &links, Vec::new());
        let values: [&[Value<'_>]; 2] = [&[Value::Null], &[Value::Text("javascript:alert(1)")]];
        assert_eq!(
            rows(encoder, &values),
            "<tr><td><i>NULL</i></tr>\n\
             <tr><td><a href=\"./a/javascript%3Aalert%281%29\">javascript:alert(1)</a></tr>\n"
        );
    }

    #[test]
    fn links_without_columns_are_ignored() {
        let links =
            [link(&[text("./a")], label("a")), link(&[text("./a/"), UrlPart::Column(1)], LinkText::Value)];
        let encoder = HtmlEncoder::new(HtmlLayout::Lines, &columns(&["a"]), &links, Vec::new());
        assert_eq!(rows(encoder, &[&[Value::Int(1)]]), "<tr><td class=\"n\">1</tr>\n");
    }
}
