//! Quotes the names that the server writes into statements, the columns of keys, as the driver
//! requires.

use std::borrow::Cow;

use super::super::super::dialect::NAME;
use super::{Failed, data_failed};

/// Returns a statement with its names in the driver's quotes (`SQL_IDENTIFIER_QUOTE_CHAR`).
///
/// # Errors
/// The statement has names, and the driver has other quotes, or none. To Hive, `"…"` is a text, and
/// each row would be compared with it.
pub(super) fn quoted<'a>(sql: &'a str, quote: &str) -> Result<Cow<'a, str>, Failed> {
    if !sql.contains(NAME) {
        return Ok(Cow::Borrowed(sql));
    }
    let quote = quote.trim();
    if !matches!(quote, "\"" | "`") {
        return Err(data_failed(
            "an endpoint of this database can't have a `key`: its driver reports that it quotes names \
             neither by \" nor by ` (SQL_IDENTIFIER_QUOTE_CHAR)"
                .to_owned(),
        ));
    }
    let parts = sql.split(NAME).enumerate().map(|(i, part)| match i % 2 {
        0 => Cow::Borrowed(part),
        _ => Cow::Owned(format!("{quote}{}{quote}", part.replace(quote, &quote.repeat(2)))),
    });
    Ok(Cow::Owned(parts.collect()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A backtick was written as `"`, which Hive and Spark read as a text. Each row was compared
    /// with the name of the key, so no rows, or all of them, followed a cursor.
    #[test]
    fn names_stand_in_the_quotes_of_the_driver() {
        let sql = "select 'a\"`' from (\nselect \"b\"\n) as t where \0o\"r`d\0 > ? order by \0n\0";
        for (quote, expected) in [
            ("\"", "where \"o\"\"r`d\" > ? order by \"n\""),
            ("`", "where `o\"r``d` > ? order by `n`"),
            ("` ", "where `o\"r``d` > ? order by `n`"),
        ] {
            let expected = format!("select 'a\"`' from (\nselect \"b\"\n) as t {expected}");
            assert_eq!(quoted(sql, quote).ok().as_deref(), Some(&*expected), "{quote}");
        }
    }

    #[test]
    fn other_quotes_are_refused_where_there_are_names() {
        for quote in ["", " ", "[", "'"] {
            assert!(quoted("select 1 order by \0n\0", quote).is_err(), "{quote}");
            assert_eq!(quoted("select \"n\"", quote).ok().as_deref(), Some("select \"n\""), "{quote}");
        }
    }
}
