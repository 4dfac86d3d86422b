use proptest::prelude::*;

use super::dialect::samples::{ANONYMOUS, BRACKETED, NUMBERED};
use super::*;

/// The text for the database, and the names separated by blanks.
fn parsed(text: &str, dialect: &'static Dialect) -> (String, String) {
    let sql = Sql::parse(text, dialect).unwrap_or_else(|error| panic!("{text}: {error}"));
    (sql.text, sql.names.join(" "))
}

#[test]
fn parameters_of_dialects() {
    for (text, numbered, bracketed, names) in [
        ("select :a", "select $1", "select ?1", "a"),
        ("select :a, :b, :a", "select $1, $2, $1", "select ?1, ?2, ?1", "a b"),
        ("select :_x1Y", "select $1", "select ?1", "_x1Y"),
        ("select(:a)", "select($1)", "select(?1)", "a"),
        ("select x->:a", "select x->$1", "select x->?1", "a"),
        ("select 1-:a", "select 1-$1", "select 1-?1", "a"),
        (":a", "$1", "?1", "a"),
        ("select ':a'", "select ':a'", "select ':a'", ""),
        ("select 'it''s :a'", "select 'it''s :a'", "select 'it''s :a'", ""),
        ("select '\\', :a", "select '\\', $1", "select '\\', ?1", "a"),
        ("select \":a\"\":b\"", "select \":a\"\":b\"", "select \":a\"\":b\"", ""),
        ("select U&'\\0061', :a", "select U&'\\0061', $1", "select U&'\\0061', ?1", "a"),
        ("select U&\":a\"", "select U&\":a\"", "select U&\":a\"", ""),
        ("select x':a'", "select x':a'", "select x':a'", ""),
        ("select 1 -- :a\n, :b", "select 1 -- :a\n, $1", "select 1 -- :a\n, ?1", "b"),
        ("select 1 /* :a ' */, :b", "select 1 /* :a ' */, $1", "select 1 /* :a ' */, ?1", "b"),
        ("select 1 /* -- */, :b", "select 1 /* -- */, $1", "select 1 /* -- */, ?1", "b"),
        ("select 4 / :a * :b", "select 4 / $1 * $2", "select 4 / ?1 * ?2", "a b"),
        ("select :a::int", "select $1::int", "select ?1::int", "a"),
        ("select a::int", "select a::int", "select a::int", ""),
        ("f(a := :b)", "f(a := $1)", "f(a := ?1)", "b"),
        ("select größe, :a", "select größe, $1", "select größe, ?1", "a"),
        ("select 'ü', :a", "select 'ü', $1", "select 'ü', ?1", "a"),
        ("select :a;", "select $1", "select ?1", "a"),
        ("select 1 ; -- the end\n /* yes */ ", "select 1 ", "select 1 ", ""),
        ("select 1 -- no end", "select 1 -- no end", "select 1 -- no end", ""),
        ("limit :n\n", "limit $1\n", "limit ifnull(?1, -1)\n", "n"),
        ("\n-- a comment\nselect 1\n", "\n-- a comment\nselect 1\n", "\n-- a comment\nselect 1\n", ""),
        (
            "case when :a then :b else :c end",
            "case when $1 then $2 else $3 end",
            "case when ?1 then ?2 else ?3 end",
            "a b c",
        ),
    ] {
        assert_eq!(parsed(text, &NUMBERED), (numbered.to_owned(), names.to_owned()), "{text}");
        assert_eq!(parsed(text, &BRACKETED), (bracketed.to_owned(), names.to_owned()), "{text}");
    }
}

