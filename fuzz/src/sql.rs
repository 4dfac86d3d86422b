//! The lexer of parameters, and the place of an order: arbitrary texts, and texts from tokens with known
//! parameters.

use std::fmt::Write as _;
use std::ops::Range;

use arbitrary::{Arbitrary, Result, Unstructured};
use rowstream_core::sql::dialect::{Placeholders, Quotes};
use rowstream_core::sql::{Cardinality, Dialect, Limit, Sql, sections, sort_place};
use {rowstream_postgres as postgres, rowstream_sqlite as sqlite};

static DIALECTS: [&Dialect; 2] = [&postgres::DIALECT, &sqlite::DIALECT];

/// Any text. Putting the names back into the parsed statement restores the text.
pub fn sql(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    for dialect in DIALECTS {
        match Sql::parse(text, dialect) {
            Ok(sql) => assert_statement(text, dialect, &sql),
            Err(error) => {
                assert!(text.is_char_boundary(error.offset), "{error:?} is within the text");
                assert!(!error.message.is_empty());
            }
        }
        assert_sections(text, dialect);
        assert_sort_place(text, dialect);
    }
}

fn assert_statement(text: &str, dialect: &'static Dialect, sql: &Sql) {
    let (restored, places) = restore(dialect, sql);
    assert_eq!(places, sql.pieces.iter().map(|(_, old)| *old).collect::<Vec<_>>());
    let (statement, rest) = text.split_at(restored.len());
    assert!(is_the_same(statement, &restored), "the statement is the text from its start");
    if let Some(after) = rest.strip_prefix(';') {
        assert!(Sql::parse(after, dialect).is_err_and(|error| error.offset == 0), "{after:?} is cut off");
    } else {
        assert_eq!(rest, "");
    }
    if let Some(limit) = Limit::find(&sql.text, dialect) {
        assert!(sql.text[limit.start..].to_ascii_lowercase().starts_with("limit"));
        let numbers = limit.only.iter().chain(&limit.placeholder);
        assert!(numbers.into_iter().all(|number| (1..=sql.names.len()).contains(number)), "{limit:?}");
    }
    assert!(!sql.text.contains('\0'), "the database would take what stands before a NUL");
    assert_eq!(sql.names.len(), sql.places.len());
    for (index, (name, place)) in sql.names.iter().zip(&sql.places).enumerate() {
        assert!(text[*place..].starts_with(&format!(":{name}")));
        assert!(!sql.names[..index].contains(name), "each name has one number");
        assert!(name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_'));
    }
}

/// Compares a statement with its text. Letters beyond ASCII may become dots, as they do in
/// comments.
fn is_the_same(text: &str, statement: &str) -> bool {
    let mut bytes = text.bytes().zip(statement.bytes());
    text.len() == statement.len() && bytes.all(|(old, new)| old == new || (!old.is_ascii() && new == b'.'))
}

/// The statement with names instead of numbers, and the start of each piece.
fn restore(dialect: &'static Dialect, sql: &Sql) -> (String, Vec<usize>) {
    let (mut restored, mut places) = (String::new(), vec![0]);
    let ends = sql.pieces.iter().skip(1).map(|(new, _)| *new);
    for ((start, _), end) in sql.pieces.iter().zip(ends) {
        let piece = &sql.text[*start..end];
        // A limit that can be NULL. Only a placeholder ends a piece, so this wasn't in the original
        // text.
        let limit = piece.strip_suffix(", -1)").and_then(|piece| piece.rsplit_once("ifnull(?"));
        let (before, number) = limit
            .or_else(|| piece.rsplit_once(sigil(dialect)))
            .expect("a placeholder stands before each further piece");
        let number: usize = number.parse().expect("a placeholder has a number");
        let _ = write!(restored, "{before}:{}", sql.names[number - 1]);
        places.push(restored.len());
    }
    let last = sql.pieces.last().map_or(0, |(new, _)| *new);
    (restored + &sql.text[last..], places)
}

fn sigil(dialect: &'static Dialect) -> char {
    match dialect.placeholders {
        Placeholders::ByNumber(sigil) => sigil,
        Placeholders::ByOccurrence => '?',
    }
}

/// Returns true if brackets and backticks quote names. The other dialect has `E'…'` and dollar
/// quotes instead.
fn quotes_by_brackets(dialect: &Dialect) -> bool {
    dialect.syntax.identifiers.contains(&Quotes::Pair(b'[', b']'))
}

/// Checks that sections are adjacent, and that each except the first begins with its line.
fn assert_sections(text: &str, dialect: &'static Dialect) {
    let sections = match sections(text, dialect) {
        Ok(sections) => sections,
        Err(error) => return assert!(text.is_char_boundary(error.offset)),
    };
    for section in &sections {
        assert!(text.is_char_boundary(section.range.start) && text.is_char_boundary(section.range.end));
        let line = &text[section.offset..section.range.start];
        assert_eq!(line.starts_with("--"), section.name.is_some());
    }
    for pair in sections.windows(2) {
        assert_eq!(pair[0].range.end, pair[1].offset);
    }
    assert_eq!(sections.last().map(|section| section.range.end), Some(text.len()));
}

/// Checks that a request's order has the same place in a file and in the statement that runs, and that
/// the statement has the same parameters with it.
fn assert_sort_place(text: &str, dialect: &'static Dialect) {
    let place = match sort_place(text, dialect) {
        Ok(place) => place,
        Err(error) => return assert!(text.is_char_boundary(error.offset) && !error.message.is_empty()),
    };
    let Ok(sql) = Sql::parse(text, dialect) else { return };
    let running = sort_place(&sql.text, dialect).ok().flatten();
    let mark = |text: &str, place: Range<usize>| text[place].to_owned();
    let found = place.clone().map(|place| mark(text, place));
    assert_eq!(running.map(|place| mark(&sql.text, place)), found, "{text:?}");
    if let (Some(place), Some(found)) = (place, found) {
        assert_eq!(found.trim_matches(['/', '*', ' ', '\t', '\r', '\n', '\x0c']), "sort");
        let term = dialect.quoted("x");
        let ordered = format!("{}{term} desc, {}", &text[..place.start], text[place.end..].trim_start());
        assert_eq!(sort_place(&ordered, dialect), Ok(None), "{ordered:?}");
        let ordered = Sql::parse(&ordered, dialect).expect("it's a statement with another term");
        assert_eq!(ordered.names, sql.names, "{text:?}");
    }
}

/// Texts from tokens: their parameters are found, and nothing else is mistaken for one.
pub fn sql_tokens(data: &[u8]) {
    let _ = tokens(&mut Unstructured::new(data));
}

/// A token. It may contain text that looks like another token.
#[derive(Debug, Arbitrary)]
enum Token {
    Parameter(Name),
    String(String),
    Identifier(String),
    /// `E'…'`, or SQLite's backticks.
    Escaped(String),
    /// `$tag$…$tag$`, or SQLite's brackets.
    Dollar(Name, String),
    BlockComment(String),
    LineComment(String),
    Plain(Plain),
}

/// Names of parameters, and words that aren't parameters.
#[derive(Debug, Clone, Copy, Arbitrary)]
enum Name {
    A,
    B,
    Underscore,
    Long,
}

impl Name {
    fn text(self) -> &'static str {
        match self {
            Self::A => "a",
            Self::B => "b",
            Self::Underscore => "_1",
            Self::Long => "lastEventNo",
        }
    }
}

