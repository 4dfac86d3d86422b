//! The decoder of PostgreSQL's rows: arbitrary bytes are an error or JSON, and values in the
//! server's forms are decoded to the same values.

use arbitrary::{Arbitrary, Result, Unstructured};
use rowstream_encode::{
    CsvDialect, CsvEncoder, Intervals, Nulls, OptionsEncoder, RowWriter, Shape, ValueOptions,
};
use rowstream_postgres::fuzzing::Rows;
use serde_json::value::RawValue;

use crate::json::Members;
use crate::value::{Decimal, Owned, options};

/// A composite that contains the other types and arrays of itself. PostgreSQL doesn't allow a type
/// to contain itself, but the test doesn't depend on that.
const PAIR: u32 = 70_001;
const HSTORE: u32 = 70_002;
const PAIRS: u32 = 70_003;
/// A domain over `PAIRS`.
const DOMAIN: u32 = 70_004;
/// A composite without attributes.
const EMPTY: u32 = 70_005;

/// OIDs of built-in types (PostgreSQL, `pg_type.dat`), and those above. JSON isn't included,
/// because it's passed through unchanged.
const TYPES: [u32; 33] = [
    16, 17, 20, 21, 22, 23, 25, 30, 603, 700, 701, 1000, 1001, 1005, 1007, 1009, 1016, 1020, 1043, 1082,
    1083, 1114, 1184, 1185, 1186, 1187, 1231, 1700, 2950, PAIR, HSTORE, PAIRS, DOMAIN,
];

/// The catalog's rows for types that aren't built in: OID, name, base, element, delimiter,
/// attributes, and if it's an hstore.
fn catalog() -> Vec<Vec<u8>> {
    let attributes = format!(
        r#"[["n",1700],["t",25],["l",1009],["b",16],["y",17],["i",1186],["z",1184],["p",{PAIRS}],["e",{EMPTY}]]"#
    );
    let types = [
        (PAIR, None, None, Some(attributes), "f"),
        (HSTORE, None, None, None, "t"),
        (PAIRS, None, Some(PAIR), None, "f"),
        (DOMAIN, Some(PAIRS), None, None, "f"),
        (EMPTY, None, None, Some("[]".to_owned()), "f"),
    ];
    let row =
        |(oid, base, element, attributes, hstore): (u32, Option<u32>, Option<u32>, Option<String>, &str)| {
            let number = |oid: Option<u32>| oid.map(|oid| oid.to_string().into_bytes());
            data_row(&[
                number(Some(oid)),
                Some(b"name".to_vec()),
                number(base),
                number(element),
                Some(b",".to_vec()),
                attributes.map(String::into_bytes),
                Some(hstore.as_bytes().to_vec()),
            ])
        };
    types.into_iter().map(row).collect()
}

fn rows_of(columns: &[(u32, i32)]) -> Rows {
    Rows::new(&catalog(), columns).expect("the catalog can be read")
}

/// A DataRow with these fields.
fn data_row(fields: &[Option<Vec<u8>>]) -> Vec<u8> {
    let mut row = (fields.len() as u16).to_be_bytes().to_vec();
    for field in fields {
        row.extend_from_slice(&field.as_ref().map_or(-1, |field| field.len() as i32).to_be_bytes());
        row.extend_from_slice(field.as_deref().unwrap_or_default());
    }
    row
}

/// Rows of arbitrary bytes, for columns of all types.
pub fn postgres_row(data: &[u8]) {
    let _ = any_rows(&mut Unstructured::new(data));
}

fn any_rows(u: &mut Unstructured<'_>) -> Result<()> {
    let options = options(u)?;
    let count = u.int_in_range(0..=3)?;
    let columns: Vec<(u32, i32)> =
        (0..count).map(|_| Ok((*u.choose(&TYPES)?, u.arbitrary()?))).collect::<Result<_>>()?;
    let mut rows = rows_of(&columns);
    while !u.is_empty() {
        let data = match u.ratio(1, 8)? {
            true => u.arbitrary()?,
            false => data_row(&(0..count).map(|_| u.arbitrary()).collect::<Result<Vec<_>>>()?),
        };
        let (line, record) = (json_line(&mut rows, options, &data), csv_record(&mut rows, options, &data));
        assert_eq!(line.is_some(), record.is_some());
        assert_eq!(line, json_line(&mut rows_of(&columns), options, &data), "no row changes the next");
        if let Some(line) = line {
            let members: Members<'_> = serde_json::from_slice(&line).expect("a row is an object");
            let omits = options.nulls == Nulls::Omit;
            assert!(members.0.len() == columns.len() || (omits && members.0.len() < columns.len()));
            assert_eq!(line.iter().position(|byte| *byte == b'\n'), Some(line.len() - 1));
        }
    }
    Ok(())
}

