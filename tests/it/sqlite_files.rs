//! SQLite files that can't be read, or that other programs write at the same time.

#![expect(clippy::unwrap_used, reason = "the helpers of tests are tests, too")]

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use rusqlite::Connection;

use crate::support::{Launch, get, program};

/// A folder that only root can write.
struct ReadOnly(tempfile::TempDir);

impl ReadOnly {
    fn new(folder: tempfile::TempDir) -> Self {
        fs::set_permissions(folder.path(), Permissions::from_mode(0o555)).unwrap();
        Self(folder)
    }

    fn file(&self) -> PathBuf {
        self.0.path().join("shop.db")
    }
}

impl Drop for ReadOnly {
    fn drop(&mut self) {
        fs::set_permissions(self.0.path(), Permissions::from_mode(0o755)).unwrap();
    }
}

/// The words before a program that runs it as root without the right to ignore file permissions.
fn unprivileged() -> &'static [&'static str] {
    let id = Command::new("id").arg("-u").output().unwrap();
    match id.stdout == b"0\n" {
        true => &["setpriv", "--bounding-set=-all", "--no-new-privs", "--"],
        false => &["env", "--"],
    }
}

fn run(arguments: &[&str]) -> Output {
    let (first, words) = unprivileged().split_first().unwrap();
    Command::new(first).args(words).arg(program()).args(arguments).output().unwrap()
}

/// A file with one row. `copy` runs before the writer's connection is closed.
fn create(folder: &Path, journal: &str, copy: impl FnOnce(&Path)) {
    let file = folder.join("shop.db");
    let db = Connection::open(&file).unwrap();
    db.pragma_update(None, "journal_mode", journal).unwrap();
    db.execute_batch("create table t (id integer primary key, name text); insert into t values (1, 'tea')")
        .unwrap();
    copy(&file);
}

fn copy(file: &Path, folder: &Path, suffixes: &[&str]) {
    for suffix in suffixes {
        let from = format!("{}{suffix}", file.display());
        fs::copy(&from, folder.join(format!("shop.db{suffix}"))).unwrap();
    }
}

/// A file that its writer has closed.
fn closed(folder: &Path) {
    create(folder, "wal", |_| ());
}

/// A file with a log that its writer left behind.
fn with_log(folder: &Path) {
    let writer = tempfile::tempdir().unwrap();
    create(writer.path(), "wal", |file| copy(file, folder, &["", "-wal"]));
}

/// A file whose writer was killed in the middle of a transaction.
fn with_hot_journal(folder: &Path) {
    let writer = tempfile::tempdir().unwrap();
    create(writer.path(), "delete", |file| {
        let db = Connection::open(file).unwrap();
        // Forces pages into the file before the end of the transaction.
        db.execute_batch(
            "pragma cache_size = 1; begin;
             with recursive n(i) as (select 2 union all select i + 1 from n where i < 20000)
             insert into t select i, 'coffee' from n",
        )
        .unwrap();
        copy(file, folder, &["", "-journal"]);
    });
}

/// The server's user can't write the folder of a file in WAL mode, as in an image or on a read-only
/// mount. The error was "attempt to write a readonly database", although no statement writes.
#[tokio::test]
async fn a_file_that_cannot_be_read_beside_its_journal_says_why() {
    for (make, words, remedy) in [
        (closed as fn(&Path), "WAL mode", "let the server's user write to the folder"),
        (with_log, "WAL mode", "pragma journal_mode = delete"),
        (with_hot_journal, "a writer ended within a transaction", "sqlite3 FILE .tables"),
    ] {
        let folder = tempfile::tempdir().unwrap();
        make(folder.path());
        let folder = ReadOnly::new(folder);
        let file = folder.file();
        let file = file.to_str().unwrap();
        let config = format!("error_detail = \"code\"\n[source.shop]\nurl = \"sqlite:{file}\"\n");
        let files = [("rowstream.toml", &*config), ("endpoints/t.sql", "select id, name from t")];
        let launch = Launch::files(&files);
        let path = launch.path().join("rowstream.toml");
        for arguments in [
            &["query", file, "select id, name from t"][..],
            &["serve", file, "--listen", "127.0.0.1:0"],
            &["check", path.to_str().unwrap()],
        ] {
            let output = run(arguments);
            let said = String::from_utf8_lossy(&output.stderr);
            assert!(!output.status.success(), "{arguments:?}: {said}");
            assert!(said.contains(words) && said.contains(remedy), "{arguments:?}: {said}");
            assert!(!said.contains("attempt to write"), "{arguments:?}: {said}");
        }
        let script = format!("exec {} \"$0\" \"$@\"", unprivileged().join(" "));
        let server = launch.shell(&script).start().await;
        let reply = get(&server.url("/t")).await;
        let problem = reply.json();
        assert_eq!((reply.status.as_u16(), &problem["code"]), (503, &"source_unavailable".into()));
        assert!(problem["detail"].as_str().unwrap().contains(words), "{problem}");
        assert!(problem["hint"].as_str().unwrap().contains(remedy), "{problem}");
        assert!(!problem.to_string().contains(file), "the path isn't for clients: {problem}");
        let ready = get(&server.url("/_rowstream/ready")).await;
        assert_eq!(ready.status.as_u16(), 503);
        assert!(ready.text().contains(words), "{}", ready.text());
    }
}

/// A writer with an open connection provides the `-shm` file that readers need.
#[tokio::test]
async fn a_file_in_a_folder_that_cannot_be_written_is_read_beside_its_writer() {
    let folder = tempfile::tempdir().unwrap();
    let db = Connection::open(folder.path().join("shop.db")).unwrap();
    db.pragma_update(None, "journal_mode", "wal").unwrap();
    db.execute_batch("create table t (id integer primary key); insert into t values (1)").unwrap();
    let folder = ReadOnly::new(folder);
    let output = run(&["query", folder.file().to_str().unwrap(), "select id from t"]);
    assert_eq!(String::from_utf8_lossy(&output.stdout), "{\"id\":1}\n", "{output:?}");
}

/// A reader at 20 KB per second locked all writers out of a file with a rollback journal, and
/// `check` didn't warn.
#[test]
fn check_says_if_readers_lock_writers_out() {
    for (journal, is_told) in [("wal", false), ("delete", true)] {
        let folder = tempfile::tempdir().unwrap();
        create(folder.path(), journal, |_| ());
        fs::write(folder.path().join("rowstream.toml"), "[source.shop]\nurl = \"sqlite:shop.db\"\n").unwrap();
        fs::create_dir(folder.path().join("endpoints")).unwrap();
        fs::write(folder.path().join("endpoints/t.sql"), "select * from t").unwrap();
        let checked = Command::new(program()).arg("check").current_dir(folder.path()).output().unwrap();
        let said = String::from_utf8_lossy(&checked.stdout);
        assert!(checked.status.success() && said.contains("OK, 1 endpoint"), "{said}");
        assert_eq!(said.contains("shop.db: it isn't in WAL mode"), is_told, "{said}");
    }
}
