//! A copied row. It's read for the values in requests, and written with the replies to its calls.

use rowstream_core::Error;
use rowstream_core::params::ParamValue;
use rowstream_encode::{RowWriter, Value, ValueOptions, write_value};
use rowstream_upstream::by_column::{ColumnCounter, ColumnWriter};

use super::window::{HeldRow, Replies};
use crate::database::Layout;
use crate::endpoint::{PerRowCalls, ReplyForm, reply_columns};

/// The copy of a row, with the replies to its calls.
pub(crate) struct EnrichedRow<'a> {
    pub(super) layout: &'a mut Layout,
    pub(super) held: &'a HeldRow,
    pub(super) replies: &'a Replies,
    pub(super) plan: &'a PerRowCalls,
    /// The replies are inserted before this column.
    pub(super) at: usize,
}

impl EnrichedRow<'_> {
    /// See [`crate::database::Row::encode`].
    ///
    /// # Errors
    /// Those of the row itself.
    pub(crate) fn encode(self, encoder: &mut impl RowWriter, out: &mut Vec<u8>) -> Result<(), Error> {
        let Self { layout, held, replies, plan, at } = self;
        let inserting = ReplyInserter { encoder, held, replies, plan, at };
        layout.row(&held.data).encode(&mut ColumnCounter::new(inserting), out)
    }
}

/// Passes on the values of a row, and inserts those of its replies.
struct ReplyInserter<'a> {
    encoder: &'a mut dyn RowWriter,
    held: &'a HeldRow,
    replies: &'a Replies,
    plan: &'a PerRowCalls,
    at: usize,
}

impl ReplyInserter<'_> {
    fn insert(&mut self, out: &mut Vec<u8>) {
        for (call, slot) in self.plan.calls.iter().zip(&self.held.calls) {
            let outcome = slot.and_then(|slot| self.replies.get(slot));
            match (self.plan.form, outcome) {
                (ReplyForm::Enrich, outcome) => {
                    let said = outcome.filter(|outcome| outcome.error.is_none());
                    let body = said.and_then(|outcome| outcome.body.as_ref());
                    self.encoder.value(body.map_or(Value::Null, |body| body.value()), out);
                }
                (ReplyForm::Each(_), Some(outcome)) => outcome.write(call.on_error, self.encoder, out),
                (ReplyForm::Each(_), None) => {
                    reply_columns(call.on_error).for_each(|_| self.encoder.value(Value::Null, out));
                }
            }
        }
    }
}

impl ColumnWriter for ReplyInserter<'_> {
    fn begin(&mut self, out: &mut Vec<u8>) {
        self.encoder.begin_row(out);
    }

    fn value(&mut self, column: usize, value: Value<'_>, out: &mut Vec<u8>) {
        if column == self.at {
            self.insert(out);
        }
        self.encoder.value(value, out);
    }

    fn end(&mut self, columns: usize, out: &mut Vec<u8>) {
        if columns == self.at {
            self.insert(out);
        }
        self.encoder.end_row(out);
    }

    fn options(&self) -> ValueOptions {
        self.encoder.options()
    }
}

/// Keeps the texts of the columns that occur in requests.
pub(super) struct ColumnKeeper<'a> {
    /// These columns in their order, each with the index for its text.
    pub(super) wanted: std::slice::Iter<'a, (usize, usize)>,
    pub(super) values: &'a mut [ParamValue],
}

impl ColumnWriter for ColumnKeeper<'_> {
    fn begin(&mut self, _out: &mut Vec<u8>) {}

    fn value(&mut self, column: usize, value: Value<'_>, _out: &mut Vec<u8>) {
        if let Some(&(wanted, index)) = self.wanted.as_slice().first()
            && wanted == column
        {
            self.wanted.next();
            self.values[index] = text(value);
        }
    }

    fn end(&mut self, _columns: usize, _out: &mut Vec<u8>) {}
}

/// A value as text for a request: its JSON, without the quotes of strings.
fn text(value: Value<'_>) -> ParamValue {
    ParamValue::Text(match value {
        Value::Null => return ParamValue::Null,
        Value::Text(text) | Value::Number(text) | Value::Json(text) => text.to_owned(),
        // The only other type with an escape: the backslash of `\x`.
        Value::Bytes(_) => plain(value).replacen("\\\\", "\\", 1),
        _ => plain(value),
    })
}

fn plain(value: Value<'_>) -> String {
    let mut json = Vec::new();
    write_value(value, &mut json);
    let text = String::from_utf8_lossy(&json);
    text.trim_matches('"').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_stand_in_requests_as_they_read() {
        for (value, expected) in [
            (Value::Text("a\"b\\"), "a\"b\\"),
            (Value::Text("\"\""), "\"\""),
            (Value::Int(-7), "-7"),
            (Value::Int4(7), "7"),
            (Value::Number("1.50"), "1.50"),
            (Value::Float(0.5), "0.5"),
            (Value::Float(f64::NAN), "NaN"),
            (Value::Float4(0.1), "0.1"),
            (Value::Bool(true), "true"),
            (Value::Json("{\"a\": 1}"), "{\"a\": 1}"),
            (Value::Bytes(&[0, 255]), "\\x00ff"),
            (Value::Date(0), "1970-01-01"),
            (Value::Time(1_000_000), "00:00:01"),
            (Value::TimestampTz(0), "1970-01-01T00:00:00Z"),
            (Value::Uuid([17; 16]), "11111111-1111-1111-1111-111111111111"),
        ] {
            assert_eq!(text(value), ParamValue::Text(expected.to_owned()), "{value:?}");
        }
        assert_eq!(text(Value::Null), ParamValue::Null);
    }
}
