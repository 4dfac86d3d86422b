//! Enters every command of the documents like a reader, and compares the output with the documented
//! one. Pages that name no database are tested with SQLite and PostgreSQL.
//!
//! See [`page`] for the format of a document, and the marks that exclude a block.

mod page;
mod reader;

use std::path::{Path, PathBuf};

use self::page::{Database, Kind, Page, is_shown};
use self::reader::PageReader;
use crate::support::{TestDb, repository};
use crate::worked;

/// The pages below a folder, by path in the repository.
fn pages(folder: &str) -> Vec<Page> {
    let mut files = Vec::new();
    below(&repository().join(folder), &mut files);
    files.sort();
    assert!(!files.is_empty(), "{folder}");
    let names =
        files.iter().map(|file| file.strip_prefix(repository()).unwrap().to_str().unwrap().to_owned());
    names.map(|name| Page::read(repository(), &name)).collect()
}

fn below(path: &Path, found: &mut Vec<PathBuf>) {
    if path.is_dir() {
        for entry in std::fs::read_dir(path).unwrap() {
            below(&entry.unwrap().path(), found);
        }
    } else if path.extension().is_some_and(|extension| extension == "md") {
        found.push(path.to_owned());
    }
}

/// Follows the pages below a folder one after another.
async fn follow(folder: &str) {
    let only = std::env::var("ROWSTREAM_TEST_PAGE").ok();
    for page in pages(folder) {
        if page.is_tried() && only.as_ref().is_none_or(|only| page.name.contains(only.as_str())) {
            follow_page(page).await;
        }
    }
}

async fn follow_page(mut page: Page) {
    let on_both = page.example.is_some() || page.blocks.iter().any(|block| block.on.is_some());
    for database in Database::ALL {
        let is_left_out = match page.on {
            Some(on) => on != database,
            None => !on_both && database != Database::Sqlite,
        };
        if is_left_out {
            continue;
        }
        println!("{} on {database:?}", page.name);
        let db = TestDb::new().await;
        if let (Some(example), Database::Postgres) = (&page.example, database) {
            db.execute(&data(example)).await;
        }
        let url = db.url();
        let followed = tokio::task::spawn_blocking(move || {
            PageReader::new(&page, database, url).follow();
            page
        });
        page = followed.await.unwrap_or_else(|panic| std::panic::resume_unwind(panic.into_panic()));
    }
}

/// The statements that fill an example's PostgreSQL database.
fn data(example: &str) -> String {
    let folder = worked::example(example.strip_prefix("examples/").expect("an example"));
    let read = |name: &str| std::fs::read_to_string(folder.join(name));
    read("data/postgres.sql").or_else(|_| read("data.sql")).expect("it has data")
}

#[tokio::test]
async fn the_tutorial() {
    follow("docs/src/tutorial").await;
}

#[tokio::test]
async fn how_to() {
    follow("docs/src/how-to").await;
}

#[tokio::test]
async fn the_reference_and_the_explanation() {
    follow("docs/src/reference").await;
    follow("docs/src/explanation").await;
}

#[tokio::test]
async fn the_examples() {
    follow("examples").await;
}

#[tokio::test]
async fn the_readme() {
    follow("README.md").await;
}

#[tokio::test]
async fn the_python_client() {
    follow("clients/python").await;
}

/// A reader must see why a block isn't tested.
#[test]
fn what_is_not_run_has_a_reason() {
    for page in ["docs/src", "README.md", "examples"].iter().flat_map(|folder| pages(folder)) {
        for block in page.blocks {
            if let Kind::NotRun(why) = block.kind {
                assert!(why.len() > 10, "{}:{}: say why no test can run it", page.name, block.line);
            }
        }
    }
}

#[test]
fn three_dots_stand_for_anything() {
    for (shown, text, expected) in [
        ("a\nb\n", "a\nb\n", true),
        ("a", "ab", false),
        ("a…", "ab", true),
        ("…b", "ab", true),
        ("a…c…e", "a b c d e", true),
        ("a…e…c", "a b c d e", false),
        ("a\n…\nd", "a\nb\nc\nd\n", true),
        ("a \r\nb", "a\nb", true),
    ] {
        assert_eq!(is_shown(shown, text), expected, "{shown:?} {text:?}");
    }
}
