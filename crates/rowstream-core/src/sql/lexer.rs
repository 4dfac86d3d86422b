//! Splits SQL into tokens, just finely enough to tell code from strings and comments.

use super::SqlError;
use super::dialect::{BlockComments, Dialect, LineComment, Quotes, Strings, Syntax};

/// The kind of a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TokenKind {
    /// Blanks and line ends.
    Blank,
    /// `-- …`, without its line end.
    LineComment,
    /// `/* … */`.
    BlockComment,
    /// A string or a quoted identifier.
    Quoted,
    /// An identifier, keyword or number.
    Word,
    /// `:name`.
    Parameter,
    /// `$1`, `?`, `@x`: a parameter in the database's own syntax.
    Placeholder,
    /// `;`.
    Semicolon,
    /// An operator or a part of it, a bracket, a comma.
    Other,
}

/// A token and its place, in bytes. Each token begins at the end of the previous one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Token {
    pub(super) kind: TokenKind,
    pub(super) start: usize,
    pub(super) end: usize,
}

/// Splits a text into tokens.
pub(super) struct Lexer<'a> {
    text: &'a str,
    syntax: &'static Syntax,
    at: usize,
    /// The number of open `[` that aren't quotes. A colon in them can belong to a slice.
    brackets: usize,
}

impl<'a> Lexer<'a> {
    pub(super) fn new(text: &'a str, dialect: &'static Dialect) -> Self {
        Self { text, syntax: &dialect.syntax, at: 0, brackets: 0 }
    }

    /// The next token; `None` at the end.
    pub(super) fn next(&mut self) -> Result<Option<Token>, SqlError> {
        let start = self.at;
        let Some(first) = self.peek(0) else { return Ok(None) };
        let kind = self.token(first)?;
        Ok(Some(Token { kind, start, end: self.at }))
    }

    fn token(&mut self, first: u8) -> Result<TokenKind, SqlError> {
        let second = self.peek(1);
        match first {
            _ if is_blank(first) => Ok(self.blanks()),
            b'-' if second == Some(b'-') && self.dashes_begin_comment() => Ok(self.line_comment()),
            b'#' if self.syntax.line_comments.contains(&LineComment::Hash) => Ok(self.line_comment()),
            b'/' if second == Some(b'*') => self.block_comment(),
            b'\'' | b'"' if self.syntax.strings.contains(&Strings::Backslash) => self.backslashed(first),
            b'\'' => self.quoted(b'\'', "string"),
            b'"' => self.quoted(b'"', "identifier"),
            b':' => self.colon(),
            b';' => Ok(self.single(TokenKind::Semicolon)),
            b'$' if self.syntax.strings.contains(&Strings::Dollar) => self.dollar(),
            _ => match self.syntax.quotes(first) {
                Some(Quotes::Doubled(quote)) => self.quoted(quote, "identifier"),
                Some(Quotes::Pair(_, close)) => self.bracketed(close),
                None if self.syntax.variables.contains(&first) => Ok(self.variable(first)),
                None if continues_word(first) => self.word(first),
                None => Ok(self.other(first)),
            },
        }
    }

    fn peek(&self, ahead: usize) -> Option<u8> {
        self.text.as_bytes().get(self.at + ahead).copied()
    }

    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    /// Skips bytes while `wanted` returns true. The other bytes are ASCII, so this stops between
    /// characters.
    fn skip_while(&mut self, wanted: impl Fn(u8) -> bool) {
        while self.peek(0).is_some_and(&wanted) {
            self.at += 1;
        }
    }

    fn single(&mut self, kind: TokenKind) -> TokenKind {
        self.at += 1;
        kind
    }

    fn other(&mut self, byte: u8) -> TokenKind {
        match byte {
            b'[' => self.brackets += 1,
            b']' => self.brackets = self.brackets.saturating_sub(1),
            _ => {}
        }
        self.single(TokenKind::Other)
    }

    fn blanks(&mut self) -> TokenKind {
        self.skip_while(is_blank);
        TokenKind::Blank
    }

    fn dashes_begin_comment(&self) -> bool {
        let comments = self.syntax.line_comments;
        let blank = self.peek(2).is_none_or(|byte| byte.is_ascii_whitespace() || byte.is_ascii_control());
        comments.contains(&LineComment::Dashes) || blank && comments.contains(&LineComment::DashesAndBlank)
    }

    fn line_comment(&mut self) -> TokenKind {
        let ends = self.syntax.line_ends;
        self.skip_while(|byte| !ends.contains(&byte));
        TokenKind::LineComment
    }

