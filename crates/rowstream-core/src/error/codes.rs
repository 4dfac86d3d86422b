//! The codes of all errors. They're stable, because clients may compare them.

/// The path of the pages that explain errors. A code follows it.
pub const PAGES: &str = "/_rowstream/errors/";

/// Calls the macro `$then` with every code, in alphabetical order.
#[macro_export]
macro_rules! error_codes {
    ($then:ident) => {
        $then! {
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
        }
    };
}

macro_rules! list {
    ($($code:literal)*) => { &[$($code),*] };
}

const CODES: &[&str] = error_codes!(list);

/// True if `code` is one of [`codes`].
pub(super) fn is_known(code: &str) -> bool {
    CODES.binary_search(&code).is_ok()
}

/// Every code, in alphabetical order.
pub fn codes() -> impl Iterator<Item = &'static str> {
    CODES.iter().copied()
}
