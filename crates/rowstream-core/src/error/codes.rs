//! The codes of all errors, and if a retry makes sense. They're stable, because clients may compare
//! them.

/// The path of the pages that explain errors. A code follows it.
pub const PAGES: &str = "/_rowstream/errors/";

/// The answer to "may the same request succeed later, if the request, the endpoint's files and the
/// configuration stay as they are?"
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Retry {
    /// It may: the reason is the load, a lost connection, or another state that passes.
    Yes,
    /// It will fail again, until a person or a program changes something.
    No,
    /// The situation decides, and with it the constructor.
    Depends,
}

/// Calls the macro `$then` with every code and a variant of [`Retry`], in alphabetical order.
#[macro_export]
macro_rules! error_codes {
    ($then:ident) => {
        $then! {
            // PostgREST's own, which its clients compare.
            "PGRST116" => No
            "bad_value" => No
            // A slow network may be faster later.
            "body_timeout" => Yes
            "body_too_long" => No
            "claim_missing" => No
            // It's usually a lack of memory.
            "compression_failed" => Yes
            "configuration" => No
            "conflict" => No
            "create_failed" => No
            "cursor_ahead" => No
            "demo_failed" => No
            "endpoint" => No
            "first_row_timeout" => Yes
            "forbidden" => No
            "foreign_host" => No
            "headers_too_long" => No
            "http_version" => No
            // Only the thread of one connection has failed, and the next request gets another.
            "internal" => Yes
            "invalid_body" => No
            "invalid_cursor" => No
            "invalid_data" => No
            "invalid_host" => No
            "invalid_parameter" => No
            "invalid_path" => No
            "invalid_signature" => No
            "keys_unavailable" => Yes
            "malformed_request" => No
            "method_not_allowed" => No
            "no_endpoint" => No
            "no_memory" => Yes
            "no_randomness" => No
            "not_acceptable" => No
            "not_found" => No
            "not_ready" => Yes
            "pool_full" => Yes
            "pool_timeout" => Yes
            "probe_aborted" => No
            "rate_limited" => Yes
            "result_too_long" => No
            "role_forbidden" => No
            "row_too_large" => No
            "snapshot_expired" => No
            "source_damaged" => No
            // The next request gets another connection.
            "source_protocol" => Yes
            "source_unavailable" => Yes
            "spill_failed" => Yes
            "spool_failed" => No
            "spool_full" => Yes
            "statement_changed" => Yes
            "statement_composite" => No
            "statement_failed" => No
            "statement_timeout" => Yes
            "stream_ended" => No
            // The operator had a reason, so clients shouldn't begin again by themselves.
            "stream_stopped" => No
            "token_expired" => No
            "too_many_connections" => Yes
            "too_many_parameters" => No
            "too_many_snapshots" => Yes
            "too_many_streams" => Yes
            "too_many_streams_of_client" => Yes
            "too_many_streams_of_endpoint" => Yes
            "total_timeout" => Yes
            "unauthorized" => No
            "unsupported_media_type" => No
            "upstream_broken" => Yes
            // The upstream's own text says why, and we can't interpret it.
            "upstream_failed" => No
            "upstream_pages" => No
            "upstream_redirect" => No
            "upstream_refused" => No
            "upstream_reply" => No
            "upstream_request" => No
            "upstream_status" => Depends
            "upstream_timeout" => Yes
            "upstream_unavailable" => Yes
            "upstream_without_end" => No
        }
    };
}

macro_rules! list {
    ($($code:literal => $retry:ident)*) => { &[$(($code, Retry::$retry)),*] };
}

/// Each code with its decision, in alphabetical order.
const CODES: &[(&str, Retry)] = error_codes!(list);

/// The decision for a code; `None` if there's no such code.
pub fn retry_of(code: &str) -> Option<Retry> {
    let found = CODES.binary_search_by_key(&code, |(code, _)| code).ok()?;
    Some(CODES[found].1)
}

/// Every code, in alphabetical order.
pub fn codes() -> impl Iterator<Item = &'static str> {
    CODES.iter().map(|(code, _)| *code)
}
