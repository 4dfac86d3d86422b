//! Values that contain others, converted from their text to JSON: arrays, composites, and the
//! values in them.
//!
//! In text form, a value within another is its own text, quoted if necessary. So we read one kind
//! of text after the other, each with the form of its type. A value has the same JSON as it would
//! in a column.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use postgres_types::Type;
use rowstream_encode::{BytesForm, ColumnKind, Intervals, Value, ValueOptions, write_value};

use super::text::{BadField, boolean, bytes, number};
use super::value::Decoder;
use super::{array, composite, hstore, interval};

/// The conversion of a value's text to JSON. Forms refer to others by their index in
/// [`NestedForms`].
#[derive(Debug)]
pub(super) enum Form {
    Bool,
    /// An integer of up to 32 bits, or a float: always a number.
    Number,
    /// An integer of 64 bits, or a decimal: a number unless an option says otherwise.
    Exact,
    Text,
    Json,
    Bytes,
    Interval,
    Timestamp,
    TimestampTz,
    Hstore,
    Array {
        element: usize,
        delimiter: u8,
    },
    /// `int2vector` and `oidvector`: elements between blanks.
    Vector {
        element: usize,
    },
    Composite(Box<[Attribute]>),
}

impl Form {
    /// The form of a type that contains no others.
    pub(super) fn of(oid: u32) -> Self {
        match Type::from_oid(oid) {
            Some(Type::BOOL) => Self::Bool,
            Some(Type::INT2 | Type::INT4 | Type::FLOAT4 | Type::FLOAT8) => Self::Number,
            Some(Type::INT8 | Type::NUMERIC) => Self::Exact,
            Some(Type::JSON | Type::JSONB) => Self::Json,
            Some(Type::BYTEA) => Self::Bytes,
            Some(Type::INTERVAL) => Self::Interval,
            Some(Type::TIMESTAMP) => Self::Timestamp,
            Some(Type::TIMESTAMPTZ) => Self::TimestampTz,
            _ => Self::Text,
        }
    }
}

/// An attribute of a composite.
#[derive(Debug)]
pub(super) struct Attribute {
    /// Its name as a JSON string, and the colon.
    pub(super) key: Box<[u8]>,
    pub(super) form: usize,
}

impl Attribute {
    pub(super) fn new(name: &str, form: usize) -> Self {
        let mut key = Vec::new();
        write_value(Value::Text(name), &mut key);
        key.push(b':');
        Self { key: key.into(), form }
    }
}

/// The forms of a column's type and of all types in its values.
#[derive(Debug)]
pub(super) struct NestedForms {
    /// The column's own form is the first. The forms aren't a tree, because several may refer to
    /// the same one. We don't rely on PostgreSQL's guarantee that no type contains itself.
    forms: Box<[Form]>,
    /// The type of an array's elements, if they contain no other values.
    element: Option<u32>,
    /// See [`super::types::Types`].
    version: Arc<AtomicU64>,
}

impl NestedForms {
    pub(super) fn new(forms: Vec<Form>, element: Option<u32>, version: Arc<AtomicU64>) -> Self {
        Self { forms: forms.into(), element, version }
    }

    /// The kind of a column's values; `modifier` is the column's, which an array has for its
    /// elements. The type of an array doesn't have its dimensions, so a value can still have several.
    /// Lists of JSON aren't lists, because they couldn't have both JSON's `null` and NULL.
    pub(super) fn kind(&self, modifier: i32) -> ColumnKind {
        let element = self.element.map(|oid| Decoder::of(oid).kind(modifier));
        match element.filter(|kind| *kind != ColumnKind::Json) {
            Some(kind) => ColumnKind::List(kind.into()),
            None => ColumnKind::Json,
        }
    }

    /// True if its values have attributes.
    pub(super) fn has_composites(&self) -> bool {
        self.forms.iter().any(|form| matches!(form, Form::Composite(_)))
    }

    /// Appends the value of a column as JSON.
    pub(super) fn write(&self, text: &str, options: ValueOptions, out: &mut Vec<u8>) -> Result<(), BadField> {
        let written = Writer { forms: &self.forms, options }.write(0, text, out);
        if written.is_err() {
            // The type may have been altered after we described it.
            self.version.fetch_add(1, Ordering::Relaxed);
        }
        written
    }
}

/// Writes values by their forms.
#[derive(Clone, Copy)]
pub(super) struct Writer<'a> {
    forms: &'a [Form],
    pub(super) options: ValueOptions,
}

