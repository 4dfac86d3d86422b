//! `error_detail`: the part of a database's error that clients see.

use crate::diagnostic::reader::Value;

/// The text in a problem document's `detail` if a database refuses a statement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorDetail {
    /// Our general sentence. The code, the SQLSTATE and the hint are shown with it. Messages that a
    /// function raises for clients are kept.
    Code,
    /// The database's text.
    Database,
}

impl ErrorDetail {
    /// The default for a server that listens on this address. If other machines can't reach it, its
    /// only clients are the developer's.
    pub fn of_address(listen: &str) -> Self {
        let host = listen.rsplit_once(':').map_or(listen, |(host, _)| host);
        let host = host.trim_start_matches('[').trim_end_matches(']');
        let is_loopback = match host.parse::<std::net::IpAddr>() {
            Ok(address) => address.to_canonical().is_loopback(),
            Err(_) => host.eq_ignore_ascii_case("localhost"),
        };
        if is_loopback { Self::Database } else { Self::Code }
    }
}

/// `"code"` or `"database"`.
pub fn read(value: &Value<'_>) -> Option<ErrorDetail> {
    match value.string()?.as_str() {
        "code" => Some(ErrorDetail::Code),
        "database" => Some(ErrorDetail::Database),
        text => {
            let message = format!("`error_detail` cannot be {}", value.shown(text));
            value.error_with(message, r#"write "code" or "database""#);
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_who_is_on_this_machine_is_told_all() {
        for (listen, expected) in [
            ("127.0.0.1:8080", ErrorDetail::Database),
            ("127.1.2.3:0", ErrorDetail::Database),
            ("[::1]:80", ErrorDetail::Database),
            ("[::ffff:127.0.0.1]:80", ErrorDetail::Database),
            ("localhost:80", ErrorDetail::Database),
            ("0.0.0.0:80", ErrorDetail::Code),
            ("[::]:80", ErrorDetail::Code),
            ("10.0.0.1:80", ErrorDetail::Code),
            ("localhost.example:80", ErrorDetail::Code),
        ] {
            assert_eq!(ErrorDetail::of_address(listen), expected, "{listen}");
        }
    }
}
