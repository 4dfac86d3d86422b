//! Passwords that change while a server runs.

#![expect(clippy::unwrap_used, reason = "the helpers of tests are tests, too")]

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::sync::{Arc, Mutex};

use crate::support::upstream::{Speaks, Upstream, reply};
use crate::support::{
    Launch, MariaDb, Server, TestDb, drivers, get, mariadb_port, pg_port, rowstream, wait_until,
};

/// Identifies the connection of a list. Lookups may share one.
const PID: &str = "select pg_backend_pid() as pid";
const ID: &str = "select connection_id() as id";

/// A new user who logs in with SCRAM-SHA-256.
async fn user(db: &TestDb, password: &str) -> String {
    let user = format!("user_of_{}", db.name());
    db.execute(&format!("create role {user} login password '{password}' in role test_users")).await;
    user
}

/// Changes a user's password, and ends the user's connections.
async fn rotate(db: &TestDb, user: &str, password: &str) {
    db.execute(&format!(
        "alter role {user} password '{password}';
         select pg_terminate_backend(pid, 10000) from pg_stat_activity where usename = '{user}'"
    ))
    .await;
}

async fn drop_user(db: &TestDb, user: &str) {
    rotate(db, user, "gone").await;
    db.execute(&format!("drop role {user}")).await;
}

fn address(db: &TestDb) -> String {
    format!("127.0.0.1:{}/{}?sslmode=disable", pg_port(), db.name())
}

fn write(folder: &Path, name: &str, text: &str) {
    let path = folder.join(name);
    fs::write(&path, text).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
}

async fn assert_answers(server: &Server, target: &str, status: u16, when: &str) {
    let reply = get(&server.url(target)).await;
    assert_eq!(reply.status, status, "{when}: {}\n{}", reply.text(), server.stderr());
}

/// `${file:…}` was read only at the start and at a reload. After the file and the role had changed,
/// each login failed with 28P01 until someone sent SIGHUP.
#[tokio::test]
async fn a_login_that_fails_reads_the_file_of_its_password_again() {
    let db = TestDb::new().await;
    let user = user(&db, "one").await;
    let config = format!("[source.db]\nurl = \"postgres://{user}:${{file:pw}}@{}\"\n", address(&db));
    let server =
        Server::start(&[("rowstream.toml", &config), ("pw", "one\n"), ("endpoints/a.sql", PID)]).await;
    assert_answers(&server, "/a", 200, "at the start").await;
    for password in ["two", "three"] {
        // As an editor on Windows writes it.
        write(server.folder(), "pw", &format!("\u{feff}{password}\r\n"));
        rotate(&db, &user, password).await;
        for _ in 0..3 {
            assert_answers(&server, "/a", 200, password).await;
        }
    }
    // With a file that isn't updated yet, or a missing one, the login is still refused.
    rotate(&db, &user, "four").await;
    assert_answers(&server, "/a", 503, "a file that is late").await;
    fs::remove_file(server.folder().join("pw")).unwrap();
    assert_answers(&server, "/a", 503, "no file").await;
    server.wait_for_stdout("password authentication failed").await;
    write(server.folder(), "pw", "four");
    assert_answers(&server, "/a", 200, "the file is right").await;
    assert_eq!(server.count_stderr("reloaded"), 0);
    drop(server);
    drop_user(&db, &user).await;
}

/// Vault creates a new user for each lease of a database's credentials.
#[tokio::test]
async fn the_user_may_be_another_one_as_well() {
    let db = TestDb::new().await;
    let one = user(&db, "one").await;
    let two = format!("{one}_too");
    db.execute(&format!("create role {two} login password 'two' in role test_users")).await;
    let files = [
        ("rowstream.toml", "[source.db]\nurl = \"${file:url}\"\n"),
        ("url", &format!("POSTGRES://{one}:one@{}", address(&db))),
        ("endpoints/a.sql", PID),
    ];
    let server = Server::start(&files).await;
    assert_answers(&server, "/a", 200, "at the start").await;
    write(server.folder(), "url", &format!("POSTGRES://{two}:two@{}", address(&db)));
    drop_user(&db, &one).await;
    assert_answers(&server, "/a", 200, "another user").await;
    drop(server);
    drop_user(&db, &two).await;
}

