//! References to the next page of a list: links, and query parameters.
//!
//! A link is part of a reply, so we don't trust it. It has to lead to the source itself, below the
//! prefix of its URL, and may contain only characters of URLs. The result is a path and a query,
//! and nothing else.

use http::header::{self, HeaderMap};
use http::uri::PathAndQuery;
use percent_encoding::utf8_percent_encode;

use rowstream_upstream::template::{ENCODED, is_dots};
use rowstream_upstream::url::Base;

/// The reason why a link isn't followed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LinkRefusal {
    /// It isn't a URL, or not one that can be requested.
    NoUrl,
    /// It leads to another scheme, host or port.
    OtherOrigin,
    /// It leads outside of the prefix of the source's URL.
    OutOfPrefix,
}

/// Resolves a link in a reply of a source. Returns the path and query after the source's prefix.
/// `current` is the target of the request for that reply.
///
/// # Errors
/// The link isn't followed.
pub(super) fn resolve(base: &Base, current: &str, link: &str) -> Result<String, LinkRefusal> {
    let link = link.split('#').next().unwrap_or_default();
    // All characters that a URL may have (RFC 3986): no blanks, no control characters, only ASCII.
    let is_well = |byte: u8| byte.is_ascii_graphic() && !b"\\\"<>^`{|}".contains(&byte);
    if !link.bytes().all(is_well) {
        return Err(LinkRefusal::NoUrl);
    }
    let target = absolute(base, current, link)?;
    let inner = target.strip_prefix(base.prefix.as_str()).ok_or(LinkRefusal::OutOfPrefix)?;
    let path = inner.split('?').next().unwrap_or_default();
    if !base.prefix.is_empty() && !matches!(inner.as_bytes().first(), None | Some(b'/' | b'?')) {
        return Err(LinkRefusal::OutOfPrefix);
    }
    // Servers and proxies let such segments lead out of the prefix. Some do so for segments with
    // parameters, or with encoded slashes.
    let leads_out = |segment: &str| is_dots(segment.split(';').next().unwrap_or_default());
    let path_in_lower_case = path.to_ascii_lowercase();
    let has_slash = ["%2f", "%5c"].iter().any(|slash| path_in_lower_case.contains(slash));
    if has_slash || path.split('/').any(leads_out) || target.parse::<PathAndQuery>().is_err() {
        return Err(LinkRefusal::NoUrl);
    }
    Ok(inner.to_owned())
}

/// The path and query of a link, on the source's origin.
fn absolute(base: &Base, current: &str, link: &str) -> Result<String, LinkRefusal> {
    if let Some(AbsoluteLink { scheme, authority, rest }) = AbsoluteLink::read(base, link)? {
        let origin = Base::parse(&format!("{scheme}://{authority}")).map_err(|_| LinkRefusal::NoUrl)?;
        if (origin.tls, &origin.host, origin.port) != (base.tls, &base.host, base.port) {
            return Err(LinkRefusal::OtherOrigin);
        }
        return Ok(if rest.starts_with('/') { rest.to_owned() } else { format!("/{rest}") });
    }
    let current = format!("{}{current}", base.prefix);
    let path = current.split('?').next().unwrap_or_default();
    Ok(match link.as_bytes().first() {
        Some(b'/') => link.to_owned(),
        Some(b'?') => format!("{path}{link}"),
        _ => {
            let folder = path.rfind('/').map_or("/", |slash| &path[..=slash]);
            format!("{folder}{link}")
        }
    })
}

/// A link with a scheme or a host.
struct AbsoluteLink<'a> {
    scheme: &'a str,
    authority: &'a str,
    /// Path and query.
    rest: &'a str,
}

impl<'a> AbsoluteLink<'a> {
    /// Reads a link; `None` if it's relative to its page.
    fn read(base: &Base, link: &'a str) -> Result<Option<Self>, LinkRefusal> {
        let (scheme, after) = match link.strip_prefix("//") {
            Some(after) => (if base.tls { "https" } else { "http" }, after),
            None => {
                // A colon before any of these ends a scheme.
                let head = link.split(['/', '?']).next().unwrap_or_default();
                let Some((scheme, _)) = head.split_once(':') else { return Ok(None) };
                if !scheme.eq_ignore_ascii_case("http") && !scheme.eq_ignore_ascii_case("https") {
                    return Err(LinkRefusal::OtherOrigin);
                }
                (scheme, link[scheme.len()..].strip_prefix("://").ok_or(LinkRefusal::NoUrl)?)
            }
        };
        let (authority, rest) = after.split_at(after.find(['/', '?']).unwrap_or(after.len()));
        Ok(Some(Self { scheme, authority, rest }))
    }
}

