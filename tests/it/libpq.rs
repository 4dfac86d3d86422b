//! libpq's defaults for the missing parts of a URL, with a real PostgreSQL: variables, service
//! files, password files, and the TLS modes with a fallback.

#![expect(clippy::unwrap_used, reason = "the helpers of tests are tests, too")]

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Output};

use crate::support::{Launch, TestDb, get, logins, pg_ca, pg_port, program};

/// Returns the database, the user, the application and the use of TLS.
const WHO: &str = "select current_database() as db, current_user as user, \
    current_setting('application_name') as name, \
    (select ssl from pg_stat_ssl where pid = pg_backend_pid()) as tls";

/// Runs `rowstream query URL` with only these libpq variables, and a home folder.
fn query(url: &str, home: &Path, variables: &[(&str, &str)]) -> Output {
    Command::new(program())
        .args(["query", url, WHO])
        .current_dir(home)
        .env("HOME", home)
        .envs(variables.iter().copied())
        .output()
        .unwrap()
}

fn row(output: &Output) -> String {
    assert!(output.status.success(), "{}", said(output));
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn said(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

fn expected(db: &TestDb, user: &str, name: &str, tls: bool) -> String {
    let db = db.name();
    format!("{{\"db\":\"{db}\",\"user\":\"{user}\",\"name\":\"{name}\",\"tls\":{tls}}}\n")
}

/// Writes a file that only its owner may read.
fn write_own(path: &Path, text: &str) {
    fs::write(path, text).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o600)).unwrap();
}

#[tokio::test]
async fn variables_say_what_the_url_does_not() {
    let (db, home) = (TestDb::new().await, tempfile::tempdir().unwrap());
    let port = pg_port().to_string();
    let login = logins::SCRAM;
    let variables = [
        ("PGHOST", "127.0.0.1"),
        ("PGPORT", &*port),
        ("PGUSER", login.user),
        ("PGPASSWORD", login.password),
        ("PGDATABASE", db.name()),
        ("PGSSLMODE", "disable"),
        ("PGAPPNAME", "books"),
    ];
    let ask = |url: &str| query(url, home.path(), &variables);
    assert_eq!(row(&ask("postgres://")), expected(&db, login.user, "books", false));
    assert_eq!(
        row(&ask("postgres://postgres@/?application_name=mine&sslmode=require")),
        expected(&db, "postgres", "mine", true)
    );
    let wrong = query("postgres://", home.path(), &[&variables[..], &[("PGSSLMODE", "maybe")]].concat());
    assert!(said(&wrong).contains("PGSSLMODE: sslmode `maybe` is not one of"), "{}", said(&wrong));
    let empty = query("postgres://", home.path(), &[&variables[..], &[("PGAPPNAME", "")]].concat());
    assert_eq!(row(&empty), expected(&db, login.user, "rowstream", false));
}

#[tokio::test]
async fn a_service_and_a_password_file_are_read() {
    let (db, home) = (TestDb::new().await, tempfile::tempdir().unwrap());
    let login = logins::MD5;
    let service =
        format!("[books]\nhost=127.0.0.1\nport={}\ndbname={}\nuser={}\n", pg_port(), db.name(), login.user);
    fs::write(home.path().join(".pg_service.conf"), service).unwrap();
    let passwords = home.path().join(".pgpass");
    write_own(&passwords, &format!("127.0.0.1:*:{}:{}:{}\n", db.name(), login.user, login.password));
    let of_service = [("PGSERVICE", "books"), ("PGSSLMODE", "disable")];
    for (url, variables) in [
        ("postgres://", &of_service[..]),
        ("postgres://?service=books&sslmode=disable", &[]),
        // The service has precedence over the variable.
        ("postgres://?service=books&sslmode=disable", &[("PGUSER", "postgres")]),
    ] {
        assert_eq!(
            row(&query(url, home.path(), variables)),
            expected(&db, login.user, "rowstream", false),
            "{url}"
        );
    }
    let none = query("postgres://?service=films", home.path(), &[]);
    assert!(said(&none).contains("there is no service `films`"), "{}", said(&none));

    fs::set_permissions(&passwords, fs::Permissions::from_mode(0o644)).unwrap();
    let open = query("postgres://", home.path(), &of_service);
    assert_eq!(open.status.code(), Some(1));
    for words in ["because others may read it: `chmod 600` it", "asks for a password", "~/.pgpass"] {
        assert!(said(&open).contains(words), "{words}: {}", said(&open));
    }
    let elsewhere = home.path().join("passwords");
    write_own(&elsewhere, &format!("*:*:*:*:{}\n", login.password));
    let named = [&of_service[..], &[("PGPASSFILE", elsewhere.to_str().unwrap())]].concat();
    assert_eq!(
        row(&query("postgres://", home.path(), &named)),
        expected(&db, login.user, "rowstream", false)
    );
}