/// `psql` reads the password file for each connection, but Rowstream read it only once.
#[tokio::test]
async fn a_login_that_fails_reads_the_password_file_again() {
    let db = TestDb::new().await;
    let user = user(&db, "one").await;
    let config = format!("[source.db]\nurl = \"postgres://{user}@{}\"\n", address(&db));
    let launch = Launch::files(&[("rowstream.toml", &config), ("endpoints/a.sql", PID)]);
    let file = launch.path().join("passwords");
    let server = launch.variable("PGPASSFILE", file.to_str().unwrap()).argument("--no-check").start().await;
    assert_answers(&server, "/a", 503, "no password").await;
    server.wait_for_stdout("asks for a password, but none is configured").await;
    write(server.folder(), "passwords", "*:*:*:*:one");
    assert_answers(&server, "/a", 200, "a password file").await;
    rotate(&db, &user, "two").await;
    write(server.folder(), "passwords", "\u{feff}*:*:*:*:two");
    assert_answers(&server, "/a", 200, "another password").await;
    drop(server);
    drop_user(&db, &user).await;
}

/// A connection opened before a rotation runs a statement after it. To cancel that, MariaDB
/// requires another login.
#[tokio::test]
async fn a_login_of_mariadb_that_fails_reads_its_password_again() {
    let db = MariaDb::new("select 1");
    let user = format!("u_{}", db.name());
    let login = |password| format!("'{user}'@'%' identified by '{password}'");
    db.execute(&format!("create user {}; grant all on {}.* to '{user}'@'%'", login("one"), db.name()));
    let config = format!(
        "[source.db]\nurl = \"mysql://{user}:${{file:pw}}@127.0.0.1:{}/{}?ssl-mode=disabled\"\npool = {{ max = 1 }}\n",
        mariadb_port(),
        db.name()
    );
    let slow = "/*\ntimeout = { total = \"1s\" }\n*/\nselect sleep(1000) as n";
    let server = Server::start(&[
        ("rowstream.toml", &config),
        ("pw", "one"),
        ("endpoints/a.sql", ID),
        ("endpoints/slow.sql", slow),
    ])
    .await;
    assert_answers(&server, "/a", 200, "at the start").await;
    write(server.folder(), "pw", "two");
    db.execute(&format!("alter user {}", login("two")));
    assert_answers(&server, "/slow", 504, "a statement that is cancelled").await;
    // The pool has one connection, which is free once the statement is cancelled.
    assert_answers(&server, "/a", 200, "after it").await;
    kill(&db, &user).await;
    assert_answers(&server, "/a", 200, "another connection").await;
    db.execute(&format!("alter user {}", login("three")));
    kill(&db, &user).await;
    assert_answers(&server, "/a", 503, "a file that is late").await;
    drop(server);
    db.execute(&format!("drop user '{user}'@'%'"));
}

/// Ends the connections of a MariaDB user, which needs a moment after the statement.
async fn kill(db: &MariaDb, user: &str) {
    db.execute(&format!("kill user '{user}'"));
    let open = format!("select count(*) from information_schema.processlist where user = '{user}'");
    wait_until("its connections end", async || db.ask(&open).trim() == "0").await;
}