/// The target of the link with the relation `next` (RFC 8288).
///
/// # Errors
/// A field is malformed, so it could name a next page that we can't see. Or links lead to several pages.
pub(super) fn link(headers: &HeaderMap) -> Result<Option<String>, &'static str> {
    const MALFORMED: &str = "has a `Link` that cannot be read";
    let mut next: Option<&str> = None;
    for field in headers.get_all(header::LINK) {
        let mut rest = field.to_str().map_err(|_| MALFORMED)?.trim_start();
        while !rest.is_empty() {
            let (link, after) = read_link(rest).map_err(|()| MALFORMED)?;
            let target = link.target.trim();
            if link.is_next && *next.get_or_insert(target) != target {
                return Err("has a `Link` to several next pages");
            }
            rest = after;
        }
    }
    Ok(next.map(str::to_owned))
}

/// A link of a field.
struct HeaderLink<'a> {
    target: &'a str,
    is_next: bool,
}

/// Reads one link. Returns the text after its comma, too.
fn read_link(text: &str) -> Result<(HeaderLink<'_>, &str), ()> {
    let (target, mut rest) = text.strip_prefix('<').and_then(|text| text.split_once('>')).ok_or(())?;
    let (mut relation, mut is_of_another) = (None, false);
    loop {
        rest = rest.trim_start();
        if rest.is_empty() || rest.starts_with(',') {
            let is_next = relation.is_some_and(|relation: String| has_next(&relation)) && !is_of_another;
            return Ok((HeaderLink { target, is_next }, rest.trim_start_matches([',', ' ', '\t'])));
        }
        let parameter = rest.strip_prefix(';').ok_or(())?.trim_start();
        let name_end = parameter.find([';', ',', '=', ' ', '\t']).unwrap_or(parameter.len());
        let (name, after) = parameter.split_at(name_end);
        let (value, after) = read_value(after)?;
        match name.to_ascii_lowercase().as_str() {
            // Only the first one counts.
            "rel" if relation.is_none() => relation = Some(value),
            // The link then describes another resource.
            "anchor" => is_of_another = true,
            _ => {}
        }
        rest = after;
    }
}

/// The value of a parameter, a token or a quoted string; empty if it has none.
fn read_value(text: &str) -> Result<(String, &str), ()> {
    let Some(text) = text.trim_start().strip_prefix('=').map(str::trim_start) else {
        return Ok((String::new(), text));
    };
    let Some(quoted) = text.strip_prefix('"') else {
        let (token, rest) = text.split_at(text.find([';', ',', ' ', '\t']).unwrap_or(text.len()));
        return Ok((token.to_owned(), rest));
    };
    let mut value = String::new();
    let mut chars = quoted.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            '"' => return Ok((value, &quoted[at + 1..])),
            '\\' => value.push(chars.next().ok_or(())?.1),
            c => value.push(c),
        }
    }
    Err(())
}

fn has_next(relation: &str) -> bool {
    relation.split_ascii_whitespace().any(|relation| relation.eq_ignore_ascii_case("next"))
}

