//! Texts that are copied into a response's JSON. A text that isn't a document could forge rows, so
//! each one is checked:
//!
//! | source | checked by |
//! |---|---|
//! | PostgreSQL's `json` and `jsonb`, MySQL's `json` | the database, when it stores or makes the value |
//! | MariaDB's `json`, a text with a constraint that can be off; columns of SQLite declared as `json` | us, value by value |
//! | ODBC's `json` | the driver process, before it sends the value |
//! | columns of ADBC and Flight SQL that are declared as JSON | us, value by value |
//! | lists and structs of Arrow | us: we write the document |
//! | replies of upstreams, rows of their lists | us: we parse the whole reply |

use serde::de::IgnoredAny;

/// Returns true if the whole text is one JSON document. Keeps nothing, and needs one byte per
/// nesting level.
pub fn is_document(text: &str) -> bool {
    serde_json::from_str::<IgnoredAny>(text).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_document_and_no_more() {
        for document in ["1", "{\"a\": [1, null]}", " \"x\" ", "1e400", "\"\\ud800\""] {
            assert!(is_document(document), "{document}");
        }
        for other in ["", "1}", "1,2", "1},{\"id\":999", "{\"a\": \u{1}}", "\"\u{1}\"", "NaN", "[1", "'a'"] {
            assert!(!is_document(other), "{other}");
        }
        let deep = |brackets: usize| "[".repeat(brackets) + &"]".repeat(brackets);
        assert!(is_document(&deep(1_000_000)));
        assert!(!is_document(&deep(1_000_000)[1..]));
    }
}
