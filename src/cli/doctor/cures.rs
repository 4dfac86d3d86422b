//! Identifies the hops that name themselves, and knows which of their settings cure a problem.

use std::fmt;

use http::HeaderMap;

use super::shown;

/// A hop's change to responses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ill {
    Http10,
    Buffers,
    TimesOut,
    Limits,
    EndsCuts,
    StripsTrailers,
    Recompresses,
    HidesEncoding,
    StripsFields,
}

/// Known proxies. They name themselves (`Server`, `Via`), except HAProxy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Proxy {
    Nginx,
    Haproxy,
    Apache,
    Caddy,
    Envoy,
    Varnish,
}

impl Proxy {
    const ALL: [Self; 6] =
        [Self::Nginx, Self::Haproxy, Self::Apache, Self::Caddy, Self::Envoy, Self::Varnish];

    fn name(self) -> &'static str {
        match self {
            Self::Nginx => "nginx",
            Self::Haproxy => "HAProxy",
            Self::Apache => "Apache",
            Self::Caddy => "Caddy",
            Self::Envoy => "Envoy",
            Self::Varnish => "Varnish",
        }
    }
}

/// The settings that cure each problem.
const CURES: &[(Ill, Proxy, &str)] = &[
    (Ill::Http10, Proxy::Nginx, "proxy_http_version 1.1; proxy_set_header Connection \"\";"),
    (Ill::Http10, Proxy::Apache, "remove `SetEnv force-proxy-request-1.0`"),
    (
        Ill::Buffers,
        Proxy::Nginx,
        "gzip off; proxy_buffering off; and no proxy_ignore_headers X-Accel-Buffering",
    ),
    (Ill::Buffers, Proxy::Haproxy, "remove `compression` from frontend and backend"),
    (Ill::Buffers, Proxy::Apache, "ProxyPass … flushpackets=on, and SetEnv no-gzip 1"),
    (Ill::Buffers, Proxy::Caddy, "reverse_proxy … { flush_interval -1 }"),
    (Ill::Buffers, Proxy::Envoy, "remove the buffer and compressor filters from the route"),
    (Ill::Buffers, Proxy::Varnish, "set beresp.do_stream = true; in vcl_backend_response"),
    (Ill::TimesOut, Proxy::Nginx, "proxy_read_timeout 1h;"),
    (Ill::TimesOut, Proxy::Haproxy, "timeout server 1h, and timeout client 1h"),
    (Ill::TimesOut, Proxy::Apache, "ProxyPass … timeout=3600, and Timeout 3600"),
    (Ill::TimesOut, Proxy::Caddy, "reverse_proxy … { transport http { read_timeout 1h } }"),
    (Ill::TimesOut, Proxy::Envoy, "the route's timeout: 0s, and its idle_timeout: 3600s"),
    (Ill::TimesOut, Proxy::Varnish, "set bereq.between_bytes_timeout = 1h; in vcl_backend_fetch"),
    (Ill::Limits, Proxy::Caddy, "servers { timeouts { write 0 } }"),
    (Ill::Limits, Proxy::Envoy, "the route's timeout: 0s, and no max_stream_duration"),
    (Ill::Limits, Proxy::Varnish, "set bereq.last_byte_timeout = 0s; in vcl_backend_fetch"),
    (Ill::EndsCuts, Proxy::Haproxy, "bind … alpn http/1.1: over HTTP/1.1, a cut answer stays cut"),
    (
        Ill::StripsTrailers,
        Proxy::Nginx,
        "from 1.27.2 on: proxy_pass_trailers on; proxy_set_header Connection te; \
         proxy_set_header TE trailers;",
    ),
    (Ill::StripsTrailers, Proxy::Envoy, "enable_trailers: true in http_protocol_options"),
    (Ill::Recompresses, Proxy::Nginx, "gzip off; brotli off; gunzip off;"),
    (Ill::Recompresses, Proxy::Haproxy, "remove `compression` from frontend and backend"),
    (Ill::Recompresses, Proxy::Apache, "SetEnv no-gzip 1"),
    (Ill::Recompresses, Proxy::Caddy, "remove `encode`"),
    (Ill::Recompresses, Proxy::Envoy, "remove the compressor filter from the route"),
    (Ill::Recompresses, Proxy::Varnish, "remove `set beresp.do_gzip = true;`"),
    (Ill::HidesEncoding, Proxy::Nginx, "remove `proxy_set_header Accept-Encoding \"\";`"),
    (Ill::HidesEncoding, Proxy::Haproxy, "remove `compression offload`"),
    (Ill::StripsFields, Proxy::Nginx, "remove `proxy_hide_header`"),
    (Ill::StripsFields, Proxy::Haproxy, "remove `http-response del-header`"),
];

/// The cure for users who can't change a hop.
fn otherwise(ill: Ill) -> Option<&'static str> {
    Some(match ill {
        Ill::Http10 | Ill::Recompresses | Ill::HidesEncoding | Ill::StripsFields => return None,
        Ill::Buffers => "otherwise: clients wait, but lose no rows",
        Ill::Limits => {
            "otherwise: shorter responses (with a limit), or clients that resume after their last row (`key`)"
        }
        Ill::TimesOut => {
            "otherwise: a shorter `heartbeat` of the endpoint, for streams that wait for new rows"
        }
        Ill::EndsCuts | Ill::StripsTrailers => {
            "otherwise: clients check for the end with _end=1, or /_rowstream/streams/{id}"
        }
    })
}

/// The hops on the way.
#[derive(Debug)]
pub(super) struct Hops {
    /// The names that they report.
    said: Vec<String>,
    known: Vec<Proxy>,
}

impl Hops {
    pub(super) fn read(headers: &HeaderMap) -> Self {
        let lines = ["server", "via"].into_iter().flat_map(|name| headers.get_all(name));
        let said: Vec<_> = lines.filter_map(|line| line.to_str().ok()).map(shown).collect();
        let says = |proxy: &Proxy| {
            let name = proxy.name().to_ascii_lowercase();
            said.iter().any(|said| said.to_ascii_lowercase().contains(&name))
        };
        let known = Proxy::ALL.into_iter().filter(says).collect();
        Self { said, known }
    }

    /// The settings of the proxies that we recognized, or those of all proxies if we recognized no proxy.
    pub(super) fn cures(&self, ill: Ill) -> impl Iterator<Item = String> {
        let of_this = move |(of, ..): &&(Ill, Proxy, &str)| *of == ill;
        let may_be_there = |proxy| self.known.is_empty() || self.known.contains(&proxy);
        let cures = CURES.iter().filter(of_this).filter(move |(_, proxy, _)| may_be_there(*proxy));
        let cures = cures.map(|(_, proxy, setting)| format!("{}: {setting}", proxy.name()));
        cures.chain(otherwise(ill).map(str::to_owned))
    }
}

impl fmt::Display for Hops {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.said.as_slice() {
            [] => f.write_str(" (no hop names itself; HAProxy never does)"),
            said => write!(f, ", by way of {}", said.join(", ")),
        }
    }
}
