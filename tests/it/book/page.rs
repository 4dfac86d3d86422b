//! A document as its reader uses it: its blocks of code in order, with what their marks say.
//!
//! A mark is a comment on a line of its own before the block, and is not seen by readers:
//!
//! - `<!-- not run: why -->`: no test can run these commands;
//! - `<!-- file: PATH -->`: the block is a file that the reader writes;
//! - `<!-- from: PATH -->`: the block is a file of the page's example;
//! - `<!-- on: sqlite -->`, `<!-- on: postgresql -->`: on this database alone;
//! - `<!-- in the database -->`: the block is SQL that fills PostgreSQL's database;
//! - `<!-- soon -->`: what is shown may take another try, because it is of a moment later;
//! - `<!-- goes on -->`: the commands run until the end of the page;
//! - `<!-- exits: 1 -->`: the last command ends with this status.
//!
//! At the begin of a page, `<!-- with: examples/NAME -->` says in which folder it is tried, with a
//! server that runs; `<!-- second server: FOLDER -->` that there is another one; and
//! `<!-- page on: postgresql -->` that it is of this database alone.

use std::path::Path;

/// The languages of commands.
const SHELL: &str = "sh";
const PYTHON: &str = "python";
/// The languages of what a command prints.
const ANSWERS: [&str; 4] = ["text", "json", "csv", "http"];

/// A document.
pub(super) struct Page {
    /// Its path in the repository.
    pub(super) name: String,
    /// The example that it is tried with.
    pub(super) example: Option<String>,
    /// The folder of the server beside its own.
    pub(super) second: Option<String>,
    /// On which database alone.
    pub(super) on: Option<Database>,
    pub(super) blocks: Vec<Block>,
}

/// What data lie in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Database {
    Sqlite,
    Postgres,
}

impl Database {
    pub(super) const ALL: [Self; 2] = [Self::Sqlite, Self::Postgres];

    fn read(name: &str) -> Self {
        match name {
            "sqlite" => Self::Sqlite,
            "postgresql" => Self::Postgres,
            _ => panic!("no database is called {name}"),
        }
    }
}

/// A block that somebody who follows the page does something with.
pub(super) struct Block {
    /// The line of its fence.
    pub(super) line: usize,
    pub(super) on: Option<Database>,
    pub(super) kind: Kind,
}

pub(super) enum Kind {
    /// What the reader writes: a path and its text.
    File(String, String),
    /// What the example has.
    From(String, String),
    /// What the database has.
    Database(String),
    Commands(Commands),
    /// Commands that no test can run, and why.
    NotRun(String),
}

pub(super) struct Commands {
    pub(super) text: String,
    /// What they print; `…` stands for anything.
    pub(super) answer: Option<String>,
    pub(super) goes_on: bool,
    /// What is shown may take another try.
    pub(super) soon: bool,
    pub(super) status: i32,
    /// Whether they need the libraries that tests have for Python.
    pub(super) libraries: bool,
}

impl Commands {
    pub(super) fn new(text: &str) -> Self {
        Self { text: text.to_owned(), answer: None, goes_on: false, soon: false, status: 0, libraries: false }
    }

    /// Whether they start a server, which then has to be the last of them.
    pub(super) fn serves(&self) -> bool {
        let servers: Vec<_> = self.text.lines().map(is_server).collect();
        servers.contains(&true) && {
            assert_eq!(servers.last(), Some(&true), "a server ends a block:\n{}", self.text);
            true
        }
    }
}

/// Whether a line starts a server.
fn is_server(line: &str) -> bool {
    let mut words = line.split_whitespace().skip_while(|word| word.contains('='));
    words.next() == Some("rowstream") && matches!(words.next(), Some("serve" | "demo"))
}

/// Marks that wait for their block.
#[derive(Default)]
struct Marks(Vec<(String, String)>);

impl Marks {
    fn take(&mut self, name: &str) -> Option<String> {
        let at = self.0.iter().position(|(own, _)| own == name)?;
        Some(self.0.remove(at).1)
    }
}

/// A fenced block as it stands in a text.
struct Fenced<'a> {
    line: usize,
    language: &'a str,
    text: String,
    /// Only blank lines stand between it and the block before it.
    follows: bool,
}

