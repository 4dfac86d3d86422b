//! Texts that a JSON writer can get wrong, through a column of each database and back through
//! another JSON parser.
//!
//! The classes and the documents of `testdata/strings.ndjson` are those that test JSON parsers (RFC
//! 8259, section 7; Unicode's noncharacters; surrogates through astral characters; and characters
//! that are line breaks in JavaScript but not in JSON). Each is tested alone, at every position of
//! a text that's scanned in words and blocks, and next to each other. Lone surrogates are
//! impossible, because neither database accepts them.

#![expect(clippy::unwrap_used, reason = "the helpers of tests are tests, too")]

use std::future::poll_fn;

use crate::support::{TestDb, corpus};
use rowstream::config::Config;
use rowstream::source::Source;
use rowstream::stream::RowStream;
use rowstream_encode::Format;
use serde_json::Value as Json;

/// Characters that some writer, parser or terminal treats specially.
fn special() -> Vec<char> {
    let controls = ('\u{1}'..='\u{1f}').chain('\u{7f}'..='\u{9f}');
    let ascii = "\"\\/<>&'{}[]:,;% \u{20}aAu0".chars();
    let spaces = "\u{a0}\u{ad}\u{1680}\u{180e}\u{200b}\u{200c}\u{200d}\u{2028}\u{2029}\u{202e}\u{2066}\u{3000}\u{feff}";
    // The limits of UTF-8's lengths of two, three and four bytes, and of the surrogates.
    let ends = "\u{80}\u{7ff}\u{800}\u{d7ff}\u{e000}\u{ffff}\u{10000}\u{10ffff}";
    let others = "é\u{301}ß日本\u{1f600}\u{1f468}\u{1d11e}\u{fffd}";
    let noncharacters = ('\u{fdd0}'..='\u{fdef}').chain(
        (0..=16).flat_map(|plane| [0xfffe, 0xffff].map(|end| char::from_u32(plane << 16 | end).unwrap())),
    );
    controls
        .chain(ascii)
        .chain(spaces.chars())
        .chain(ends.chars())
        .chain(others.chars())
        .chain(noncharacters)
        .collect()
}

/// Every text at least once, beginning with those of `testdata/strings.ndjson`.
fn texts() -> Vec<String> {
    let special = special();
    let mut texts = corpus::strings();
    texts.extend(special.iter().map(char::to_string));
    for pair in special.windows(2) {
        texts.push(pair.iter().collect());
        texts.push(pair.iter().rev().collect());
    }
    // 32 bytes are written at once, 64 are scanned together, and eight at the end.
    for length in [1, 3, 7, 15, 16, 31, 32, 33, 63, 64, 65, 130] {
        for (index, &c) in special.iter().enumerate() {
            let at = index % (length + 1);
            texts.push("x".repeat(at) + &c.to_string() + &"x".repeat(length - at));
        }
    }
    texts.push(special.iter().collect());
    texts.push(special.iter().collect::<String>().repeat(300));
    texts
}

/// The column `t` of a statement's rows, read back by a JSON parser.
async fn read_back(url: &str, sql: &str, format: Format) -> Vec<Json> {
    let config = Config::single(url, sql).unwrap();
    let source = Source::open(&config.sources[0]).unwrap();
    let mut stream = RowStream::open(&config.endpoints[0], &source, format, Vec::new()).await.unwrap();
    let mut body = Vec::new();
    while let Some(chunk) = poll_fn(|cx| stream.poll_chunk(cx)).await {
        body.extend_from_slice(&chunk.unwrap());
    }
    let member = |mut row: Json| row["t"].take();
    match format {
        Format::Ndjson => {
            let lines = body.split_inclusive(|&byte| byte == b'\n');
            lines.map(|line| member(serde_json::from_slice(line).unwrap())).collect()
        }
        _ => serde_json::from_slice::<Vec<Json>>(&body).unwrap().into_iter().map(member).collect(),
    }
}

/// Compares all texts, and reports the first difference.
fn agree(ours: &[Json], texts: &[String], how: &str) {
    assert_eq!(ours.len(), texts.len(), "{how}");
    for (ours, text) in ours.iter().zip(texts) {
        assert_eq!(ours.as_str(), Some(text.as_str()), "{how}");
    }
}

#[tokio::test]
async fn through_postgres() {
    let db = TestDb::new().await;
    db.execute("create table texts (n serial, t text); create type held as (t text, ts text[])").await;
    let mut texts = texts();
    // PostgreSQL doesn't accept them, but SQLite does.
    texts.retain(|text| !text.contains('\0'));
    let insert =
        "insert into texts (t) select t from unnest($1::text[]) with ordinality as u(t, n) order by n";
    db.client().await.execute(insert, &[&texts]).await.unwrap();
    for format in [Format::Ndjson, Format::Json] {
        let ours = read_back(&db.url(), "select t from texts order by n", format).await;
        agree(&ours, &texts, format.name());
    }
    let arrays =
        read_back(&db.url(), "select array[t, null, t] as t from texts order by n", Format::Ndjson).await;
    let elements: Vec<Json> = arrays.iter().map(|array| array[2].clone()).collect();
    agree(&elements, &texts, "in an array");
    let sql = "select array[row(t, array[t])::held] as t from texts order by n";
    let held = read_back(&db.url(), sql, Format::Ndjson).await;
    let attributes: Vec<Json> = held.iter().map(|array| array[0]["t"].clone()).collect();
    agree(&attributes, &texts, "in a composite in an array");
    let elements: Vec<Json> = held.iter().map(|array| array[0]["ts"][0].clone()).collect();
    agree(&elements, &texts, "in an array in a composite in an array");
}

#[tokio::test]
async fn through_sqlite() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("texts.db");
    let connection = rusqlite::Connection::open(&file).unwrap();
    connection.execute_batch("create table texts (n integer primary key, t text); begin").unwrap();
    let texts = texts();
    for text in &texts {
        connection.execute("insert into texts (t) values (?1)", [text]).unwrap();
    }
    connection.execute_batch("commit").unwrap();
    let url = format!("sqlite:{}", file.display());
    for format in [Format::Ndjson, Format::Json] {
        let ours = read_back(&url, "select t from texts order by n", format).await;
        agree(&ours, &texts, format.name());
    }
}
