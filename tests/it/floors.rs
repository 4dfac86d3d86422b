//! The floors of a crate's modules, as documented in the crate: imports only go down.
//!
//! A module imports modules of lower floors, and those to its left on its own floor. Inside a
//! module's folder everything is allowed. Between crates, the compiler enforces the order.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use crate::support::repository;

/// Not modules of the server: the library's module list, the program, and the entry points for
/// `fuzz/`.
const BESIDE: [&str; 3] = ["lib", "main", "fuzzing"];

/// A crate with more than one floor.
struct Crate {
    /// Its folder with source files.
    sources: &'static str,
    /// The document with its floors.
    document: &'static str,
    /// The first line of their block.
    highest: &'static str,
}

const CRATES: [Crate; 2] = [
    Crate { sources: "src", document: "ARCHITECTURE.md", highest: "cli" },
    Crate {
        sources: "crates/rowstream-core/src",
        document: "crates/rowstream-core/src/lib.rs",
        highest: "cursor fetch settings",
    },
];

/// The modules of a crate from lowest to highest.
fn floors(of: &Crate) -> Vec<String> {
    let text = fs::read_to_string(repository().join(of.document)).expect("it is there");
    let text: String =
        text.lines().map(|line| line.trim_start_matches("//!").trim_start().to_owned() + "\n").collect();
    let (_, block) = text.split_once(&format!("```text\n{}\n", of.highest)).expect("the floors");
    let (block, _) = block.split_once("```").expect("an end of the floors");
    let floors = block.lines().rev().chain([of.highest]);
    floors.flat_map(str::split_whitespace).map(str::to_owned).collect()
}

/// All source files below a folder.
fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        match path.is_dir() {
            true => sources(&path, found),
            false if path.extension().is_some_and(|extension| extension == "rs") => found.push(path),
            false => {}
        }
    }
}

/// The module of a crate that contains a file.
fn module(file: &Path, sources: &str) -> String {
    let below = file.strip_prefix(repository().join(sources)).expect("a file of src");
    let first = below.components().next().expect("a name").as_os_str().to_string_lossy().into_owned();
    first.strip_suffix(".rs").unwrap_or(&first).to_owned()
}

/// The imports of a source text from its own crate: the first segments of its `crate::` paths.
fn imports(text: &str) -> BTreeSet<String> {
    let code: String =
        text.lines().map(|line| line.split("//").next().unwrap_or(line)).collect::<Vec<_>>().join("\n");
    let mut imports = BTreeSet::new();
    for (at, _) in code.match_indices("crate::") {
        let before = code[..at].chars().next_back();
        if before.is_some_and(|before| before.is_alphanumeric() || before == '_') {
            continue;
        }
        let rest = &code[at + "crate::".len()..];
        match rest.strip_prefix('{') {
            Some(group) => imports.extend(members(group)),
            None => imports.extend(name(rest)),
        }
    }
    imports
}

/// The first segments of a group, after its opening brace.
fn members(group: &str) -> Vec<String> {
    let (mut depth, mut members, mut begins) = (0, Vec::new(), true);
    for (at, c) in group.char_indices() {
        match c {
            '{' => depth += 1,
            '}' if depth == 0 => break,
            '}' => depth -= 1,
            ',' if depth == 0 => begins = true,
            c if begins && !c.is_whitespace() => {
                members.extend(name(&group[at..]));
                begins = false;
            }
            _ => {}
        }
    }
    members
}

/// The name at the start of a text. The crate itself re-exports its `Error`.
fn name(text: &str) -> Option<String> {
    let end = text.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(text.len());
    match &text[..end] {
        "" => None,
        "Error" => Some("error".to_owned()),
        name => Some(name.to_owned()),
    }
}

#[test]
fn names_are_found_wherever_they_stand() {
    let text = "use crate::Error;\nuse crate::{pool::{self, Pool}, sql, // crate::no\n stream::X};\nfn f(x: crate::a::B) {}\nother_crate::c()";
    let found: Vec<_> = imports(text).into_iter().collect();
    assert_eq!(found, ["a", "error", "pool", "sql", "stream"]);
}

/// With cyclic imports, 67 files formed one circle, so no file could be changed alone.
#[test]
fn imports_go_down() {
    CRATES.iter().for_each(imports_of_a_crate_go_down);
}

fn imports_of_a_crate_go_down(of: &Crate) {
    let floors = floors(of);
    let height: BTreeMap<&str, usize> =
        floors.iter().enumerate().map(|(height, module)| (module.as_str(), height)).collect();
    assert_eq!(height.len(), floors.len(), "a module stands on one floor");
    let mut files = Vec::new();
    sources(&repository().join(of.sources), &mut files);
    let (mut wrong, mut seen) = (Vec::new(), BTreeSet::new());
    for file in &files {
        let module = module(file, of.sources);
        if BESIDE.contains(&module.as_str()) {
            continue;
        }
        let Some(own) = height.get(module.as_str()) else {
            wrong.push(format!("{} is on no floor", file.display()));
            continue;
        };
        seen.insert(module.clone());
        let text = fs::read_to_string(file).expect("a text");
        let file = file.strip_prefix(repository()).expect("a file of ours");
        let above = |import: &&String| height.get(import.as_str()).is_none_or(|height| height > own);
        let found = imports(&text);
        wrong.extend(found.iter().filter(above).map(|import| format!("{} imports {import}", file.display())));
    }
    assert!(wrong.is_empty(), "imports go down, see the floors in {}:\n{}", of.document, wrong.join("\n"));
    let missing: Vec<_> = floors.iter().filter(|module| !seen.contains(*module)).collect();
    assert_eq!(missing, [""; 0], "a floor has a module that is not there");
}

