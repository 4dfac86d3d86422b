//! `[csv]`: how CSV is written, for an endpoint or as the default in the configuration.

use rowstream_core::diagnostic::reader::{Value, set};
use rowstream_encode::{CsvDialect, Quote, Separator};

/// Changes `dialect` as the table says.
pub(crate) fn read(value: &Value<'_>, mut dialect: CsvDialect) -> CsvDialect {
    let Some(mut table) = value.table("[csv]") else { return dialect };
    set(&mut dialect.header, table.take("header").and_then(|value| value.boolean()));
    set(&mut dialect.separator, table.take("separator").and_then(|value| separator(&value)));
    set(&mut dialect.quote, table.take("quote").and_then(|value| quote(&value)));
    set(&mut dialect.null, table.take("null").and_then(|value| null(&value)));
    set(&mut dialect.bom, table.take("bom").and_then(|value| value.boolean()));
    set(&mut dialect.guard, table.take("guard").and_then(|value| value.boolean()));
    table.finish();
    dialect
}

fn separator(value: &Value<'_>) -> Option<Separator> {
    let text = value.string()?;
    let found = Separator::ALL.into_iter().find(|separator| separator.as_str() == text);
    if found.is_none() {
        let message = format!("`separator` cannot be {}", value.shown(&text));
        value.error_with(message, r#"write one of ",", ";", "|" and "\t""#);
    }
    found
}

fn quote(value: &Value<'_>) -> Option<Quote> {
    match value.string()?.as_str() {
        "needed" => Some(Quote::Needed),
        "all" => Some(Quote::All),
        text => {
            let message = format!("`quote` cannot be {}", value.shown(text));
            value.error_with(message, r#"write "needed" or "all""#);
            None
        }
    }
}

fn null(value: &Value<'_>) -> Option<String> {
    let text = value.string()?;
    let special = Separator::ALL.map(Separator::as_str);
    if text.contains(['"', '\r', '\n']) || special.iter().any(|special| text.contains(special)) {
        let hint = "leave out quotes, separators and line breaks: NULL is never quoted";
        value.error_with(format!("`null` cannot be {}", value.shown(&text)), hint);
        return None;
    }
    Some(text)
}
