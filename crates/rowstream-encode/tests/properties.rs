//! Properties of all values.
#![allow(clippy::unwrap_used, reason = "helpers of tests are tests too")]

use proptest::prelude::*;
use rowstream_encode::html::{HtmlEncoder, HtmlLayout, LinkText, RowLink, UrlPart};
use rowstream_encode::{
    BytesForm, Column, ColumnKind, Nulls, Numbers, OptionsEncoder, RowEncoder, RowWriter, Segment, Shape,
    Template, Value, ValueOptions, write_value,
};
use serde_json::Value as Json;

/// A value that owns its text.
#[derive(Debug, Clone)]
enum OwnedValue {
    Plain(Value<'static>),
    Text(String),
    Json(String),
    Bytes(Vec<u8>),
}

impl OwnedValue {
    fn lend(&self) -> Value<'_> {
        match self {
            Self::Plain(value) => *value,
            Self::Text(text) => Value::Text(text),
            Self::Json(text) => Value::Json(text),
            Self::Bytes(bytes) => Value::Bytes(bytes),
        }
    }
}

/// Text with many characters that need special treatment.
fn text() -> impl Strategy<Value = String> {
    let special = prop::sample::select(
        "\"'&<>\\/\n\r\t\u{8}\u{c}\0\u{1f}\u{20}\u{7f}é\u{2028}😀".chars().collect::<Vec<_>>(),
    );
    prop::collection::vec(prop_oneof![any::<char>(), special, prop::char::range('a', 'z')], 0..100)
        .prop_map(String::from_iter)
}

fn micros() -> impl Strategy<Value = i64> {
    prop_oneof![any::<i64>(), Just(i64::MAX), Just(i64::MIN), -1_000_000_000_000_i64..1_000_000_000_000]
}

fn json() -> impl Strategy<Value = Json> {
    let leaf = prop_oneof![
        Just(Json::Null),
        any::<bool>().prop_map(Json::from),
        any::<i64>().prop_map(Json::from),
        text().prop_map(Json::from),
    ];
    leaf.prop_recursive(3, 20, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Json::from),
            prop::collection::vec((text(), inner), 0..4)
                .prop_map(|members| Json::Object(members.into_iter().collect())),
        ]
    })
}

fn value() -> impl Strategy<Value = OwnedValue> {
    let plain = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::Bool),
        any::<i64>().prop_map(Value::Int),
        any::<i32>().prop_map(|int| Value::Int4(int.into())),
        any::<u64>().prop_map(|bits| Value::Float(f64::from_bits(bits))),
        any::<u32>().prop_map(|bits| Value::Float4(f32::from_bits(bits))),
        prop::sample::select(vec!["0", "-12.50", "1e+20", "123456789012345678.00"]).prop_map(Value::Number),
        prop_oneof![any::<i32>(), Just(i32::MAX), Just(i32::MIN)].prop_map(Value::Date),
        micros().prop_map(Value::Time),
        micros().prop_map(Value::Timestamp),
        micros().prop_map(Value::TimestampTz),
        any::<[u8; 16]>().prop_map(Value::Uuid),
    ];
    prop_oneof![
        4 => plain.prop_map(OwnedValue::Plain),
        1 => text().prop_map(OwnedValue::Text),
        1 => json().prop_map(|json| OwnedValue::Json(serde_json::to_string_pretty(&json).unwrap().replace('\n', "\r\n"))),
        1 => prop::collection::vec(any::<u8>(), 0..40).prop_map(OwnedValue::Bytes),
    ]
}

fn written(value: Value<'_>) -> Vec<u8> {
    let mut out = b"before".to_vec();
    write_value(value, &mut out);
    assert!(out.starts_with(b"before"));
    out.split_off(6)
}

fn parsed(json: &[u8]) -> Json {
    serde_json::from_slice(json).unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(json)))
}

fn encoded(shape: Shape, columns: &[Column], rows: &[Vec<OwnedValue>]) -> Vec<u8> {
    let mut encoder = RowEncoder::new(shape, columns);
    let mut out = Vec::new();
    encoder.start(&mut out);
    for row in rows {
        encoder.begin_row(&mut out);
        row.iter().for_each(|value| encoder.value(value.lend(), &mut out));
        encoder.end_row(&mut out);
    }
    encoder.finish(&mut out);
    out
}

/// Columns of different names, and rows with one value per column.
fn rows() -> impl Strategy<Value = (Vec<Column>, Vec<Vec<OwnedValue>>)> {
    (0..5_usize).prop_flat_map(|width| {
        let column = |name| Column { name, type_name: String::new(), kind: ColumnKind::Text };
        let names = prop::collection::hash_set(text(), width);
        let columns = names.prop_map(move |names| names.into_iter().map(column).collect());
        let row = prop::collection::vec(value(), width);
        (columns, prop::collection::vec(row, 0..5))
    })
}