/// The certificate is valid for `localhost` but not for an address, and the other name has no
/// address.
#[tokio::test]
async fn an_address_beside_the_name_is_connected_to() {
    let (db, home) = (TestDb::new().await, tempfile::tempdir().unwrap());
    let verified = |host: &str, parameters: &str| {
        let (port, ca) = (pg_port(), pg_ca());
        let url = format!(
            "postgres://{}:{}@{host}:{port}/{}?{parameters}",
            logins::TLS_ONLY.user,
            logins::TLS_ONLY.password,
            db.name()
        );
        query(&format!("{url}&sslmode=verify-full&sslrootcert={}", ca.display()), home.path(), &[])
    };
    let expected = expected(&db, logins::TLS_ONLY.user, "rowstream", true);
    for parameters in ["hostaddr=127.0.0.1", "load_balance_hosts=random"] {
        assert_eq!(row(&verified("localhost", parameters)), expected, "{parameters}");
    }
    let other = verified("db.invalid", "hostaddr=127.0.0.1");
    assert!(said(&other).contains("db.invalid") && !other.status.success(), "{}", said(&other));
    let url = format!("postgres://postgres@db.invalid:{}/{}?sslmode=disable", pg_port(), db.name());
    let by_variable = query(&url, home.path(), &[("PGHOSTADDR", "127.0.0.1")]);
    assert_eq!(row(&by_variable), self::expected(&db, "postgres", "rowstream", false));
    for (parameters, words) in [
        ("hostaddr=localhost", "hostaddr isn't an IP address"),
        ("hostaddr=127.0.0.1,127.0.0.1", "the URL has 1 hosts, and hostaddr 2"),
        ("load_balance_hosts=some", "load_balance_hosts is not one of disable, random"),
    ] {
        let refused = query(&format!("{url}&{parameters}"), home.path(), &[]);
        assert!(said(&refused).contains(words), "{parameters}: {}", said(&refused));
    }
}

#[tokio::test]
async fn allow_falls_back_to_tls() {
    let (db, home) = (TestDb::new().await, tempfile::tempdir().unwrap());
    for (login, tls) in [(logins::SCRAM, false), (logins::TLS_ONLY, true)] {
        let url = db.url_of(&login, "sslmode=allow");
        assert_eq!(row(&query(&url, home.path(), &[])), expected(&db, login.user, "rowstream", tls));
    }
}

#[tokio::test]
async fn a_server_takes_them_from_the_environment_and_from_the_file_beside() {
    let db = TestDb::new().await;
    let login = logins::SCRAM;
    let beside = format!("PGDATABASE={}\nPGPASSWORD='{}'\nPGUSER=nobody\n", db.name(), login.password);
    let server = Launch::files(&[
        ("rowstream.toml", "[source.books]\nurl = \"postgres://?sslmode=disable\"\n"),
        (".env", &beside),
        ("endpoints/who.sql", WHO),
    ])
    .variable("PGHOST", "127.0.0.1")
    .variable("PGPORT", &pg_port().to_string())
    .variable("PGUSER", login.user)
    .start()
    .await;
    let reply = get(&server.url("/who.ndjson")).await;
    assert_eq!(reply.text(), expected(&db, login.user, "rowstream", false));
}

#[tokio::test]
async fn a_password_on_the_command_line_is_warned_of_and_not_repeated() {
    let (db, home) = (TestDb::new().await, tempfile::tempdir().unwrap());
    let url = db.url_of(&logins::MD5, "sslmode=disable");
    let output = query(&url, home.path(), &[]);
    row(&output);
    assert!(said(&output).contains("can read a password on the command line"), "{}", said(&output));
    let quiet = query(&db.url(), home.path(), &[]);
    row(&quiet);
    assert!(!said(&quiet).contains("password"), "{}", said(&quiet));

    let wrong =
        Command::new(program()).args(["token", "reader", "postgres://ann:s3cret@h/d"]).output().unwrap();
    assert_eq!(wrong.status.code(), Some(2));
    assert!(said(&wrong).contains("unexpected argument 'postgres://ann:…@h/d' found"), "{}", said(&wrong));
}