#[test]
fn errors_have_their_place() {
    for (text, dialect, offset, message) in [
        ("", &NUMBERED, 0, "there is no statement here"),
        (" -- nothing\n /* nothing */ ", &BRACKETED, 0, "there is no statement here"),
        (" ; ", &NUMBERED, 0, "there is no statement here"),
        ("select 'a", &NUMBERED, 7, "this quoted string has no end"),
        ("select 'a''", &NUMBERED, 7, "this quoted string has no end"),
        ("select e'a\\'", &NUMBERED, 8, "this quoted string has no end"),
        ("select e'a\\", &NUMBERED, 8, "this quoted string has no end"),
        ("select e'a'\n'b", &NUMBERED, 12, "this quoted string has no end"),
        ("select \"a", &BRACKETED, 7, "this quoted identifier has no end"),
        ("select [a", &BRACKETED, 7, "this quoted identifier has no end"),
        ("select `a", &BRACKETED, 7, "this quoted identifier has no end"),
        ("select $a$ x $b$", &NUMBERED, 7, "this dollar-quoted string has no end"),
        ("select /* x", &NUMBERED, 7, "this comment has no end"),
        ("select /* /* x */", &NUMBERED, 7, "this comment has no end"),
        ("select /*/", &BRACKETED, 7, "this comment has no end"),
        ("select 1; select 2", &NUMBERED, 10, "there are two statements, but one is expected"),
        ("select 1;;", &NUMBERED, 9, "there are two statements, but one is expected"),
        ("select 1; :a", &BRACKETED, 10, "there are two statements, but one is expected"),
        ("select $1", &NUMBERED, 7, "the placeholder `$1` has no name"),
        ("select $12::int", &NUMBERED, 7, "the placeholder `$12` has no name"),
        ("select ?", &BRACKETED, 7, "the placeholder `?` has no name"),
        ("select ?12", &BRACKETED, 7, "the placeholder `?12` has no name"),
        ("select @x", &BRACKETED, 7, "the placeholder `@x` has no name"),
        ("select $x", &BRACKETED, 7, "the placeholder `$x` has no name"),
        ("select :1", &BRACKETED, 7, "the placeholder `:1` has no name"),
        ("select :naïve", &NUMBERED, 7, "the name of this parameter can't be read"),
        ("select :über", &BRACKETED, 7, "the name of this parameter can't be read"),
        ("select :a$b", &NUMBERED, 7, "the name of this parameter can't be read"),
        ("select \0", &NUMBERED, 7, "a NUL character in a statement"),
        // These were once missed in quotes and comments, so each request failed instead.
        ("select '\0'", &NUMBERED, 8, "a NUL character in a statement"),
        ("select [\0]", &BRACKETED, 8, "a NUL character in a statement"),
        ("select 1 -- \0", &NUMBERED, 12, "a NUL character in a statement"),
    ] {
        let error = Sql::parse(text, dialect).expect_err(text);
        assert_eq!((error.offset, error.message.as_str()), (offset, message), "{text}");
    }
}

/// A database in LATIN1 refused a statement because of a letter in a comment.
#[test]
fn comments_are_in_ascii() {
    let text = "select /*+ SeqScan(é) */ 'é' as \"é\" -- ’€ :a\n, :b /* ’ /* € */ */ from t";
    let sql = Sql::parse(text, &NUMBERED).unwrap();
    assert_eq!(
        sql.text,
        "select /*+ SeqScan(é) */ 'é' as \"é\" -- ...... :a\n, $1 /* ... /* ... */ */ from t"
    );
    assert_eq!((sql.names, sql.places), (vec!["b".to_owned()], vec![text.find(":b").unwrap()]));
}

#[test]
fn a_colon_right_behind_a_quote_begins_no_parameter() {
    for (text, expected) in [
        ("select json_object('id':id, 'n':n)", "select json_object('id':id, 'n':n)"),
        ("select {'id':id, \"n\":n} where a = :n", "select {'id':id, \"n\":n} where a = $1"),
        ("select 'a' :n", "select 'a' $1"),
    ] {
        assert_eq!(Sql::parse(text, &NUMBERED).unwrap().text, expected, "{text}");
    }
}

#[test]
fn pieces_lead_back_to_the_original() {
    let text = "select :first, 'x' where a = :first and b = :second";
    let sql = Sql::parse(text, &NUMBERED).unwrap();
    assert_eq!(sql.pieces, [(0, 0), (9, 13), (27, 35), (38, 51)]);
    assert_eq!((&sql.text[27..38], &text[35..44]), (" and b = $2", " and b = "));
    assert_eq!(sql.places, [7, 44]);
}

#[test]
fn files_are_cut_at_their_names() {
    let text = "-- about\n-- name: a :many\nselect '\n-- name: no :one\n';\n  --name:b :value\n/*\n-- name: no :one\n*/ select 2\n";
    let sections = sections(text, &NUMBERED).unwrap();
    let found: Vec<_> = sections
        .iter()
        .map(|section| {
            let (name, cardinality) = section.name.clone().unwrap();
            (name, cardinality, &text[section.offset..section.offset + 6], text[section.range.clone()].trim())
        })
        .collect();
    assert_eq!(
        found,
        [
            ("a".to_owned(), Cardinality::Many, "-- nam", "select '\n-- name: no :one\n';"),
            ("b".to_owned(), Cardinality::Value, "--name", "/*\n-- name: no :one\n*/ select 2"),
        ]
    );
}

#[test]
fn text_before_the_first_name_is_a_section() {
    for (text, names) in [
        ("select 1", vec![None]),
        ("", vec![None]),
        ("-- c\n", vec![None]),
        ("select 1\n-- name: a :one\nselect 2", vec![None, Some("a")]),
        ("-- name: a :one\n-- name: a :one", vec![Some("a"), Some("a")]),
        ("select 1 -- name: a :one", vec![None]),
        ("-- named: a :one\nselect 1", vec![None]),
    ] {
        let found = sections(text, &BRACKETED).unwrap();
        let found: Vec<_> =
            found.iter().map(|section| section.name.as_ref().map(|(name, _)| name.as_str())).collect();
        assert_eq!(found, names, "{text}");
    }
}

