//! MySQL's rows of the binary protocol: bytes from the wire in, bytes of the body out.

use rowstream_encode::{RowEncoder, Shape, Value};
use rowstream_mysql::Row;

use crate::{Case, Pass, data};

/// Numbers of types (MySQL, `enum_field_types`).
const TIMESTAMP: u8 = 7;
const LONGLONG: u8 = 8;
const BLOB: u8 = 252;
const VAR_STRING: u8 = 253;

/// Rows of a pass that aren't events.
const ROWS: usize = 1000;

/// `utf8mb4_general_ci`.
const UTF8MB4: u8 = 45;

/// Bits before the first column's bit in a row's NULL bitmap.
const NULL_BITS_BEFORE: usize = 2;

const SECOND: i64 = 1_000_000;
const DAY: i64 = 86_400 * SECOND;

pub(crate) fn cases() -> Vec<Case> {
    vec![Case::new("mysql: events, lines", events), Case::new("mysql: MariaDB's json, 40 bytes", documents)]
}

fn events() -> Pass {
    let rows = data::events().iter().map(|row| binary_row(row)).collect();
    let definitions = [LONGLONG, VAR_STRING, VAR_STRING, TIMESTAMP].map(|kind| definition(kind, b""));
    encoded(&data::EVENT_NAMES, &definitions, rows)
}

fn documents() -> Pass {
    let mut row = vec![0; 2];
    push_field(br#"{"a": [1, 2, 3], "b": {"c": "text here"}}"#, &mut row);
    encoded(&["document"], &[definition(BLOB, b"\x01\x04json")], vec![row; ROWS])
}

/// The only call site of the decoder, because the compiler inlines it.
fn encoded(names: &[&str], definitions: &[Vec<u8>], rows: Vec<Vec<u8>>) -> Pass {
    let columns = data::columns(names);
    let mut encoder = RowEncoder::new(Shape::Lines, &columns);
    let mut encode = Row::encode_apart(columns, definitions);
    Pass::new(rows.len(), move |out| {
        for row in &rows {
            encode(row, &mut encoder, out).expect("the row is as the server sends it");
        }
    })
}

/// A column in the server's definition, without the six names of its origin, and with MariaDB's
/// `metadata`.
fn definition(kind: u8, metadata: &[u8]) -> Vec<u8> {
    let mut body = vec![0; 6];
    push_field(metadata, &mut body);
    push_field(&[UTF8MB4, 0, 0, 0, 0, 0, kind, 0, 0, 0, 0, 0], &mut body);
    body
}

/// A row in the server's form.
fn binary_row(row: &[Value<'_>]) -> Vec<u8> {
    let mut data = vec![0; 1 + (row.len() + NULL_BITS_BEFORE).div_ceil(8)];
    for (index, value) in row.iter().enumerate() {
        match value {
            Value::Int(int) => data.extend_from_slice(&int.to_le_bytes()),
            Value::Text(text) => push_field(text.as_bytes(), &mut data),
            Value::TimestampTz(micros) => push_field(&timestamp(*micros), &mut data),
            Value::Null => {
                let bit = index + NULL_BITS_BEFORE;
                data[1 + bit / 8] |= 1 << (bit % 8);
            }
            other => unreachable!("an event has no {other:?}"),
        }
    }
    data
}

/// All fields are shorter than 251 bytes, so each length is one byte.
fn push_field(field: &[u8], data: &mut Vec<u8>) {
    data.push(field.len() as u8);
    data.extend_from_slice(field);
}

/// Year, month, day, hour, minute, second and microseconds, by Howard Hinnant's
/// `civil_from_days`.
fn timestamp(micros: i64) -> [u8; 11] {
    let (days, rest) = (micros.div_euclid(DAY), micros.rem_euclid(DAY));
    let since = days + 719_468;
    let (era, day_of_era) = (since.div_euclid(146_097), since.rem_euclid(146_097));
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    let seconds = rest / SECOND;
    let [low, high] = (year as u16).to_le_bytes();
    let [a, b, c, d] = ((rest % SECOND) as u32).to_le_bytes();
    let [hour, minute, second] = [seconds / 3600, seconds / 60 % 60, seconds % 60].map(|part| part as u8);
    [low, high, month as u8, day as u8, hour, minute, second, a, b, c, d]
}
