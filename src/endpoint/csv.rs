//! `[csv]`: how CSV is written, of an endpoint, and of the configuration for those that do not say.

use rowstream_encode::{CsvDialect, Quote, Separator};

use crate::fault::reader::{Table, Value};

/// The dialect that a table makes of `dialect`.
pub(crate) fn read(value: &Value<'_>, mut dialect: CsvDialect) -> CsvDialect {
    let Some(mut table) = value.table("[csv]") else { return dialect };
    set(&mut dialect.header, &mut table, "header", Value::boolean);
    set(&mut dialect.separator, &mut table, "separator", separator);
    set(&mut dialect.quote, &mut table, "quote", quote);
    set(&mut dialect.null, &mut table, "null", null);
    set(&mut dialect.bom, &mut table, "bom", Value::boolean);
    set(&mut dialect.guard, &mut table, "guard", Value::boolean);
    table.finish();
    dialect
}

/// Changes a setting if the table says so.
fn set<T>(setting: &mut T, table: &mut Table<'_>, key: &'static str, read: fn(&Value<'_>) -> Option<T>) {
    if let Some(value) = table.take(key).and_then(|value| read(&value)) {
        *setting = value;
    }
}

fn separator(value: &Value<'_>) -> Option<Separator> {
    let text = value.string()?;
    let found = Separator::ALL.into_iter().find(|separator| separator.as_str() == text);
    if found.is_none() {
        let message = format!("`separator` cannot be {}", value.shown(&text));
        value.fault_with(message, r#"write one of ",", ";", "|" and "\t""#);
    }
    found
}

fn quote(value: &Value<'_>) -> Option<Quote> {
    match value.string()?.as_str() {
        "needed" => Some(Quote::Needed),
        "all" => Some(Quote::All),
        text => {
            let message = format!("`quote` cannot be {}", value.shown(text));
            value.fault_with(message, r#"write "needed" or "all""#);
            None
        }
    }
}

fn null(value: &Value<'_>) -> Option<String> {
    let text = value.string()?;
    let special = Separator::ALL.map(|separator| separator.as_str());
    if text.contains(['"', '\r', '\n']) || special.iter().any(|special| text.contains(special)) {
        let hint = "leave out quotes, separators and line breaks: NULL is never quoted";
        value.fault_with(format!("`null` cannot be {}", value.shown(&text)), hint);
        return None;
    }
    Some(text)
}
