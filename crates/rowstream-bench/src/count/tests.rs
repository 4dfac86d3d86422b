//! Every cut of a body gives the same count as a plain parser of the whole body.

use proptest::prelude::*;
use proptest::sample::Index;
use rowstream_encode::{ArrowEncoder, Column, ColumnKind, RowWriter, Value as Sql};
use serde_json::Value;

use super::*;

const JSON: &str = "application/json";
const NDJSON: &str = "application/x-ndjson";
const CSV: &str = "text/csv; charset=utf-8";
const SSE: &str = "text/event-stream";
const SEQUENCE: &str = "application/json-seq";
const ARROW: &str = "application/vnd.apache.arrow.stream";

fn count(media_type: &str, pieces: &[&[u8]]) -> Document {
    let mut counter = Counter::for_content_type(media_type);
    for piece in pieces {
        let before = counter.rows();
        counter.feed(piece);
        assert!(counter.rows() >= before, "a row is never taken back");
    }
    counter.finish()
}

fn whole(media_type: &str, text: &str) -> Document {
    count(media_type, &[text.as_bytes()])
}

/// Cuts the bytes at these places.
fn cut<'a>(bytes: &'a (impl AsRef<[u8]> + ?Sized), places: &[Index]) -> Vec<&'a [u8]> {
    let bytes = bytes.as_ref();
    let mut places: Vec<usize> = places.iter().map(|place| place.index(bytes.len() + 1)).collect();
    places.sort_unstable();
    let mut pieces = Vec::new();
    let mut from = 0;
    for at in places {
        pieces.push(&bytes[from..at]);
        from = at;
    }
    pieces.push(&bytes[from..]);
    pieces
}

fn cuts() -> impl Strategy<Value = Vec<Index>> {
    prop::collection::vec(any::<Index>(), 0..12)
}

