//! Logins to MySQL 8, whose users have `caching_sha2_password` by default.

use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};

use super::{native, run, source};
use crate::support::{MySqlDb, Product};

const PASSWORD: &str = "pä ss/w@rd:%";

/// A user of a database, with one of MySQL's plugins. Dropping it drops the user.
struct User<'a> {
    db: &'a MySqlDb,
}

impl<'a> User<'a> {
    fn new(db: &'a MySqlDb, plugin: &str, requirement: &str) -> Self {
        let name = db.name();
        db.execute(&format!(
            "create user {name}@'%' identified with {plugin} by '{PASSWORD}' {requirement};
             grant select on {name}.* to {name}@'%'"
        ));
        Self { db }
    }

    /// Its URL, with a password.
    fn url(&self, password: &str, query: &str) -> String {
        let password = utf8_percent_encode(password, NON_ALPHANUMERIC);
        self.db.url_of(&format!("{}:{password}", self.db.name()), query)
    }

    fn over_socket(&self, password: &str) -> String {
        let socket = self.db.product().socket();
        let socket = utf8_percent_encode(socket.to_str().unwrap(), NON_ALPHANUMERIC).to_string();
        self.url(password, &format!("socket={socket}"))
    }
}

impl Drop for User<'_> {
    fn drop(&mut self) {
        self.db.execute(&format!("drop user {}@'%'", self.db.name()));
    }
}

async fn logs_in(url: &str) {
    assert_eq!(run(&source(url), "select 1 as v").await.unwrap(), "{\"v\":1}\n", "{url}");
}

async fn is_refused(url: &str, sqlstate: Option<&str>, cause: &str) {
    let error = run(&source(url), "select 1").await.unwrap_err();
    assert_eq!((error.code(), error.sqlstate_text()), ("source_unavailable", sqlstate), "{error:?}");
    let said = format!("{error:?}");
    assert!(said.contains(cause) && !said.contains(PASSWORD), "{said}");
}

/// The server wants the password itself once. Then it knows a proof, and any connection will do.
#[tokio::test]
async fn the_first_login_needs_a_secure_connection() {
    let db = Product::MySql8.database("select 1");
    let user = User::new(&db, "caching_sha2_password", "");
    let open = user.url(PASSWORD, "ssl-mode=disabled");
    is_refused(&open, None, "which isn't sent without encryption").await;
    is_refused(&user.over_socket("wr0ng-pass"), Some("28000"), "correct the user and the password").await;
    logs_in(&user.over_socket(PASSWORD)).await;
    logs_in(&open).await;
    logs_in(&user.over_socket(PASSWORD)).await;
    let wrong = user.url("wr0ng-pass", "ssl-mode=disabled");
    is_refused(&wrong, None, "which isn't sent without encryption").await;
    db.execute(&format!("alter user {}@'%' identified by 'another'", db.name()));
    is_refused(&user.over_socket(PASSWORD), Some("28000"), "correct the user and the password").await;
    logs_in(&user.over_socket("another")).await;
    db.execute("flush privileges");
    is_refused(&user.url("another", "ssl-mode=disabled"), None, "which isn't sent without encryption").await;
}

/// Root has no password, and no plugin wants to see it.
#[tokio::test]
async fn an_empty_password_is_proven_everywhere() {
    let db = Product::MySql8.database("select 1");
    logs_in(&db.url()).await;
    let socket = Product::MySql8.socket();
    let socket = utf8_percent_encode(socket.to_str().unwrap(), NON_ALPHANUMERIC).to_string();
    logs_in(&format!("mysql://root@{socket}/{}", db.name())).await;
}

#[tokio::test]
async fn older_plugins_work() {
    let db = Product::MySql8.database("select 1");
    logs_in(&db.url_of(&native(PASSWORD), "ssl-mode=disabled")).await;
    is_refused(&db.url_of(&native("wr0ng-pass"), "ssl-mode=disabled"), Some("28000"), "Access denied").await;
}

/// The server doesn't accept this plugin's password over a Unix socket. "Access denied; correct the
/// user and the password" was misleading.
#[tokio::test]
async fn sha256_password_needs_tls() {
    let db = Product::MySql8.database("select 1");
    let user = User::new(&db, "sha256_password", "");
    is_refused(&user.over_socket(PASSWORD), None, "sha256_password needs TLS").await;
    is_refused(&user.url(PASSWORD, "ssl-mode=disabled"), None, "sha256_password needs TLS").await;
}

/// This server's TLS has only cipher suites without ECDHE, which we don't accept.
#[tokio::test]
async fn a_server_without_modern_tls_says_what_it_lacks() {
    let db = Product::MySql8.database("select 1");
    let user = User::new(&db, "mysql_native_password", "require ssl");
    is_refused(&user.url(PASSWORD, "ssl-mode=disabled"), Some("28000"), "leave `ssl-mode=disabled` out")
        .await;
    for mode in ["preferred", "required"] {
        let url = user.url(PASSWORD, &format!("ssl-mode={mode}"));
        is_refused(&url, None, "TLS 1.2 with ECDHE").await;
    }
}
