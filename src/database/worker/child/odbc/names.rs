//! The names that the server writes into statements, which are the columns of keys: what stands
//! around them is the driver's.

use std::borrow::Cow;

use super::super::super::dialect::NAME;
use super::{Failed, data_failed};

/// A statement whose names stand in the quotes that the driver says it has
/// (`SQL_IDENTIFIER_QUOTE_CHAR`).
///
/// # Errors
/// There are names in it, and the driver has other quotes, or none: to Hive, `"…"` is a text, with
/// which each row would be compared.
pub(super) fn quoted<'a>(sql: &'a str, quote: &str) -> Result<Cow<'a, str>, Failed> {
    if !sql.contains(NAME) {
        return Ok(Cow::Borrowed(sql));
    }
    let quote = quote.trim();
    if !matches!(quote, "\"" | "`") {
        return Err(data_failed(
            "an endpoint of this database can have no `key`: its driver says that it quotes names neither \
             by \" nor by ` (SQL_IDENTIFIER_QUOTE_CHAR)"
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

    /// A backtick was written as `"`, which Hive and Spark take for a text: each row was compared
    /// with the name of the key, and none or all came after a cursor.
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
