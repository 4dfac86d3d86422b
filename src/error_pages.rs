//! The pages of the error codes. The `type` of a problem document links to one of them.
//!
//! The pages are compiled into the program, so they match its version and need no network. A code
//! without a page doesn't compile.

use std::sync::LazyLock;

macro_rules! pages {
    ($($code:literal => $_:ident)*) => {
        &[$(($code, include_str!(concat!("../docs/src/reference/errors/", $code, ".md")))),*]
    };
}

/// Each code with its page of the book, in alphabetical order.
const PAGES: &[(&str, &str)] = rowstream_core::error_codes!(pages);

/// The pages as they're served.
static SERVED: LazyLock<Vec<String>> =
    LazyLock::new(|| PAGES.iter().map(|(_, page)| without_dead_links(page)).collect());

/// The page of a code, in Markdown.
pub(crate) fn of(code: &str) -> Option<&'static str> {
    let found = PAGES.binary_search_by_key(&code, |(code, _)| code).ok()?;
    Some(&SERVED[found])
}

/// Keeps the links between these pages, which also work after a path prefix. The server doesn't
/// have the book's other pages, so links to them are replaced by their paths.
fn without_dead_links(page: &str) -> String {
    let mut parts = page.split("](");
    let mut text = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (target, after) = part.split_once(')').unwrap_or((part, ""));
        match (target.strip_suffix(".md"), text.rfind('[')) {
            (Some(code), _) if !code.contains('/') => text.push_str(&format!("]({code})")),
            (_, Some(begin)) if target.starts_with("../") => {
                text.remove(begin);
                text.push_str(&format!(" (`{}` of the book)", in_the_book(target)));
            }
            _ => text.push_str(&format!("]({target})")),
        }
        text.push_str(after);
    }
    text
}

/// The path in the book of a page that these pages link to.
fn in_the_book(target: &str) -> String {
    let page = target.split('#').next().unwrap_or(target);
    match page.strip_prefix("../../") {
        Some(page) => page.to_owned(),
        None => page.replacen("../", "reference/", 1),
    }
}

/// The status of a code's problem documents, from its page; `None` for a code of the command line
/// only.
pub(crate) fn status(code: &str) -> Option<u16> {
    let (_, after) = of(code)?.split_once("\n\n**")?;
    after.split(' ').next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use rowstream_core::error::codes;

    use super::*;

    /// Links once led to `../capacity.md`, which the server doesn't have.
    #[test]
    fn no_link_is_dead() {
        let page = "See [a](unauthorized.md), [b c](../memory.md#x) and [d](../../how-to/roles.md).\n[e](https://x/)\n";
        assert_eq!(
            without_dead_links(page),
            "See [a](unauthorized), b c (`reference/memory.md` of the book) and d (`how-to/roles.md` of the book).\n[e](https://x/)\n"
        );
        for code in codes() {
            let page = of(code).unwrap();
            for target in page.split("](").skip(1).filter_map(|part| part.split(')').next()) {
                assert!(of(target).is_some() || target.starts_with("http"), "{code}: {target}");
            }
        }
    }

    #[test]
    fn each_code_is_found() {
        assert!(codes().is_sorted());
        for code in codes() {
            assert!(of(code).is_some_and(|page| page.starts_with(&format!("# {code}\n"))), "{code}");
        }
        assert_eq!(of("none"), None);
        let without: Vec<_> = codes().filter(|code| status(code).is_none()).collect();
        assert_eq!(without, ["configuration"]);
    }
}