/// Strings with all characters that a counter could confuse with structure.
fn text() -> impl Strategy<Value = String> {
    prop_oneof![r#"[\[\]{}",\\ a:]{0,12}"#, r"\PC{0,90}", "\\\\{0,70}", Just("a\nb\r\n\"".to_owned())]
}

fn json() -> impl Strategy<Value = Value> {
    let scalar = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        text().prop_map(Value::from),
    ];
    scalar.prop_recursive(5, 60, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
            prop::collection::vec((text(), inner), 0..6)
                .prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

/// The rule on a parsed document: elements of the outermost arrays, `None` if there's no array.
fn elements(value: &Value) -> Option<u64> {
    match value {
        Value::Array(elements) => Some(elements.len() as u64),
        Value::Object(members) => members.values().filter_map(elements).reduce(|a, b| a + b),
        _ => None,
    }
}

/// A complete stream of batches with these numbers of rows: an integer and a text each.
fn arrow(batches: &[u8]) -> Vec<u8> {
    let column = |name: &str, kind| Column { name: name.to_owned(), type_name: String::new(), kind };
    let mut encoder = ArrowEncoder::new(&[column("n", ColumnKind::Int64), column("t", ColumnKind::Text)]);
    let mut out = Vec::new();
    encoder.start(&mut out);
    for rows in batches {
        for row in 0..*rows {
            encoder.begin_row(&mut out);
            encoder.value(Sql::Int(row.into()), &mut out);
            encoder.value(Sql::Text("\u{7f}"), &mut out);
            encoder.end_row(&mut out);
        }
        encoder.flush(&mut out);
    }
    encoder.finish(&mut out);
    out
}

proptest! {
    #[test]
    fn arrow_is_counted_by_its_batches(batches in prop::collection::vec(any::<u8>(), 0..9), cuts in cuts()) {
        let expected = Document { rows: batches.iter().map(|rows| u64::from(*rows)).sum(), end: End::Proven };
        prop_assert_eq!(count(ARROW, &cut(&arrow(&batches), &cuts)), expected);
    }

    #[test]
    fn arrow_that_breaks_off_is_never_whole(
        batches in prop::collection::vec(any::<u8>(), 0..4), at: Index, cuts in cuts(),
    ) {
        let stream = arrow(&batches);
        let part = &stream[..at.index(stream.len())];
        prop_assert_eq!(count(ARROW, &cut(part, &cuts)).end, End::Broken);
    }

    #[test]
    fn any_bytes_can_be_counted_as_arrow(
        batches in prop::collection::vec(0..5_u8, 0..4),
        altered in prop::collection::vec((any::<Index>(), any::<u8>()), 1..9),
    ) {
        let mut stream = arrow(&batches);
        for (at, byte) in altered {
            let at = at.index(stream.len());
            stream[at] = byte;
        }
        count(ARROW, &[&stream]);
    }

    #[test]
    fn json_is_counted_as_serde_json_sees_it(value in json(), pretty: bool, cuts in cuts()) {
        let text = if pretty { serde_json::to_string_pretty(&value) } else { serde_json::to_string(&value) };
        let text = format!(" {}\n", text.unwrap());
        let expected = Document { rows: elements(&value).unwrap_or(1), end: End::Proven };
        prop_assert_eq!(count(JSON, &cut(&text, &cuts)), expected);
    }

    #[test]
    fn json_that_breaks_off_is_never_whole(value in json(), at: Index, cuts in cuts()) {
        prop_assume!(value.is_array() || value.is_object());
        let text = value.to_string();
        let Some(part) = text.get(..at.index(text.len())) else { return Ok(()) };
        prop_assert_eq!(count(JSON, &cut(part, &cuts)).end, End::Broken);
    }

    #[test]
    fn ndjson_is_counted_by_its_lines(
        lines in prop::collection::vec(prop_oneof![json().prop_map(|row| row.to_string()), Just(String::new())], 0..9),
        end in prop_oneof![Just("\n"), Just("\r\n")],
        tail in prop_oneof![Just(""), Just("{"), Just("\r")],
        cuts in cuts(),
    ) {
        let text: String = lines.iter().map(|line| format!("{line}{end}")).collect::<String>() + tail;
        let rows = lines.iter().filter(|line| !line.is_empty()).count() as u64;
        let expected = Document { rows, end: End::possible_if(tail.is_empty()) };
        prop_assert_eq!(count(NDJSON, &cut(&text, &cuts)), expected);
    }

    #[test]
    fn csv_is_counted_as_the_csv_crate_reads_it(
        records in prop::collection::vec(prop::collection::vec("[a,\"\r\n ]{0,40}", 1..4), 0..9),
        feed: bool,
        last_end: bool,
        cuts in cuts(),
    ) {
        let end = if feed { ::csv::Terminator::Any(b'\n') } else { ::csv::Terminator::CRLF };
        let mut writer = ::csv::WriterBuilder::new().flexible(true).terminator(end).from_writer(Vec::new());
        for record in &records {
            writer.write_record(record).unwrap();
        }
        let mut text = String::from_utf8(writer.into_inner().unwrap()).unwrap();
        if !last_end {
            text.truncate(text.trim_end_matches(['\r', '\n']).len());
        }
        for (media_type, header) in [("text/csv;header=absent", false), (CSV, true)] {
            let mut reader = ::csv::ReaderBuilder::new().flexible(true).has_headers(header).from_reader(text.as_bytes());
            let rows = reader.byte_records().count() as u64;
            prop_assert_eq!(count(media_type, &cut(&text, &cuts)), Document { rows, end: End::Possible });
        }
    }

    #[test]
    fn events_are_counted_as_the_standard_dispatches_them(
        lines in prop::collection::vec(
            prop::sample::select(vec!["", "", "data: x", "data", "data:", "database: x", ": alive", "id: 7", "dat"]), 0..20),
        end in prop::sample::select(vec!["\n", "\r\n", "\r"]),
        cuts in cuts(),
    ) {
        let text: String = lines.iter().map(|line| format!("{line}{end}")).collect();
        let (mut rows, mut data) = (0, false);
        for line in &lines {
            match line.split(':').next() {
                Some("data") => data = true,
                Some("") if line.is_empty() => rows += u64::from(std::mem::take(&mut data)),
                _ => {}
            }
        }
        let expected = Document { rows, end: End::possible_if(!data) };
        prop_assert_eq!(count(SSE, &cut(&text, &cuts)), expected);
    }

    #[test]
    fn sequences_are_counted_by_their_separators(
        rows in prop::collection::vec(json(), 0..9), pretty: bool, cuts in cuts(),
    ) {
        let write = |row: &Value| if pretty { serde_json::to_string_pretty(row) } else { serde_json::to_string(row) };
        let text: String = rows.iter().map(|row| format!("\x1e{}\n", write(row).unwrap())).collect();
        let expected = Document { rows: rows.len() as u64, end: End::Possible };
        prop_assert_eq!(count(SEQUENCE, &cut(&text, &cuts)), expected);
    }
}

#[test]
fn json_rows() {
    for (text, rows) in [
        ("[]", 0),
        (" [ ] ", 0),
        ("[1]", 1),
        ("[1,[2,3],{\"a\":[4,5]}]", 3),
        (r#"{"_embedded":{"articles":[{"a":1},{"a":2}]},"total":2}"#, 2),
        (r#"{"a":[1,2],"b":{"c":[]},"d":[[3,4]]}"#, 3),
        (r#"{"a":1}"#, 1),
        ("{}", 1),
        ("null", 1),
        ("\"[1,2]\"", 1),
    ] {
        assert_eq!(whole(JSON, text), Document { rows, end: End::Proven.of_scalar(text) }, "{text}");
    }
}

impl End {
    /// A scalar without a blank after it has no end mark.
    fn of_scalar(self, text: &str) -> Self {
        if text.starts_with(['[', '{', ' ']) { self } else { Self::Possible }
    }
}

#[test]
fn json_that_is_not_one_closed_document() {
    for text in [
        "",
        " ",
        "[1]]",
        "[1][2]",
        "[1] x",
        "{\"a\":[1}",
        "{\"a\":1]",
        "[}",
        "]",
        "1 2",
        "\"a",
        "Internal error",
    ] {
        assert_eq!(whole(JSON, text).end, End::Broken, "{text}");
    }
}

#[test]
fn arrow_ends_once() {
    let whole = arrow(&[3]);
    assert_eq!(count(ARROW, &[&whole]), Document { rows: 3, end: End::Proven });
    for more in [&[0][..], &whole[whole.len() - 8..], &whole] {
        assert_eq!(count(ARROW, &[&whole, more]), Document { rows: 3, end: End::Broken });
    }
    for other in [
        &b""[..],
        b"[]",
        b"ARROW1\0\0\xff\xff\xff\xff",
        &[0xff; 8],
        &[0xff, 0xff, 0xff, 0xff, 8, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1],
    ] {
        assert_eq!(count(ARROW, &[other]), Document { rows: 0, end: End::Broken }, "{other:?}");
    }
}

/// The time to the first row is taken once the row is complete, not when the next one begins.
#[test]
fn a_row_counts_when_it_is_closed() {
    let mut counter = Counter::for_content_type(JSON);
    for (piece, rows) in [
        ("{\"events\":[", 0),
        ("{\"a\":", 0),
        ("[1]}", 1),
        (",", 1),
        ("7", 1),
        (",", 2),
        ("8", 2),
        ("]", 3),
        ("}", 3),
    ] {
        counter.feed(piece.as_bytes());
        assert_eq!(counter.rows(), rows, "{piece}");
    }
}

/// The records of a framed response counted as rows.
#[test]
fn records_are_not_rows() {
    let record = |tag: &str, name: &str| format!("{{\"$rowstream\":\"{tag}\",\"{name}\":{{\"rows\":1}}}}\n");
    let texts = [record("2a", "columns"), "{\"n\":1}\n".to_owned(), record("2b", "end"), record("2a", "end")];
    let event = |text: &String| match text.contains("2a") {
        true => format!("event: rowstream\ndata: {text}\n"),
        false => format!("id: 1\ndata: {text}\n"),
    };
    for (media_type, body) in [
        ("application/x-ndjson; profile=framed", texts.concat()),
        ("application/json-seq; profile=framed", texts.iter().map(|text| format!("\x1e{text}")).collect()),
        ("text/event-stream", texts.iter().map(event).collect()),
    ] {
        for step in 1..=body.len() {
            let mut counter = Counter::of_response(media_type, "2a");
            body.as_bytes().chunks(step).for_each(|piece| counter.feed(piece));
            let expected = Document { rows: 2, end: End::Possible };
            assert_eq!(counter.finish(), expected, "{media_type}, in pieces of {step}");
        }
        assert_eq!(whole(media_type, &body).rows, 4, "{media_type} without a tag");
    }
}

#[test]
fn ends_without_a_mark() {
    for (media_type, text, rows, end) in [
        (NDJSON, "", 0, End::Possible),
        (NDJSON, "{}\n{}", 1, End::Broken),
        (CSV, "a\n\"1\n", 0, End::Broken),
        (CSV, "a\n\n\n1\n", 1, End::Possible),
        (SSE, "data: 1\n\ndata: 2\n", 1, End::Broken),
        (SEQUENCE, "\x1e1\n\x1e\x1e2\n", 2, End::Possible),
        (SEQUENCE, "\x1e1\n\x1e2", 1, End::Broken),
        (SEQUENCE, "\x1e1\x1e2\n", 1, End::Broken),
        (SEQUENCE, "1\n", 1, End::Broken),
        ("text/html", "<p>", 0, End::Possible),
    ] {
        assert_eq!(whole(media_type, text), Document { rows, end }, "{media_type} {text:?}");
    }
}
