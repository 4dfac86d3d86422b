//! The data of the cases, made by arithmetic: the same on every machine.

use rowstream_encode::{Column, ColumnKind, Value};

/// A row that lives as long as the program.
pub(crate) type Row = Vec<Value<'static>>;

/// Rows, or values, of a case: so many that a branch predictor does not learn them by heart, as it
/// does some hundred.
pub(crate) const ITEMS: usize = 4096;

/// The columns of `select`ed names.
pub(crate) fn columns(names: &[&str]) -> Vec<Column> {
    let column =
        |name: &&str| Column { name: (*name).to_owned(), type_name: String::new(), kind: ColumnKind::Text };
    names.iter().map(column).collect()
}

/// Numbers that look like chance, and are none: the high halves of Knuth's linear congruential
/// generator (MMIX).
pub(crate) fn numbers() -> impl Iterator<Item = u64> {
    let next =
        |x: &u64| Some(x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407));
    std::iter::successors(Some(1), next).skip(1).map(|x| x ^ (x >> 32))
}

pub(crate) const EVENT_NAMES: [&str; 4] = ["eventNo", "paymentStatus", "statusChangeReason", "statusChanged"];

pub(crate) const EVENT_KINDS: [ColumnKind; 4] =
    [ColumnKind::Int64, ColumnKind::Text, ColumnKind::Text, ColumnKind::TimestampTz];

/// The rows of `examples/events` from event number 500,000 on, by the arithmetic of its
/// `data/postgres.sql`.
pub(crate) fn events() -> Vec<Row> {
    (500_000..).take(ITEMS).map(event).collect()
}

fn event(i: i64) -> Row {
    let a = (i * i * 3 + i * 7919 + 5) % 999_983;
    let b = (i * i * 7 + i * 104_729 + 11) % 999_979;
    let c = (i * i * 13 + i * 1_299_709 + 17) % 999_961;
    let (status, reasons) = status(a % 100);
    let reason =
        reasons.get(b as usize % reasons.len().max(1)).map_or(Value::Null, |reason| Value::Text(reason));
    let changed = (1_704_067_200 + i * 31 + c % 31) * 1_000_000 + b;
    vec![Value::Int(i), Value::Text(status), reason, Value::TimestampTz(changed)]
}

fn status(share: i64) -> (&'static str, &'static [&'static str]) {
    match share {
        0..=33 => ("SETTLED", &[]),
        34..=52 => ("AUTHORISED", &[]),
        53..=64 => ("CAPTURED", &[]),
        65..=71 => ("INITIATED", &[]),
        72..=85 => ("DECLINED", DECLINED),
        86..=92 => ("REFUNDED", &["goods returned", "price adjusted", "doppelt bezahlt"]),
        93..=97 => ("CANCELLED", &["cancelled by customer", "customer's session timed out"]),
        _ => ("CHARGED_BACK", &["cardholder dispute", "goods not received"]),
    }
}

const DECLINED: &[&str] = &[
    "insufficient funds",
    "card expired",
    "issuer's answer: \"do not honour\"",
    "suspected fraud",
    "Limit überschritten",
];

pub(crate) const AUTHOR_NAMES: [&str; 11] = [
    "id",
    "firstName",
    "lastName",
    "email",
    "born",
    "country",
    "active",
    "books",
    "royalties",
    "motto",
    "joined",
];

pub(crate) const AUTHOR_KINDS: [ColumnKind; 11] = [
    ColumnKind::Int64,
    ColumnKind::Text,
    ColumnKind::Text,
    ColumnKind::Text,
    ColumnKind::Date,
    ColumnKind::Text,
    ColumnKind::Bool,
    ColumnKind::Int64,
    ColumnKind::Decimal { precision: 10, scale: 2 },
    ColumnKind::Text,
    ColumnKind::TimestampTz,
];

/// Rows like those of `examples/authors`: eleven columns of six types, with NULLs, quotes and more
/// than ASCII.
pub(crate) fn authors() -> Vec<Row> {
    const FIRST: [&str; 6] = ["Anna", "James", "Jürgen", "Mei-Ling", "Дмитрий", "明子"];
    const LAST: [&str; 6] = ["Smith", "Müller", "O'Brien", "van der Berg", "Papadopoulos", "山田"];
    const EMAIL: [&str; 3] =
        ["anna.smith17@example.org", "mei-ling.vanderberg93211@universidad.example.es", "j@a.de"];
    const COUNTRY: [&str; 4] = ["US", "DE", "JP", "ZA"];
    const ROYALTIES: [&str; 4] = ["0", "17.5", "8999.99", "1234.05"];
    const MOTTOS: [&str; 4] = [
        "Write \"drunk\", edit sober.",
        "It's only words, and words are all I have.",
        "Schreib, was du weißt – alles andere ist naïveté.",
        "One line for the reader,\none for the drawer.",
    ];
    let author = |(id, x): (i64, u64)| {
        let pick = |texts: &[&'static str], bit: u32| texts[(x >> bit) as usize % texts.len()];
        vec![
            Value::Int(id),
            Value::Text(pick(&FIRST, 0)),
            Value::Text(pick(&LAST, 4)),
            if x.is_multiple_of(23) { Value::Null } else { Value::Text(pick(&EMAIL, 8)) },
            if x.is_multiple_of(41) { Value::Null } else { Value::Date((x % 27_000) as i32 - 14_109) },
            Value::Text(pick(&COUNTRY, 12)),
            Value::Bool(!x.is_multiple_of(7)),
            Value::Int((x % 32) as i64),
            Value::Number(pick(&ROYALTIES, 16)),
            if x.is_multiple_of(8) { Value::Text(pick(&MOTTOS, 20)) } else { Value::Null },
            Value::TimestampTz((1_262_304_000 + id * 4800) * 1_000_000 + (x % 1_000_000) as i64),
        ]
    };
    (50_000..).zip(numbers()).take(ITEMS).map(author).collect()
}