/// Drivers never read a file again. A connection whose database had ended it was opened again with
/// the old password, too.
#[tokio::test]
async fn a_login_of_odbc_that_fails_reads_its_password_again() {
    let (postgresql, mariadb) = (TestDb::new().await, MariaDb::new("select 1"));
    let user = user(&postgresql, "one").await;
    let url = drivers::odbc_postgres(postgresql.name(), pg_port());
    let url = url.replace("UID=postgres", &format!("UID={user};PWD=${{file:pw}}"));
    let server = serve(&url, &[("endpoints/a.sql", PID), ("endpoints/b.sql", TWO)]).await;
    for (password, first) in [("two", "/a"), ("three", "/b")] {
        write(server.folder(), "pw", password);
        rotate(&postgresql, &user, password).await;
        for target in [first, "/a", "/b"] {
            assert_answers(&server, target, 200, password).await;
        }
    }
    rotate(&postgresql, &user, "four").await;
    assert_answers(&server, "/a", 503, "a file that is late").await;
    server.wait_for_stdout("password authentication failed").await;
    write(server.folder(), "pw", "four");
    assert_answers(&server, "/a", 200, "the file is right").await;
    drop(server);
    drop_user(&postgresql, &user).await;

    let user = format!("u_{}", mariadb.name());
    let login = |password| format!("'{user}'@'%' identified by '{password}'");
    mariadb.execute(&format!(
        "create user {}; grant all on {}.* to '{user}'@'%'",
        login("one"),
        mariadb.name()
    ));
    let url = drivers::odbc_mariadb(mariadb.name(), mariadb_port());
    let url = url.replace("UID=root", &format!("UID={user};PWD=${{file:pw}}"));
    let server = serve(&url, &[("endpoints/a.sql", ID), ("endpoints/b.sql", TWO)]).await;
    for (password, first) in [("two", "/a"), ("three", "/b")] {
        write(server.folder(), "pw", password);
        mariadb.execute(&format!("alter user {}", login(password)));
        kill(&mariadb, &user).await;
        for target in [first, "/a", "/b"] {
            assert_answers(&server, target, 200, password).await;
        }
    }
    drop(server);
    mariadb.execute(&format!("drop user '{user}'@'%'"));
}

/// Statements in one snapshot.
const TWO: &str =
    "/*\nbody = { a = '$a', b = '$b' }\n*/\n-- name: a :many\nselect 1 as n\n-- name: b :many\nselect 2 as n";

/// A server with one connection, whose password is `one`.
async fn serve(url: &str, endpoints: &[(&str, &str)]) -> Server {
    let config = format!("[source.db]\nurl = \"{url}\"\npool = {{ max = 1 }}\n");
    Server::start(&[&[("rowstream.toml", &*config), ("pw", "one")], endpoints].concat()).await
}

/// The database that a driver of ADBC keeps open has the options of its first connection.
#[tokio::test]
async fn a_login_of_adbc_that_fails_reads_its_password_again() {
    let db = TestDb::new().await;
    let user = user(&db, "one").await;
    let url = drivers::adbc_postgres(db.name(), pg_port());
    let url = url.replace("postgres%40", &format!("{user}%3A${{file:pw}}%40"));
    let server = serve(&url, &[("endpoints/a.sql", "select 1 as n"), ("endpoints/b.sql", TWO)]).await;
    for password in ["two", "three"] {
        write(server.folder(), "pw", password);
        rotate(&db, &user, password).await;
        for target in ["/a", "/b", "/a"] {
            assert_answers(&server, target, 200, password).await;
        }
    }
    drop(server);
    drop_user(&db, &user).await;
}

/// Two connections were replaced with a password that their file had only briefly, which failed. Then
/// one of them read the right file. The other one found that the password hadn't changed since its
/// login, so each of its requests failed.
#[tokio::test]
async fn a_password_that_is_briefly_wrong_leaves_no_connection_closed() {
    let db = TestDb::new().await;
    let user = user(&db, "one").await;
    let url = drivers::adbc_postgres(db.name(), pg_port());
    let url = url.replace("postgres%40", &format!("{user}%3A${{file:pw}}%40"));
    let config = format!("[source.db]\nurl = \"{url}\"\npool = {{ max = 2 }}\n");
    let slow = ("endpoints/a.sql", "select pg_sleep(0.5)::text as n");
    let server = Server::start(&[("rowstream.toml", &config), ("pw", "one"), slow]).await;
    let on_both = async |status: u16, when: &'static str| {
        tokio::join!(assert_answers(&server, "/a", status, when), assert_answers(&server, "/a", status, when))
    };
    on_both(200, "at the start").await;
    write(server.folder(), "pw", "two");
    let backends = format!("pg_stat_activity where usename = '{user}'");
    db.execute(&format!(
        "alter role {user} nologin; select pg_terminate_backend(pid, 10000) from {backends}"
    ))
    .await;
    on_both(503, "no login").await;
    write(server.folder(), "pw", "one");
    db.execute(&format!("alter role {user} login")).await;
    on_both(200, "the old password").await;
    drop(server);
    drop_user(&db, &user).await;
}

