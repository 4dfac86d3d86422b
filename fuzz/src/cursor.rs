//! Cursors: opening a sealed cursor returns the same key, and nothing else can be opened.

use rowstream_core::cursor::{KeyTypes, Position, Signer};
use rowstream_core::params::ParamValue;
use serde_json::Value;
use serde_json::value::RawValue;

/// Uses the input as a key and as a cursor.
pub fn cursor(data: &[u8]) {
    let cursors = Signer::new("secret", &["/events", "id"]);
    let types = KeyTypes::of(["number"].into_iter());
    let expected = values(data);
    let columns = expected.as_ref().map_or(0, Vec::len);
    let (mut at_end, mut within) = (Vec::new(), Vec::new());
    cursors.seal_end(types, data, &mut at_end);
    cursors.seal_within(types, 7, data, &mut within);
    for (cursor, rows) in [(at_end, None), (within, Some(7))] {
        let cursor = String::from_utf8(cursor).expect("a cursor is ASCII");
        let opened = cursors.position(&cursor, columns).ok();
        // Digits before the key belong to the number of rows, so they make another cursor.
        if data.first().is_some_and(|byte| !byte.is_ascii_digit()) {
            let found = opened.map(|Position { types, rows, key, .. }| (types, rows, key));
            assert_eq!(found, expected.clone().map(|key| (types, rows, key)), "what was sealed");
        }
        assert!(cursors.position(&cursor, columns + 1).is_err());
        for other in [Signer::new("other", &["/events", "id"]), Signer::new("secret", &["/events"])] {
            assert!(other.position(&cursor, columns).is_err(), "of another secret or endpoint");
        }
        for cut in 0..cursor.len().min(64) {
            assert!(cursors.position(&cursor[..cut], columns).is_err(), "{cut}");
        }
    }
    if let Ok(made_up) = std::str::from_utf8(data) {
        assert!(cursors.position(made_up, columns).is_err(), "a cursor can't be made up");
    }
}

/// The values of a key: strings as texts, booleans, null, and everything else as raw JSON.
fn values(key: &[u8]) -> Option<Vec<ParamValue>> {
    let values: Vec<&RawValue> = serde_json::from_slice(key).ok()?;
    let value = |raw: &RawValue| match serde_json::from_str(raw.get()) {
        Ok(Value::String(text)) => Some(ParamValue::Text(text)),
        _ if raw.get().starts_with('"') => None,
        Ok(Value::Null) => Some(ParamValue::Null),
        Ok(Value::Bool(value)) => Some(ParamValue::Boolean(value)),
        _ => match raw.get().parse::<f64>() {
            Ok(float) if float.is_finite() && raw.get().contains(['e', 'E']) => {
                Some(ParamValue::Float(float))
            }
            _ => Some(ParamValue::Number(raw.get().to_owned())),
        },
    };
    values.into_iter().map(value).collect()
}