/// The rows as objects, from values that are written and parsed one by one.
fn objects(columns: &[Column], rows: &[Vec<OwnedValue>]) -> Vec<Json> {
    let member =
        |(column, value): (&Column, &OwnedValue)| (column.name.clone(), parsed(&written(value.lend())));
    rows.iter().map(|row| Json::Object(columns.iter().zip(row).map(member).collect())).collect()
}

/// The rows with options as objects: each value is written separately, and NULLs are left out.
fn objects_by_options(options: ValueOptions, columns: &[Column], rows: &[Vec<OwnedValue>]) -> Vec<Json> {
    let member = |(column, value): (&Column, &OwnedValue)| {
        let mut out = Vec::new();
        options.write(value.lend(), &mut out);
        let is_null = matches!(value, OwnedValue::Plain(Value::Null));
        (!is_null).then(|| (column.name.clone(), parsed(&out)))
    };
    rows.iter().map(|row| Json::Object(columns.iter().zip(row).filter_map(member).collect())).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn rows_by_options_hold_the_values_by_options((columns, rows) in rows()) {
        let (numbers, bytes, nulls) = (Numbers::String, BytesForm::Base64, Nulls::Omit);
        let options = ValueOptions { numbers, bytes, nulls, ..ValueOptions::DEFAULT };
        let mut encoder = OptionsEncoder::new(Shape::Array, options, &columns);
        let mut out = Vec::new();
        encoder.start(&mut out);
        for row in &rows {
            encoder.begin_row(&mut out);
            row.iter().for_each(|value| encoder.value(value.lend(), &mut out));
            encoder.end_row(&mut out);
        }
        encoder.finish(&mut out);
        prop_assert_eq!(parsed(&out), Json::Array(objects_by_options(options, &columns, &rows)));
    }

    #[test]
    fn every_value_is_json(value in value()) {
        parsed(&written(value.lend()));
    }

    /// `serde_json` escapes the same bytes in the same way.
    #[test]
    fn a_string_is_what_serde_json_writes(text in text()) {
        prop_assert_eq!(written(Value::Text(&text)), serde_json::to_vec(&text).unwrap());
    }

    #[test]
    fn a_float_reads_back_as_itself(bits in any::<u64>()) {
        let float = f64::from_bits(bits);
        let text = String::from_utf8(written(Value::Float(float))).unwrap();
        let back: f64 = text.trim_matches('"').parse().unwrap();
        prop_assert!(back.to_bits() == bits || (back.is_nan() && float.is_nan()), "{} {}", float, text);
    }

    #[test]
    fn a_short_float_reads_back_as_itself(bits in any::<u32>()) {
        let float = f32::from_bits(bits);
        let text = String::from_utf8(written(Value::Float4(float))).unwrap();
        let back: f32 = text.trim_matches('"').parse().unwrap();
        prop_assert!(back.to_bits() == bits || (back.is_nan() && float.is_nan()), "{} {}", float, text);
    }

    /// A value never begins an element or ends an attribute, so the tags are always the same.
    #[test]
    fn an_html_row_has_only_its_own_tags(name in text(), text in text(), number in any::<i64>()) {
        let column = |name: &str| Column {
            name: name.to_owned(), type_name: String::new(), kind: ColumnKind::Text,
        };
        let url = vec![UrlPart::Text(format!("./{name}/")), UrlPart::Column(1)];
        let link = RowLink { url, text: LinkText::Label(name.clone()) };
        let columns = [column(&name), column("n")];
        let mut encoder = HtmlEncoder::new(HtmlLayout::Fields, &columns, &[link], Vec::new());
        let mut out = Vec::new();
        encoder.begin_row(&mut out);
        encoder.value(Value::Text(&text), &mut out);
        encoder.value(Value::Int(number), &mut out);
        encoder.end_row(&mut out);
        let html = String::from_utf8(out).unwrap();
        let escaped = |text: &str| {
            let text = text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
            let text = text.replace('"', "&#34;").replace('\'', "&#39;");
            text.replace('\r', "&#13;").replace('\0', "\u{fffd}")
        };
        let (name, text) = (escaped(&name), escaped(&text));
        prop_assert_eq!(html, format!(
            "<tr><th scope=\"row\">{name}<td>{text}</tr>\n<tr><th scope=\"row\">n<td class=\"n\">{number} \
             <a href=\"./{name}/{number}\">{name}</a></tr>\n"
        ));
    }

    #[test]
    fn an_array_holds_its_rows((columns, rows) in rows()) {
        prop_assert_eq!(parsed(&encoded(Shape::Array, &columns, &rows)), Json::from(objects(&columns, &rows)));
    }

    #[test]
    fn each_line_holds_a_row((columns, rows) in rows()) {
        let lines = encoded(Shape::Lines, &columns, &rows);
        prop_assert!(!lines.contains(&b'\r'));
        let lines: Vec<_> = lines.split_inclusive(|&byte| byte == b'\n').map(parsed).collect();
        prop_assert_eq!(lines, objects(&columns, &rows));
    }

    #[test]
    fn an_object_is_its_row((columns, rows) in rows()) {
        let expected = objects(&columns, &rows).into_iter().next().unwrap_or(Json::Null);
        prop_assert_eq!(parsed(&encoded(Shape::Object, &columns, &rows)), expected);
    }

    #[test]
    fn a_scalar_is_its_first_value((columns, rows) in rows()) {
        let first = rows.first().and_then(|row| row.first());
        let expected = first.map_or(Json::Null, |value| parsed(&written(value.lend())));
        prop_assert_eq!(parsed(&encoded(Shape::Scalar, &columns, &rows)), expected);
    }

    /// If every string of a template is escaped, it's one literal: the body itself.
    #[test]
    fn a_template_without_placeholders_is_its_body(body in json()) {
        let template = Template::new(&escape_dollars(body.clone())).unwrap();
        let [Segment::Literal(literal)] = template.segments.as_slice() else { panic!("{template:?}") };
        prop_assert_eq!(&parsed(literal), &body);
        prop_assert_eq!(literal, &serde_json::to_vec(&body).unwrap());
    }

    /// Replacing each placeholder by `"$name"` gives the template's body again.
    #[test]
    fn a_template_is_its_body(body in json(), name in "[a-zA-Z_][a-zA-Z0-9_]{0,8}", key in text()) {
        let placeholder = Json::from(format!("${name}"));
        let body = Json::from(vec![placeholder.clone(), escape_dollars(body), serde_json::json!({key: placeholder})]);
        let template = Template::new(&body).unwrap();
        prop_assert_eq!(template.placeholders().collect::<Vec<_>>(), [&name, &name]);
        let literals = template.segments.iter().filter(|segment| matches!(segment, Segment::Literal(_)));
        prop_assert_eq!(literals.count(), 3);
        let joined: Vec<u8> = template.segments.iter().flat_map(restored).collect();
        prop_assert_eq!(parsed(&joined), unescape_dollars(body));
    }
}

