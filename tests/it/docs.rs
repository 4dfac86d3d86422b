//! The documents for users in their rendered form: tables are tables, links lead somewhere, and the
//! book contains every page.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use crate::support::repository;

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The documents below a folder. With `deep`, also those in its folders.
fn below(folder: &Path, deep: bool, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).into_iter().flatten() {
        let path = entry.unwrap().path();
        if path.is_dir() && deep {
            below(&path, deep, found);
        } else if path.extension().is_some_and(|extension| extension == "md") {
            found.push(path);
        }
    }
}

/// The documents of this repository.
fn documents() -> Vec<PathBuf> {
    let mut found = Vec::new();
    for (folder, deep) in
        [("", false), ("docs", true), ("deploy", true), ("benches", false), ("testdata", false)]
    {
        below(&repository().join(folder), deep, &mut found);
    }
    below(&repository().join("examples"), true, &mut found);
    found.sort();
    assert!(found.len() > 30, "{found:?}");
    found
}

/// The numbered lines of a text outside code blocks.
fn prose(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut in_code = false;
    text.lines().enumerate().filter_map(move |(at, line)| {
        let is_fence = line.trim_start().starts_with("```");
        in_code ^= is_fence;
        (!in_code && !is_fence).then_some((at + 1, line))
    })
}

/// A row after a blank line wasn't part of its table, and was rendered as text with bars.
#[test]
fn every_row_of_a_table_is_in_one() {
    for file in documents() {
        let text = read(&file);
        let mut in_table = false;
        let mut lines = prose(&text).peekable();
        while let Some((number, line)) = lines.next() {
            let is_row = line.starts_with('|');
            let is_rule =
                |line: &str| line.starts_with("|-") || line.starts_with("| -") || line.starts_with("|:");
            let has_rule = lines.peek().is_some_and(|(_, next)| is_rule(next));
            assert!(!is_row || in_table || has_rule, "{}:{number}: {line}", file.display());
            in_table = is_row;
        }
    }
}

/// The targets of a document's links, including those that are split by a line break.
fn links(text: &str) -> BTreeSet<String> {
    let prose: String = prose(text).map(|(_, line)| format!("{}\n", without_code(line))).collect();
    let parts = prose.split("](").skip(1);
    parts.filter_map(|part| Some(part.split_once(')')?.0.to_owned())).collect()
}

/// A line without its `code`, whose brackets aren't links.
fn without_code(line: &str) -> String {
    match line.matches('`').count() % 2 {
        0 => line.split('`').step_by(2).collect::<Vec<_>>().join("``"),
        _ => line.to_owned(),
    }
}

/// The explicit anchors of a document, and those of its headings, as mdBook and common repository
/// viewers create them.
fn anchors(text: &str) -> BTreeSet<String> {
    let mut anchors = BTreeSet::new();
    for (_, line) in prose(text) {
        let written = line.strip_prefix("<a id=\"").and_then(|rest| rest.split('"').next());
        anchors.extend(written.map(str::to_owned));
        let Some(title) = line.strip_prefix('#').map(|line| line.trim_start_matches('#').trim()) else {
            continue;
        };
        let kept = title.chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c));
        let anchor: String = kept.map(|c| if c == ' ' { '-' } else { c.to_ascii_lowercase() }).collect();
        anchors.insert(anchor);
    }
    anchors
}

#[test]
fn links_lead_to_what_is_there() {
    let mut wrong = Vec::new();
    for file in documents() {
        for link in links(&read(&file)) {
            if link.starts_with("http://") || link.starts_with("https://") {
                continue;
            }
            let (path, anchor) = link.split_once('#').unwrap_or((&link, ""));
            let target = if path.is_empty() { file.clone() } else { file.with_file_name(path) };
            let is_there = target.exists() && (anchor.is_empty() || anchors(&read(&target)).contains(anchor));
            if !is_there {
                wrong.push(format!("{}: {link}", file.display()));
            }
        }
    }
    assert!(wrong.is_empty(), "links that lead nowhere:\n{}", wrong.join("\n"));
}

/// The book is read without the repository, so links out of it were dead.
#[test]
fn links_of_the_book_stay_in_it() {
    let book = repository().join("docs/src");
    let mut pages = Vec::new();
    below(&book, true, &mut pages);
    for page in pages {
        let folder = page.parent().unwrap();
        let depth = folder.strip_prefix(&book).unwrap().components().count();
        for link in links(&read(&page)).iter().filter(|link| !link.contains("://")) {
            assert!(link.matches("../").count() <= depth, "{}: {link}", page.display());
        }
    }
}