/// `--watch` watched certificates and keys, but no secret files.
#[tokio::test]
async fn files_of_secrets_are_watched() {
    let db = TestDb::new().await;
    let config = format!(
        "cursor_secret = \"${{file:secrets/cursor}}\"\n[source.db]\nurl = \"{}&application_name=${{file:name:-none}}\"\n",
        db.url()
    );
    let launch = Launch::files(&[
        ("rowstream.toml", &config),
        ("secrets/cursor", "one"),
        ("endpoints/a.sql", "select current_setting('application_name') as name"),
    ]);
    let server = launch.argument("--watch").start().await;
    write(server.folder(), "name", "books");
    server.wait_for_stderr("reloaded: 1 endpoints").await;
    assert_eq!(get(&server.url("/a")).await.text(), "[{\"name\":\"books\"}]");
    write(server.folder(), "secrets/cursor", "another");
    wait_until("a second reload", async || server.count_stderr("reloaded: 1 endpoints") == 2).await;
}

/// A configuration whose password is the output of a script, which counts its runs.
fn by_command(user: &str, db: &TestDb, folder: &Path) -> String {
    let url = format!("postgres://{user}@{}", address(db));
    let script = folder.join("token.sh");
    format!("[source.db]\nurl = \"{url}\"\npassword_command = [\"/bin/sh\", \"{}\"]\n", script.display())
}

fn runs(folder: &Path) -> usize {
    fs::read_to_string(folder.join("runs")).unwrap_or_default().lines().count()
}

/// Cloud tokens are valid for minutes, so a program writes the password.
#[tokio::test]
async fn a_command_writes_the_password() {
    let db = TestDb::new().await;
    let user = user(&db, "one").await;
    let launch =
        Launch::files(&[("pw", "one\nmore"), ("endpoints/a.sql", "select pg_sleep(0.1)::text as n")]);
    let folder = launch.path().to_owned();
    write(&folder, "rowstream.toml", &by_command(&user, &db, &folder));
    let script = format!("cd {}; echo run >> runs; cat pw", folder.display());
    write(&folder, "token.sh", &script);
    // The check at the start would open additional connections.
    let server = launch.argument("--no-check").start().await;
    let asked =
        || futures_util::future::join_all((0..5).map(|_| assert_answers(&server, "/a", 200, "at once")));
    asked().await;
    assert_eq!(runs(&folder), 1, "all connections share one run");
    write(&folder, "pw", "two\n");
    rotate(&db, &user, "two").await;
    asked().await;
    assert_eq!(runs(&folder), 2);

    // A late output, and a failing command.
    rotate(&db, &user, "three").await;
    assert_answers(&server, "/a", 503, "an old password").await;
    server.wait_for_stdout("password authentication failed").await;
    write(&folder, "token.sh", "echo three; echo 'no role to assume' >&2; exit 4");
    assert_answers(&server, "/a", 503, "no password").await;
    server
        .wait_for_stdout("`password_command` failed with exit status: 4: no role to assume; run it as")
        .await;
    write(&folder, "token.sh", &script);
    write(&folder, "pw", "three\n");
    assert_answers(&server, "/a", 200, "the third password").await;
    let said = server.stdout() + &server.stderr();
    assert!(!said.contains("two") && !said.contains("three"), "{said}");
    drop(server);
    drop_user(&db, &user).await;
}

