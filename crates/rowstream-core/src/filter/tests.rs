use proptest::prelude::*;

use super::*;

fn read_text(query: &str) -> Result<Refinement, Vec<(String, String)>> {
    read(query.split('&').filter_map(|pair| pair.split_once('=')))
}

fn condition(query: &str) -> Condition {
    let read = read_text(query).unwrap_or_else(|wrong| panic!("{query}: {wrong:?}"));
    let [condition] = <[_; 1]>::try_from(read.conditions).unwrap();
    condition
}

fn reason(query: &str) -> String {
    let wrong = read_text(query).map(|read| format!("{read:?}")).expect_err(query);
    wrong.into_iter().map(|(name, why)| format!("{name}: {why}")).collect::<Vec<_>>().join("; ")
}

fn with(column: &str, operator: Operator, value: &str) -> Condition {
    Condition::Column { column: column.to_owned(), comparison: Comparison::With(operator, value.to_owned()) }
}

fn any_of(column: &str, values: &[&str]) -> Condition {
    let values = values.iter().map(|value| (*value).to_owned()).collect();
    Condition::Column { column: column.to_owned(), comparison: Comparison::In(values) }
}

fn is(column: &str, truth: Truth) -> Condition {
    Condition::Column { column: column.to_owned(), comparison: Comparison::Is(truth) }
}

fn not(condition: Condition) -> Condition {
    Condition::Not(Box::new(condition))
}

