//! `error_detail`: how much of what a database says reaches clients.

use crate::diagnostic::reader::Value;

/// Whose words the `detail` of a problem document has, where a database refuses a statement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorDetail {
    /// Ours: a general sentence beside the code, the SQLSTATE and the hint. What was raised for
    /// clients stays as it is.
    Code,
    /// The database's own.
    Database,
}

impl ErrorDetail {
    /// That of a server without that setting: what cannot be reached from other machines is
    /// somebody's own.
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