    fn block_comment(&mut self) -> Result<TokenKind, SqlError> {
        let start = self.at;
        if self.syntax.block_comments == BlockComments::FlatOrExecuted && is_executed(self.rest()) {
            return Err(executed(start));
        }
        let nested = self.syntax.block_comments == BlockComments::Nested;
        let mut depth = 0;
        loop {
            match (self.peek(0), self.peek(1)) {
                (Some(b'/'), Some(b'*')) if depth == 0 || nested => {
                    depth += 1;
                    self.at += 2;
                }
                (Some(b'*'), Some(b'/')) => {
                    depth -= 1;
                    self.at += 2;
                    if depth == 0 {
                        return Ok(TokenKind::BlockComment);
                    }
                }
                (Some(_), _) => self.at += 1,
                (None, _) => {
                    return Err(SqlError::new(start, "this comment has no end", Some("close it with `*/`")));
                }
            }
        }
    }

    /// A quoted text that contains its quote doubled.
    fn quoted(&mut self, quote: u8, what: &str) -> Result<TokenKind, SqlError> {
        let start = self.at;
        self.at += 1;
        loop {
            self.skip_while(|byte| byte != quote);
            if self.peek(0).is_none() {
                return Err(unterminated(start, what, quote));
            }
            self.at += 1;
            if self.peek(0) != Some(quote) {
                return Ok(TokenKind::Quoted);
            }
            self.at += 1;
        }
    }

    /// A text quoted up to `close`, without escapes.
    fn bracketed(&mut self, close: u8) -> Result<TokenKind, SqlError> {
        let start = self.at;
        self.skip_while(|byte| byte != close);
        if self.peek(0).is_none() {
            return Err(unterminated(start, "identifier", close));
        }
        Ok(self.single(TokenKind::Quoted))
    }

    /// `E'…'`, from its quote, with its continuations on further lines. Backslashes escape in those
    /// too.
    fn escaped(&mut self) -> Result<TokenKind, SqlError> {
        loop {
            self.backslashed(b'\'')?;
            let Some(next) = continuation(self.rest()) else { return Ok(TokenKind::Quoted) };
            self.at += next;
        }
    }

    /// A string whose quote is escaped by a backslash or doubled.
    fn backslashed(&mut self, quote: u8) -> Result<TokenKind, SqlError> {
        let start = self.at;
        self.at += 1;
        loop {
            match (self.peek(0), self.peek(1)) {
                (Some(b'\\'), Some(_)) => self.at += 2,
                (Some(byte), Some(next)) if byte == quote && next == quote => self.at += 2,
                (Some(byte), _) if byte == quote => {
                    self.at += 1;
                    return Ok(TokenKind::Quoted);
                }
                (Some(_), _) => self.at += 1,
                (None, _) => return Err(unterminated(start, "string", quote)),
            }
        }
    }

    /// `$1`, `$tag$…$tag$`, or a lone dollar, which the database will refuse.
    fn dollar(&mut self) -> Result<TokenKind, SqlError> {
        if self.peek(1).is_some_and(|byte| byte.is_ascii_digit()) {
            self.at += 1;
            self.skip_while(|byte| byte.is_ascii_digit());
            return Ok(TokenKind::Placeholder);
        }
        let Some(tag) = dollar_tag(self.rest()) else { return Ok(self.single(TokenKind::Other)) };
        let start = self.at;
        let body = start + tag.len();
        let Some(end) = self.text[body..].find(tag) else {
            let hint = format!("close it with `{tag}`");
            return Err(SqlError::new(start, "this dollar-quoted string has no end", Some(&hint)));
        };
        self.at = body + end + tag.len();
        Ok(TokenKind::Quoted)
    }

    /// `?`, `?1`, `@x`, `$x`, `:1`.
    fn variable(&mut self, sigil: u8) -> TokenKind {
        let named = self.peek(1).is_some_and(continues_word);
        self.at += 1;
        self.skip_while(continues_word);
        if named || sigil == b'?' { TokenKind::Placeholder } else { TokenKind::Other }
    }

    /// `::`, `:=`, the colon of a slice, or a parameter.
    fn colon(&mut self) -> Result<TokenKind, SqlError> {
        match self.peek(1) {
            Some(b':' | b'=') => {
                self.at += 2;
                Ok(TokenKind::Other)
            }
            _ if self.brackets > 0 && self.follows_value() => Ok(self.single(TokenKind::Other)),
            // A key of an object: `{'id':id}`, `json_object('id':id)`.
            _ if self.follows_quote() => Ok(self.single(TokenKind::Other)),
            Some(byte) if begins_name(byte) => self.parameter(),
            Some(byte) if !byte.is_ascii() => Err(bad_name(self.at)),
            Some(byte) if byte.is_ascii_digit() && self.syntax.variables.contains(&b':') => {
                Ok(self.variable(b':'))
            }
            _ => Ok(self.single(TokenKind::Other)),
        }
    }

