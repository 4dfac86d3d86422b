//! Filters, orders and columns of requests: what becomes SQL has a placeholder for each value, and no
//! word of the request outside of quotes.

use rowstream::database::DatabaseKind;
use rowstream::fuzzing::{RefinedStatement, refined};
use rowstream_core::sql::{Outline, numbered_placeholders};

/// The words of the SQL that is written around names and placeholders.
const WORDS: [&str; 44] = [
    "select",
    "as",
    "from",
    "rowstream",
    "where",
    "and",
    "or",
    "not",
    "order",
    "by",
    "desc",
    "limit",
    "offset",
    "in",
    "is",
    "null",
    "distinct",
    "true",
    "false",
    "like",
    "ilike",
    "glob",
    "escape",
    "lower",
    "convert",
    "using",
    "utf8mb4",
    "collate",
    "utf8mb4_bin",
    "case",
    "when",
    "then",
    "else",
    "end",
    "typeof",
    "hex",
    "regexp_matches",
    "cast",
    "varchar",
    "numeric",
    "t",
    "id",
    "name",
    "day",
];

/// Each line of the input is a pair of a query, already decoded.
pub fn filter(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let pairs: Vec<_> = text.lines().filter_map(|line| line.split_once('=')).collect();
    for database in DatabaseKind::ALL {
        let Some(RefinedStatement { sql, args }) = refined(&pairs, *database) else { continue };
        let dialect = database.dialect();
        let outline = Outline::new(&sql, dialect).expect("a statement that its lexer reads");
        assert!(!outline.has_outside(&[";"]), "{sql}");
        let placeholders = numbered_placeholders(&sql, dialect);
        let most = placeholders.iter().map(|(_, number)| *number).max().unwrap_or_default();
        assert_eq!(most, args, "{sql}");
        for word in bare_words(&sql, dialect.syntax.quote) {
            let is_number = word.bytes().all(|byte| byte.is_ascii_digit());
            assert!(is_number || WORDS.contains(&word.as_str()), "{word}: {sql}");
        }
    }
}

/// The words outside of quoted names and of strings, which are our own.
fn bare_words(sql: &str, quote: char) -> Vec<String> {
    let (mut words, mut word, mut open) = (Vec::new(), String::new(), None);
    for c in sql.chars() {
        match open {
            Some(close) if c == close => open = None,
            Some(_) => {}
            None if c == quote || c == '\'' => open = Some(c),
            None if c.is_alphanumeric() || c == '_' => word.push(c),
            None => words.extend((!word.is_empty()).then(|| std::mem::take(&mut word))),
        }
    }
    words.extend((!word.is_empty()).then_some(word));
    words
}
