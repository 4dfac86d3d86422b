//! Rows of a real server.

#[path = "../../rowstream-database/tests/support/rows.rs"]
mod rows;

#[tokio::test]
async fn rows_of_a_server() {
    rows_of("ROWSTREAM_TEST_MARIADB").await;
}

#[tokio::test]
async fn rows_of_mysql() {
    rows_of("ROWSTREAM_TEST_MYSQL8").await;
}

async fn rows_of(server: &str) {
    let sql = "select ? as n, 1.50 as price, ? as t, null as nothing";
    let expected = "{\"n\":2,\"price\":1.50,\"t\":\"ü\",\"nothing\":null}\n";
    rows::reads_rows::<rowstream_mysql::Source>(server, sql, expected).await;
}