#[test]
fn names_that_cannot_be_read_are_errors() {
    for line in [
        "-- name: a",
        "-- name:",
        "-- name: a :exec",
        "-- name: a-b :many",
        "-- name: 1 :many",
        "-- name: a :many nested",
        "-- name: a :many nested in b",
        "-- name: a :many nested in b on",
        "-- name: a :many nested in b on a",
        "-- name: a :many nested in b on a =",
        "-- name: a :many nested in b on a == b",
        "-- name: a :many nested in b on a = b and",
        "-- name: a :many nested in b on a = b, c = d",
        "-- name: a :many nested in b on a = b c = d",
        "-- name: a :many nested in b-c on a = b",
        "-- name: a :many nested in \"b\" on a = b",
        "-- name: a :many nested in b on \"a = b",
        "-- name: a :many nested under b on a = b",
        "-- name: a :refcursors from b",
        "-- name: a :refcursors nested in b on a = b",
        "-- name: a-b :refcursors",
        "-- name: a :many from",
        "-- name: a :many from b c",
        "-- name: a :many from b.c",
        "-- name: a :many from \"b\"",
        "-- name: a :many from b nested in c on a = b",
    ] {
        let error = sections(&format!("  {line}\nselect 1"), &NUMBERED).expect_err(line);
        assert_eq!(error.offset, 2, "{line}");
    }
}

#[test]
fn a_name_tells_in_whose_rows_a_statement_stands() {
    for (line, parent, on) in [
        ("-- name: a :many nested in b on x = y", "b", &[("x", "y")][..]),
        (
            "--name:  a  :many  nested in b_1 on x=y  and  \"no\"\"x\"=\"and\"",
            "b_1",
            &[("x", "y"), ("no\"x", "and")],
        ),
        ("-- name: a :many nested in b on \"a b\" = é and u.v = \"\"", "b", &[("a b", "é"), ("u.v", "")]),
        ("-- name: nested :one nested in on on on = nested", "on", &[("on", "nested")]),
    ] {
        let found = sections(&format!("{line}\nselect 1"), &NUMBERED)
            .unwrap_or_else(|error| panic!("{line}: {error}"));
        let nesting = found[0].nesting.as_ref().expect(line);
        let columns: Vec<_> = nesting.on.iter().map(|(own, other)| (own.as_str(), other.as_str())).collect();
        assert_eq!((nesting.parent.as_str(), &columns[..]), (parent, on), "{line}");
    }
    assert_eq!(sections("-- name: a :many\nselect 1", &NUMBERED).unwrap()[0].nesting, None);
}

#[test]
fn a_name_tells_whose_refcursor_a_statement_reads() {
    let text = "-- name: o :refcursors\ncall p();\n-- name: a :many from o\n--name:b  :value  from  o \n-- name: c :one\nselect 1";
    let found: Vec<_> =
        sections(text, &NUMBERED).unwrap().into_iter().map(|section| section.refcursors).collect();
    let from = || Refcursors::From("o".to_owned());
    assert_eq!(found, [Refcursors::Opens, from(), from(), Refcursors::None]);
}

/// Text with quotes around the whole of it, and anything inside.
fn quoted_piece() -> impl Strategy<Value = String> {
    let inside = "[a-z:$'\"\\\\/*;?@ \\n\\-\\[\\]ß]{0,12}";
    prop_oneof![
        inside.prop_map(|text| format!("'{}'", text.replace('\'', "''"))),
        inside.prop_map(|text| format!("\"{}\"", text.replace('"', "\"\""))),
        inside.prop_map(|text| format!("e'{}'", text.replace('\\', "\\\\").replace('\'', "\\'"))),
        inside.prop_map(|text| format!("$t${}$t$", text.replace('$', ""))),
        inside.prop_map(|text| format!("-- {}\n", text.replace('\n', ""))),
        inside.prop_map(|text| format!("/*{}*/", text.replace(['*', '/'], ""))),
    ]
}

