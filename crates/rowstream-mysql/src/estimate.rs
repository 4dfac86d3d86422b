//! The number of rows that MySQL or MariaDB expects of a statement.

use serde_json::{Map, Value};

/// Reads the number from a plan, as `explain format=json` writes it: the product of the rows that
/// are read of each joined table. Conditions without an index or a histogram don't lower it.
pub(crate) fn rows(plan: &str) -> Option<u64> {
    let plan: Value = serde_json::from_str(plan).ok()?;
    let rows = match newer(&plan) {
        Some(rows) => rows,
        None => of_block(plan.get("query_block")?.as_object()?)?,
    };
    // Above 2^53 it has less digits than a u64, but it's a guess anyway.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    Some(rows.max(0.0).round() as u64)
}

/// The number in MySQL's newer form of plans, which states it for each step.
fn newer(plan: &Value) -> Option<f64> {
    number(plan.get("query_plan").unwrap_or(plan).get("estimated_rows")?)
}

/// The rows of a block, or of a step in it that sorts or groups.
fn of_block(block: &Map<String, Value>) -> Option<f64> {
    if let Some(message) = block.get("message") {
        return Some(of_message(message));
    }
    if let Some(table) = block.get("table") {
        return of_table(table);
    }
    if let Some(joined) = block.get("nested_loop") {
        return joined.as_array()?.iter().map(of_joined).product();
    }
    block.values().find_map(|step| of_block(step.as_object()?))
}

/// The rows of a table in a join. MariaDB puts a step around some of them.
fn of_joined(joined: &Value) -> Option<f64> {
    of_block(joined.as_object()?)
}

/// The rows that are read of a table, for each row of the tables before it.
fn of_table(table: &Value) -> Option<f64> {
    if let Some(message) = table.get("message") {
        return Some(of_message(message));
    }
    let rows = table.get("rows_examined_per_scan").or_else(|| table.get("rows"))?;
    let filtered = table.get("filtered").and_then(number).unwrap_or(100.0);
    Some(number(rows)? * filtered / 100.0)
}

/// The rows of a step that has only a message: one if it reads no table, else none, because its
/// condition can't be met.
fn of_message(message: &Value) -> f64 {
    if message.as_str().is_some_and(|text| text.starts_with("No tables")) { 1.0 } else { 0.0 }
}

/// A number, which MySQL writes as a text in some places.
fn number(value: &Value) -> Option<f64> {
    value.as_f64().or_else(|| value.as_str()?.parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rows_of_joined_tables_are_multiplied() {
        let mariadb = r#"{"query_block": {"select_id": 1, "nested_loop": [
            {"table": {"table_name": "q", "rows": 497, "filtered": 50}},
            {"block-nl-join": {"table": {"table_name": "p", "rows": 2, "filtered": 100}}}]}}"#;
        assert_eq!(rows(mariadb), Some(497));
        let mysql = r#"{"query_block": {"select_id": 1, "cost_info": {"query_cost": "100.75"},
            "ordering_operation": {"using_filesort": true, "table": {"table_name": "p",
            "rows_examined_per_scan": 1000, "rows_produced_per_join": 100, "filtered": "10.00"}}}}"#;
        assert_eq!(rows(mysql), Some(100));
        assert_eq!(rows(r#"{"query": "select 1", "query_plan": {"estimated_rows": 7.0}}"#), Some(7));
        assert_eq!(rows(r#"{"query": "select 1", "estimated_rows": 7.4}"#), Some(7));
    }

    #[test]
    fn a_message_says_that_there_are_no_rows() {
        let without = |within: &str| rows(&format!(r#"{{"query_block": {{"select_id": 1, {within}}}}}"#));
        assert_eq!(without(r#""table": {"message": "Impossible WHERE"}"#), Some(0));
        assert_eq!(without(r#""table": {"message": "No tables used"}"#), Some(1));
        assert_eq!(without(r#""message": "no matching row in const table""#), Some(0));
    }

    #[test]
    fn other_texts_have_no_number() {
        for text in ["", "[]", "{}", r#"{"query_block": {"select_id": 1}}"#, r#"{"query_block": 7}"#] {
            assert_eq!(rows(text), None, "{text}");
        }
    }
}
