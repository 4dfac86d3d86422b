//! The number of rows that PostgreSQL expects of a statement.

/// Reads the number from the first line of a plan:
/// `Seq Scan on event  (cost=0.00..155.00 rows=10000 width=4)`.
///
/// A product of tables may have more rows than a `u64`; then it's the largest one.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the cast saturates")]
pub(crate) fn rows(plan: &str) -> Option<u64> {
    let (_, costs) = plan.split_once("  (cost=")?;
    let (_, rows) = costs.split_once(" rows=")?;
    let rows: f64 = rows.split_once(' ')?.0.parse().ok()?;
    Some(rows as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_line_has_the_number() {
        assert_eq!(rows("Seq Scan on event  (cost=0.00..155.00 rows=10000 width=4)"), Some(10_000));
        let named = "Index Scan using \"a rows=7 b\" on t  (cost=0.00..1.00 rows=3 width=4)";
        assert_eq!(rows(named), Some(3));
        assert_eq!(rows("Result  (cost=0.00..0.00 rows=0 width=4)"), Some(0));
        let product = "Nested Loop  (cost=0.00..1.00 rows=312500000000000000000000 width=4)";
        assert_eq!(rows(product), Some(u64::MAX));
        assert_eq!(rows("distribution: local"), None);
        assert_eq!(rows(""), None);
    }
}
