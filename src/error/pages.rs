//! A page about each error code: what a problem's `type` leads to.
//!
//! The pages are those of the book, and are in the program: they fit its version, and can be read
//! where nothing else can be reached. A code without a page does not compile.

use std::sync::LazyLock;

/// Before the code, in the address of its page.
pub(crate) const ADDRESS: &str = "/_rowstream/errors/";

macro_rules! pages {
    ($($code:literal)*) => {
        &[$(($code, include_str!(concat!("../../docs/src/reference/errors/", $code, ".md")))),*]
    };
}

/// Every code that there is, in alphabetical order, with its page of the book.
const PAGES: &[(&str, &str)] = pages! {
    "bad_value"
    "claim_missing"
    "compression_failed"
    "configuration"
    "conflict"
    "create_failed"
    "cursor_ahead"
    "demo_failed"
    "endpoint"
    "first_row_timeout"
    "forbidden"
    "headers_too_long"
    "http_version"
    "internal"
    "invalid_cursor"
    "invalid_data"
    "invalid_host"
    "invalid_parameter"
    "invalid_path"
    "keys_unavailable"
    "malformed_request"
    "method_not_allowed"
    "no_endpoint"
    "no_memory"
    "no_randomness"
    "not_acceptable"
    "not_found"
    "not_ready"
    "pool_full"
    "pool_timeout"
    "probe_aborted"
    "rate_limited"
    "result_too_long"
    "role_forbidden"
    "row_too_large"
    "snapshot_expired"
    "source_damaged"
    "source_protocol"
    "source_unavailable"
    "spill_failed"
    "spool_failed"
    "spool_full"
    "statement_changed"
    "statement_composite"
    "statement_failed"
    "statement_timeout"
    "stream_ended"
    "stream_stopped"
    "token_expired"
    "too_many_connections"
    "too_many_parameters"
    "too_many_snapshots"
    "too_many_streams"
    "too_many_streams_of_client"
    "too_many_streams_of_endpoint"
    "total_timeout"
    "unauthorized"
    "upstream_broken"
    "upstream_failed"
    "upstream_pages"
    "upstream_redirect"
    "upstream_refused"
    "upstream_reply"
    "upstream_request"
    "upstream_status"
    "upstream_timeout"
    "upstream_unavailable"
    "upstream_without_end"
};

/// The pages as they're served.
static SERVED: LazyLock<Vec<String>> =
    LazyLock::new(|| PAGES.iter().map(|(_, page)| without_dead_links(page)).collect());

/// The page of a code, in Markdown.
pub(crate) fn of(code: &str) -> Option<&'static str> {
    let found = PAGES.binary_search_by_key(&code, |(code, _)| code).ok()?;
    Some(&SERVED[found])
}

/// Keeps the links between these pages, also behind a path prefix. The book's other pages aren't here,
/// so their links become their names.
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

/// The path of a page in the book, to which these pages link.
fn in_the_book(target: &str) -> String {
    let page = target.split('#').next().unwrap_or(target);
    match page.strip_prefix("../../") {
        Some(page) => page.to_owned(),
        None => page.replacen("../", "reference/", 1),
    }
}

/// The status of a code's problem documents, as its page has it; `None`: only the command line
/// tells of it.
pub(crate) fn status(code: &str) -> Option<u16> {
    let (_, after) = of(code)?.split_once("\n\n**")?;
    after.split(' ').next()?.parse().ok()
}

/// Every code that there is.
pub fn codes() -> impl Iterator<Item = &'static str> {
    PAGES.iter().map(|(code, _)| *code)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// They led to `../capacity.md`, which the server doesn't have.
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
