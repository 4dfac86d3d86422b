//! Cursors: opening a sealed cursor returns the same key, and nothing else can be opened.

use rowstream_core::cursor::Signer;
use rowstream_core::params::ParamValue;
use serde_json::Value;
use serde_json::value::RawValue;

/// Uses the input as a key and as a cursor.
pub fn cursor(data: &[u8]) {
    let signer = Signer::new("secret", &["/events", "select 1"]);
    let mut cursor = Vec::new();
    signer.seal(data, &mut cursor);
    let cursor = String::from_utf8(cursor).expect("a cursor is ASCII");
    let expected = values(data);
    let columns = expected.as_ref().map_or(0, Vec::len);
    assert_eq!(signer.open(&cursor, columns).ok(), expected, "what was sealed");
    assert!(signer.open(&cursor, columns + 1).is_err());
    for other in [Signer::new("other", &["/events", "select 1"]), Signer::new("secret", &["/events"])] {
        assert!(other.open(&cursor, columns).is_err(), "of another secret or endpoint");
    }
    for cut in 0..cursor.len().min(64) {
        assert!(signer.open(&cursor[..cut], columns).is_err(), "{cut}");
    }
    if let Ok(made_up) = std::str::from_utf8(data) {
        assert!(signer.open(made_up, columns).is_err(), "nobody makes up a cursor");
    }
}

/// The values of a key: strings as texts, and everything else as raw JSON.
fn values(key: &[u8]) -> Option<Vec<ParamValue>> {
    let values: Vec<&RawValue> = serde_json::from_slice(key).ok()?;
    let value = |raw: &RawValue| match serde_json::from_str(raw.get()) {
        Ok(Value::String(text)) => Some(ParamValue::Text(text)),
        _ if raw.get().starts_with('"') => None,
        _ => Some(ParamValue::Number(raw.get().to_owned())),
    };
    values.into_iter().map(value).collect()
}
