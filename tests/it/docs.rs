//! The documents for users, as they are rendered.

use std::path::{Path, PathBuf};

/// The documents of this repository.
fn documents() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let folders = ["", "docs", "deploy", "benches", "testdata"].map(|folder| root.join(folder));
    let examples = std::fs::read_dir(root.join("examples")).unwrap().map(|entry| entry.unwrap().path());
    let files =
        folders.into_iter().chain(examples).filter_map(|folder| std::fs::read_dir(folder).ok()).flatten();
    let files = files.map(|entry| entry.unwrap().path());
    files.filter(|file| file.extension().is_some_and(|extension| extension == "md")).collect()
}

/// A status stood behind a blank line, and so in no table: it was shown as a line with bars.
#[test]
fn every_row_of_a_table_is_in_one() {
    let documents = documents();
    assert!(documents.len() > 5, "{documents:?}");
    for file in documents {
        let text = std::fs::read_to_string(&file).unwrap();
        let (mut in_code, mut in_table) = (false, false);
        let mut lines = text.lines().enumerate().peekable();
        while let Some((number, line)) = lines.next() {
            in_code ^= line.trim_start().starts_with("```");
            let is_row = !in_code && line.starts_with('|');
            let is_rule =
                |line: &str| line.starts_with("|-") || line.starts_with("| -") || line.starts_with("|:");
            let has_rule = lines.peek().is_some_and(|(_, next)| is_rule(next));
            assert!(!is_row || in_table || has_rule, "{}:{}: {line}", file.display(), number + 1);
            in_table = is_row;
        }
    }
}
