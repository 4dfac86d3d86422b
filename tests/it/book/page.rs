//! A document from its reader's point of view: its code blocks in order, with their marks.
//!
//! A mark is a comment on its own line before the block, which readers don't see:
//!
//! - `<!-- not run: why -->`: no test can run these commands;
//! - `<!-- file: PATH -->`: the block is a file that the reader writes;
//! - `<!-- from: PATH -->`: the block is a file of the page's example;
//! - `<!-- on: sqlite -->`, `<!-- on: postgresql -->`: only on this database;
//! - `<!-- in the database -->`: the block is SQL that fills PostgreSQL's database;
//! - `<!-- soon -->`: the output may need another attempt, because it appears later;
//! - `<!-- goes on -->`: the commands run until the end of the page;
//! - `<!-- exits: 1 -->`: the last command ends with this status.
//!
//! At the start of a page, `<!-- with: examples/NAME -->` names the folder for the test, with a
//! running server. `<!-- second server: FOLDER -->` adds another server. `<!-- page on: postgresql
//! -->` restricts the page to this database.

use std::path::Path;

/// The languages of commands.
const SHELL: &str = "sh";
const PYTHON: &str = "python";
/// The languages of a command's output.
const ANSWERS: [&str; 4] = ["text", "json", "csv", "http"];

/// A document.
pub(super) struct Page {
    /// Its path in the repository.
    pub(super) name: String,
    /// The example for its test.
    pub(super) example: Option<String>,
    /// The folder of the second server.
    pub(super) second: Option<String>,
    /// The only database of the page.
    pub(super) on: Option<Database>,
    pub(super) blocks: Vec<Block>,
}

/// The databases of pages.
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

/// A block that a reader of the page uses.
pub(super) struct Block {
    /// The line of its fence.
    pub(super) line: usize,
    pub(super) on: Option<Database>,
    pub(super) kind: Kind,
}

pub(super) enum Kind {
    /// A file that the reader writes: path and contents.
    File(String, String),
    /// A file of the example.
    From(String, String),
    /// SQL for the database.
    Database(String),
    Commands(Commands),
    /// Commands that no test can run, with the reason.
    NotRun(String),
}

pub(super) struct Commands {
    pub(super) text: String,
    /// Their output. `…` matches anything.
    pub(super) answer: Option<String>,
    pub(super) goes_on: bool,
    /// The output may need another attempt.
    pub(super) soon: bool,
    pub(super) status: i32,
    /// They need the tests' Python libraries.
    pub(super) libraries: bool,
}

impl Commands {
    pub(super) fn new(text: &str) -> Self {
        Self { text: text.to_owned(), answer: None, goes_on: false, soon: false, status: 0, libraries: false }
    }

    /// Returns true if they start a server. It must be the last command.
    pub(super) fn serves(&self) -> bool {
        let servers: Vec<_> = self.text.lines().map(is_server).collect();
        servers.contains(&true) && {
            assert_eq!(servers.last(), Some(&true), "a server ends a block:\n{}", self.text);
            true
        }
    }
}

/// Returns true if a line starts a server.
fn is_server(line: &str) -> bool {
    let mut words = line.split_whitespace().skip_while(|word| word.contains('='));
    words.next() == Some("rowstream") && matches!(words.next(), Some("serve" | "demo"))
}

/// Marks that precede a block.
#[derive(Default)]
struct Marks(Vec<(String, String)>);

impl Marks {
    fn take(&mut self, name: &str) -> Option<String> {
        let at = self.0.iter().position(|(own, _)| own == name)?;
        Some(self.0.remove(at).1)
    }
}

/// A fenced block of a text.
struct Fenced<'a> {
    line: usize,
    language: &'a str,
    text: String,
    /// Only blank lines separate it from the previous block.
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

    /// Returns true if there's something to test.
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

/// Returns true if a text matches the page, where `…` matches anything.
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
