//! Each error code has a page in the book and at the server, and no other pages exist.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::support::{Server, get, repository};
use http::StatusCode;
use rowstream_core::Error;
use rowstream_core::error::{Retry, codes, retry_of};

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn page(code: &str) -> String {
    read(&repository().join(format!("docs/src/reference/errors/{code}.md")))
}

/// The source files, except the list of codes itself.
fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, found);
        } else if !path.ends_with("error/codes.rs") {
            found.push(path);
        }
    }
}

/// The source of the server and of all crates.
fn source() -> String {
    let crates = fs::read_dir(repository().join("crates")).unwrap();
    let mut folders: Vec<_> = crates.map(|folder| folder.unwrap().path().join("src")).collect();
    folders.push(repository().join("src"));
    let mut files = Vec::new();
    folders.iter().for_each(|folder| sources(folder, &mut files));
    files.iter().map(|file| read(file)).collect()
}

/// The codes in calls of `Error::new`.
fn literal_codes(source: &str) -> BTreeSet<&str> {
    let calls = source.split("Error::new(").skip(1);
    calls.filter_map(|rest| rest.trim_start().strip_prefix('"')?.split('"').next()).collect()
}

/// The statuses beside literal codes: `"code", StatusCode::NAME`.
fn literal_statuses<'a>(source: &str, codes: &[&'a str]) -> BTreeMap<&'a str, BTreeSet<String>> {
    let words = |text: &str| text.to_uppercase().replace(' ', "_");
    let named: BTreeMap<_, _> = (100..600)
        .filter_map(|number| StatusCode::from_u16(number).ok())
        .filter_map(|status| Some((words(status.canonical_reason()?), status.as_str().to_owned())))
        .collect();
    let mut found = BTreeMap::<_, BTreeSet<_>>::new();
    for code in codes {
        for after in source.split(&format!("\"{code}\",")).skip(1) {
            let Some(name) = after.trim_start().strip_prefix("StatusCode::") else { continue };
            let end = name.find(|c: char| !c.is_ascii_uppercase() && c != '_').unwrap_or(name.len());
            found.entry(*code).or_default().insert(named[&name[..end]].clone());
        }
    }
    found
}

/// A row of the tables in the index: all of a code that a client may rely on.
struct IndexRow {
    status: String,
    retry: String,
    retry_after: String,
}

/// The rows of the index by code.
fn index_rows() -> BTreeMap<String, IndexRow> {
    let index = page("index");
    let rows = index.lines().filter(|line| line.starts_with("| [`"));
    let row = |line: &str| {
        let cells: Vec<_> = line.split('|').map(|cell| cell.trim().to_owned()).collect();
        let [_, link, status, retry, _] = &cells[..] else { panic!("{line}") };
        let code = link.split('`').nth(1).unwrap();
        assert_eq!(link, &format!("[`{code}`]({code}.md)"));
        let (retry, delay) = retry.split_once(", ").unwrap_or((retry, ""));
        let retry_after = delay.replacen(" s", "", 1);
        (code.to_owned(), IndexRow { status: status.clone(), retry: retry.to_owned(), retry_after })
    };
    let rows: Vec<_> = rows.map(row).collect();
    let by_code: BTreeMap<_, _> = rows.into_iter().rev().collect();
    assert_eq!(by_code.len(), index.matches("\n| [`").count(), "a code has two rows");
    by_code
}

/// Clients in other languages are written by these tables.
#[test]
fn the_index_has_the_status_and_the_retry_of_each_code() {
    let rows = index_rows();
    let all: Vec<_> = codes().collect();
    assert_eq!(rows.keys().map(String::as_str).collect::<Vec<_>>(), all);
    let statuses = literal_statuses(&source(), &all);
    assert!(statuses.len() > 35, "{statuses:?}");
    for (code, statuses) in statuses {
        assert_eq!(statuses.into_iter().collect::<Vec<_>>(), [rows[code].status.as_str()], "{code}");
    }
    for (code, row) in &rows {
        let (retry, head) = match retry_of(code).unwrap() {
            Retry::Yes => ("true", "**, `retry: true`"),
            Retry::No => ("false", "**, `retry: false`"),
            Retry::Depends => ("depends", "**, `retry: true` if "),
        };
        assert_eq!(row.retry, retry, "{code}");
        if code != "configuration" {
            let page = page(code);
            let first = page.lines().nth(2).unwrap();
            assert!(first.starts_with(&format!("**{} ", row.status)) && first.contains(head), "{code}");
            assert_eq!(first.contains("with `Retry-After`"), !row.retry_after.is_empty(), "{code}");
        }
        assert!(retry == "true" || row.retry_after.is_empty(), "{code}");
    }
}

