//! The keys of nested statements' rows. We compare the JSON values of a key, because users see
//! those.

use rowstream_core::Error;
use rowstream_encode::{RowWriter, Value, ValueOptions, write_value};
use rowstream_upstream::by_column::{ColumnCounter, ColumnWriter};

use super::cursors::Cursors;
use crate::database::Row;

/// The values of a row's columns that belong to keys.
#[derive(Debug, Default)]
pub(super) struct KeyText {
    /// The values as JSON, one after the other. NULL has no bytes; any JSON value has some.
    text: Vec<u8>,
    /// The offset of each value's end.
    ends: Vec<usize>,
}

impl KeyText {
    /// True for the key of no row, which has no values.
    pub(super) fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    #[inline]
    fn value(&self, index: usize) -> &[u8] {
        let start = index.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.text[start..self.ends[index]]
    }

    /// True if this value is NULL.
    pub(super) fn is_null(&self, index: usize) -> bool {
        self.value(index).is_empty()
    }

    /// True if the values of each pair, one of this key and one of `other`, are equal. NULL equals
    /// nothing.
    #[inline]
    pub(super) fn is_same(&self, other: &Self, mut pairs: impl Iterator<Item = (usize, usize)>) -> bool {
        pairs.all(|(own, others)| !self.is_null(own) && self.value(own) == other.value(others))
    }

    fn clear(&mut self) {
        self.text.clear();
        self.ends.clear();
    }

    fn push(&mut self, value: Value<'_>) {
        match value {
            Value::Null => {}
            // Numbers are the only type whose values have several spellings: 1.50 is 1.5.
            Value::Number(text) => self.text.extend_from_slice(shortest(text).as_bytes()),
            value => write_value(value, &mut self.text),
        }
        self.ends.push(self.text.len());
    }
}

/// A decimal without the zeros at the end of its fraction.
fn shortest(decimal: &str) -> &str {
    if !decimal.contains('.') || decimal.contains(['e', 'E']) {
        return decimal;
    }
    decimal.trim_end_matches('0').trim_end_matches('.')
}

/// A row that is encoded and whose key is collected.
pub(super) struct KeyedRow<'a> {
    pub(super) row: Row<'a>,
    /// The number of columns to encode. Those behind them only belong to the key.
    pub(super) shown: usize,
    /// The columns of the key, in their order in the row.
    pub(super) columns: &'a [usize],
    /// Receives the key.
    pub(super) key: &'a mut KeyText,
    /// Receive the key as a cursor, if the response has any.
    pub(super) cursors: Option<&'a mut Cursors>,
}

impl KeyedRow<'_> {
    /// Encodes the row with `encoder`.
    ///
    /// # Errors
    /// A value can't be decoded, or can't be part of a cursor.
    pub(super) fn encode(self, encoder: &mut impl RowWriter, out: &mut Vec<u8>) -> Result<(), Error> {
        let Self { row, shown, columns, key, cursors } = self;
        match cursors {
            None => row.encode(&mut ColumnCounter::new(KeyedEncoder { encoder, shown, columns, key }), out),
            Some(cursors) => cursors.gather_with(encoder, out, |encoder, out| {
                let shown = usize::MAX;
                row.encode(&mut ColumnCounter::new(KeyedEncoder { encoder, shown, columns, key }), out)
            }),
        }
    }
}

/// Encodes a row, and collects its key while it does so.
struct KeyedEncoder<'a, E> {
    encoder: &'a mut E,
    shown: usize,
    columns: &'a [usize],
    key: &'a mut KeyText,
}

impl<E: RowWriter> ColumnWriter for KeyedEncoder<'_, E> {
    fn begin(&mut self, out: &mut Vec<u8>) {
        self.key.clear();
        self.encoder.begin_row(out);
    }

    #[inline]
    fn value(&mut self, column: usize, value: Value<'_>, out: &mut Vec<u8>) {
        if self.columns.get(self.key.ends.len()) == Some(&column) {
            match value {
                // In a path, NULL is a value like any other.
                Value::Null if column >= self.shown => self.key.push(Value::Text("\0")),
                value => self.key.push(value),
            }
        }
        if column < self.shown {
            self.encoder.value(value, out);
        }
    }

    fn end(&mut self, _columns: usize, out: &mut Vec<u8>) {
        self.encoder.end_row(out);
    }

    fn options(&self) -> ValueOptions {
        self.encoder.options()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(values: &[Value<'_>]) -> KeyText {
        let mut key = KeyText::default();
        values.iter().for_each(|&value| key.push(value));
        key
    }

    #[test]
    fn values_are_the_same_where_their_json_is() {
        for (one, other, same) in [
            (Value::Int(1), Value::Int(1), true),
            (Value::Int(1), Value::Int(11), false),
            (Value::Int(1), Value::Text("1"), false),
            (Value::Int(1), Value::Number("1.00"), true),
            (Value::Int(1), Value::Float(1.0), true),
            (Value::Int(100), Value::Number("100"), true),
            (Value::Number("1.50"), Value::Number("1.5"), true),
            (Value::Number("1e10"), Value::Number("1e1"), false),
            (Value::Number("0.00"), Value::Int(0), true),
            (Value::Text(""), Value::Text(""), true),
            (Value::Text("null"), Value::Null, false),
            (Value::Text(""), Value::Null, false),
            (Value::Null, Value::Null, false),
            (Value::Date(0), Value::Text("1970-01-01"), true),
        ] {
            assert_eq!(key(&[one]).is_same(&key(&[other]), [(0, 0)].into_iter()), same, "{one:?}, {other:?}");
            assert_eq!(key(&[other]).is_same(&key(&[one]), [(0, 0)].into_iter()), same, "{other:?}, {one:?}");
        }
    }

    #[test]
    fn each_pair_counts() {
        let one = key(&[Value::Int(1), Value::Text("a"), Value::Null]);
        let other = key(&[Value::Text("a"), Value::Int(1)]);
        assert!(one.is_same(&other, [(0, 1), (1, 0)].into_iter()));
        assert!(!one.is_same(&other, [(0, 0), (1, 1)].into_iter()));
        assert!(!one.is_same(&other, [(0, 1), (2, 0)].into_iter()));
        assert!(one.is_null(2) && !one.is_null(1) && !one.is_empty() && KeyText::default().is_empty());
    }
}
