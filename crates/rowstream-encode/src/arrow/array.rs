//! The values of one column of the open batch, in the layout of a record batch's body.
//!
//! The layouts are the specification's ("Physical Memory Layout"): first a validity bit for each
//! row, then the values. Values of variable length have their end offsets first. Integers are
//! little-endian, and bits start with the lowest.

use std::ops::RangeInclusive;

use super::decimal;
use crate::{ScalarKind, Value, float, hex, json};

/// A day in microseconds: 24:00:00, a valid time in SQL but not in Arrow.
pub(super) const DAY: i64 = 86_400_000_000;
/// The memory that a column keeps after a batch is written. The memory of a huge row must not stay.
pub(super) const KEPT: usize = 64 * 1024;
/// The integers that a float represents exactly.
const EXACT_IN_FLOAT: RangeInclusive<i64> = -(1 << 53)..=1 << 53;
/// The most digits of a decimal in 128 bits.
pub(super) const MAX_DIGITS_128: u8 = 38;

/// The layout of the values of a kind.
#[derive(Debug, Clone, Copy)]
enum Layout {
    Bits,
    /// Values of this many bytes.
    Fixed(usize),
    Variable,
}

impl Layout {
    fn of(kind: ScalarKind) -> Self {
        match kind {
            ScalarKind::Bool => Self::Bits,
            ScalarKind::Int16 => Self::Fixed(2),
            ScalarKind::Int32 | ScalarKind::Float32 | ScalarKind::Date => Self::Fixed(4),
            ScalarKind::Int64
            | ScalarKind::Float64
            | ScalarKind::Time
            | ScalarKind::Timestamp
            | ScalarKind::TimestampTz => Self::Fixed(8),
            ScalarKind::Decimal { precision: ..=MAX_DIGITS_128, .. } | ScalarKind::Uuid => Self::Fixed(16),
            ScalarKind::Decimal { .. } => Self::Fixed(32),
            ScalarKind::Text | ScalarKind::Json | ScalarKind::Bytes => Self::Variable,
        }
    }
}

/// The values of one column, or the elements of its lists.
#[derive(Debug)]
pub(super) struct Array {
    kind: ScalarKind,
    layout: Layout,
    nulls: usize,
    validity: Vec<u8>,
    /// The end offset of each value, after a 0. Only for the variable layout.
    ends: Vec<u8>,
    values: Vec<u8>,
}

impl Array {
    pub(super) fn new(kind: ScalarKind) -> Self {
        let layout = Layout::of(kind);
        let mut array =
            Self { kind, layout, nulls: 0, validity: Vec::new(), ends: Vec::new(), values: Vec::new() };
        array.clear();
        array
    }

    /// Removes all values.
    pub(super) fn clear(&mut self) {
        self.nulls = 0;
        shrink([&mut self.validity, &mut self.ends, &mut self.values]);
        if matches!(self.layout, Layout::Variable) {
            self.ends.extend_from_slice(&0_i32.to_le_bytes());
        }
    }

    /// Removes the values of the rows from `row` on, of `rows`, and returns them as a column of their own.
    pub(super) fn split_off(&mut self, row: usize, rows: usize) -> Self {
        let mut tail = Self::new(self.kind);
        tail.validity = split_bits(&mut self.validity, row, rows);
        tail.nulls = unset_bits(&tail.validity, rows - row);
        self.nulls -= tail.nulls;
        match self.layout {
            Layout::Bits => tail.values = split_bits(&mut self.values, row, rows),
            Layout::Fixed(width) => tail.values = self.values.split_off(row * width),
            Layout::Variable => {
                let start;
                (start, tail.ends) = split_ends(&mut self.ends, row);
                tail.values = self.values.split_off(start);
            }
        }
        tail
    }

    /// The number of NULLs.
    pub(super) fn nulls(&self) -> usize {
        self.nulls
    }

    /// The memory of the values.
    #[inline]
    pub(super) fn bytes(&self) -> usize {
        self.validity.len() + self.ends.len() + self.values.len()
    }

    /// The size of the values, of `rows` rows, in bits. A row adds the same number in any position, and
    /// the 0 before the end offsets isn't counted.
    #[inline]
    pub(super) fn bits(&self, rows: usize) -> usize {
        match self.layout {
            Layout::Bits => 2 * rows,
            Layout::Fixed(_) => rows + 8 * self.values.len(),
            Layout::Variable => rows + 8 * (self.ends.len() - size_of::<i32>() + self.values.len()),
        }
    }

