//! `rowstream query` on a real terminal of the kernel, with 40 columns.

use std::fs::File;
use std::io::Read;
use std::process::{Command, Stdio};

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};

use crate::support::program;

const WIDTH: u16 = 40;

/// The terminal output of `rowstream query` for a new SQLite database, including stderr, and its
/// exit status.
fn query_on_terminal(arguments: &[&str]) -> (String, Option<i32>) {
    let folder = tempfile::tempdir().unwrap();
    let database = folder.path().join("test.db");
    rusqlite::Connection::open(&database).unwrap().execute_batch("create table t(n)").unwrap();
    let terminal = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    grantpt(&terminal).unwrap();
    unlockpt(&terminal).unwrap();
    let size = Winsize { ws_row: 24, ws_col: WIDTH, ws_xpixel: 0, ws_ypixel: 0 };
    tcsetwinsize(&terminal, size).unwrap();
    let name = ptsname(&terminal, Vec::new()).unwrap();
    let open = || File::options().read(true).write(true).open(name.to_str().unwrap()).unwrap();
    let mut child = Command::new(program())
        .args(["query", database.to_str().unwrap()])
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(open())
        .stderr(open())
        .spawn()
        .unwrap();
    // Reading a terminal that no process has open fails, on Linux with EIO.
    let (mut shown, mut terminal) = (Vec::new(), File::from(terminal));
    let _ = terminal.read_to_end(&mut shown);
    let text = String::from_utf8(shown).unwrap().replace('\r', "");
    (text, child.wait().unwrap().code())
}

/// Rows with a number and a long text.
const LONG: &str = "with recursive c(i) as (select 1 union all select i + 1 from c where i < 20000)
    select i * 100000 as n, printf('%.*c', i % 50, 'x') as text, null as no from c";

#[test]
fn rows_are_a_table_as_wide_as_the_terminal() {
    let (shown, status) = query_on_terminal(&[LONG]);
    assert_eq!(status, Some(0), "{shown}");
    let lines: Vec<_> = shown.lines().collect();
    assert!(lines[0].trim_start().starts_with("n  text "), "{}", lines[0]);
    assert!(lines[1].chars().all(|c| c == '─' || c == ' '), "{}", lines[1]);
    assert!(lines[2].ends_with("  NULL") && lines[2].contains("100000  x "), "{}", lines[2]);
    let (rows, rest) = lines[2..].split_at(20_000);
    for (index, row) in rows.iter().enumerate() {
        let number = ((index + 1) * 100_000).to_string();
        assert_eq!(row.split_whitespace().next(), Some(number.as_str()), "a number is never cut");
        assert!(row.chars().count() <= usize::from(WIDTH) + 5, "{row}");
    }
    assert!(rows[48].contains("x…"), "{}", rows[48]);
    let [stats] = rest else { panic!("{rest:?}") };
    assert!(stats.starts_with("20,000 rows in ") && stats.ends_with(" rows/s)"), "{stats}");
}

#[test]
fn a_format_that_is_asked_for_stays() {
    let (shown, status) = query_on_terminal(&["select 1 as a", "--format", "csv"]);
    assert!(shown.starts_with("a\n1\n1 row in "), "{shown}");
    assert_eq!(status, Some(0));
}

/// Rows that were read before the failure are printed, followed by the error.
#[test]
fn an_error_follows_the_rows_before_it() {
    let fails = "with recursive c(i) as (select 1 union all select i + 1 from c where i < 100000)
        select i, abs(-9223372036854775807 - i / 50000) as v from c";
    let (shown, status) = query_on_terminal(&[fails]);
    assert_eq!(status, Some(1));
    assert!(shown.lines().count() > 1000 && !shown.contains("rows/s"), "{}", shown.len());
    let last = shown.lines().last().unwrap_or_default();
    assert!(shown.contains("\nerror: ") && shown.contains("integer overflow"), "{last}");
}

#[test]
fn values_do_not_move_the_cursor() {
    let (shown, _) = query_on_terminal(&["select char(27) || '[2Jx' || char(10) || 'y' as a"]);
    assert!(shown.contains("\\u{1b}[2Jx\\ny\n"), "{shown:?}");
}