/// The delays that constructors of the core library set, against the index.
#[test]
fn the_index_has_the_fixed_delays() {
    let rows = index_rows();
    for error in [
        Error::too_many_connections(),
        Error::pool_full("db", 1),
        Error::pool_timeout("db", Duration::from_secs(1)),
        Error::first_row_timeout(Duration::from_secs(1)),
        Error::stream_stopped(),
    ] {
        let delay = error.retry_seconds().map(|seconds| seconds.to_string()).unwrap_or_default();
        assert_eq!(rows[error.code()].retry_after, delay, "{error:?}");
    }
}

#[test]
fn each_code_of_the_source_has_a_page_and_each_page_a_code() {
    let codes: BTreeSet<&str> = codes().collect();
    let source = source();
    let literal = literal_codes(&source);
    assert!(literal.len() > 25, "{literal:?}");
    assert!(literal.is_subset(&codes), "without a page: {:?}", literal.difference(&codes));
    for code in &codes {
        assert!(source.contains(&format!("\"{code}\"")), "nothing has the code {code}");
    }
    let folder = fs::read_dir(repository().join("docs/src/reference/errors")).unwrap();
    let names = folder.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let pages: BTreeSet<String> =
        names.filter(|name| name != "index.md").map(|name| name.trim_end_matches(".md").to_owned()).collect();
    assert_eq!(pages.iter().map(String::as_str).collect::<BTreeSet<_>>(), codes);
}

/// A page has its status, a message that clients get, and a remedy.
#[test]
fn pages_have_a_status_a_message_and_a_remedy() {
    let rows = index_rows();
    for code in codes() {
        let page = page(code);
        if code != "configuration" {
            let status: StatusCode = rows[code].status.parse().unwrap();
            let reason = status.canonical_reason().unwrap();
            assert!(page.contains(&format!("**{} {reason}**", status.as_str())), "{code}");
        }
        assert!(page.contains("\n\n> "), "{code}");
        assert!(page.contains("\n## Remedy\n\n- **"), "{code}");
    }
}

/// A `type` must not be a dead link.
#[tokio::test]
async fn the_type_of_a_problem_is_the_address_of_its_page() {
    let config = "admin_listen = \"127.0.0.1:0\"\n[source.db]\nurl = \"sqlite:t.db\"\ncreate = [\"t.sql\"]\n";
    let files =
        [("rowstream.toml", config), ("t.sql", "create table t (n)"), ("endpoints/t.sql", "select n from t")];
    let server = Server::start(&files).await;
    let problem = get(&server.url("/t?n=1")).await.json();
    let reply = get(&server.url(problem["type"].as_str().unwrap())).await;
    assert_eq!(reply.status, StatusCode::OK);
    assert_eq!(reply.header("content-type"), Some("text/plain; charset=utf-8"));
    let head = "# invalid_parameter\n\n**400 Bad Request**, `retry: false`\n";
    assert!(reply.text().starts_with(head), "{}", reply.text());
    for code in codes() {
        let served = get(&server.url(&format!("/_rowstream/errors/{code}"))).await;
        assert!(served.text().starts_with(&format!("# {code}\n")), "{code}: {}", served.text());
        assert!(!served.text().contains(".md)"), "{code}: links of the book lead nowhere here");
    }
    let none = get(&server.url("/_rowstream/errors/none")).await;
    assert_eq!((none.status, &none.json()["code"]), (StatusCode::NOT_FOUND, &"no_endpoint".into()));
}