    /// Returns true if the previous character can end a value. A colon in brackets then belongs to
    /// a slice (`a[1:n]`).
    fn follows_value(&self) -> bool {
        let before = self.at.checked_sub(1).map(|at| self.text.as_bytes()[at]);
        before.is_some_and(|byte| continues_word(byte) || matches!(byte, b')' | b']' | b'\'' | b'"'))
    }

    fn follows_quote(&self) -> bool {
        self.text[..self.at].ends_with(['\'', '"'])
    }

    fn parameter(&mut self) -> Result<TokenKind, SqlError> {
        let start = self.at;
        self.at += 1;
        self.skip_while(continues_name);
        // The claims of a token have dotted names: `:jwt.sub`.
        if &self.text[start + 1..self.at] == "jwt" {
            while self.peek(0) == Some(b'.') && self.peek(1).is_some_and(begins_name) {
                self.at += 1;
                self.skip_while(continues_name);
            }
        }
        // `:naïve` isn't the parameter `na` followed by another word.
        match self.peek(0) {
            Some(byte) if byte == b'$' || !byte.is_ascii() => Err(bad_name(start)),
            _ => Ok(TokenKind::Parameter),
        }
    }

    fn word(&mut self, first: u8) -> Result<TokenKind, SqlError> {
        let start = self.at;
        // A number ends at a dollar, but an identifier may contain one.
        let number = first.is_ascii_digit();
        self.skip_while(|byte| continues_word(byte) && !(number && byte == b'$'));
        let word = &self.text[start..self.at];
        let escapes = self.syntax.strings.contains(&Strings::Escape);
        if escapes && word.eq_ignore_ascii_case("e") && self.peek(0) == Some(b'\'') {
            return self.escaped();
        }
        Ok(TokenKind::Word)
    }
}

/// Returns true if MySQL or MariaDB executes this comment.
fn is_executed(text: &str) -> bool {
    ["/*!", "/*M!"].iter().any(|begin| text.starts_with(begin))
}

/// Refuses a comment that some versions execute. Only the database knows which, so we can't find
/// its parameters, its end or its limit.
fn executed(offset: usize) -> SqlError {
    let hint = "write it as plain SQL, without `/*!` and `*/`; for a comment, put a space before the `!`";
    SqlError::new(offset, "the database executes the text in this comment", Some(hint))
}

fn unterminated(start: usize, what: &str, quote: u8) -> SqlError {
    let hint = format!("close it with `{}`", char::from(quote));
    SqlError::new(start, format!("this quoted {what} has no end"), Some(&hint))
}

fn bad_name(offset: usize) -> SqlError {
    SqlError::new(
        offset,
        "the name of this parameter can't be read",
        Some("names are ASCII letters, digits and underscores"),
    )
}

/// `$tag$` or `$$` at the start of `text`. A tag is an identifier without dollars.
fn dollar_tag(text: &str) -> Option<&str> {
    let inner = &text[1..];
    let end = inner.find(|c: char| c.is_ascii() && !continues_name(c as u8))?;
    let begins = inner.as_bytes().first().is_some_and(|byte| !byte.is_ascii_digit());
    (begins && inner[end..].starts_with('$')).then(|| &text[..end + 2])
}

/// The distance to the quote that continues a string. SQL joins two strings if only blanks and line
/// comments separate them, with at least one line end.
fn continuation(text: &str) -> Option<usize> {
    let mut line_end = false;
    let mut at = 0;
    loop {
        let rest = &text.as_bytes()[at..];
        at += match rest {
            [b'\'', ..] => return line_end.then_some(at),
            [b'-', b'-', ..] => rest.iter().position(|byte| is_line_end(*byte))?,
            [byte, ..] if is_blank(*byte) => {
                line_end |= is_line_end(*byte);
                1
            }
            _ => return None,
        }
    }
}

fn is_line_end(byte: u8) -> bool {
    matches!(byte, b'\n' | b'\r')
}

fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | b'\r' | 0x0b | 0x0c)
}

pub(super) fn begins_name(byte: u8) -> bool {
    byte.is_ascii_alphabetic() || byte == b'_'
}

pub(super) fn continues_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

/// Accepts the bytes of an identifier. All bytes beyond ASCII count, in every dialect.
fn continues_word(byte: u8) -> bool {
    continues_name(byte) || byte == b'$' || !byte.is_ascii()
}
