//! Counts the house dialect in comments, messages and documents, so that none is added.
//!
//! `prose.txt` has the patterns. `prose-base-line.txt` has, for each part of the repository, how
//! many of them were found per 1,000 words; a part that isn't there may have [`GOAL`]. The counts
//! may only fall: lower them with `ROWSTREAM_TEST_RENEW=prose cargo xtask test prose::`.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use regex::{Regex, RegexBuilder};

use crate::support::repository;

const BASE_LINE: &str = "tests/it/prose-base-line.txt";
/// Hits per 1,000 words that every part should reach.
const GOAL: f64 = 6.0;
/// A part below its base line by more than this has to lower it.
const SLACK: f64 = 2.0;
/// A string literal with fewer words is a name, and not a message.
const MESSAGE_WORDS: usize = 4;
/// Hits that a failure shows for each part.
const SHOWN: usize = 20;

struct Pattern {
    name: String,
    regex: Regex,
    example: String,
}

fn patterns() -> Vec<Pattern> {
    let lines = include_str!("prose.txt").lines().filter(|line| !line.starts_with('#'));
    let pattern = |line: &str| {
        let [name, regex, example] = line.split('\t').collect::<Vec<_>>()[..] else {
            panic!("name, expression and example, divided by tabs: {line}");
        };
        let regex = RegexBuilder::new(regex).case_insensitive(true).build().expect("an expression");
        Pattern { name: name.to_owned(), regex, example: example.to_owned() }
    };
    lines.map(pattern).collect()
}

/// The words and the hits of one kind of text in one part of the repository.
#[derive(Default)]
struct Count {
    words: usize,
    /// The file and the words of each hit.
    hits: Vec<String>,
}

impl Count {
    fn add(&mut self, file: &Path, text: &str, patterns: &[Pattern]) {
        self.words += words(text);
        for Pattern { name, regex, .. } in patterns {
            let file = file.display();
            self.hits.extend(
                regex.find_iter(text).map(|hit| format!("{file}: {name}: {}", around(text, hit.range()))),
            );
        }
    }

    /// Hits per 1,000 words.
    fn rate(&self) -> f64 {
        self.hits.len() as f64 * 1000.0 / self.words.max(1) as f64
    }
}

fn words(text: &str) -> usize {
    text.split_whitespace().filter(|word| word.starts_with(|c: char| c.is_alphabetic())).count()
}

/// The hit with a few words on either side.
fn around(text: &str, hit: std::ops::Range<usize>) -> String {
    let before = text[..hit.start].char_indices().rev().nth(30).map_or(0, |(at, _)| at);
    let after = text[hit.end..].char_indices().nth(30).map_or(text.len(), |(at, _)| hit.end + at);
    text[before..after].to_owned()
}

/// The texts of a source file: its comments, blocks of lines as one text, and its string literals.
struct Source {
    comments: Vec<String>,
    messages: Vec<String>,
}

impl Source {
    fn read(text: &str) -> Self {
        // In this order, so that neither a quote in a comment nor `//` in a string begins anything.
        let token = r#"(?x) (?P<comment> //[^\n]*) | r\#"(?s:.*?)"\# | r"[^"]*" | '(?:[^'\\\n]|\\.)'
            | "(?P<string> (?s:(?:[^"\\]|\\.)*) )""#;
        let token = Regex::new(token).expect("an expression");
        let (mut source, mut end) = (Self { comments: Vec::new(), messages: Vec::new() }, 0);
        for found in token.captures_iter(text) {
            let whole = found.get(0).expect("the match");
            if let Some(comment) = found.name("comment") {
                let line = comment.as_str().trim_start_matches(['/', '!']).trim();
                let goes_on = text[end..whole.start()].chars().filter(|c| *c == '\n').count() == 1
                    && text[end..whole.start()].trim().is_empty();
                match source.comments.last_mut().filter(|_| goes_on) {
                    Some(block) => *block += &format!(" {line}"),
                    None => source.comments.push(line.to_owned()),
                }
            } else if let Some(string) = found.name("string") {
                let string = string.as_str().split_whitespace().collect::<Vec<_>>().join(" ");
                source.messages.extend(Some(string).filter(|string| words(string) >= MESSAGE_WORDS));
            }
            end = whole.end();
        }
        source
    }
}

/// The paragraphs of a document, without blocks of code.
fn paragraphs(text: &str) -> Vec<String> {
    let (mut paragraphs, mut is_code) = (vec![String::new()], false);
    for line in text.lines() {
        if line.trim_start().starts_with("```") {
            is_code = !is_code;
        } else if line.trim().is_empty() || line.starts_with(['#', '|', '-']) {
            paragraphs.push(line.to_owned());
        } else if !is_code {
            let paragraph = paragraphs.last_mut().expect("the first one");
            write!(paragraph, " {}", line.trim()).expect("a string takes everything");
        }
    }
    paragraphs
}

/// Every file of the repository below a folder.
fn files(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        let name = path.file_name().expect("a name").to_string_lossy().into_owned();
        match path.is_dir() {
            true if name.starts_with('.') || ["target", "node_modules", "runs"].contains(&&*name) => {}
            true => files(&path, found),
            false => found.push(path),
        }
    }
}