enum Part<'a> {
    Mark(&'a str),
    Fenced(Fenced<'a>),
}

impl Page {
    pub(super) fn read(root: &Path, name: &str) -> Self {
        let text = std::fs::read_to_string(root.join(name)).unwrap_or_else(|error| panic!("{name}: {error}"));
        let mut page =
            Self { name: name.to_owned(), example: None, second: None, on: None, blocks: Vec::new() };
        let mut marks = Marks::default();
        for part in parts(&text) {
            match part {
                Part::Mark(mark) => page.mark(mark, &mut marks),
                Part::Fenced(fenced) => page.block(fenced, &mut marks),
            }
        }
        page
    }

    fn mark(&mut self, mark: &str, marks: &mut Marks) {
        let (name, value) = mark.split_once(": ").unwrap_or((mark, ""));
        match name {
            "with" => self.example = Some(value.to_owned()),
            "second server" => self.second = Some(value.to_owned()),
            "page on" => self.on = Some(Database::read(value)),
            "not run" | "file" | "from" | "in the database" | "on" | "soon" | "goes on" | "exits" => {
                marks.0.push((name.to_owned(), value.to_owned()));
            }
            _ => {}
        }
    }

    fn block(&mut self, fenced: Fenced<'_>, marks: &mut Marks) {
        let line = fenced.line;
        let on = marks.take("on").map(|name| Database::read(&name));
        let kind = if let Some(path) = marks.take("file") {
            Kind::File(path, fenced.text)
        } else if let Some(path) = marks.take("from") {
            Kind::From(path, fenced.text)
        } else if marks.take("in the database").is_some() {
            Kind::Database(fenced.text)
        } else if let Some(why) = marks.take("not run") {
            Kind::NotRun(why)
        } else if fenced.language == SHELL {
            let (soon, goes_on) = (marks.take("soon").is_some(), marks.take("goes on").is_some());
            let status = marks.take("exits").map_or(0, |status| status.parse().expect("a status"));
            Kind::Commands(Commands { goes_on, soon, status, ..Commands::new(&fenced.text) })
        } else if fenced.language == PYTHON {
            let text = format!("\"$PYTHON\" - <<'END_OF_PYTHON'\n{}END_OF_PYTHON\n", fenced.text);
            Kind::Commands(Commands { libraries: true, ..Commands::new(&text) })
        } else {
            if ANSWERS.contains(&fenced.language) && fenced.follows {
                self.answer(fenced.text);
            }
            return;
        };
        assert!(marks.0.is_empty(), "{}:{line}: marks that mean nothing here: {:?}", self.name, marks.0);
        self.blocks.push(Block { line, on, kind });
    }

    fn answer(&mut self, text: String) {
        if let Some(Block { kind: Kind::Commands(commands), .. }) = self.blocks.last_mut()
            && commands.answer.is_none()
        {
            commands.answer = Some(text);
        }
    }

    /// Whether there is something to be tried.
    pub(super) fn is_tried(&self) -> bool {
        self.blocks.iter().any(|block| !matches!(block.kind, Kind::NotRun(_)))
    }
}

/// The marks and the blocks of a text.
fn parts(text: &str) -> Vec<Part<'_>> {
    let (mut parts, mut follows) = (Vec::new(), false);
    let mut lines = text.lines().enumerate();
    while let Some((at, line)) = lines.next() {
        let start = line.trim_start();
        if let Some(language) = start.strip_prefix("```") {
            let indent = line.len() - start.len();
            let inside = lines.by_ref().map(|(_, line)| line);
            let inside = inside.take_while(|line| !line.trim_start().starts_with("```"));
            let text = inside.map(|line| format!("{}\n", line.get(indent..).unwrap_or_default())).collect();
            let language = language.split([' ', ',']).next().unwrap_or_default();
            parts.push(Part::Fenced(Fenced { line: at + 1, language, text, follows }));
            follows = true;
        } else if let Some(mark) = start.strip_prefix("<!-- ").and_then(|rest| rest.strip_suffix(" -->")) {
            parts.push(Part::Mark(mark));
        } else if !start.is_empty() {
            follows = false;
        }
    }
    parts
}

/// Whether a text is what a page shows, where `…` stands for anything.
pub(super) fn is_shown(shown: &str, text: &str) -> bool {
    let plain = |text: &str| {
        let lines: Vec<_> = text.lines().map(str::trim_end).collect();
        lines.join("\n").trim().to_owned()
    };
    let (shown, text) = (plain(shown), plain(text));
    let mut pieces = shown.split('…');
    let first = pieces.next().unwrap_or_default();
    let Some(mut rest) = text.strip_prefix(first) else { return false };
    let mut pieces: Vec<_> = pieces.collect();
    let Some(last) = pieces.pop() else { return rest.is_empty() };
    for piece in pieces {
        match rest.split_once(piece) {
            Some((_, behind)) => rest = behind,
            None => return false,
        }
    }
    rest.ends_with(last)
}