/// The load tester belongs to the program, but not to the server.
#[test]
fn only_the_command_line_uses_the_load_tester() {
    let mut files = Vec::new();
    sources(&repository().join("src"), &mut files);
    let uses = |file: &&PathBuf| fs::read_to_string(file).expect("a text").contains("rowstream_bench");
    let users: BTreeSet<_> = files.iter().filter(uses).map(|file| module(file, "src")).collect();
    assert_eq!(users.into_iter().collect::<Vec<_>>(), ["cli"]);
}

/// The name of the type that a line declares. Types of a trait are those of its users.
fn declared_type(line: &str) -> Option<&str> {
    let declaration = line.trim_start();
    let declaration = match declaration.strip_prefix("pub(") {
        Some(restricted) => restricted.split_once(") ")?.1,
        None => declaration.strip_prefix("pub ").unwrap_or(declaration),
    };
    let (kind, rest) = declaration.split_once(' ')?;
    let is_own = ["struct", "enum", "trait"].contains(&kind) || (kind == "type" && !line.starts_with(' '));
    let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
    (is_own && end > 0).then_some(&rest[..end])
}

/// The names of types that a crate has more than once, outside of tests.
fn names_of_several_types(sources_of_crate: &Path) -> Vec<String> {
    // All drivers have the first ones. The last ones are empty without HTTP/3.
    let allowed = ["Error", "State", "Row", "Session", "Source", "ArrivedConnection", "QuicPort"];
    let mut files = Vec::new();
    sources(sources_of_crate, &mut files);
    files.retain(|file| file.file_name().is_some_and(|name| name != "tests.rs"));
    let (mut seen, mut twice) = (BTreeMap::new(), Vec::new());
    for file in files {
        let text = fs::read_to_string(&file).expect("a source");
        let code = text.split("#[cfg(test)]\nmod ").next().unwrap_or(&text);
        for name in code.lines().filter_map(declared_type).filter(|name| !allowed.contains(name)) {
            if let Some(other) = seen.insert(name.to_owned(), file.clone()) {
                twice.push(format!("{name}: {} and {}", other.display(), file.display()));
            }
        }
    }
    twice
}

/// A reader who meets a name knows its type.
#[test]
fn types_of_a_crate_have_different_names() {
    let crates = fs::read_dir(repository().join("crates")).expect("the crates");
    let folders = crates.map(|entry| entry.expect("an entry").path()).chain([repository().to_owned()]);
    let twice: Vec<_> = folders.flat_map(|folder| names_of_several_types(&folder.join("src"))).collect();
    assert!(twice.is_empty(), "each type of a crate needs its own name:\n{}", twice.join("\n"));
}

#[test]
fn declarations_of_types_are_found() {
    let lines = [
        "pub(crate) struct A<'a> {",
        "    enum B {",
        "pub trait C: D {",
        "type E = F;",
        "    type G = H;",
        "let struct_of = 1;",
    ];
    let found: Vec<_> = lines.into_iter().filter_map(declared_type).collect();
    assert_eq!(found, ["A", "B", "C", "E"]);
}

/// File paths in a text: they begin with one of our folders, and end before a character that paths
/// don't contain. Paths with the placeholder `NAME` are left out.
fn named(text: &str) -> BTreeSet<&str> {
    let folders = ["src/", "crates/", "tests/", "xtask/", "benches/", "fuzz/"];
    let ends = |c: char| c.is_whitespace() || "`()[],;|{}*".contains(c);
    text.split(ends)
        .filter(|word| folders.iter().any(|folder| word.starts_with(folder)) && !word.contains("NAME"))
        .collect()
}

/// A map with outdated names is misleading.
#[test]
fn the_map_names_what_is_there() {
    for page in ["ARCHITECTURE.md", "CONTRIBUTING.md", "xtask/README.md"] {
        let text = fs::read_to_string(repository().join(page)).expect("it is there");
        let named = named(&text);
        assert!(named.len() > 5, "{page} names files: {named:?}");
        let gone: Vec<_> = named
            .iter()
            .map(|path| path.split('#').next().unwrap_or(path).trim_end_matches(['.', ':']))
            .filter(|path| !repository().join(path).exists())
            .collect();
        assert!(gone.is_empty(), "{page} names what is not there: {gone:?}");
    }
}

/// The number of `unsafe` blocks and functions in a source.
fn count_unsafe(text: &str) -> usize {
    let code = text.lines().map(|line| line.split("//").next().unwrap_or(line));
    let ways = ["unsafe {", "unsafe fn ", "unsafe impl ", "unsafe extern "];
    code.map(|line| ways.iter().map(|way| line.matches(way).count()).sum::<usize>()).sum()
}

/// Reviewers find all code that the compiler doesn't check in one table.
#[test]
fn unsafe_code_is_where_the_table_says() {
    let mut files = Vec::new();
    for folder in ["src", "crates", "xtask/src", "fuzz/src"] {
        sources(&repository().join(folder), &mut files);
    }
    let counted = files.into_iter().filter_map(|file| {
        let count = count_unsafe(&fs::read_to_string(&file).expect("a source"));
        let name = file.strip_prefix(repository()).expect("it is below").display().to_string();
        (count > 0).then_some((name, count))
    });
    let counted: BTreeMap<_, _> = counted.collect();
    let text = fs::read_to_string(repository().join("ARCHITECTURE.md")).expect("it is there");
    let (_, table) = text.split_once("## Unsafe code").expect("the table");
    let listed = table.lines().filter_map(|line| {
        let mut cells = line.split('|').map(str::trim).skip(1);
        let name = cells.next()?.strip_prefix('`')?.strip_suffix('`')?;
        Some((name.to_owned(), cells.next()?.parse().ok()?))
    });
    assert_eq!(counted, listed.collect::<BTreeMap<_, usize>>());
}
