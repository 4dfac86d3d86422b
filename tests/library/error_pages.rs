//! Each error code has a page in the book and at the server, and no other pages exist.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use crate::support::{Server, get, repository};
use http::StatusCode;

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

#[test]
fn each_code_of_the_source_has_a_page_and_each_page_a_code() {
    let codes: BTreeSet<&str> = rowstream_core::error::codes().collect();
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
    let index = page("index");
    for code in codes {
        assert!(index.contains(&format!("| [`{code}`]({code}.md) |")), "{code} is not in the list");
    }
}

/// A page's example is a problem document with its code, and the page's head has its status.
#[test]
fn examples_are_problem_documents() {
    for code in rowstream_core::error::codes().filter(|code| *code != "configuration") {
        let page = page(code);
        let (_, example) = page.split_once("```json\n").unwrap_or_else(|| panic!("{code} has no example"));
        let (example, _) = example.split_once("```").unwrap();
        let example: serde_json::Value =
            serde_json::from_str(example).unwrap_or_else(|error| panic!("{code}: {error}"));
        let members: Vec<_> = example.as_object().unwrap().keys().map(String::as_str).collect();
        assert_eq!(members[..5], ["type", "title", "status", "detail", "code"], "{code}");
        assert_eq!(example["type"], format!("/_rowstream/errors/{code}"));
        assert_eq!(example["code"], code);
        let status = StatusCode::from_u16(example["status"].as_u64().unwrap().try_into().unwrap()).unwrap();
        assert_eq!(example["title"], status.canonical_reason().unwrap(), "{code}");
        assert!(
            page.contains(&format!("**{} {}**", status.as_str(), status.canonical_reason().unwrap())),
            "{code}"
        );
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
    assert!(reply.text().starts_with("# invalid_parameter\n\n**400 Bad Request**\n"), "{}", reply.text());
    for code in rowstream_core::error::codes() {
        let served = get(&server.url(&format!("/_rowstream/errors/{code}"))).await;
        assert!(served.text().starts_with(&format!("# {code}\n")), "{code}: {}", served.text());
        assert!(!served.text().contains(".md)"), "{code}: links of the book lead nowhere here");
    }
    let none = get(&server.url("/_rowstream/errors/none")).await;
    assert_eq!((none.status, &none.json()["code"]), (StatusCode::NOT_FOUND, &"no_endpoint".into()));
}
