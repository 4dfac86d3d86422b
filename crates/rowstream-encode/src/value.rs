//! The values that sources lend and formats write.

/// One column of a statement's result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Column {
    /// The name under which the value stands in a row.
    pub name: String,
    /// The type as the database names it (`timestamptz`, `DECIMAL`), for people to read.
    pub type_name: String,
}

/// One value of a row, lent by its source until the next value is asked for.
///
/// There is a variant exactly where some format writes it differently. No decimal ever passes through a float.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Value<'a> {
    /// SQL NULL.
    Null,
    /// A boolean.
    Bool(bool),
    /// An integer of 64 bits, which readers whose numbers are floats do not take exactly.
    Int(i64),
    /// An integer of up to 32 bits, kept apart because every reader takes it exactly. It is widened, so that one piece of code
    /// writes both.
    Int4(i64),
    /// A 64-bit float; NaN and infinities are written as strings.
    Float(f64),
    /// A 32-bit float, kept apart because its shortest decimal form is shorter than that of its 64-bit value.
    Float4(f32),
    /// An exact decimal as text that is a valid JSON number (`-12.50`, `1e+20`).
    Number(&'a str),
    /// Text.
    Text(&'a str),
    /// A JSON document, written verbatim.
    Json(&'a str),
    /// Raw bytes, written as PostgreSQL's hex form (`\x6869`) unless an option says otherwise.
    Bytes(&'a [u8]),
    /// Days since 1970-01-01 in the proleptic Gregorian calendar; `i32::MAX` and `i32::MIN` are the infinities.
    Date(i32),
    /// Microseconds since midnight, 0 ..= 86,400,000,000 (24:00:00 is a time in SQL).
    Time(i64),
    /// Microseconds since 1970-01-01T00:00:00 without a time zone; `i64::MAX` and `i64::MIN` are the infinities.
    Timestamp(i64),
    /// Microseconds since 1970-01-01T00:00:00Z; `i64::MAX` and `i64::MIN` are the infinities.
    TimestampTz(i64),
    /// A UUID, big-endian as in RFC 9562.
    Uuid([u8; 16]),
}