/// A page that's missing in the summary isn't in the book, and mdBook doesn't report it.
#[test]
fn the_summary_has_every_page() {
    let folder = repository().join("docs/src");
    let mut pages = Vec::new();
    below(&folder, true, &mut pages);
    let pages: BTreeSet<_> =
        pages.iter().map(|page| page.strip_prefix(&folder).unwrap().to_owned()).collect();
    let mut listed: BTreeSet<_> =
        links(&read(&folder.join("SUMMARY.md"))).into_iter().map(PathBuf::from).collect();
    listed.insert("SUMMARY.md".into());
    assert_eq!(pages, listed);
}

/// The quoted texts after these words in the source files.
fn literals(files: &[&str], words: &[&str]) -> BTreeSet<String> {
    let text: String = files.iter().map(|file| read(&repository().join("src").join(file))).collect();
    let after = |word: &&str| text.split(*word).skip(1).map(str::to_owned).collect::<Vec<_>>();
    let rest = words.iter().flat_map(after);
    rest.filter_map(|rest| Some(rest.split_once('"')?.0.to_owned())).collect()
}

/// The first cells of a page's tables, without quotes.
fn first_cells(page: &str) -> BTreeSet<String> {
    let text = read(&repository().join("docs/src/reference").join(page));
    let cells = prose(&text).filter_map(|(_, line)| line.strip_prefix("| `")?.split('`').next());
    cells.map(str::to_owned).collect()
}

/// An undocumented key can't be found, and a documented key that isn't parsed does nothing.
#[test]
fn the_keys_of_the_configuration_are_those_that_are_read() {
    let files = [
        "config/read.rs",
        "config/acme.rs",
        "config/admin.rs",
        "config/discovery.rs",
        "config/traces.rs",
        "config/jwt.rs",
        "config/tokens.rs",
        "config/source.rs",
        "config/source/http.rs",
        "config/source/discover.rs",
        "config/tls.rs",
        "endpoint/response.rs",
        "endpoint/csv.rs",
        "endpoint/values.rs",
        "endpoint/timeout.rs",
    ];
    let mut known = literals(&files, &["take(\"", "require(\""]);
    // The settings that not every database has.
    let of_drivers = [
        "../crates/rowstream-arrow/src/worker/settings.rs",
        "../crates/rowstream-database/src/password_command.rs",
        "../crates/rowstream-postgres/src/settings.rs",
        "../crates/rowstream-sqlite/src/settings.rs",
    ];
    known.extend(literals(&of_drivers, &["name: \"", " role(\""]));
    // `token` and `consul` are tables, but also keys.
    for table in [
        "source",
        "admin",
        "jwt",
        "rate_limit",
        "discovery",
        "traces",
        "cors",
        "tls",
        "acme",
        "external_account",
        "log",
        "csv",
        "values",
        "timeout",
        "pool",
        "retries",
        "health",
    ] {
        assert!(known.remove(table), "nothing reads {table}");
    }
    let cells = ["rowstream-toml.md", "upstreams/source.md"].map(first_cells);
    let described: BTreeSet<_> =
        cells.iter().flatten().map(|cell| cell.rsplit('.').next().unwrap_or_default().to_owned()).collect();
    assert_eq!(described, known);
}

#[test]
fn the_control_parameters_are_those_that_are_read() {
    let known = literals(&["../crates/rowstream-core/src/params/bind.rs"], &["    \"_"]);
    let known: BTreeSet<_> = known.iter().map(|name| format!("_{name}")).collect();
    assert_eq!(first_cells("control-parameters.md"), known);
}

#[test]
fn headers_of_ours_are_described() {
    let files =
        ["respond/head.rs", "completeness/trailers.rs", "completeness/framing.rs", "completeness/streams.rs"];
    let page = read(&repository().join("docs/src/reference/headers.md")).to_lowercase();
    let known = literals(&files, &["from_static(\"rowstream-"]);
    assert!(known.len() > 4, "{known:?}");
    for name in known {
        assert!(page.contains(&format!("`rowstream-{name}`")), "{name}");
    }
}

#[test]
fn the_tests_that_security_names_are_there() {
    let text = read(&repository().join("SECURITY.md"));
    let named: Vec<_> = text
        .split('`')
        .filter(|words| ["tests/", "src/", "fuzz/"].iter().any(|folder| words.starts_with(folder)))
        .collect();
    assert!(named.len() > 20, "{named:?}");
    for name in named {
        assert!(repository().join(name).is_file(), "{name}");
    }
}