#[test]
fn conditions() {
    for (query, expected) in [
        ("status=eq.PAID", with("status", Operator::Eq, "PAID")),
        ("a=eq.", with("a", Operator::Eq, "")),
        ("a=eq.x.y,(z)\"", with("a", Operator::Eq, "x.y,(z)\"")),
        ("my.column=gte.1.5", with("my.column", Operator::Gte, "1.5")),
        ("a=not.like.A*", not(with("a", Operator::Like, "A*"))),
        ("a=in.(1,2)", any_of("a", &["1", "2"])),
        ("a=in.()", any_of("a", &[])),
        (r#"a=in.("x, y","q\"\\",z)"#, any_of("a", &["x, y", "q\"\\", "z"])),
        ("a=is.null", is("a", Truth::Null)),
        ("a=is.NOT_NULL", is("a", Truth::NotNull)),
        ("a=not.is.true", not(is("a", Truth::True))),
        ("tags=cs.{a,b}", with("tags", Operator::Cs, "{a,b}")),
    ] {
        assert_eq!(condition(query), expected, "{query}");
    }
    assert_eq!(read_text("a=gt.1&a=lt.9").unwrap().conditions.len(), 2, "both have to be met");
}

#[test]
fn groups() {
    let (a, b) = (with("a", Operator::Eq, "1"), with("b", Operator::Gt, "2"));
    for (query, expected) in [
        ("or=(a.eq.1,b.gt.2)", Condition::Any(vec![a.clone(), b.clone()])),
        ("and=(a.eq.1, b.gt.2)", Condition::All(vec![a.clone(), b.clone()])),
        ("not.or=(a.eq.1)", not(Condition::Any(vec![a.clone()]))),
        (
            "or=(not.and(a.eq.1,b.gt.2),b.not.in.(1,2))",
            Condition::Any(vec![not(Condition::All(vec![a, b])), not(any_of("b", &["1", "2"]))]),
        ),
        (
            r#"and=("a.b".eq."x,)",tags.cs.{1,2},order.is.null)"#,
            Condition::All(vec![
                with("a.b", Operator::Eq, "x,)"),
                with("tags", Operator::Cs, "{1,2}"),
                is("order", Truth::Null),
            ]),
        ),
    ] {
        assert_eq!(condition(query), expected, "{query}");
    }
}

#[test]
fn order_columns_and_pages() {
    let read =
        read_text("select=id,total:amount,*&order=created.desc.nullslast,a.b,id.asc&limit=10&offset=0")
            .unwrap();
    let one = |column: &str, alias: Option<&str>| SelectedColumn::One {
        column: column.to_owned(),
        alias: alias.map(str::to_owned),
    };
    assert_eq!(read.select.unwrap(), [one("id", None), one("amount", Some("total")), SelectedColumn::All]);
    let term = |column: &str, descending, nulls_first| OrderTerm {
        column: column.to_owned(),
        descending,
        nulls_first,
    };
    assert_eq!(
        read.order,
        [term("created", true, Some(false)), term("a.b", false, None), term("id", false, None)]
    );
    assert_eq!((read.limit, read.offset), (Some(10), Some(0)));
}

#[test]
fn wrong_requests_say_what_to_write() {
    for (query, expected) in [
        ("a=5", "a: `5` isn't an operator: write `column=eq.value`; the operators are `eq`, `neq`"),
        ("a=", "a: it has no operator"),
        ("a=eq", "a: `eq` has no value: write `column=eq.value`"),
        ("a=eqq.5", "did you mean `eq`?"),
        ("a=fts.x", "write an endpoint file for a text search"),
        ("a=eq(any).{1}", "`eq` has a modifier"),
        ("a=in.1", "the values of `in` are in brackets"),
        ("a=in.(1", "the closing bracket of `in` is missing"),
        ("a=in.(1)2", "`2` is left over"),
        ("a=in.(\"1)", "the closing quote is missing"),
        ("a=is.5", "`is` compares with"),
        ("or=a.eq.1", "isn't in brackets: write `or=(a.eq.1,b.gt.2)`"),
        ("or=(a.eq.1", "the closing bracket is missing"),
        ("or=()", "isn't a condition"),
        ("or=(a)", "`a` isn't a condition: write `column.operator.value`"),
        ("or=(a.eq.1)x", "`x` is left over"),
        ("limit=-1", "`-1` is not a number of rows"),
        ("limit=+1", "is not a number of rows"),
        ("limit=1&limit=2", "limit: it is given more than once"),
        ("order=a&order=b", "order: it is given more than once"),
        ("order=a,a.desc", "it names `a` twice"),
        ("order=", "the name of a column is missing"),
        ("select=", "the name of a column is missing"),
        ("select=id,films(title)", "other tables and aggregates"),
        ("select=a->b", "parts of JSON"),
        ("select=a::text", "casts"),
        ("select=:a", "lacks a name"),
        ("a=5&b=6", "; b: "),
    ] {
        let why = reason(query);
        assert!(why.contains(expected), "{query}: {why}");
    }
}

#[test]
fn requests_have_bounds() {
    let conditions = |count: usize| vec!["a=eq.1"; count].join("&");
    assert!(read_text(&conditions(MOST_CONDITIONS)).is_ok());
    assert!(reason(&conditions(MOST_CONDITIONS + 1)).contains("more than 32 conditions"));
    let group = format!("or=({})", vec!["a.eq.1"; MOST_CONDITIONS + 1].join(","));
    assert!(reason(&group).contains("more than 32 conditions"));
    let deep = |depth: usize| format!("and={}a.eq.1{}", "(and".repeat(depth - 1) + "(", ")".repeat(depth));
    assert!(read_text(&deep(DEEPEST)).is_ok());
    assert!(reason(&deep(DEEPEST + 1)).contains("nested more than 5 deep"));
    assert!(reason(&deep(100_000)).contains("nested more than 5 deep"));
    let values = |count: usize| format!("a=in.({})", vec!["1"; count].join(","));
    assert!(read_text(&values(MOST_VALUES)).is_ok());
    assert!(reason(&values(MOST_VALUES + 1)).contains("more than 1000 values"));
    assert!(reason(&format!("{}&{0}", values(MOST_VALUES / 2 + 1))).contains("more than 1000 values"));
    let order =
        |count: usize| format!("order={}", (0..count).map(|i| format!("c{i}")).collect::<Vec<_>>().join(","));
    assert!(read_text(&order(MOST_ORDERED)).is_ok());
    assert!(reason(&order(MOST_ORDERED + 1)).contains("at most 8"));
}

/// A value in quotes, as a client writes it inside of brackets.
fn quoted(value: &str) -> String {
    format!("\"{}\"", value.replace('\\', "\\\\").replace('"', "\\\""))
}

proptest! {
    #[test]
    fn any_text_can_be_read(name in "[a-z.()]{0,8}", value in any::<String>()) {
        let _ = read([(name.as_str(), value.as_str()), ("or", value.as_str())].into_iter());
    }

    #[test]
    fn almost_conditions_can_be_read(value in "[a-z,.()\"\\\\{}=*ä ]{0,40}") {
        let _ = read([("or", value.as_str()), ("a", &value), ("select", &value), ("order", &value)].into_iter());
    }

    #[test]
    fn quoted_values_come_back(column in "[a-z.,()\"\\\\ä]{1,8}", values in prop::collection::vec(any::<String>(), 1..4)) {
        let list: Vec<_> = values.iter().map(|value| quoted(value)).collect();
        let text = format!("({}.in.({}),{0}.eq.{})", quoted(&column), list.join(","), list[0]);
        let read = read([("and", text.as_str())].into_iter()).unwrap();
        let expected = Condition::All(vec![
            Condition::Column { column: column.clone(), comparison: Comparison::In(values.clone()) },
            Condition::Column { column, comparison: Comparison::With(Operator::Eq, values[0].clone()) },
        ]);
        prop_assert_eq!(read.conditions, [expected]);
    }
}