/// The part that a file belongs to: a module of the server, a crate, a folder of the book.
fn part(file: &Path) -> String {
    let names: Vec<_> = file.iter().map(|name| name.to_string_lossy()).collect();
    let most = match &*names[0] {
        "src" | "crates" | "benches" | "tests" => 2,
        "docs" => 3,
        _ => 1,
    };
    names[..most.min(names.len())].join("/").trim_end_matches(".rs").to_owned()
}

fn count() -> BTreeMap<String, Count> {
    let (root, patterns) = (repository(), patterns());
    let (mut found, mut counts) = (Vec::new(), BTreeMap::<String, Count>::new());
    files(root, &mut found);
    for path in found {
        let file = path.strip_prefix(root).expect("below the root");
        let part = part(file);
        let mut add = |kind: &str, texts: &[String]| {
            let count = counts.entry(format!("{part} {kind}")).or_default();
            texts.iter().for_each(|text| count.add(file, text, &patterns));
        };
        match file.extension().and_then(|extension| extension.to_str()) {
            Some("rs") => {
                let source = Source::read(&fs::read_to_string(&path).expect("UTF-8"));
                add("comments", &source.comments);
                if ["src", "crates", "xtask"].iter().any(|folder| file.starts_with(folder)) {
                    add("messages", &source.messages);
                }
            }
            Some("md") => add("text", &paragraphs(&fs::read_to_string(&path).expect("UTF-8"))),
            _ => {}
        }
    }
    counts.retain(|_, count| count.words > 0);
    counts
}

fn base_line() -> BTreeMap<String, f64> {
    let text = fs::read_to_string(repository().join(BASE_LINE)).unwrap_or_default();
    let line = |line: &str| {
        let (part, rate) = line.rsplit_once(' ').expect("a part and its rate");
        (part.to_owned(), rate.parse().expect("a number"))
    };
    text.lines().filter(|line| !line.starts_with('#')).map(line).collect()
}

/// Writes the base line; no rate in it grows.
fn renew(counts: &BTreeMap<String, Count>, base: &BTreeMap<String, f64>) {
    let mut text =
        "# Hits of the patterns in prose.txt per 1,000 words. `tests/it/prose.rs` says how to lower them.\n"
            .to_owned();
    for (part, count) in counts {
        let rate = base.get(part).map_or(count.rate(), |base| base.min(count.rate()));
        if rate > GOAL {
            writeln!(text, "{part} {:.1}", (rate * 10.0).ceil() / 10.0).expect("a string takes everything");
        }
    }
    fs::write(repository().join(BASE_LINE), text).expect("the repository is writable");
}

#[test]
fn no_part_has_more_dialect_than_before() {
    let (counts, base) = (count(), base_line());
    if std::env::var("ROWSTREAM_TEST_RENEW").is_ok_and(|renew| renew == "prose") {
        renew(&counts, &base);
        return;
    }
    let mut failures = String::new();
    for (part, count) in &counts {
        let (rate, allowed) = (count.rate(), base.get(part).copied().unwrap_or(GOAL));
        if rate > allowed {
            let hits = count.hits[..count.hits.len().min(SHOWN)].join("\n    ");
            writeln!(failures, "{part}: {rate:.1} per 1,000 words, and {allowed:.1} allowed:\n    {hits}")
                .expect("a string takes everything");
        } else if base.contains_key(part) && rate < allowed - SLACK {
            writeln!(failures, "{part}: {rate:.1} per 1,000 words: lower the base line of {allowed:.1}")
                .expect("a string takes everything");
        }
    }
    let gone = base.keys().filter(|part| !counts.contains_key(*part));
    failures.extend(gone.map(|part| format!("{part}: it's gone: remove its base line\n")));
    assert!(failures.is_empty(), "{failures}\n`tests/it/prose.rs` says how to lower the base line");
}

#[test]
fn each_pattern_finds_its_example() {
    for Pattern { name, regex, example } in patterns() {
        assert!(regex.is_match(&example), "{name}: {example}");
    }
}

#[test]
fn plain_english_has_no_hits() {
    let text = "A request counts as a failure of its host if no response headers arrive: the connection can't be \
                opened, closes early, or stays silent. If no connection can be closed, 64 reserved ones answer.";
    let mut count = Count::default();
    count.add(Path::new("a.md"), text, &patterns());
    assert_eq!(count.hits, Vec::<String>::new());
}

#[test]
fn comments_and_messages_are_separated_from_code() {
    let source = Source::read(
        "//! One,\n//! two.\nlet url = \"http://a b\"; // three\n\nlet c = '\"'; let s = r#\"// no \"x\" \"#;\n\
         error(\"this is a \\\"long\\\" message\"); // four\n// five\n",
    );
    assert_eq!(source.comments, ["One, two.", "three", "four five"]);
    assert_eq!(source.messages, ["this is a \\\"long\\\" message"]);
}

#[test]
fn documents_lose_their_code() {
    let text = "# A title\nOne\ntwo.\n\n```sh\nnobody\n```\n| a | table |\n";
    let found: Vec<_> = paragraphs(text).into_iter().filter(|text| !text.trim().is_empty()).collect();
    assert_eq!(found, ["# A title One two.", "| a | table |"]);
}
