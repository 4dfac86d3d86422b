//! PostgreSQL's DataRows: bytes from the wire in, bytes of the body out.

use rowstream_encode::{RowEncoder, Shape, Value};
use rowstream_postgres::Row;

use crate::{Case, Pass, data};

/// OIDs of built-in types (PostgreSQL, `pg_type.dat`).
const INT8: u32 = 20;
const TEXT: u32 = 25;
const TIMESTAMPTZ: u32 = 1184;
const TEXT_ARRAY: u32 = 1009;

/// PostgreSQL counts microseconds from 2000-01-01.
const EPOCH_MICROS: i64 = 10_957 * 86_400_000_000;

pub(crate) fn cases() -> Vec<Case> {
    vec![Case::new("postgres: events, lines", events), Case::new("postgres: text[], lines", texts)]
}

/// Arrays of four texts, one of them quoted.
fn texts() -> Pass {
    let columns = data::columns(&["names"]);
    let row = data_row(&[Value::Text(r#"{AUTHORISED,NULL,"two words",é}"#)]);
    let mut encoder = RowEncoder::new(Shape::Lines, &columns);
    let mut encode = Row::encode_apart(columns, &[TEXT_ARRAY]);
    Pass::new(data::ITEMS, move |out| {
        for _ in 0..data::ITEMS {
            encode(&row, &mut encoder, out).expect("the row is as the server sends it");
        }
    })
}

fn events() -> Pass {
    let columns = data::columns(&data::EVENT_NAMES);
    let rows: Vec<Vec<u8>> = data::events().iter().map(|row| data_row(row)).collect();
    let mut encoder = RowEncoder::new(Shape::Lines, &columns);
    let mut encode = Row::encode_apart(columns, &[INT8, TEXT, TEXT, TIMESTAMPTZ]);
    Pass::new(rows.len(), move |out| {
        for row in &rows {
            encode(row, &mut encoder, out).expect("the row is as the server sends it");
        }
    })
}

/// A row in the server's form: integers and instants in the binary format, texts unchanged.
fn data_row(row: &[Value<'_>]) -> Vec<u8> {
    let mut data = (row.len() as u16).to_be_bytes().to_vec();
    for value in row {
        match value {
            Value::Int(int) => push_field(&int.to_be_bytes(), &mut data),
            Value::TimestampTz(micros) => push_field(&(micros - EPOCH_MICROS).to_be_bytes(), &mut data),
            Value::Text(text) => push_field(text.as_bytes(), &mut data),
            Value::Null => data.extend_from_slice(&(-1_i32).to_be_bytes()),
            other => unreachable!("an event has no {other:?}"),
        }
    }
    data
}

fn push_field(field: &[u8], data: &mut Vec<u8>) {
    data.extend_from_slice(&(field.len() as i32).to_be_bytes());
    data.extend_from_slice(field);
}