    /// The buffers in the order of the format. The first is empty if no value is NULL.
    pub(super) fn buffers(&self) -> impl Iterator<Item = &[u8]> {
        let validity = if self.nulls == 0 { &[][..] } else { &self.validity };
        let ends = matches!(self.layout, Layout::Variable).then_some(&self.ends[..]);
        [Some(validity), ends, Some(&self.values[..])].into_iter().flatten()
    }

    /// Adds the value of row `row`, counted in the batch from 0. Returns false if it doesn't fit
    /// the column's type; then no more values may be added.
    #[inline]
    pub(super) fn push(&mut self, row: usize, value: Value<'_>) -> bool {
        push_bit(&mut self.validity, row, !matches!(value, Value::Null));
        match (self.kind, value) {
            (_, Value::Null) => self.push_null(row),
            (ScalarKind::Int64, Value::Int(int) | Value::Int4(int)) => self.push_fixed(int.to_le_bytes()),
            (ScalarKind::Int32, Value::Int(int) | Value::Int4(int)) => {
                self.push_fitting(i32::try_from(int).map(i32::to_le_bytes))
            }
            (ScalarKind::Int16, Value::Int(int) | Value::Int4(int)) => {
                self.push_fitting(i16::try_from(int).map(i16::to_le_bytes))
            }
            (ScalarKind::Text, Value::Text(text) | Value::Number(text) | Value::Json(text))
            | (ScalarKind::Json, Value::Json(text)) => self.push_bytes(text.as_bytes()),
            (ScalarKind::Bytes, Value::Bytes(bytes)) => self.push_bytes(bytes),
            (ScalarKind::TimestampTz, Value::TimestampTz(micros))
            | (ScalarKind::Timestamp, Value::Timestamp(micros)) => {
                !matches!(micros, i64::MIN | i64::MAX) && self.push_fixed(micros.to_le_bytes())
            }
            (ScalarKind::Date, Value::Date(days)) => {
                !matches!(days, i32::MIN | i32::MAX) && self.push_fixed(days.to_le_bytes())
            }
            (ScalarKind::Time, Value::Time(micros)) => {
                (0..DAY).contains(&micros) && self.push_fixed(micros.to_le_bytes())
            }
            (ScalarKind::Bool, Value::Bool(bit)) => {
                push_bit(&mut self.values, row, bit);
                true
            }
            (ScalarKind::Float64, Value::Float(float) | Value::Real(float)) => {
                self.push_fixed(float.to_le_bytes())
            }
            (ScalarKind::Float64, Value::Int(int) | Value::Int4(int)) => {
                EXACT_IN_FLOAT.contains(&int) && self.push_fixed((int as f64).to_le_bytes())
            }
            (ScalarKind::Float32, Value::Float4(float)) => self.push_fixed(float.to_le_bytes()),
            (ScalarKind::Uuid, Value::Uuid(uuid)) => self.push_fixed(uuid),
            (ScalarKind::Decimal { precision, scale }, value) => self.push_decimal(value, precision, scale),
            (ScalarKind::Text, value) => {
                write_plain(value, &mut self.values);
                self.end_value()
            }
            (ScalarKind::Json, value) => {
                json::write_value(value, &mut self.values);
                self.end_value()
            }
            _ => false,
        }
    }

    /// A NULL uses the space of a value of fixed width, or is empty in a variable layout.
    fn push_null(&mut self, row: usize) -> bool {
        self.nulls += 1;
        match self.layout {
            Layout::Bits => push_bit(&mut self.values, row, false),
            Layout::Fixed(width) => self.values.resize(self.values.len() + width, 0),
            Layout::Variable => return self.end_value(),
        }
        true
    }

    #[inline]
    fn push_fixed<const N: usize>(&mut self, value: [u8; N]) -> bool {
        self.values.extend_from_slice(&value);
        true
    }

    fn push_fitting<const N: usize, E>(&mut self, value: Result<[u8; N], E>) -> bool {
        value.is_ok_and(|value| self.push_fixed(value))
    }

    #[inline]
    fn push_bytes(&mut self, bytes: &[u8]) -> bool {
        self.values.extend_from_slice(bytes);
        self.end_value()
    }

