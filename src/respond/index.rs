//! `/`, unless an endpoint has this path: the endpoints that the client may call, as a page for
//! browsers and as JSON for other clients.
//!
//! The page has no script and loads nothing else. Strings from databases and files are escaped.

use std::io::{self, Write};
use std::sync::LazyLock;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use http::Response;
use http::header::{self, HeaderValue};
use rowstream_core::Error;
use rowstream_core::params::{Param, ParamPlace};
use rowstream_encode::Format;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use super::body::AnswerBody;
use super::documents::DocumentSubject;
use super::exchange::Exchange;
use crate::auth::Credentials;
use crate::config::Config;
use crate::endpoint::Endpoint;
use crate::negotiate;
use crate::route;

/// The path of the list.
pub(super) const PATH: &str = "/";
/// The page can load and run nothing except [`STYLE`], and no other site can frame it.
static CONTENT_SECURITY_POLICY: LazyLock<HeaderValue> = LazyLock::new(|| {
    let style = BASE64_STANDARD.encode(Sha256::digest(STYLE));
    let policy = format!(
        "default-src 'none'; style-src 'sha256-{style}'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    );
    policy.parse().expect("it is ASCII")
});
const STYLE: &str = "body{font:1rem/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem;\
    color-scheme:light dark}code,th:first-child{font-family:ui-monospace,monospace}h2{font-size:1rem;margin:2rem 0 0}\
    p{margin:.3rem 0}table{border-collapse:collapse;margin:.5rem 0}td,th{text-align:left;font-weight:normal;\
    padding:.1rem 1.5rem .1rem 0;vertical-align:top}thead{opacity:.6}";

impl Exchange<'_> {
    /// Answers with the list of endpoints, at [`PATH`].
    ///
    /// # Errors
    /// 503: there's no memory for it.
    pub(super) async fn answer_index(
        &mut self,
        credentials: &Credentials,
    ) -> Result<Response<AnswerBody>, Error> {
        let is_page = negotiate::prefers_page(self.request.headers().get_all(header::ACCEPT));
        let (about, media_type) = match is_page {
            true => (DocumentSubject::Page, "text/html; charset=utf-8"),
            false => (DocumentSubject::List, "application/json"),
        };
        let rights = self.app.authorizations.satisfied_by(credentials);
        let mut response = self.answer_document(about, rights).await?;
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(media_type));
        headers.insert(header::VARY, HeaderValue::from_static("accept, accept-encoding, authorization"));
        headers.insert(header::CONTENT_SECURITY_POLICY, CONTENT_SECURITY_POLICY.clone());
        headers.insert(header::REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
        Ok(response)
    }
}

/// Writes the endpoints as JSON, each on its own line.
pub(super) fn write_list(out: &mut dyn Write, endpoints: &[&Endpoint]) -> io::Result<()> {
    out.write_all(b"{\"endpoints\":[")?;
    for (index, endpoint) in endpoints.iter().enumerate() {
        let comma = if index == 0 { "" } else { "," };
        write!(out, "{comma}\n{}", describe(endpoint))?;
    }
    out.write_all(b"\n]}\n")
}

fn describe(endpoint: &Endpoint) -> Value {
    let mut described = json!({
        "path": endpoint.path,
        "method": "GET",
        "summary": endpoint.summary,
        "parameters": endpoint.params.iter().map(Param::to_json).collect::<Vec<_>>(),
        "formats": endpoint.formats.iter().copied().map(Format::name).collect::<Vec<_>>(),
    });
    if let Some(settings) = endpoint.refine_settings() {
        described["filters"] = settings.words().into();
    }
    described
}

/// Writes the endpoints as a page.
pub(super) fn write_page(out: &mut dyn Write, endpoints: &[&Endpoint], config: &Config) -> io::Result<()> {
    write!(
        out,
        "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width\">\n<title>Rowstream: endpoints</title>\n\
         <style>{STYLE}</style>\n<h1>Endpoints</h1>\n"
    )?;
    if endpoints.is_empty() {
        out.write_all(b"<p>This request may not call any endpoint.</p>\n")?;
    }
    if config.has_credentials() {
        out.write_all(b"<p>Endpoints that need a token are listed only if the request has it.</p>\n")?;
    }
    if config.console {
        out.write_all(
            b"<p><a href=\"./_rowstream/\">The console</a> runs them, and shows rows as they arrive.</p>\n",
        )?;
    }
    for endpoint in endpoints {
        out.write_all(section(endpoint, config.console).as_bytes())?;
    }
    out.write_all(
        b"<p>Programs can read this page as JSON: <code>Accept: application/json</code>; or <a \
            href=\"./_rowstream/openapi.json\">as OpenAPI</a>.</p>\n",
    )
}

/// One endpoint of the page. With the console, its name leads to its form there.
fn section(endpoint: &Endpoint, has_console: bool) -> String {
    let name = format!("GET {}", escaped(&endpoint.path));
    let name = match has_console {
        true => format!("<a href=\"./_rowstream/#/endpoints{}\">{name}</a>", route::encoded(&endpoint.path)),
        false => name,
    };
    let mut out = format!("<h2><code>{name}</code></h2>\n");
    if let Some(summary) = &endpoint.summary {
        out.push_str(&format!("<p>{}</p>\n", escaped(summary)));
    }
    if !endpoint.params.is_empty() {
        out.push_str("<table>\n<thead><tr><th>parameter<th>type<th>in<th>if left out<th></tr></thead>\n");
        out.extend(endpoint.params.iter().map(row));
        out.push_str("</table>\n");
    }
    if let Some(settings) = endpoint.refine_settings() {
        let words = settings.words().join("</code>, <code>");
        out.push_str(&format!("<p>Requests can use <code>{words}</code>.</p>\n"));
    }
    let links: Vec<_> = links(endpoint).collect();
    out + &format!("<p>{}</p>\n", links.join(" "))
}

/// One parameter of the page.
fn row(param: &Param) -> String {
    let place = match &param.place {
        ParamPlace::Path => "path".to_owned(),
        ParamPlace::Query => "query".to_owned(),
        ParamPlace::Header { spelling, .. } => format!("header {spelling}"),
        ParamPlace::Claim => "token".to_owned(),
    };
    let missing = match &param.default {
        None => "required".to_owned(),
        Some(value) => value.postgres_text().unwrap_or_else(|| "optional".to_owned()),
    };
    let [name, kind, place, missing, summary] =
        [&param.name, &param.type_name(), &place, &missing, param.summary.as_ref().unwrap_or(&String::new())]
            .map(|text| escaped(text));
    format!("<tr><th>{name}<td>{kind}<td>{place}<td>{missing}<td>{summary}</tr>\n")
}

/// The formats of an endpoint, as links if no parameter is required. Links are relative, because a
/// proxy may serve the page at another path.
fn links(endpoint: &Endpoint) -> impl Iterator<Item = String> {
    let path = route::encoded(endpoint.path.trim_start_matches('/'));
    let is_complete = endpoint.params.iter().all(|param| param.default.is_some());
    let link = move |(name, suffix): (&str, String)| match is_complete {
        true => format!("<a href=\"./{path}{suffix}\">{name}</a>"),
        false => name.to_owned(),
    };
    let formats = endpoint.formats.iter().map(|format| (format.name(), format!(".{}", format.name())));
    // An upstream chooses the format of its answer.
    let proxied = endpoint.formats.is_empty().then(|| ("open", String::new())).filter(|_| is_complete);
    formats.chain(proxied).map(link)
}

/// Escapes a text for HTML, between tags or in a quoted attribute.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            c => out.push(c),
        }
    }
    out
}