/// A target whose query has this value for a parameter, in place of all other values of it.
pub(super) fn with_parameter(target: &str, name: &str, value: &str) -> String {
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let is_other = |pair: &&str| !pair.is_empty() && pair.split('=').next() != Some(name);
    let mut out = path.to_owned();
    let mut sign = '?';
    for pair in query.split('&').filter(is_other) {
        out.push(sign);
        out.push_str(pair);
        sign = '&';
    }
    out.push(sign);
    out.push_str(name);
    out.push('=');
    out.extend(utf8_percent_encode(value, ENCODED));
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_lead_to_the_source_itself() {
        use LinkRefusal::{NoUrl, OtherOrigin, OutOfPrefix};
        let (bare, within) = ("http://api.example:8080", "https://api.example/v2");
        for (base, link, expected) in [
            (bare, "/orders?page=2", Ok("/orders?page=2")),
            (bare, "?page=2", Ok("/a/orders?page=2")),
            (bare, "items?page=2", Ok("/a/items?page=2")),
            (bare, "http://api.example:8080/orders?page=2#top", Ok("/orders?page=2")),
            (bare, "HTTP://API.example:8080", Ok("/")),
            (bare, "http://api.example:8080?page=2", Ok("/?page=2")),
            (bare, "//api.example:8080/x", Ok("/x")),
            (bare, "/x?at=12:30", Ok("/x?at=12:30")),
            (bare, "http://api.example/x", Err(OtherOrigin)),
            (bare, "https://api.example:8080/x", Err(OtherOrigin)),
            (bare, "http://api.example.evil.example:8080/x", Err(OtherOrigin)),
            (bare, "http://169.254.169.254/latest", Err(OtherOrigin)),
            (bare, "//evil.example/x", Err(OtherOrigin)),
            (bare, "file:///etc/passwd", Err(OtherOrigin)),
            (bare, "javascript:alert(1)", Err(OtherOrigin)),
            (bare, "http:/x", Err(NoUrl)),
            (bare, "http://api.example:8080@evil.example/x", Err(NoUrl)),
            (bare, "http://u:p@api.example:8080/x", Err(NoUrl)),
            (bare, "http:\\\\evil.example", Err(NoUrl)),
            (bare, "/x\r\nX-Evil: 1", Err(NoUrl)),
            (bare, "/x y", Err(NoUrl)),
            (bare, "/ä", Err(NoUrl)),
            (bare, "/a/../b", Err(NoUrl)),
            (bare, "/a/%2E%2e/b", Err(NoUrl)),
            (within, "/v2/orders?page=2", Ok("/orders?page=2")),
            (within, "https://api.example:443/v2?page=2", Ok("?page=2")),
            (within, "?page=2", Ok("/a/orders?page=2")),
            (within, "/v1/orders", Err(OutOfPrefix)),
            (within, "/v21/orders", Err(OutOfPrefix)),
            (within, "/", Err(OutOfPrefix)),
            (within, "/v2/../v1", Err(NoUrl)),
            (within, "http://api.example/v2/x", Err(OtherOrigin)),
        ] {
            let base = Base::parse(base).unwrap();
            let resolved = resolve(&base, "/a/orders?page=1&x=/y", link);
            assert_eq!(resolved.as_deref().map_err(|refused| *refused), expected, "{link}");
        }
    }

    #[test]
    fn link_fields() {
        let malformed = "has a `Link` that cannot be read";
        for (fields, expected) in [
            (&[][..], Ok(None)),
            (&["</a?page=2>; rel=\"next\""], Ok(Some("/a?page=2"))),
            (&["</a>;rel=next"], Ok(Some("/a"))),
            (&["< /a >; REL = \"Prev NEXT\" ; title=\"x\""], Ok(Some("/a"))),
            (&["</1>; rel=prev, </2,x>; title=\"a,b;rel=\\\"next\", </3>; rel=next"], Ok(Some("/3"))),
            (&["</1>; rel=last", "</2>; rel=next"], Ok(Some("/2"))),
            // A server and its proxy may both add it. We followed the first link, and lost the rows of the other.
            (&["</2>; rel=next", "</2>; rel=\"next\""], Ok(Some("/2"))),
            (&["</2>; rel=next", "</3>; rel=next"], Err("has a `Link` to several next pages")),
            (&["</2>; rel=next, </3>; rel=next"], Err("has a `Link` to several next pages")),
            (&["</1>; rel=prev; rel=next"], Ok(None)),
            (&["</1>; rel=next; anchor=\"#x\""], Ok(None)),
            (&["</1>; rel=nextish"], Ok(None)),
            (&["</1>; crossorigin; rel=next"], Ok(Some("/1"))),
            (&["</1>"], Ok(None)),
            (&["</1; rel=next"], Err(malformed)),
            (&["/1; rel=next"], Err(malformed)),
            (&["</1> rel=next"], Err(malformed)),
            (&["</1>; rel=\"next"], Err(malformed)),
        ] {
            let mut headers = HeaderMap::new();
            for field in fields {
                headers.append(header::LINK, field.parse().unwrap());
            }
            assert_eq!(
                link(&headers).as_ref().map(Option::as_deref),
                expected.as_ref().map(|link| *link),
                "{fields:?}"
            );
        }
    }

    #[test]
    fn parameters_are_put_in_their_place() {
        for (target, expected) in [
            ("/a", "/a?after=x%26y"),
            ("/a?b=1", "/a?b=1&after=x%26y"),
            ("/a?after=1&b&after=2", "/a?b&after=x%26y"),
            ("/a?afters=1", "/a?afters=1&after=x%26y"),
        ] {
            assert_eq!(with_parameter(target, "after", "x&y"), expected, "{target}");
        }
    }
}