/// `None` if the row is invalid.
fn json_line(rows: &mut Rows, options: ValueOptions, data: &[u8]) -> Option<Vec<u8>> {
    let mut encoder = OptionsEncoder::new(Shape::Lines, options, rows.columns());
    encoded(rows, data, &mut encoder)
}

fn csv_record(rows: &mut Rows, options: ValueOptions, data: &[u8]) -> Option<Vec<u8>> {
    let mut encoder = CsvEncoder::new(CsvDialect::default(), rows.columns()).with_options(options);
    encoded(rows, data, &mut encoder)
}

fn encoded(rows: &mut Rows, data: &[u8], encoder: &mut impl RowWriter) -> Option<Vec<u8>> {
    let mut out = Vec::new();
    match rows.encode(data, encoder, &mut out) {
        Ok(()) => Some(out),
        Err(error) => {
            assert!(matches!(error.code(), "source_protocol" | "bad_value"), "{error}");
            None
        }
    }
}

/// Values in the server's forms.
pub fn postgres_values(data: &[u8]) {
    let _ = values(&mut Unstructured::new(data));
}

fn values(u: &mut Unstructured<'_>) -> Result<()> {
    let options = options(u)?;
    let plain: Vec<Owned> = u.arbitrary()?;
    let plain: Vec<Owned> = plain.into_iter().filter(is_sendable).take(20).collect();
    let pairs: Option<Vec<Option<Pair>>> = (!u.ratio(1, 8)?).then(|| pairs(u, 2)).transpose()?;
    let members: Vec<(String, Option<String>)> = u.arbitrary()?;
    let numbers: [[Option<i64>; 2]; 2] = u.arbitrary()?;
    let interval: Interval = u.arbitrary()?;

    let mut columns: Vec<(u32, i32)> = plain.iter().map(|value| (oid(value), -1)).collect();
    columns.extend([(DOMAIN, -1), (HSTORE, -1), (1016, -1), (1186, -1)]);
    let mut rows = rows_of(&columns);
    let mut fields: Vec<_> =
        plain.iter().enumerate().map(|(column, value)| Some(field(value, rows.is_binary(column)))).collect();
    fields.push(
        pairs
            .as_ref()
            .map(|pairs| array(pairs.iter().map(|pair| pair.as_ref().map(Pair::text))).into_bytes()),
    );
    fields.push(Some(hstore(&members).into_bytes()));
    let lists = numbers.map(|row| array(row.map(|number| number.map(|number| number.to_string()))));
    fields.push(Some(format!("{{{}}}", lists.join(",")).into_bytes()));
    fields.push(Some(interval.text().into_bytes()));

    let line = json_line(&mut rows, options, &data_row(&fields)).expect("the row is as the server sends it");
    let line = std::str::from_utf8(&line).expect("JSON is UTF-8");
    let object: Members<'_> = serde_json::from_str(line).expect("a row is an object");
    let mut object = object.0.into_iter().map(|(_, raw)| raw);
    for value in &plain {
        value.assert_json(object.next().expect("each value is a member").get(), options);
    }
    if options.nulls != Nulls::Omit || pairs.is_some() {
        assert_pairs(object.next().expect("the composites are a member"), pairs.as_deref(), options);
    }
    assert_hstore(object.next().expect("the hstore is a member"), &members);
    assert_numbers(object.next().expect("the array is a member"), numbers, options);
    interval.assert_json(object.next().expect("the interval is a member"), options);
    Ok(())
}

