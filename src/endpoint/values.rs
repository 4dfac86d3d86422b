//! `[values]`: how values are written, for an endpoint or as the default in the configuration.

use rowstream_core::diagnostic::reader::{Value, set};
use rowstream_encode::{Choice, ValueOptions};

/// Changes `options` as the table says.
pub(crate) fn read(value: &Value<'_>, mut options: ValueOptions) -> ValueOptions {
    let Some(mut table) = value.table("[values]") else { return options };
    set(&mut options.numbers, table.take("numbers").and_then(|value| choice("numbers", &value)));
    set(&mut options.bytes, table.take("bytes").and_then(|value| choice("bytes", &value)));
    set(&mut options.intervals, table.take("intervals").and_then(|value| choice("intervals", &value)));
    set(&mut options.nulls, table.take("nulls").and_then(|value| choice("nulls", &value)));
    table.finish();
    options
}

fn choice<T: Choice>(key: &str, value: &Value<'_>) -> Option<T> {
    let text = value.string()?;
    let choice = T::from_name(&text);
    if choice.is_none() {
        let names: Vec<_> = T::ALL.iter().map(|choice| format!("\"{}\"", choice.name())).collect();
        let message = format!("`{key}` cannot be {}", value.shown(&text));
        value.error_with(message, format!("write {}", names.join(" or ")));
    }
    choice
}
