//! Rows of a real server.

#[path = "../../rowstream-database/tests/support/rows.rs"]
mod rows;

#[tokio::test]
async fn rows_of_a_server() {
    let sql = "select ? as n, 1.50 as price, ? as t, null as nothing";
    let expected = "{\"n\":2,\"price\":1.50,\"t\":\"ü\",\"nothing\":null}\n";
    rows::reads_rows::<rowstream_mysql::Source>("ROWSTREAM_TEST_MARIADB", sql, expected).await;
}