    /// Ends the appended value. Returns false beyond 2 GiB, because the offsets of Arrow's plain
    /// text have 32 bits.
    #[inline]
    fn end_value(&mut self) -> bool {
        let end = i32::try_from(self.values.len());
        end.is_ok_and(|end| {
            self.ends.extend_from_slice(&end.to_le_bytes());
            true
        })
    }

    fn push_decimal(&mut self, value: Value<'_>, precision: u8, scale: u8) -> bool {
        let units = match value {
            Value::Number(text) => decimal::units(text, precision, scale),
            Value::Int(int) | Value::Int4(int) => {
                decimal::units(itoa::Buffer::new().format(int), precision, scale)
            }
            Value::Float(float) | Value::Real(float) if float.is_finite() => {
                let mut text = Vec::new();
                float::write_f64(float, &mut text);
                std::str::from_utf8(&text).ok().and_then(|text| decimal::units(text, precision, scale))
            }
            _ => None,
        };
        let Some(units) = units else { return false };
        let width = if precision > MAX_DIGITS_128 { 32 } else { 16 };
        self.values.extend_from_slice(&units[..width]);
        true
    }
}

/// Empties these buffers.
pub(super) fn shrink<const N: usize>(buffers: [&mut Vec<u8>; N]) {
    for buffer in buffers {
        buffer.clear();
        buffer.shrink_to(KEPT);
    }
}

/// Appends the bit of row `row`.
#[inline]
pub(super) fn push_bit(bits: &mut Vec<u8>, row: usize, bit: bool) {
    let mask = u8::from(bit) << (row % 8);
    match bits.last_mut() {
        Some(last) if !row.is_multiple_of(8) => *last |= mask,
        _ => bits.push(mask),
    }
}

/// The bit of row `row`.
fn bit(bits: &[u8], row: usize) -> bool {
    bits[row / 8] >> (row % 8) & 1 == 1
}

/// The number of rows, of `rows`, whose bit isn't set.
pub(super) fn unset_bits(bits: &[u8], rows: usize) -> usize {
    (0..rows).filter(|&row| !bit(bits, row)).count()
}

/// Removes the bits of the rows from `row` on, of `rows`.
pub(super) fn split_bits(bits: &mut Vec<u8>, row: usize, rows: usize) -> Vec<u8> {
    let mut tail = Vec::new();
    (row..rows).for_each(|other| push_bit(&mut tail, other - row, bit(bits, other)));
    bits.truncate(row.div_ceil(8));
    tail
}

/// Removes the end offsets of the rows from `row` on. Returns the offset at which the first of them
/// starts, and their offsets from there, after a 0.
pub(super) fn split_ends(ends: &mut Vec<u8>, row: usize) -> (usize, Vec<u8>) {
    let offsets = ends.as_chunks::<4>().0[row..].iter().map(|&end| i32::from_le_bytes(end));
    let start = offsets.clone().next().unwrap_or_default();
    let tail = offsets.flat_map(|end| (end - start).to_le_bytes()).collect();
    ends.truncate(4 * (row + 1));
    (start.cast_unsigned() as usize, tail)
}

/// A value of any kind as CSV writes it without quotes.
fn write_plain(value: Value<'_>, out: &mut Vec<u8>) {
    if let Value::Bytes(bytes) = value {
        out.extend_from_slice(b"\\x");
        return hex::write_hex(bytes, out);
    }
    let start = out.len();
    json::write_value(value, out);
    // JSON strings here are times, UUIDs or floats like NaN, so they have no escapes.
    if out[start] == b'"' {
        out.remove(start);
        out.pop();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_huge_value_does_not_stay_in_memory() {
        let mut array = Array::new(ScalarKind::Bytes);
        assert!(array.push(0, Value::Bytes(&[7; 1 << 20])));
        assert!(array.bytes() > 1 << 20);
        array.clear();
        assert!(array.values.capacity() <= KEPT && array.ends.len() == 4, "{}", array.values.capacity());
    }

    #[test]
    fn bits_fill_bytes_from_the_lowest() {
        let mut bits = Vec::new();
        for row in 0..10 {
            push_bit(&mut bits, row, matches!(row, 0 | 7 | 9));
        }
        assert_eq!(bits, [0b1000_0001, 0b10]);
    }
}
