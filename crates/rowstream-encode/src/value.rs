//! The values that sources lend and formats write.

use crate::{Intervals, ValueOptions};

/// One column of a statement's result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Column {
    /// The name of the value in a row.
    pub name: String,
    /// The type as the database names it (`timestamptz`, `DECIMAL`), for people to read.
    pub type_name: String,
    /// The kind of its values, for formats with typed columns.
    pub kind: ColumnKind,
}

impl Column {
    /// A column whose type has no name.
    pub fn new(name: impl Into<String>, kind: ColumnKind) -> Self {
        Self { name: name.into(), type_name: String::new(), kind }
    }

    /// The name of its type for clients: the `format` or the `type` that JSON Schema and OpenAPI
    /// have for its values. Options don't change it, except that only ISO intervals are a
    /// `duration`.
    pub fn type_word(&self, options: ValueOptions) -> &'static str {
        match self.kind {
            ColumnKind::Bool => "boolean",
            ColumnKind::Int16 => "int16",
            ColumnKind::Int32 => "int32",
            ColumnKind::Int64 => "int64",
            ColumnKind::Float32 => "float",
            ColumnKind::Float64 => "double",
            ColumnKind::Decimal { .. } | ColumnKind::Number => "decimal",
            ColumnKind::Text if self.type_name == "interval" && options.intervals == Intervals::Iso => {
                "duration"
            }
            ColumnKind::Text => "string",
            // PostgreSQL names its array types like this.
            ColumnKind::Json if self.type_name.ends_with("[]") => "array",
            ColumnKind::List(_) => "array",
            ColumnKind::Json => "json",
            ColumnKind::Bytes => "binary",
            ColumnKind::Date => "date",
            ColumnKind::Time => "time-local",
            ColumnKind::Timestamp => "date-time-local",
            ColumnKind::TimestampTz => "date-time",
            ColumnKind::Uuid => "uuid",
            ColumnKind::Any => "any",
        }
    }
}

/// The kind of a column's values, as its source promises. Formats without typed columns ignore it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ColumnKind {
    /// Booleans.
    Bool,
    /// Integers of 16 bits.
    Int16,
    /// Integers of 32 bits.
    Int32,
    /// Integers of 64 bits.
    Int64,
    /// Floats of 32 bits.
    Float32,
    /// Floats of 64 bits.
    Float64,
    /// Exact decimals; see [`ColumnKind::decimal`].
    Decimal {
        /// The largest number of digits, at most [`ColumnKind::MAX_PRECISION`].
        precision: u8,
        /// The number of digits after the point.
        scale: u8,
    },
    /// Texts.
    Text,
    /// JSON documents.
    Json,
    /// Raw bytes.
    Bytes,
    /// Dates.
    Date,
    /// Times of day.
    Time,
    /// Timestamps without a time zone.
    Timestamp,
    /// Instants.
    TimestampTz,
    /// UUIDs.
    Uuid,
    /// Lists of values of this kind or NULLs: JSON arrays, whose elements are written as the kind's
    /// values are. An array in an array isn't in a list.
    List(ScalarKind),
    /// Exact decimals with any number of digits.
    Number,
    /// Values of any kind, because the source promises nothing.
    #[default]
    Any,
}

impl ColumnKind {
    /// The largest number of decimal digits. More don't fit Arrow's widest type.
    pub const MAX_PRECISION: u8 = 76;

    /// The decimals of SQL's `numeric(precision, scale)`, or [`ColumnKind::Number`] if they have
    /// too many digits.
    ///
    /// SQL also has scales below zero (`numeric(3, -2)` counts hundreds) and beyond the precision
    /// (the maximum of `numeric(2, 4)` is 0.0099), which few other systems have. For these we
    /// increase the precision until all digits fit.
    pub fn decimal(precision: u16, scale: i16) -> Self {
        let (places, zeros) = (scale.max(0).unsigned_abs(), scale.min(0).unsigned_abs());
        let precision = u8::try_from(precision.saturating_add(zeros).max(places)).unwrap_or(u8::MAX);
        match (precision, u8::try_from(places)) {
            (1..=Self::MAX_PRECISION, Ok(scale)) => Self::Decimal { precision, scale },
            _ => Self::Number,
        }
    }
}

/// The kinds of values that have a type of their own in formats with typed columns.
///
/// It's a type apart from [`ColumnKind`] because a list has no lists. And if a match over each value
/// had more kinds, the compiler would merge its arms, and write a value of fixed width with a call of
/// memcpy instead of a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ScalarKind {
    /// See [`ColumnKind::Bool`].
    Bool,
    /// See [`ColumnKind::Int16`].
    Int16,
    /// See [`ColumnKind::Int32`].
    Int32,
    /// See [`ColumnKind::Int64`].
    Int64,
    /// See [`ColumnKind::Float32`].
    Float32,
    /// See [`ColumnKind::Float64`].
    Float64,
    /// See [`ColumnKind::Decimal`].
    Decimal {
        /// The largest number of digits.
        precision: u8,
        /// The number of digits after the point.
        scale: u8,
    },
    /// Texts, and all values without a type.
    Text,
    /// See [`ColumnKind::Json`].
    Json,
    /// See [`ColumnKind::Bytes`].
    Bytes,
    /// See [`ColumnKind::Date`].
    Date,
    /// See [`ColumnKind::Time`].
    Time,
    /// See [`ColumnKind::Timestamp`].
    Timestamp,
    /// See [`ColumnKind::TimestampTz`].
    TimestampTz,
    /// See [`ColumnKind::Uuid`].
    Uuid,
}

