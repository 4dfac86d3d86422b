//! A page about each error code: what a problem's `type` leads to.
//!
//! The pages are those of the book, and are in the program: they fit its version, and can be read
//! where nothing else can be reached. A code without a page does not compile.

/// Before the code, in the address of its page.
pub(crate) const ADDRESS: &str = "/_rowstream/errors/";

macro_rules! pages {
    ($($code:literal)*) => {
        &[$(($code, include_str!(concat!("../../docs/src/reference/errors/", $code, ".md")))),*]
    };
}

/// Every code that there is, in alphabetical order, with its page.
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
    "http_version"
    "internal"
    "invalid_cursor"
    "invalid_data"
    "invalid_host"
    "invalid_parameter"
    "invalid_path"
    "keys_unavailable"
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

/// The page of a code, in Markdown.
pub(crate) fn of(code: &str) -> Option<&'static str> {
    let found = PAGES.binary_search_by_key(&code, |(code, _)| code).ok()?;
    Some(PAGES[found].1)
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