#[tokio::test]
async fn a_command_writes_the_password_of_mariadb() {
    let db = MariaDb::new("select 1");
    let user = format!("u_{}", db.name());
    let login = |password| format!("'{user}'@'%' identified by '{password}'");
    db.execute(&format!("create user {}; grant all on {}.* to '{user}'@'%'", login("one"), db.name()));
    let launch = Launch::files(&[("pw", "one"), ("endpoints/a.sql", ID)]);
    let (folder, address) = (launch.path().to_owned(), format!("127.0.0.1:{}", mariadb_port()));
    let config = format!(
        "[source.db]\nurl = \"mysql://{user}@{address}/{}?ssl-mode=disabled\"\npassword_command = [\"cat\", \"{}\"]\n",
        db.name(),
        folder.join("pw").display()
    );
    write(&folder, "rowstream.toml", &config);
    let server = launch.start().await;
    assert_answers(&server, "/a", 200, "at the start").await;
    write(&folder, "pw", "two");
    db.execute(&format!("alter user {}; kill user '{user}'", login("two")));
    // The killed connection ends some time after the command, and a request may still find it.
    wait_until("another password", async || get(&server.url("/a")).await.status == 200).await;
    drop(server);
    db.execute(&format!("drop user '{user}'@'%'"));
}

/// The characters of connection strings don't end a password.
#[tokio::test]
async fn a_command_writes_the_password_of_odbc() {
    let (postgresql, mariadb) = (TestDb::new().await, MariaDb::new("select 1"));
    let passwords = ["one", "a;b}={c} %&?", "{x}"];
    let user = user(&postgresql, "one").await;
    let of_mariadb = format!("u_{}", mariadb.name());
    mariadb.execute(&format!(
        "create user '{of_mariadb}'@'%' identified by 'one'; grant all on {}.* to '{of_mariadb}'@'%'",
        mariadb.name()
    ));
    let launch = Launch::files(&[
        ("pw", "one\n"),
        ("endpoints/p.sql", "/* source = 'p' */ select 1 as n"),
        ("endpoints/m.sql", "/* source = 'm' */ select 1 as n"),
    ]);
    let folder = launch.path().to_owned();
    let of = |name: &str, url: &str, before: &str, user: &str| {
        let url = url.replace(before, &format!("UID={user}"));
        let file = folder.join("pw");
        format!("[source.{name}]\nurl = \"{url}\"\npassword_command = [\"cat\", \"{}\"]\n", file.display())
    };
    let p = of("p", &drivers::odbc_postgres(postgresql.name(), pg_port()), "UID=postgres", &user);
    let m = of("m", &drivers::odbc_mariadb(mariadb.name(), mariadb_port()), "UID=root", &of_mariadb);
    write(&folder, "rowstream.toml", &format!("{p}{m}"));
    let server = launch.start().await;
    for password in passwords {
        write(&folder, "pw", password);
        rotate(&postgresql, &user, password).await;
        mariadb.execute(&format!("alter user '{of_mariadb}'@'%' identified by '{password}'"));
        kill(&mariadb, &of_mariadb).await;
        for target in ["/p", "/m"] {
            assert_answers(&server, target, 200, password).await;
        }
    }
    rotate(&postgresql, &user, "other").await;
    assert_answers(&server, "/p", 503, "an old password").await;
    let said = server.stdout() + &server.stderr();
    assert!(!said.contains("{x}"), "{said}");
    drop(server);
    drop_user(&postgresql, &user).await;
    mariadb.execute(&format!("drop user '{of_mariadb}'@'%'"));
}

/// Sources that can't use the password refuse the command.
#[tokio::test]
async fn a_command_that_cannot_be_used_is_refused() {
    for (url, message) in [
        ("sqlite:a.db", "`password_command` is for PostgreSQL, MySQL, ODBC, Arrow Flight SQL"),
        ("adbc:x?uri=y", "`password_command` is for PostgreSQL, MySQL, ODBC, Arrow Flight SQL"),
        ("https://a.example", "`password_command` is for databases"),
        ("odbc:DSN=shop;pwd = {a;b}", "this source has a password in its URL, and a `password_command`"),
    ] {
        let config = format!("[source.db]\nurl = \"{url}\"\npassword_command = [\"cat\", \"pw\"]\n");
        let launch = Launch::files(&[("rowstream.toml", &config)]);
        let path = launch.path().join("rowstream.toml");
        let output = rowstream(&["check", path.to_str().unwrap()]).await;
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(1), "{url}: {said}");
        assert!(said.contains(message) && said.contains("hint"), "{url}: {said}");
    }
}