/// Values without a type are texts, and lists are JSON.
impl From<ColumnKind> for ScalarKind {
    fn from(kind: ColumnKind) -> Self {
        match kind {
            ColumnKind::Bool => Self::Bool,
            ColumnKind::Int16 => Self::Int16,
            ColumnKind::Int32 => Self::Int32,
            ColumnKind::Int64 => Self::Int64,
            ColumnKind::Float32 => Self::Float32,
            ColumnKind::Float64 => Self::Float64,
            ColumnKind::Decimal { precision, scale } => Self::Decimal { precision, scale },
            ColumnKind::Text | ColumnKind::Number | ColumnKind::Any => Self::Text,
            ColumnKind::Json | ColumnKind::List(_) => Self::Json,
            ColumnKind::Bytes => Self::Bytes,
            ColumnKind::Date => Self::Date,
            ColumnKind::Time => Self::Time,
            ColumnKind::Timestamp => Self::Timestamp,
            ColumnKind::TimestampTz => Self::TimestampTz,
            ColumnKind::Uuid => Self::Uuid,
        }
    }
}

impl From<ScalarKind> for ColumnKind {
    fn from(kind: ScalarKind) -> Self {
        match kind {
            ScalarKind::Bool => Self::Bool,
            ScalarKind::Int16 => Self::Int16,
            ScalarKind::Int32 => Self::Int32,
            ScalarKind::Int64 => Self::Int64,
            ScalarKind::Float32 => Self::Float32,
            ScalarKind::Float64 => Self::Float64,
            ScalarKind::Decimal { precision, scale } => Self::Decimal { precision, scale },
            ScalarKind::Text => Self::Text,
            ScalarKind::Json => Self::Json,
            ScalarKind::Bytes => Self::Bytes,
            ScalarKind::Date => Self::Date,
            ScalarKind::Time => Self::Time,
            ScalarKind::Timestamp => Self::Timestamp,
            ScalarKind::TimestampTz => Self::TimestampTz,
            ScalarKind::Uuid => Self::Uuid,
        }
    }
}

/// One value of a row, lent by its source until the caller requests the next one.
///
/// Two kinds of values are separate variants only if some format writes them differently. No
/// decimal ever passes through a float.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Value<'a> {
    /// SQL NULL.
    Null,
    /// A boolean.
    Bool(bool),
    /// A 64-bit integer. Readers whose numbers are floats may not represent it exactly.
    Int(i64),
    /// An integer of up to 32 bits. It's a separate variant because every reader represents it
    /// exactly. It's widened, so that the same code writes both.
    Int4(i64),
    /// A 64-bit float. NaN and infinities are written as strings.
    Float(f64),
    /// A 32-bit float. It's a separate variant because its shortest decimal form is shorter than
    /// that of its 64-bit value.
    Float4(f32),
    /// A decimal that its database stores as a 64-bit float (SQLite's `DECIMAL`). It's written as
    /// that float, or as a string if decimals are strings.
    Real(f64),
    /// An exact decimal as text that is a valid JSON number (`-12.50`, `1e+20`).
    Number(&'a str),
    /// Text.
    Text(&'a str),
    /// A JSON document, written verbatim.
    Json(&'a str),
    /// Raw bytes, written in PostgreSQL's hex form (`\x6869`) by default.
    Bytes(&'a [u8]),
    /// Days since 1970-01-01 in the proleptic Gregorian calendar; `i32::MAX` and `i32::MIN` are the
    /// infinities.
    Date(i32),
    /// Microseconds since midnight, 0 ..= 86,400,000,000 (24:00:00 is a time in SQL).
    Time(i64),
    /// Microseconds since 1970-01-01T00:00:00 without a time zone; `i64::MAX` and `i64::MIN` are
    /// the infinities.
    Timestamp(i64),
    /// Microseconds since 1970-01-01T00:00:00Z; `i64::MAX` and `i64::MIN` are the infinities.
    TimestampTz(i64),
    /// A UUID, big-endian as in RFC 9562.
    Uuid([u8; 16]),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_digit_of_a_decimal_has_a_place() {
        for (precision, scale, expected) in [
            (10, 2, (10, 2)),
            (1, 0, (1, 0)),
            (76, 76, (76, 76)),
            (3, -2, (5, 0)),
            (2, 4, (4, 4)),
            (70, -6, (76, 0)),
        ] {
            let (precision_of_kind, scale_of_kind) = expected;
            let kind = ColumnKind::Decimal { precision: precision_of_kind, scale: scale_of_kind };
            assert_eq!(ColumnKind::decimal(precision, scale), kind, "{precision}, {scale}");
        }
        for (precision, scale) in [(0, 0), (77, 0), (70, -7), (1000, 1000), (76, 77), (u16::MAX, i16::MIN)] {
            assert_eq!(ColumnKind::decimal(precision, scale), ColumnKind::Number, "{precision}, {scale}");
        }
    }
}