/// The type whose values become this variant.
fn oid(value: &Owned) -> u32 {
    match value {
        Owned::Null | Owned::Text(_) => 25,
        Owned::Bool(_) => 16,
        Owned::Int(_) => 20,
        Owned::Int4(_) => 23,
        Owned::Float(_) => 701,
        Owned::Float4(_) => 700,
        Owned::Number(_) => 1700,
        Owned::Json(_) => 114,
        Owned::Bytes(_) => 17,
        Owned::Date(_) => 1082,
        Owned::Time(_) => 1083,
        Owned::Timestamp(_) => 1114,
        Owned::TimestampTz(_) => 1184,
        Owned::Uuid(_) => 2950,
    }
}

/// The field of a value, in binary for types that we request in binary.
fn field(value: &Owned, binary: bool) -> Vec<u8> {
    let field = match value {
        Owned::Int(int) => int.to_be_bytes().to_vec(),
        Owned::Int4(int) => int.to_be_bytes().to_vec(),
        Owned::Float(float) => float.to_be_bytes().to_vec(),
        Owned::Float4(float) => float.to_be_bytes().to_vec(),
        Owned::Bytes(bytes) => bytes.clone(),
        Owned::Date(days) => days_since_2000(days.0).unwrap_or_default().to_be_bytes().to_vec(),
        Owned::Time(time) => time.0.to_be_bytes().to_vec(),
        Owned::Timestamp(micros) | Owned::TimestampTz(micros) => {
            micros_since_2000(micros.0).unwrap_or_default().to_be_bytes().to_vec()
        }
        Owned::Uuid(uuid) => uuid.to_vec(),
        Owned::Bool(bool) => return if *bool { b"t" } else { b"f" }.to_vec(),
        Owned::Null => return Vec::new(),
        Owned::Text(text) => return text.clone().into_bytes(),
        Owned::Number(number) => return number.0.clone().into_bytes(),
        Owned::Json(json) => return json.0.clone().into_bytes(),
    };
    assert!(binary, "{value:?} is asked for in the text format");
    field
}

/// Returns true if the server can have this value. It can't if it's before the negative infinity.
fn is_sendable(value: &Owned) -> bool {
    match value {
        Owned::Null => false,
        Owned::Date(days) => days_since_2000(days.0).is_some(),
        Owned::Timestamp(micros) | Owned::TimestampTz(micros) => micros_since_2000(micros.0).is_some(),
        _ => true,
    }
}

fn days_since_2000(days: i32) -> Option<i32> {
    match days {
        i32::MAX | i32::MIN => Some(days),
        _ => days.checked_sub(10_957).filter(|days| *days != i32::MIN),
    }
}

fn micros_since_2000(micros: i64) -> Option<i64> {
    match micros {
        i64::MAX | i64::MIN => Some(micros),
        _ => micros.checked_sub(10_957 * 86_400_000_000).filter(|micros| *micros != i64::MIN),
    }
}

/// A composite with its nested ones.
#[derive(Debug)]
struct Pair {
    number: Option<Decimal>,
    text: Option<String>,
    list: Option<Vec<Option<String>>>,
    bool: Option<bool>,
    bytes: Option<Vec<u8>>,
    interval: Option<Interval>,
    pairs: Option<Vec<Option<Pair>>>,
}

/// Composites with this many levels.
fn pairs(u: &mut Unstructured<'_>, depth: usize) -> Result<Vec<Option<Pair>>> {
    let count = u.int_in_range(0..=3)?;
    (0..count).map(|_| if u.ratio(1, 8)? { Ok(None) } else { pair(u, depth).map(Some) }).collect()
}

fn pair(u: &mut Unstructured<'_>, depth: usize) -> Result<Pair> {
    Ok(Pair {
        number: u.arbitrary()?,
        text: u.arbitrary()?,
        list: u.arbitrary()?,
        bool: u.arbitrary()?,
        bytes: u.arbitrary()?,
        interval: u.arbitrary()?,
        pairs: if depth > 0 && u.arbitrary()? { Some(pairs(u, depth - 1)?) } else { None },
    })
}