/// Tokens without special meaning.
#[derive(Debug, Clone, Copy, Arbitrary)]
enum Plain {
    Word,
    Number,
    Cast,
    Assignment,
    Operators,
    Brackets,
    DollarInWord,
}

impl Plain {
    fn text(self, dialect: &'static Dialect) -> &'static str {
        match (self, quotes_by_brackets(dialect)) {
            (Self::Word, _) => "größe",
            (Self::Number, _) => "1.5e3",
            (Self::Cast, _) => "x::int",
            (Self::Assignment, _) => "x := 1",
            (Self::Operators, _) => "-1 / 2 * (3 - 4) <> 5",
            (Self::Brackets, false) => "x[1:n]",
            (Self::Brackets, true) => "[x :a]",
            (Self::DollarInWord, _) => "a$b$c",
        }
    }
}

impl Token {
    /// Its text in a statement.
    fn text(&self, dialect: &'static Dialect) -> String {
        let without = |text: &str, dropped: &[char]| text.replace(dropped, "").replace('\0', "");
        match (self, quotes_by_brackets(dialect)) {
            (Self::Parameter(name), _) => format!(":{}", name.text()),
            (Self::String(text), _) => format!("'{}'", without(text, &[]).replace('\'', "''")),
            (Self::Identifier(text), _) => format!("\"{}\"", without(text, &[]).replace('"', "\"\"")),
            (Self::Escaped(text), false) => {
                format!("E'{}'", without(text, &[]).replace('\\', "\\\\").replace('\'', "\\'"))
            }
            (Self::Escaped(text), true) => format!("`{}`", without(text, &[]).replace('`', "``")),
            (Self::Dollar(tag, text), false) => {
                let tag = tag.text();
                // A dollar in the text could become part of the closing tag.
                format!("${tag}${}${tag}$", without(text, &['$']))
            }
            (Self::Dollar(_, text), true) => format!("[{}]", without(text, &[']'])),
            (Self::BlockComment(text), false) => {
                let text = without(text, &['*', '/']);
                format!("/*{text}/*{text}*/ :a */")
            }
            (Self::BlockComment(text), true) => format!("/*{}/* :a */", without(text, &['*'])),
            // A line that begins with `-- name:` would start another statement.
            (Self::LineComment(text), _) => format!("--x{}\n", without(text, &['\r', '\n'])),
            (Self::Plain(plain), _) => plain.text(dialect).to_owned(),
        }
    }
}

fn tokens(u: &mut Unstructured<'_>) -> Result<()> {
    let dialect = *u.choose(&DIALECTS)?;
    let statements: Vec<Vec<Token>> = u.arbitrary()?;
    let ended: bool = u.arbitrary()?;
    let (mut text, mut expected) = (String::new(), Vec::new());
    for (index, tokens) in statements.iter().enumerate() {
        let _ = writeln!(text, "-- name: s{index} :many");
        let (statement, sql, names) = written(dialect, tokens);
        expected.push((sql, names));
        text.push_str(&statement);
        text.push_str(if ended { "; -- :a\n" } else { "\n" });
    }
    if statements.is_empty() {
        return Ok(());
    }
    let sections = sections(&text, dialect).expect("every token has its end");
    assert_eq!(sections.len(), expected.len());
    for (index, (section, (sql, names))) in sections.iter().zip(expected).enumerate() {
        assert_eq!(section.name, Some((format!("s{index}"), Cardinality::Many)));
        let parsed = Sql::parse(&text[section.range.clone()], dialect).expect("every token has its end");
        let (parsed_text, sql) = (parsed.text.trim_ascii(), sql.trim_ascii());
        assert!(is_the_same(sql, parsed_text), "{parsed_text:?} {sql:?}");
        assert_eq!(parsed.names, names);
        assert_statement(&text[section.range.clone()], dialect, &parsed);
    }
    for tokens in &statements {
        let (statement, ..) = written(dialect, tokens);
        let place = statement.len() + " order by ".len();
        let found = sort_place(&format!("{statement} order by /*sort*/ a"), dialect);
        assert_eq!(found, Ok(Some(place..place + "/*sort*/".len())), "{statement:?}");
    }
    Ok(())
}

/// A statement of these tokens, the same with numbers instead of names, and the names.
fn written(dialect: &'static Dialect, tokens: &[Token]) -> (String, String, Vec<&'static str>) {
    let (mut text, mut sql, mut names) = ("select".to_owned(), "select".to_owned(), Vec::new());
    for token in tokens {
        // Strings separated only by a line end would be joined.
        text.push_str(" , ");
        sql.push_str(" , ");
        let token_text = token.text(dialect);
        text.push_str(&token_text);
        match token {
            Token::Parameter(name) => {
                let known = names.iter().position(|known| *known == name.text());
                let index = known.unwrap_or_else(|| {
                    names.push(name.text());
                    names.len() - 1
                });
                let _ = write!(sql, "{}{}", sigil(dialect), index + 1);
            }
            _ => sql.push_str(&token_text),
        }
    }
    (text, sql, names)
}
