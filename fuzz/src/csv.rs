//! Rows as CSV in every dialect, read back by the crate `csv`, and by a reader that also reports
//! quotes.

use arbitrary::{Arbitrary, Result, Unstructured};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rowstream_encode::{BytesForm, CsvDialect, CsvEncoder, Quote, RowWriter, Separator, ValueOptions};

use crate::value::{Owned, Table};

/// The rows of a table in a dialect.
pub fn csv(data: &[u8]) {
    let _ = table(&mut Unstructured::new(data));
}

fn table(u: &mut Unstructured<'_>) -> Result<()> {
    let dialect = dialect(u)?;
    let bytes = if u.arbitrary()? { BytesForm::Base64 } else { BytesForm::Hex };
    let table = Table::arbitrary(u)?;
    let text = written(&dialect, ValueOptions { bytes, ..ValueOptions::DEFAULT }, &table);
    let bare = if dialect.bom { text.strip_prefix('\u{feff}').expect("a byte order mark") } else { &text };
    let records = records(bare, dialect.separator.as_str());
    assert_eq!(records.len(), table.rows.len() + usize::from(dialect.header));
    let header = table.columns.iter().map(|column| Owned::Text(column.name.clone())).collect();
    let rows = dialect.header.then_some(&header).into_iter().chain(&table.rows);
    for (record, row) in records.iter().zip(rows) {
        assert_record(record, row, &dialect, bytes);
    }
    // A table without columns is only blank lines.
    if !table.columns.is_empty() {
        assert_eq!(read_by_csv(&text, &dialect), texts(&records));
    }
    Ok(())
}

fn dialect(u: &mut Unstructured<'_>) -> Result<CsvDialect> {
    let special = |c: char| matches!(c, '"' | '\r' | '\n' | ',' | ';' | '\t' | '|');
    let null: String = if u.arbitrary()? { u.arbitrary()? } else { String::new() };
    Ok(CsvDialect {
        separator: *u.choose(&Separator::ALL)?,
        header: u.arbitrary()?,
        quote: if u.arbitrary()? { Quote::All } else { Quote::Needed },
        // Characters that the configuration's `null` can't contain.
        null: null.replace(special, ""),
        bom: u.arbitrary()?,
        guard: u.arbitrary()?,
    })
}

fn written(dialect: &CsvDialect, options: ValueOptions, table: &Table) -> String {
    let mut encoder = CsvEncoder::new(dialect.clone(), &table.columns).with_options(options);
    let mut out = Vec::new();
    encoder.start(&mut out);
    for row in &table.rows {
        encoder.begin_row(&mut out);
        row.iter().for_each(|value| encoder.value(value.lend(), &mut out));
        encoder.end_row(&mut out);
    }
    assert_eq!(encoder.rows(), table.rows.len() as u64);
    String::from_utf8(out).expect("CSV is UTF-8")
}

/// A value in a record.
#[derive(Debug, PartialEq, Eq)]
struct Field {
    quoted: bool,
    text: String,
}

/// The records of a text by RFC 4180, without heuristics: a field is quoted from its first
/// character to its last, or not at all.
fn records(mut text: &str, separator: &str) -> Vec<Vec<Field>> {
    let mut records = Vec::new();
    while !text.is_empty() {
        let mut record = Vec::new();
        loop {
            let field;
            (field, text) = split_field(text, separator);
            record.push(field);
            match text.strip_prefix(separator) {
                Some(rest) => text = rest,
                None => break,
            }
        }
        text = text.strip_prefix("\r\n").expect("a record ends in CRLF");
        records.push(record);
    }
    records
}

fn split_field<'a>(text: &'a str, separator: &str) -> (Field, &'a str) {
    let Some(mut rest) = text.strip_prefix('"') else {
        let special = |c: char| matches!(c, '\r' | '\n' | '"') || separator.starts_with(c);
        let end = text.find(special).expect("a record has an end");
        assert!(!text[end..].starts_with(['"', '\n']), "a special character without quotes: {text:?}");
        return (Field { quoted: false, text: text[..end].to_owned() }, &text[end..]);
    };
    let mut field = Field { quoted: true, text: String::new() };
    loop {
        let end = rest.find('"').expect("a quote has an end");
        field.text += &rest[..end];
        match rest[end + 1..].strip_prefix('"') {
            Some(after) => {
                field.text.push('"');
                rest = after;
            }
            None => return (field, &rest[end + 1..]),
        }
    }
}

fn assert_record(record: &[Field], row: &[Owned], dialect: &CsvDialect, bytes: BytesForm) {
    if row.is_empty() {
        return assert_eq!(record, [Field { quoted: false, text: String::new() }]);
    }
    assert_eq!(record.len(), row.len());
    // If a blank line isn't a row, an empty NULL is written like an empty text.
    let alone = row.len() == 1 && dialect.null.is_empty();
    for (field, value) in record.iter().zip(row) {
        let reads_as_null = field.text == dialect.null && (alone || !field.quoted);
        if value.is_null() {
            assert!(reads_as_null, "{field:?} is not NULL");
            continue;
        }
        assert!(!reads_as_null || alone, "{value:?} was written as NULL is");
        assert!(field.quoted || dialect.quote == Quote::Needed);
        let guarded = dialect.guard && text_of(value, bytes).is_some_and(|text| is_formula(&text));
        let text =
            if guarded { field.text.strip_prefix('\'').expect("a formula is guarded") } else { &field.text };
        value.assert_plain(text, bytes);
    }
    assert!(row.len() > 1 || record[0].quoted || !record[0].text.is_empty(), "a row is a blank line");
}

fn is_formula(text: &str) -> bool {
    text.starts_with(['=', '+', '-', '@', '\t', '\r'])
}

/// The text that a spreadsheet could read as a formula. Numbers are never formulas.
fn text_of(value: &Owned, bytes: BytesForm) -> Option<String> {
    match value {
        Owned::Text(text) => Some(text.clone()),
        Owned::Json(json) => Some(json.0.clone()),
        Owned::Bytes(value) if bytes == BytesForm::Base64 => Some(STANDARD.encode(value)),
        _ => None,
    }
}

fn texts(records: &[Vec<Field>]) -> Vec<Vec<String>> {
    let texts = |record: &Vec<Field>| record.iter().map(|field| field.text.clone()).collect();
    records.iter().map(texts).collect()
}

fn read_by_csv(text: &str, dialect: &CsvDialect) -> Vec<Vec<String>> {
    // The crate drops every byte order mark, even if it's the first character of a text.
    let text = if dialect.bom { text.to_owned() } else { format!("\u{feff}{text}") };
    let mut reader = ::csv::ReaderBuilder::new()
        .has_headers(false)
        .delimiter(dialect.separator.as_str().as_bytes()[0])
        .from_reader(text.as_bytes());
    let records = reader.records().map(|record| record.expect("the crate reads it"));
    records.map(|record| record.iter().map(str::to_owned).collect()).collect()
}