impl Pair {
    /// PostgreSQL's text of this composite (`record_out`).
    fn text(&self) -> String {
        let pairs =
            self.pairs.as_ref().map(|pairs| array(pairs.iter().map(|pair| pair.as_ref().map(Self::text))));
        let fields = [
            self.number.as_ref().map(|number| number.0.clone()),
            self.text.clone(),
            self.list.as_ref().map(|list| array(list.iter().cloned())),
            self.bool.map(|bool| if bool { "t" } else { "f" }.to_owned()),
            self.bytes.as_ref().map(|bytes| hex(bytes)),
            self.interval.as_ref().map(Interval::text),
            // A timestamp with whole seconds, and the infinity, which has no parts.
            Some("2024-02-29 12:00:00+00".to_owned()),
            pairs,
            Some("()".to_owned()),
        ];
        let special =
            |c: char| matches!(c, '"' | '\\' | '(' | ')' | ',') || c.is_ascii_whitespace() || c == '\u{b}';
        let fields = fields.map(|field| match field {
            None => String::new(),
            Some(field) if field.is_empty() || field.contains(special) => {
                format!("\"{}\"", field.replace('\\', "\\\\").replace('"', "\"\""))
            }
            Some(field) => field,
        });
        format!("({})", fields.join(","))
    }

    fn assert_json(&self, raw: &RawValue, options: ValueOptions) {
        let object: Members<'_> = serde_json::from_str(raw.get()).expect("a composite is an object");
        let mut members = object.0.into_iter().peekable();
        let mut next = |name: &str, is_null: bool| {
            let omitted = is_null && options.nulls == Nulls::Omit;
            let member = if omitted { None } else { members.next() };
            member.map(|(told, raw)| {
                assert_eq!(told, name);
                raw
            })
        };
        let assert = |raw: Option<&RawValue>, value: Option<Owned>| {
            if let Some(raw) = raw {
                value.unwrap_or(Owned::Null).assert_json(raw.get(), options);
            }
        };
        assert(next("n", self.number.is_none()), self.number.clone().map(Owned::Number));
        assert(next("t", self.text.is_none()), self.text.clone().map(Owned::Text));
        if let Some(raw) = next("l", self.list.is_none()) {
            let list: Option<Vec<Option<String>>> = serde_json::from_str(raw.get()).expect("a list of texts");
            assert_eq!(list, self.list);
        }
        assert(next("b", self.bool.is_none()), self.bool.map(Owned::Bool));
        assert(next("y", self.bytes.is_none()), self.bytes.clone().map(Owned::Bytes));
        match (next("i", self.interval.is_none()), &self.interval) {
            (Some(raw), Some(interval)) => interval.assert_json(raw, options),
            (raw, _) => assert(raw, None),
        }
        assert_eq!(next("z", false).map(RawValue::get), Some("\"2024-02-29T12:00:00Z\""));
        if let Some(raw) = next("p", self.pairs.is_none()) {
            assert_pairs(raw, self.pairs.as_deref(), options);
        }
        assert_eq!(next("e", false).map(RawValue::get), Some("{}"));
    }
}

fn assert_pairs(raw: &RawValue, pairs: Option<&[Option<Pair>]>, options: ValueOptions) {
    let list: Option<Vec<&RawValue>> = serde_json::from_str(raw.get()).expect("a list of composites");
    let (Some(list), Some(pairs)) = (&list, pairs) else { return assert!(list.is_none() && pairs.is_none()) };
    assert_eq!(list.len(), pairs.len());
    for (raw, pair) in list.iter().zip(pairs) {
        match pair {
            Some(pair) => pair.assert_json(raw, options),
            None => assert_eq!(raw.get(), "null"),
        }
    }
}

/// PostgreSQL's text of an array (`array_out`).
fn array(elements: impl IntoIterator<Item = Option<String>>) -> String {
    let special =
        |c: char| matches!(c, '"' | '\\' | '{' | '}' | ',') || c.is_ascii_whitespace() || c == '\u{b}';
    let element = |element: Option<String>| match element {
        None => "NULL".to_owned(),
        Some(text) if text.is_empty() || text.eq_ignore_ascii_case("null") || text.contains(special) => {
            format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
        }
        Some(text) => text,
    };
    format!("{{{}}}", elements.into_iter().map(element).collect::<Vec<_>>().join(","))
}