/// Arguments without numbers follow the order of the text, so a repeated name is bound twice.
#[test]
fn parameters_without_numbers() {
    for (text, expected, names) in [
        ("select :a", "select ?", "a"),
        ("select :a, :b, :a", "select ?, ?, ?", "a b a"),
        ("select ':a', `:a`, :a -- :a\n, :a", "select ':a', `:a`, ? -- :a\n, ?", "a a"),
        ("select :a limit :n", "select ? limit ?", "a n"),
    ] {
        assert_eq!(parsed(text, &ANONYMOUS), (expected.to_owned(), names.to_owned()), "{text}");
    }
    let sql = Sql::parse("select :a, :b, :a", &ANONYMOUS).unwrap();
    assert_eq!(sql.places, [7, 11, 15]);
    assert_eq!(sql.distinct().collect::<Vec<_>>(), [("a", 7), ("b", 11)]);
}

/// The statement as a database reads it with `value` in place of each placeholder.
fn bound(sql: &Sql, dialect: &'static Dialect, value: impl Fn(&str) -> String) -> String {
    let args: Vec<_> = sql.names.iter().map(|name| value(name)).collect();
    let (mut lexer, mut text, mut seen) = (Lexer::new(&sql.text, dialect), String::new(), 0);
    while let Some(token) = lexer.next().unwrap() {
        let part = &sql.text[token.start..token.end];
        match token.kind {
            TokenKind::Placeholder => {
                text.push_str(&args[dialect.placeholders.number(part, seen).unwrap() - 1]);
                seen += 1;
            }
            _ => text.push_str(part),
        }
    }
    text
}

proptest! {
    /// Each parameter gets its own value, by number or by occurrence. The bound statement equals
    /// the original with the values in place of the names.
    #[test]
    fn parameters_get_their_values(
        pieces in prop::collection::vec(
            prop_oneof!["[abc]".prop_map(Ok), "'[?$:a1]{0,3}'|\"[?$:a1]{0,3}\"|[x-z] *|1".prop_map(Err)],
            0..12,
        ),
    ) {
        let value = |name: &str| format!("<{name}>");
        let text = |parameter: &dyn Fn(&str) -> String| {
            let parts = pieces.iter().map(|piece| match piece {
                Ok(name) => parameter(name),
                Err(other) => other.clone(),
            });
            format!("select {}", parts.collect::<Vec<_>>().join(" , "))
        };
        for dialect in [&NUMBERED, &BRACKETED, &ANONYMOUS] {
            let sql = Sql::parse(&text(&|name| format!(":{name}")), dialect).unwrap();
            prop_assert_eq!(bound(&sql, dialect, value), text(&value));
            let names = pieces.iter().filter_map(|piece| piece.as_ref().ok());
            match dialect.placeholders {
                Placeholders::ByNumber(_) => prop_assert_eq!(sql.distinct().count(), sql.names.len()),
                Placeholders::ByOccurrence => prop_assert!(sql.names.iter().eq(names)),
            }
        }
    }

    #[test]
    fn quoted_text_has_no_parameters(pieces in prop::collection::vec(quoted_piece(), 1..8)) {
        // The commas separate the pieces: a string after an `E''` and a line end would continue it,
        // backslashes included.
        let text = format!("select {}", pieces.join(" , "));
        let sql = Sql::parse(&text, &NUMBERED).unwrap();
        prop_assert_eq!(&sql.names, &Vec::<String>::new());
        // Only non-ASCII letters in comments change.
        prop_assert_eq!(sql.text.len(), text.len());
        let is_comment = |piece: &&String| piece.starts_with("--") || piece.starts_with("/*");
        for piece in pieces.iter().filter(|piece| piece.is_ascii() || !is_comment(piece)) {
            prop_assert!(sql.text.contains(piece.as_str()), "{}", piece);
        }
    }

    #[test]
    fn nothing_replaced_is_the_same_text(text in "[a-z0-9(),.=<>+ \\n'\"/*\\-]{0,40}") {
        for dialect in [&NUMBERED, &BRACKETED] {
            if let Ok(sql) = Sql::parse(&text, dialect) {
                prop_assert_eq!(&sql.text, &text);
            }
        }
    }

    #[test]
    fn any_text_can_be_read(text in any::<String>(), tail in "[:$?@'\"\\[\\]eE\\\\;a-z\\- \\n]{0,40}") {
        for dialect in [&NUMBERED, &BRACKETED] {
            let _ = Sql::parse(&format!("{text}{tail}"), dialect);
            let _ = sections(&tail, dialect);
        }
    }

    /// Tokens leave no gaps, so no text is lost.
    #[test]
    fn tokens_cover_the_text(text in "[:$?@'\"a-z\\[\\]\\- \\nß]{0,40}") {
        for dialect in [&NUMBERED, &BRACKETED] {
            let mut lexer = Lexer::new(&text, dialect);
            let mut end = 0;
            while let Ok(Some(token)) = lexer.next() {
                prop_assert_eq!(token.start, end);
                prop_assert!(token.end > end && text.is_char_boundary(token.end));
                end = token.end;
            }
        }
    }
}
