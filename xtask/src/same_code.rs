//! `cargo xtask same-code COMMIT`: fails if the Rust code of the work tree differs from a commit's.
//!
//! It shows a reviewer that a change of comments changed nothing else. Files are compared
//! token by token, without comments, doc comments and trailing commas: rustfmt adds and removes
//! those commas when a comment near them changes. With `--messages`, the texts of string literals
//! may differ too.
//!
//! A doc comment isn't always prose only. Clap shows those of `src/cli` as help, and those with
//! examples are tests. This command says nothing about either.

use std::process::Command;

use proc_macro2::{Delimiter, TokenStream, TokenTree};

use crate::Result;
use crate::test::workspace;

/// If the texts of string literals are compared too.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Texts {
    Compare,
    Ignore,
}

/// Names the files whose code differs. True if there aren't any.
pub(crate) fn run(commit: &str, texts: Texts) -> Result<bool> {
    let mut is_same = true;
    for file in changed(commit)? {
        if let Some(difference) = difference(commit, &file, texts)? {
            println!("{file}: {difference}");
            is_same = false;
        }
    }
    Ok(is_same)
}

/// The Rust files that aren't byte for byte those of the commit, with new and removed ones.
fn changed(commit: &str) -> Result<Vec<String>> {
    let tracked = git(&["diff", "--name-only", "--no-renames", "-z", commit, "--", "*.rs"])?;
    let untracked = git(&["ls-files", "--others", "--exclude-standard", "-z", "--", "*.rs"])?;
    let names = tracked.split('\0').chain(untracked.split('\0'));
    Ok(names.filter(|name| !name.is_empty()).map(str::to_owned).collect())
}

fn difference(commit: &str, file: &str, texts: Texts) -> Result<Option<String>> {
    let path = workspace().join(file);
    if !path.exists() {
        return Ok(Some("is removed".into()));
    }
    if git(&["ls-tree", "--name-only", commit, "--", file])?.is_empty() {
        return Ok(Some("is new".into()));
    }
    let new = std::fs::read_to_string(&path).map_err(|error| format!("{file}: {error}"))?;
    let old = git(&["show", &format!("{commit}:{file}")])?;
    let code = |text: &str| code(text, texts).map_err(|error| format!("{file}: {error}"));
    Ok(first_difference(&code(&old)?, &code(&new)?))
}

fn git(arguments: &[&str]) -> Result<String> {
    let mut git = Command::new("git");
    git.args(arguments).current_dir(workspace());
    let output = git.output().map_err(|error| format!("git: {error}"))?;
    if !output.status.success() {
        return Err(format!("git {}: {}", arguments[0], String::from_utf8_lossy(&output.stderr)));
    }
    String::from_utf8(output.stdout).map_err(|error| format!("git {}: {error}", arguments[0]))
}

/// The tokens of a source file, without comments, doc comments and trailing commas.
fn code(text: &str, texts: Texts) -> Result<Vec<String>> {
    let tokens: TokenStream = text.parse().map_err(|error| format!("isn't Rust: {error}"))?;
    let mut code = Vec::new();
    add(tokens, None, texts, &mut code);
    Ok(code)
}

fn add(tokens: TokenStream, delimiter: Option<Delimiter>, texts: Texts, code: &mut Vec<String>) {
    let tokens: Vec<_> = tokens.into_iter().collect();
    let commas = tokens.iter().filter(|token| is_punct(token, ',')).count();
    let mut rest = tokens.as_slice();
    while let Some((token, after)) = rest.split_first() {
        if let Some(length) = doc_comment(rest) {
            rest = &rest[length..];
            continue;
        }
        match token {
            TokenTree::Group(group) => {
                let (open, close) = match group.delimiter() {
                    Delimiter::Parenthesis => ("(", ")"),
                    Delimiter::Brace => ("{", "}"),
                    Delimiter::Bracket => ("[", "]"),
                    Delimiter::None => ("", ""),
                };
                code.push(open.to_owned());
                add(group.stream(), Some(group.delimiter()), texts, code);
                code.push(close.to_owned());
            }
            TokenTree::Literal(literal) => {
                let literal = literal.to_string();
                let is_ignored = texts == Texts::Ignore && is_text(&literal);
                code.push(if is_ignored { "\"…\"".to_owned() } else { literal });
            }
            // `(a,)` is a tuple, and `(a)` isn't.
            _ if is_punct(token, ',')
                && after.is_empty()
                && (delimiter != Some(Delimiter::Parenthesis) || commas > 1) => {}
            _ => code.push(token.to_string()),
        }
        rest = after;
    }
}