/// The token of an upstream was read only at the start and at a reload, so after a rotation each request
/// failed with 401.
#[tokio::test]
async fn a_token_that_an_upstream_refuses_is_read_again() {
    for speaks in [Speaks::Http1, Speaks::H2c(10)] {
        let (upstream, valid) = guarded(speaks.clone(), 401).await;
        let protocol = if matches!(speaks, Speaks::Http1) { "http1" } else { "http2" };
        let config = format!(
            "[source.up]\nurl = \"http://{}\"\nprotocol = \"{protocol}\"\n\
             headers = {{ Authorization = \"Bearer ${{file:token}}\", X-Fixed = \"1\" }}\n",
            upstream.address()
        );
        let files = [
            ("rowstream.toml", &*config),
            ("token", "one\n"),
            ("endpoints/get.toml", "[upstream]\nrequest = \"GET /rows\"\n"),
            (
                "endpoints/list.toml",
                "[upstream]\nrequest = \"GET /rows\"\nrows = \"\"\ncolumns = { id = \"integer\" }\n",
            ),
        ];
        let server = Server::start(&files).await;
        for (target, refused) in [("/get", 401), ("/list", 502)] {
            for (token, next) in [("one", "two"), ("two", "one")] {
                assert_answers(&server, target, 200, "before").await;
                *valid.lock().unwrap() = next;
                let before = upstream.asked().len();
                assert_answers(&server, target, refused, "the file still has the former token").await;
                assert_eq!(upstream.asked().len() - before, 1, "{target} {token}: no other token to send");
                write(server.folder(), "token", next);
                let before = upstream.asked().len();
                assert_answers(&server, target, 200, "after the file has changed").await;
                assert_answers(&server, target, 200, "with the new token at once").await;
                assert_eq!(upstream.asked().len() - before, 3, "{target} {token}");
                assert_eq!(upstream.asked().pop().unwrap().headers["x-fixed"], "1");
            }
        }

        *valid.lock().unwrap() = "three";
        write(server.folder(), "token", "hidden\u{7}");
        assert_answers(&server, "/get", 401, "a file that can't be a header").await;
        server.wait_for_stderr("source up: the header `authorization` can't be read from its file").await;
        assert!(!server.stderr().contains("hidden"), "{}", server.stderr());
        write(server.folder(), "token", "three");
        assert_answers(&server, "/get", 200, "a valid file").await;
    }
}

/// A 403 may concern the client alone, so it doesn't always read the files again. Requests that are refused
/// at the same time share what one of them reads.
#[tokio::test]
async fn requests_that_are_refused_together_share_a_new_token() {
    let (upstream, valid) = guarded(Speaks::Http1, 403).await;
    let config = format!(
        "[source.up]\nurl = \"http://{}\"\nheaders = {{ Authorization = \"Bearer ${{file:token}}\" }}\n",
        upstream.address()
    );
    let endpoint = ("endpoints/get.toml", "[upstream]\nrequest = \"GET /rows\"\n");
    let server = Server::start(&[("rowstream.toml", &config), ("token", "one"), endpoint]).await;
    *valid.lock().unwrap() = "two";
    write(server.folder(), "token", "two");
    let asked = (0..5).map(|_| assert_answers(&server, "/get", 200, "together"));
    futures_util::future::join_all(asked).await;
}

/// A service that answers with the status `refused` if the token isn't the valid one, at first `one`.
async fn guarded(speaks: Speaks, refused: u16) -> (Upstream, Arc<Mutex<&'static str>>) {
    let valid = Arc::new(Mutex::new("one"));
    let checked = Arc::clone(&valid);
    let upstream = Upstream::start(speaks, move |_, asked| {
        let token = asked.headers["authorization"].to_str().unwrap();
        let is_valid = token == format!("Bearer {}", checked.lock().unwrap());
        std::future::ready(reply(if is_valid { 200 } else { refused }, "application/json", "[{\"id\":1}]"))
    })
    .await;
    (upstream, valid)
}
