//! The listen address, from `--listen` and `--port`, and `--open`, which opens a browser there.

use std::net::SocketAddr;

use rowstream_core::log;

use super::serve::ListenArgs;
use crate::config::Config;
use crate::server;

impl ListenArgs {
    /// The listen address if a flag sets it. `--port` only changes the port of the address in
    /// `--listen` or in `configured`.
    pub(super) fn address(&self, configured: &str) -> Option<String> {
        let Some(port) = self.port else { return self.listen.clone() };
        let address = self.listen.as_deref().unwrap_or(configured);
        let address = if address.starts_with("unix:") { Config::LISTEN } else { address };
        let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
        Some(format!("{host}:{port}"))
    }
}

pub(super) fn parse(text: &str) -> Result<String, String> {
    Config::listen_address(text).ok_or_else(|| match text.parse::<u16>() {
        Ok(port) => format!("write a host before the port: 127.0.0.1:{port}, or `--port {port}`"),
        Err(_) => "write host and port: 127.0.0.1:8080, [::]:80, or :8080 for all addresses; or unix:/path"
            .to_owned(),
    })
}

/// Opens a browser at a listening server: at its console, or else at the list of its endpoints. If
/// there's no browser, the server continues without one.
pub(super) fn open_browser(scheme: &str, mut address: SocketAddr, has_console: bool) {
    if address.ip().is_unspecified() {
        let loopback =
            if address.is_ipv4() { [127, 0, 0, 1].into() } else { [0, 0, 0, 0, 0, 0, 0, 1].into() };
        address.set_ip(loopback);
    }
    let path = if has_console { "/_rowstream/" } else { "/" };
    let url = format!("{}{path}", server::url_of(scheme, address));
    if let Err(error) = open::that_detached(&url) {
        log::warning!("warning: no browser could be opened at {url}: {error}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses() {
        for (text, expected) in [
            ("127.0.0.1:8080", Some("127.0.0.1:8080")),
            ("[::]:0", Some("[::]:0")),
            ("localhost:80", Some("localhost:80")),
            ("unix:/run/a.sock", Some("unix:/run/a.sock")),
            ("unix:a.sock", None),
            (":8080", Some("0.0.0.0:8080")),
            ("8080", None),
            ("localhost", None),
            ("a:b", None),
            (":", None),
            ("", None),
            ("h:65536", None),
        ] {
            assert_eq!(parse(text).ok().as_deref(), expected, "{text}");
        }
        assert_eq!(
            parse("8080").unwrap_err(),
            "write a host before the port: 127.0.0.1:8080, or `--port 8080`"
        );
    }

    #[test]
    fn flags_win_over_what_is_configured() {
        for (listen, port, expected) in [
            (None, None, None),
            (Some("h:1"), None, Some("h:1")),
            (None, Some(2), Some("[::1]:2")),
            (Some("h:1"), Some(2), Some("h:2")),
        ] {
            let args = ListenArgs { listen: listen.map(str::to_owned), port, open: false, log_format: None };
            assert_eq!(args.address("[::1]:8080").as_deref(), expected);
        }
    }
}