/// The number of tokens of a doc comment at the beginning. It's parsed as `#[doc = "…"]` or
/// `#![doc = "…"]`.
fn doc_comment(tokens: &[TokenTree]) -> Option<usize> {
    let (sign, rest) = tokens.split_first()?;
    let inner = usize::from(rest.first().is_some_and(|token| is_punct(token, '!')));
    let TokenTree::Group(group) = rest.get(inner)? else { return None };
    let attribute: Vec<_> = group.stream().into_iter().collect();
    let is_doc = matches!(
        attribute.as_slice(),
        [TokenTree::Ident(name), equals, TokenTree::Literal(_)] if name == "doc" && is_punct(equals, '=')
    );
    (is_punct(sign, '#') && group.delimiter() == Delimiter::Bracket && is_doc).then_some(2 + inner)
}

fn is_punct(token: &TokenTree, sign: char) -> bool {
    matches!(token, TokenTree::Punct(punct) if punct.as_char() == sign)
}

/// True for strings, byte strings and C strings, raw ones too.
fn is_text(literal: &str) -> bool {
    literal.trim_end_matches('#').ends_with('"')
}

fn first_difference(old: &[String], new: &[String]) -> Option<String> {
    let same = old.iter().zip(new).take_while(|(old, new)| old == new).count();
    if same == old.len().max(new.len()) {
        return None;
    }
    let from = same.saturating_sub(3);
    let around = |tokens: &[String]| tokens[from..tokens.len().min(same + 5)].join(" ");
    Some(format!("`{}` became `{}`", around(old), around(new)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_same(old: &str, new: &str, texts: Texts) -> bool {
        let code = |text| code(text, texts).expect("it's Rust");
        first_difference(&code(old), &code(new)).is_none()
    }

    #[test]
    fn comments_and_their_commas_are_ignored() {
        let old = "//! One.\n/// Two.\nstruct A {\n    // three\n    a: u8,\n    /* four */ b: u8,\n}\n";
        assert!(is_same(old, "/// Five,\n/// six.\nstruct A { a: u8, b: u8 }", Texts::Compare));
        assert!(is_same("macro!(a /** one */ b)", "macro!(a b)", Texts::Compare));
    }

    #[test]
    fn code_is_compared() {
        assert!(!is_same("#[inline]\nfn a() {}", "fn a() {}", Texts::Compare));
        assert!(!is_same("fn a() {}", "fn a() {}\nfn b() {}", Texts::Compare));
        assert!(!is_same("#[doc(hidden)]\nmod a {}", "mod a {}", Texts::Compare));
        assert!(!is_same("let a = (1,);", "let a = (1);", Texts::Compare));
    }

    #[test]
    fn texts_are_ignored_if_asked() {
        let (old, new) = (r##"a("one // two", r#"three"#, 'c');"##, r##"a("four", r#"five"#, 'c');"##);
        assert!(!is_same(old, new, Texts::Compare));
        assert!(is_same(old, new, Texts::Ignore));
        assert!(!is_same("a('c');", "a('d');", Texts::Ignore));
        assert!(!is_same("a(b'\"');", "a(b'd');", Texts::Ignore));
    }
}
