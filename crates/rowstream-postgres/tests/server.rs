//! Rows of a real server.

#[path = "../../rowstream-database/tests/support/rows.rs"]
mod rows;

#[tokio::test]
async fn rows_of_a_server() {
    let sql = "select n, 1.50 as price, $2::text as t, null as nothing from generate_series(1, $1) n";
    let expected = "{\"n\":1,\"price\":1.50,\"t\":\"ü\",\"nothing\":null}\n{\"n\":2,\"price\":1.50,\"t\":\"ü\",\"nothing\":null}\n";
    rows::reads_rows::<rowstream_postgres::Source>("ROWSTREAM_TEST_PG", sql, expected).await;
}