/// PostgreSQL's text of an hstore (`hstore_out`).
fn hstore(members: &[(String, Option<String>)]) -> String {
    let quoted = |text: &str| format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""));
    let member = |(key, value): &(String, Option<String>)| {
        format!("{}=>{}", quoted(key), value.as_deref().map_or("NULL".to_owned(), quoted))
    };
    members.iter().map(member).collect::<Vec<_>>().join(", ")
}

fn assert_hstore(raw: &RawValue, members: &[(String, Option<String>)]) {
    let object: Members<'_> = serde_json::from_str(raw.get()).expect("an hstore is an object");
    let text = |raw: &RawValue| serde_json::from_str(raw.get()).expect("its values are texts");
    let read: Vec<(String, Option<String>)> =
        object.0.into_iter().map(|(key, raw)| (key, text(raw))).collect();
    assert_eq!(read, members);
}

fn assert_numbers(raw: &RawValue, numbers: [[Option<i64>; 2]; 2], options: ValueOptions) {
    let lists: Vec<Vec<&RawValue>> = serde_json::from_str(raw.get()).expect("a list of lists");
    assert_eq!(lists.len(), 2);
    for (raw, number) in lists.concat().into_iter().zip(numbers.concat()) {
        number.map_or(Owned::Null, Owned::Int).assert_json(raw.get(), options);
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold("\\x".to_owned(), |text, byte| format!("{text}{byte:02x}"))
}

/// An interval as its three parts.
#[derive(Debug, Clone, Arbitrary)]
struct Interval {
    months: i32,
    days: i32,
    micros: i64,
}

impl Interval {
    /// Years, months and days, and the hours, minutes, seconds and microseconds without sign.
    fn parts(&self) -> ([(i64, &'static str, char); 3], [u64; 4]) {
        let (months, days) = (i64::from(self.months), i64::from(self.days));
        let micros = self.micros.unsigned_abs();
        let seconds = micros / 1_000_000;
        (
            [(months / 12, "year", 'Y'), (months % 12, "mon", 'M'), (days, "day", 'D')],
            [seconds / 3600, seconds / 60 % 60, seconds % 60, micros % 1_000_000],
        )
    }

    /// The text with `intervalstyle = postgres` (PostgreSQL, `datetime.c`, `EncodeInterval`).
    fn text(&self) -> String {
        let (dates, [hours, minutes, seconds, micros]) = self.parts();
        let mut words = Vec::new();
        let mut after_negative = false;
        for (number, unit, _) in dates.into_iter().filter(|(number, ..)| *number != 0) {
            let plus = if after_negative && number > 0 { "+" } else { "" };
            let plural = if number == 1 { "" } else { "s" };
            words.push(format!("{plus}{number} {unit}{plural}"));
            after_negative = number < 0;
        }
        if self.micros != 0 || words.is_empty() {
            let sign = if self.micros < 0 {
                "-"
            } else if after_negative {
                "+"
            } else {
                ""
            };
            words.push(format!("{sign}{hours:02}:{minutes:02}:{seconds:02}{}", fraction(micros)));
        }
        words.join(" ")
    }

    /// The text with `intervalstyle = iso_8601`.
    fn iso(&self) -> String {
        let (dates, [hours, minutes, seconds, micros]) = self.parts();
        let mut text = "P".to_owned();
        for (number, _, unit) in dates.into_iter().filter(|(number, ..)| *number != 0) {
            text += &format!("{number}{unit}");
        }
        let sign = if self.micros < 0 { "-" } else { "" };
        if self.micros != 0 {
            text.push('T');
        }
        for (number, unit) in [(hours, 'H'), (minutes, 'M')].into_iter().filter(|(number, _)| *number != 0) {
            text += &format!("{sign}{number}{unit}");
        }
        if seconds != 0 || micros != 0 {
            text += &format!("{sign}{seconds}{}S", fraction(micros));
        }
        if text == "P" { "PT0S".to_owned() } else { text }
    }

    fn assert_json(&self, raw: &RawValue, options: ValueOptions) {
        let text: String = serde_json::from_str(raw.get()).expect("an interval is a text");
        assert_eq!(text, if options.intervals == Intervals::Iso { self.iso() } else { self.text() });
    }
}

fn fraction(micros: u64) -> String {
    if micros == 0 { String::new() } else { format!(".{micros:06}").trim_end_matches('0').to_owned() }
}