fn restored(segment: &Segment) -> Vec<u8> {
    match segment {
        Segment::Literal(bytes) => bytes.clone(),
        Segment::Placeholder(name) => format!("\"${name}\"").into_bytes(),
        Segment::Next => b"\"$next\"".to_vec(),
        Segment::Count(None) => b"\"$count\"".to_vec(),
        Segment::Count(Some(name)) => format!("\"$count({name})\"").into_bytes(),
        Segment::Digest => b"\"$digest\"".to_vec(),
    }
}

/// `body` with each string that begins with `$` escaped.
fn escape_dollars(body: Json) -> Json {
    map_strings(body, &|string| if string.starts_with('$') { format!("${string}") } else { string })
}

fn unescape_dollars(body: Json) -> Json {
    map_strings(body, &|string| string.strip_prefix("$$").map_or(string.clone(), |rest| format!("${rest}")))
}

fn map_strings(json: Json, map: &dyn Fn(String) -> String) -> Json {
    match json {
        Json::String(string) => Json::String(map(string)),
        Json::Array(elements) => elements.into_iter().map(|element| map_strings(element, map)).collect(),
        Json::Object(members) => {
            Json::Object(members.into_iter().map(|(key, member)| (key, map_strings(member, map))).collect())
        }
        leaf => leaf,
    }
}

/// The word, the block and the overlapping tail of the scan meet at different offsets.
#[test]
fn every_special_byte_at_every_offset() {
    for length in 0..24 {
        for offset in 0..=length {
            for byte in (0..0x20).chain([b'"', b'\\', b'/', 0x7f]) {
                let mut text = "x".repeat(length);
                text.insert(offset, char::from(byte));
                assert_eq!(written(Value::Text(&text)), serde_json::to_vec(&text).unwrap(), "{text:?}");
            }
        }
    }
}

/// An encoder remembers the day of the last timestamp. It must not change the output.
#[test]
fn the_remembered_day_changes_nothing() {
    const DAY: i64 = 86_400_000_000;
    let days = [0, 1, 0, -1, 19_782, 19_783, -719_162, -719_163, 2_932_896, 2_932_897, 19_782];
    let around = days.into_iter().flat_map(|day| [day * DAY, day * DAY + DAY - 1, day * DAY - 1]);
    let columns = [Column { name: "t".to_owned(), type_name: String::new(), kind: ColumnKind::Text }];
    let mut encoder = RowEncoder::new(Shape::Lines, &columns);
    for micros in around.chain([i64::MIN, i64::MIN + 1, i64::MAX - 1, i64::MAX, 0]) {
        for value in [Value::Timestamp(micros), Value::TimestampTz(micros)] {
            let mut out = Vec::new();
            encoder.begin_row(&mut out);
            encoder.value(value, &mut out);
            assert_eq!(out.strip_prefix(b"{\"t\":").unwrap(), written(value));
        }
    }
}
