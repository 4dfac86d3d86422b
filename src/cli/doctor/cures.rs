//! Identifies the hops that name themselves, and knows which of their settings cure a problem.

use std::fmt;

use http::HeaderMap;

use super::shown;

/// A hop's change to responses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ailment {
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
enum ProxyProduct {
    Nginx,
    Haproxy,
    Apache,
    Caddy,
    Envoy,
    Varnish,
}

impl ProxyProduct {
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
const CURES: &[(Ailment, ProxyProduct, &str)] = &[
    (Ailment::Http10, ProxyProduct::Nginx, "proxy_http_version 1.1; proxy_set_header Connection \"\";"),
    (Ailment::Http10, ProxyProduct::Apache, "remove `SetEnv force-proxy-request-1.0`"),
    (
        Ailment::Buffers,
        ProxyProduct::Nginx,
        "gzip off; proxy_buffering off; and no proxy_ignore_headers X-Accel-Buffering",
    ),
    (Ailment::Buffers, ProxyProduct::Haproxy, "remove `compression` from frontend and backend"),
    (Ailment::Buffers, ProxyProduct::Apache, "ProxyPass … flushpackets=on, and SetEnv no-gzip 1"),
    (Ailment::Buffers, ProxyProduct::Caddy, "reverse_proxy … { flush_interval -1 }"),
    (Ailment::Buffers, ProxyProduct::Envoy, "remove the buffer and compressor filters from the route"),
    (Ailment::Buffers, ProxyProduct::Varnish, "set beresp.do_stream = true; in vcl_backend_response"),
    (Ailment::TimesOut, ProxyProduct::Nginx, "proxy_read_timeout 1h;"),
    (Ailment::TimesOut, ProxyProduct::Haproxy, "timeout server 1h, and timeout client 1h"),
    (Ailment::TimesOut, ProxyProduct::Apache, "ProxyPass … timeout=3600, and Timeout 3600"),
    (Ailment::TimesOut, ProxyProduct::Caddy, "reverse_proxy … { transport http { read_timeout 1h } }"),
    (Ailment::TimesOut, ProxyProduct::Envoy, "the route's timeout: 0s, and its idle_timeout: 3600s"),
    (Ailment::TimesOut, ProxyProduct::Varnish, "set bereq.between_bytes_timeout = 1h; in vcl_backend_fetch"),
    (Ailment::Limits, ProxyProduct::Caddy, "servers { timeouts { write 0 } }"),
    (Ailment::Limits, ProxyProduct::Envoy, "the route's timeout: 0s, and no max_stream_duration"),
    (Ailment::Limits, ProxyProduct::Varnish, "set bereq.last_byte_timeout = 0s; in vcl_backend_fetch"),
    (Ailment::EndsCuts, ProxyProduct::Haproxy, "bind … alpn http/1.1: over HTTP/1.1, a cut answer stays cut"),
    (
        Ailment::StripsTrailers,
        ProxyProduct::Nginx,
        "from 1.27.2 on: proxy_pass_trailers on; proxy_set_header Connection te; \
         proxy_set_header TE trailers;",
    ),
    (Ailment::StripsTrailers, ProxyProduct::Envoy, "enable_trailers: true in http_protocol_options"),
    (Ailment::Recompresses, ProxyProduct::Nginx, "gzip off; brotli off; gunzip off;"),
    (Ailment::Recompresses, ProxyProduct::Haproxy, "remove `compression` from frontend and backend"),
    (Ailment::Recompresses, ProxyProduct::Apache, "SetEnv no-gzip 1"),
    (Ailment::Recompresses, ProxyProduct::Caddy, "remove `encode`"),
    (Ailment::Recompresses, ProxyProduct::Envoy, "remove the compressor filter from the route"),
    (Ailment::Recompresses, ProxyProduct::Varnish, "remove `set beresp.do_gzip = true;`"),
    (Ailment::HidesEncoding, ProxyProduct::Nginx, "remove `proxy_set_header Accept-Encoding \"\";`"),
    (Ailment::HidesEncoding, ProxyProduct::Haproxy, "remove `compression offload`"),
    (Ailment::StripsFields, ProxyProduct::Nginx, "remove `proxy_hide_header`"),
    (Ailment::StripsFields, ProxyProduct::Haproxy, "remove `http-response del-header`"),
];

/// The cure for users who can't change a hop.
fn otherwise(ailment: Ailment) -> Option<&'static str> {
    Some(match ailment {
        Ailment::Http10 | Ailment::Recompresses | Ailment::HidesEncoding | Ailment::StripsFields => {
            return None;
        }
        Ailment::Buffers => "otherwise: clients wait, but lose no rows",
        Ailment::Limits => {
            "otherwise: shorter responses (with a limit), or clients that resume after their last row (`key`)"
        }
        Ailment::TimesOut => {
            "otherwise: a shorter `heartbeat` of the endpoint, for streams that wait for new rows"
        }
        Ailment::EndsCuts | Ailment::StripsTrailers => {
            "otherwise: clients check for the end with _end=1, or /_rowstream/streams/{id}"
        }
    })
}

/// The hops on the way.
#[derive(Debug)]
pub(super) struct Hops {
    /// The names that they report.
    said: Vec<String>,
    known: Vec<ProxyProduct>,
}

impl Hops {
    pub(super) fn read(headers: &HeaderMap) -> Self {
        let lines = ["server", "via"].into_iter().flat_map(|name| headers.get_all(name));
        let said: Vec<_> = lines.filter_map(|line| line.to_str().ok()).map(shown).collect();
        let says = |proxy: &ProxyProduct| {
            let name = proxy.name().to_ascii_lowercase();
            said.iter().any(|said| said.to_ascii_lowercase().contains(&name))
        };
        let known = ProxyProduct::ALL.into_iter().filter(says).collect();
        Self { said, known }
    }

    /// The settings of the proxies that we recognized, or those of all proxies if we recognized no proxy.
    pub(super) fn cures(&self, ailment: Ailment) -> impl Iterator<Item = String> {
        let of_this = move |(of, ..): &&(Ailment, ProxyProduct, &str)| *of == ailment;
        let may_be_there = |proxy| self.known.is_empty() || self.known.contains(&proxy);
        let cures = CURES.iter().filter(of_this).filter(move |(_, proxy, _)| may_be_there(*proxy));
        let cures = cures.map(|(_, proxy, setting)| format!("{}: {setting}", proxy.name()));
        cures.chain(otherwise(ailment).map(str::to_owned))
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