impl Writer<'_> {
    /// Appends a value as JSON, with the form at the index `form`.
    pub(super) fn write(self, form: usize, text: &str, out: &mut Vec<u8>) -> Result<(), BadField> {
        let (converted, unhexed);
        let value = match &self.forms[form] {
            Form::Array { element, delimiter } => {
                return array::write_json(self, *element, *delimiter, text, out);
            }
            Form::Vector { element } => return array::write_vector(self, *element, text, out),
            Form::Composite(attributes) => return composite::write_json(self, attributes, text, out),
            Form::Hstore => return hstore::write_json(text, out),
            Form::Bool => Value::Bool(boolean(text.as_bytes())?),
            Form::Exact => number(text)?,
            // Written as JSON, so that no option changes it.
            Form::Number => match number(text)? {
                Value::Number(text) => Value::Json(text),
                not_finite => not_finite,
            },
            Form::Json => Value::Json(text),
            Form::Bytes if self.options.bytes != BytesForm::Hex => {
                unhexed = bytes(text)?;
                Value::Bytes(&unhexed)
            }
            Form::Interval if self.options.intervals == Intervals::Iso => {
                converted = interval::iso(text)?;
                Value::Text(&converted)
            }
            Form::Text | Form::Bytes | Form::Interval => Value::Text(text),
            Form::Timestamp | Form::TimestampTz => {
                converted = rfc3339(text);
                Value::Text(&converted)
            }
        };
        self.options.write(value, out);
        Ok(())
    }
}

/// A timestamp in PostgreSQL's ISO style, in UTC, as RFC 3339: `2024-01-01 00:00:00+00` becomes
/// `2024-01-01T00:00:00Z`.
fn rfc3339(text: &str) -> String {
    let (text, era) = match text.strip_suffix(" BC") {
        Some(text) => (text, " BC"),
        None => (text, ""),
    };
    let (text, zone) = match text.strip_suffix("+00") {
        Some(text) => (text, "Z"),
        None => (text, ""),
    };
    text.replacen(' ', "T", 1) + zone + era
}

#[cfg(test)]
mod tests {
    use rowstream_encode::{Nulls, Numbers};

    use super::*;

    impl NestedForms {
        /// For tests: forms of types that nothing alters.
        pub(in super::super) fn of(forms: Vec<Form>) -> Self {
            Self::new(forms, None, Arc::default())
        }
    }

    #[test]
    fn options_reach_what_is_nested() {
        let attributes = [("i", 1), ("e", 2), ("f", 3), ("b", 4), ("v", 5), ("j", 6), ("t", 7)];
        let nested = NestedForms::of(vec![
            Form::Composite(attributes.map(|(name, form)| Attribute::new(name, form)).into()),
            Form::Number,
            Form::Exact,
            Form::Array { element: 2, delimiter: b',' },
            Form::Bytes,
            Form::Interval,
            Form::Json,
            Form::TimestampTz,
        ]);
        let text = r#"(1,1.50,"{2,NaN,NULL}","\\x00ff","1 day 00:00:02",2.0,"2024-01-01 00:00:00+00")"#;
        let write = |options| {
            let mut out = Vec::new();
            nested.write(text, options, &mut out).map(|()| String::from_utf8(out).unwrap())
        };
        assert_eq!(
            write(ValueOptions::DEFAULT).unwrap(),
            r#"{"i":1,"e":1.50,"f":[2,"NaN",null],"b":"\\x00ff","v":"1 day 00:00:02","j":2.0,"t":"2024-01-01T00:00:00Z"}"#
        );
        let options = ValueOptions {
            numbers: Numbers::String,
            bytes: BytesForm::Base64,
            intervals: Intervals::Iso,
            nulls: Nulls::Omit,
        };
        assert_eq!(
            write(options).unwrap(),
            r#"{"i":1,"e":"1.50","f":["2","NaN",null],"b":"AP8=","v":"P1DT2S","j":2.0,"t":"2024-01-01T00:00:00Z"}"#
        );
    }

    #[test]
    fn what_is_not_of_its_type_raises_the_version() {
        let version = Arc::new(AtomicU64::new(7));
        let attributes = Box::new([Attribute::new("a", 1)]);
        let nested =
            NestedForms::new(vec![Form::Composite(attributes), Form::Number], None, Arc::clone(&version));
        for (text, expected) in [("(1)", 7), ("(1,2)", 8), ("(x)", 9), ("()", 9)] {
            let _ = nested.write(text, ValueOptions::DEFAULT, &mut Vec::new());
            assert_eq!(version.load(Ordering::Relaxed), expected, "{text}");
        }
    }
}
