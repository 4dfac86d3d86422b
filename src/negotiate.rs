//! Chooses the format of a response: by `_format`, else by the path's suffix, else by `Accept`.
//! Otherwise it's the endpoint's first format. [`Encoding::choose`] chooses the content coding.

mod encoding;

use http::{HeaderValue, StatusCode};
use rowstream_core::Error;
use rowstream_core::diagnostic::{did_you_mean, list, shown};
use rowstream_encode::Format;

pub use self::encoding::Encoding;
use crate::completeness::framing::{Framing, PROFILE};
use crate::route::Suffix;

/// PostgREST's media type of a list's only row, as JSON.
pub(crate) const ONLY_ROW: &str = "application/vnd.pgrst.object+json";

/// The format of a response, with the effect of `Accept` on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Choice {
    /// The format.
    pub format: Format,
    /// True if `Accept` requested the framed profile of the format.
    pub framed: bool,
    /// True if the name of the format is `tsv`, which is CSV with tabs.
    pub by_tabs: bool,
    /// True if another `Accept` could change the response, which then has `Vary: Accept`.
    pub vary_accept: bool,
}

/// Chooses among `formats`; the first is the default. `control` is the value of `_format`, and
/// `accept` has the lines of that header.
///
/// # Errors
/// 406, with a list of the endpoint's formats.
pub fn choose<'a>(
    suffix: &Suffix,
    control: Option<&str>,
    accept: impl IntoIterator<Item = &'a HeaderValue>,
    formats: &[Format],
) -> Result<Choice, Error> {
    let offered = |format: &Format| formats.contains(format);
    match (suffix, control) {
        (Suffix::Unknown(name), Some(_)) if named(name).is_none() => Err(not_known(name, formats)),
        (Suffix::Unknown(name), None) => by_name(name, formats),
        (_, Some(name)) => by_name(name, formats),
        (Suffix::Format(format), None) => Some(*format).filter(offered).map(fixed).ok_or_else(|| {
            not_acceptable(&format!("this endpoint doesn't answer in {}", shown(format.name())), formats)
        }),
        (Suffix::None, None) => accepted(accept, formats)
            .map(|(format, framed)| Choice { framed, vary_accept: true, ..fixed(format) })
            .ok_or_else(|| not_acceptable("`Accept` doesn't name a format of this endpoint", formats)),
    }
}

/// Checks the format that a URL chooses, if no body can choose another one.
///
/// # Errors
/// 406, with a list of the endpoint's formats.
pub(crate) fn check_url(suffix: &Suffix, control: Option<&str>, formats: &[Format]) -> Result<(), Error> {
    match suffix {
        Suffix::Unknown(name) if named(name).is_none() => by_name(name, formats).map(drop),
        _ => control.map_or(Ok(()), |name| by_name(name, formats).map(drop)),
    }
}

fn by_name(name: &str, formats: &[Format]) -> Result<Choice, Error> {
    match named(name) {
        Some((format, by_tabs)) if formats.contains(&format) => Ok(Choice { by_tabs, ..fixed(format) }),
        _ => Err(not_known(name, formats)),
    }
}

impl Choice {
    /// The plans of statements.
    pub(crate) const PLAN: Self =
        Self { format: Format::Json, framed: false, by_tabs: false, vary_accept: false };
    /// The only row of a list, for which `Accept` asks.
    pub(crate) const ONLY_ROW: Self =
        Self { format: Format::Json, framed: false, by_tabs: false, vary_accept: true };
}

fn fixed(format: Format) -> Choice {
    Choice { format, framed: false, by_tabs: false, vary_accept: false }
}

/// The format of a name, or of another usual suffix. True if its separator is a tab.
pub(crate) fn named(name: &str) -> Option<(Format, bool)> {
    match name {
        "jsonl" => Some((Format::Ndjson, false)),
        "tsv" => Some((Format::Csv, true)),
        name => Format::from_name(name).map(|format| (format, false)),
    }
}

/// The error of a name that isn't a format of the endpoint. It may be misspelled, unless it's
/// another format's name.
fn not_known(name: &str, formats: &[Format]) -> Error {
    let error = not_acceptable(&format!("{} isn't a format of this endpoint", shown(name)), formats);
    let meant = match name {
        "jsonlines" => Format::Ndjson.name(),
        "arrows" => Format::Arrow.name(),
        name => name,
    };
    let near = did_you_mean(meant, formats.iter().map(|format| format.name()));
    match near.filter(|_| Format::from_name(name).is_none()) {
        Some(near) => error.hint(format!("did you mean {}?", shown(near))),
        None => error,
    }
}

fn not_acceptable(message: &str, formats: &[Format]) -> Error {
    let names = list(formats.iter().map(|format| format.name()));
    let types = list(formats.iter().map(|format| format.media_type()));
    Error::new("not_acceptable", StatusCode::NOT_ACCEPTABLE, format!("{message}; its formats are {names}"))
        .hint(format!("choose one with `_format`, or send `Accept` with one of {types}"))
}

/// Chooses the best of `formats` for the header's lines. For equal quality, the more specific range
/// wins, because many clients end their list with `*/*`. After that, the endpoint's order counts.
/// Without a valid range, the header is ignored and the first format is used. Also returns true if
/// the framed profile was chosen.
fn accepted<'a>(
    accept: impl IntoIterator<Item = &'a HeaderValue>,
    formats: &[Format],
) -> Option<(Format, bool)> {
    let mut lines = accept.into_iter();
    let (first, second) = (lines.next(), lines.next());
    let any = formats.first().map(|&format| (format, false));
    // The header of most programs, if they send one.
    if second.is_none() && first.is_none_or(|line| line == "*/*") {
        return any;
    }
    let mut ranges: Vec<Range> = ranges(first.into_iter().chain(second).chain(lines)).collect();
    if ranges.is_empty() {
        return any;
    }
    if is_habit(&ranges) {
        ranges.retain(|range| range.media != Format::Html.media_type());
    }
    let rank = |(format, framed)| {
        let (specificity, quality) =
            ranges.iter().filter_map(|range| range.matches(format, framed)).max_by_key(|m| m.0)?;
        (quality > 0).then_some(((quality, specificity), (format, framed)))
    };
    let profiles = |&format: &Format| [(format, false), (format, true)];
    // `max_by_key` returns the last of equals, so we reverse the order.
    formats
        .iter()
        .flat_map(profiles)
        .rev()
        .filter_map(rank)
        .max_by_key(|(rank, _)| *rank)
        .map(|(_, chosen)| chosen)
}

/// True if a client accepts everything, and lists HTML only by habit. Java's `HttpURLConnection` does
/// so for programs, which have always got JSON. Browsers also list XHTML.
fn is_habit(ranges: &[Range]) -> bool {
    let lists = |media: &str| ranges.iter().any(|range| range.media == media);
    lists("*/*") && !lists("application/xhtml+xml")
}

/// True if a client prefers a list's only row, as an object, to the list in all of `formats`. It has
/// to name the media type.
pub(crate) fn prefers_only_row<'a>(
    accept: impl IntoIterator<Item = &'a HeaderValue>,
    formats: &[Format],
) -> bool {
    let lines: Vec<_> = accept.into_iter().filter_map(|line| line.to_str().ok()).collect();
    let items = || lines.iter().flat_map(|line| split(line, ','));
    let quality = items().filter_map(quality_of_only_row).max().filter(|quality| *quality > 0);
    let Some(quality) = quality.filter(|_| formats.contains(&Format::Json)) else { return false };
    let ranges: Vec<_> = items().filter_map(Range::read).collect();
    let of_format =
        |format: &Format| ranges.iter().filter_map(|range| range.matches(*format, false)).max_by_key(|m| m.0);
    let of_list = formats.iter().filter_map(of_format).map(|(specificity, quality)| (quality, specificity));
    of_list.max().is_none_or(|of_list| (quality, Specificity::Exact) > of_list)
}

/// The quality of a media range for a list's only row. `None` if it's for another media type, or for
/// rows without their NULLs.
fn quality_of_only_row(item: &str) -> Option<u16> {
    let range = Range::read(item).filter(|range| range.media == ONLY_ROW)?;
    let has_nulls = |parameter: &str| {
        parameter.split_once('=').is_some_and(|(name, _)| name.trim().eq_ignore_ascii_case("nulls"))
    };
    (!split(item, ';').any(has_nulls)).then_some(range.quality)
}

/// The media ranges of the header's lines.
fn ranges<'a>(accept: impl IntoIterator<Item = &'a HeaderValue>) -> impl Iterator<Item = Range> {
    let lines = accept.into_iter().filter_map(|line| line.to_str().ok());
    lines.flat_map(|line| split(line, ',')).filter_map(Range::read)
}

/// Returns true if a client prefers a page to JSON, as browsers do: it lists `text/html`, with at
/// least the same quality.
pub(crate) fn prefers_page<'a>(accept: impl IntoIterator<Item = &'a HeaderValue>) -> bool {
    let ranges: Vec<Range> = ranges(accept).collect();
    let quality = |media: &str| {
        let named = ranges.iter().filter(|range| range.media == media);
        named.map(|range| range.quality).max().unwrap_or_default()
    };
    let page = quality("text/html");
    page > 0 && page >= quality("application/json")
}

/// The precision of a media range that matches a format.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Specificity {
    /// `*/*`.
    Any,
    /// `application/*`.
    Type,
    /// `application/json`.
    Exact,
    /// `application/x-ndjson; profile=framed`.
    Profile,
}

/// One media range of `Accept` (RFC 9110, section 12.5.1), in lower case.
#[derive(Debug)]
struct Range {
    media: String,
    /// True if it matches only the framed profile.
    framed: bool,
    /// In thousandths.
    quality: u16,
}

impl Range {
    /// Returns `None` for invalid media ranges. Parameters are ignored, except `q` and the framed
    /// profile.
    fn read(text: &str) -> Option<Self> {
        let (media, quality) = weighted(text)?;
        // Java 8 and libraries of its age send `*`.
        let media = if media == "*" { "*/*" } else { media }.to_ascii_lowercase();
        let (kind, subkind) = media.split_once('/')?;
        if kind.is_empty() || subkind.is_empty() || (kind == "*" && subkind != "*") {
            return None;
        }
        let framed = split(text, ';').any(is_framed);
        Some(Self { media, framed, quality })
    }

    /// How specifically the range matches a format with or without the framed profile. Formats
    /// without this profile match as if the range didn't mention it.
    fn matches(&self, format: Format, framed: bool) -> Option<(Specificity, u16)> {
        if framed != (self.framed && Framing::of(format).is_some()) {
            return None;
        }
        let media = format.media_type();
        let kind = media.split('/').next().unwrap_or_default();
        let specificity = match self.media.as_str() {
            "*/*" => Specificity::Any,
            range if range.strip_suffix("/*") == Some(kind) => Specificity::Type,
            range if range == media || aliases(format).contains(&range) => match framed {
                true => Specificity::Profile,
                false => Specificity::Exact,
            },
            _ => return None,
        };
        Some((specificity, self.quality))
    }
}

/// Returns true if a parameter of a media range requests the framed profile.
fn is_framed(parameter: &str) -> bool {
    parameter.split_once('=').is_some_and(|(name, value)| {
        name.trim().eq_ignore_ascii_case("profile") && value.trim().trim_matches('"') == PROFILE
    })
}

/// Other media types that clients use for a format.
fn aliases(format: Format) -> &'static [&'static str] {
    match format {
        Format::Ndjson => &["application/ndjson", "application/jsonl"],
        _ => &[],
    }
}

/// An item of a list and its quality (`q`), in thousandths.
fn weighted(text: &str) -> Option<(&str, u16)> {
    let mut parts = split(text, ';');
    let item = parts.next()?.trim();
    let mut quality = 1000;
    for part in parts {
        if let Some((name, value)) = part.split_once('=')
            && name.trim().eq_ignore_ascii_case("q")
        {
            quality = read_quality(value.trim());
        }
    }
    Some((item, quality))
}

/// Parses `0`, `0.5` or `1.000`, in thousandths. Old clients send `.2`, and some send more than
/// three decimals. A weight that isn't a number is ignored: its item counts in full.
fn read_quality(text: &str) -> u16 {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let is_number = text != "." && !text.is_empty();
    let has_digits = [whole, fraction].iter().all(|part| part.bytes().all(|byte| byte.is_ascii_digit()));
    let is_nonzero = |digits: &str| digits.bytes().any(|digit| digit != b'0');
    if !is_number || !has_digits || is_nonzero(whole) {
        return 1000;
    }
    let thousandths: u16 = format!("{fraction:0<3}")[..3].parse().unwrap_or_default();
    // Even the smallest weight doesn't refuse the item.
    thousandths.max(u16::from(is_nonzero(fraction)))
}

/// Splits at `separator` outside of quoted strings.
fn split(text: &str, separator: char) -> impl Iterator<Item = &str> {
    let mut quoted = false;
    let mut escaped = false;
    text.split(move |c: char| {
        let skip = std::mem::take(&mut escaped);
        match c {
            '"' if !skip => quoted = !quoted,
            '\\' if quoted && !skip => escaped = true,
            _ => {}
        }
        c == separator && !quoted
    })
}

#[cfg(test)]
mod tests {
    use super::Format::{Json, Ndjson};
    use super::*;

    fn chosen(suffix: Option<Format>, control: Option<&str>, accept: &[&str]) -> Option<(Format, bool)> {
        let lines: Vec<_> = accept.iter().map(|line| HeaderValue::from_str(line).unwrap()).collect();
        let suffix = suffix.map_or(Suffix::None, Suffix::Format);
        let choice = choose(&suffix, control, &lines, &[Json, Ndjson]).ok()?;
        Some((choice.format, choice.vary_accept))
    }

    /// A Java program that reads a table must not get a page, because it has always got JSON.
    #[test]
    fn pages_are_for_browsers() {
        let formats = [Json, Ndjson, Format::Csv, Format::Html];
        for (accept, expected) in [
            ("text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,*/*;q=0.8", Format::Html),
            ("text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8", Format::Html),
            ("text/html", Format::Html),
            ("text/html, application/json;q=0.9", Format::Html),
            ("application/json, text/html", Json),
            ("application/json, text/plain, */*", Json),
            ("*/*", Json),
            ("text/*", Format::Csv),
            ("text/html, image/gif, image/jpeg, *; q=.2, */*; q=.2", Json),
            ("text/html, */*", Json),
        ] {
            let accept = [HeaderValue::from_static(accept)];
            let choice = choose(&Suffix::None, None, &accept, &formats).unwrap();
            assert_eq!((choice.format, choice.vary_accept), (expected, true), "{accept:?}");
        }
        let any = [HeaderValue::from_static("text/html, */*;q=0.1")];
        let choice = choose(&Suffix::None, None, &any, &[Format::Html]).unwrap();
        assert_eq!(choice.format, Format::Html, "the only format");
    }

    #[test]
    fn accept() {
        for (accept, expected) in [
            ("", Some(Json)),
            ("*/*", Some(Json)),
            ("application/*", Some(Json)),
            ("application/json", Some(Json)),
            ("application/x-ndjson", Some(Ndjson)),
            ("APPLICATION/X-NDJSON", Some(Ndjson)),
            ("application/ndjson", Some(Ndjson)),
            ("application/jsonl", Some(Ndjson)),
            ("application/json, application/x-ndjson", Some(Json)),
            ("application/x-ndjson, application/json", Some(Json)),
            ("application/json;q=0.5, application/x-ndjson", Some(Ndjson)),
            ("application/json ; q=0.5 ,application/x-ndjson;q=0.4", Some(Json)),
            ("application/json;q=0.501, application/x-ndjson;q=0.502", Some(Ndjson)),
            ("application/x-ndjson, */*", Some(Ndjson)),
            ("application/x-ndjson, application/*", Some(Ndjson)),
            ("application/json, text/plain, */*", Some(Json)),
            ("*/*, application/json;q=0", Some(Ndjson)),
            ("application/*;q=0, */*", None),
            ("application/*;q=0.5, application/json;q=0.1", Some(Ndjson)),
            ("text/html, application/xhtml+xml, */*;q=0.8", Some(Json)),
            ("text/html", None),
            ("application/json;q=0", None),
            ("application/json;profile=\"a,b;q=0\"", Some(Json)),
            ("application/json;profile=\"a\\\",b\";q=0, */*", Some(Ndjson)),
            ("application/json;q=2, application/x-ndjson;q=0.1", Some(Json)),
            ("application/json;q=1.001", Some(Json)),
            // Java 8 sends this with every request. We couldn't parse its `*` and `.2`, and the
            // rest matched no format: 406.
            ("text/html, image/gif, image/jpeg, *; q=.2, */*; q=.2", Some(Json)),
            ("*", Some(Json)),
            ("*;q=.2, application/x-ndjson;q=.3", Some(Ndjson)),
            ("application/x-ndjson;q=.9", Some(Ndjson)),
            ("application/x-ndjson;q=high", Some(Ndjson)),
            ("application/x-ndjson;q=", Some(Ndjson)),
            ("application/x-ndjson;q=.", Some(Ndjson)),
            ("application/json;q=0.33333, application/x-ndjson;q=0.66667", Some(Ndjson)),
            ("application/json;q=0.0001", Some(Json)),
            ("application/json;q=.0, application/x-ndjson;q=0.", None),
            ("nonsense", Some(Json)),
            ("*/json", Some(Json)),
            (",,", Some(Json)),
        ] {
            assert_eq!(chosen(None, None, &[accept]), expected.map(|format| (format, true)), "{accept}");
        }
        assert_eq!(chosen(None, None, &[]), Some((Json, true)));
        assert_eq!(chosen(None, None, &["text/html", "application/x-ndjson"]), Some((Ndjson, true)));
    }

    #[test]
    fn browsers_would_rather_have_a_page() {
        for (accept, expected) in [
            ("text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8", true),
            ("TEXT/HTML", true),
            ("application/json, text/html", true),
            ("application/json, text/html;q=0.9", false),
            ("text/html;q=0", false),
            ("text/*", false),
            ("*/*", false),
            ("application/json", false),
            ("", false),
        ] {
            assert_eq!(prefers_page([&HeaderValue::from_static(accept)]), expected, "{accept}");
        }
    }

    #[test]
    fn an_only_row_has_to_be_named() {
        for (accept, expected) in [
            ("application/vnd.pgrst.object+json", true),
            ("APPLICATION/vnd.pgrst.object+json; charset=utf-8", true),
            ("application/vnd.pgrst.object+json, */*", true),
            ("application/vnd.pgrst.object+json, application/json;q=0.9", true),
            ("application/vnd.pgrst.object+json, application/json", false),
            ("application/vnd.pgrst.object+json;q=0.5, application/x-ndjson", false),
            ("application/vnd.pgrst.object+json;q=0", false),
            ("application/vnd.pgrst.object+json;nulls=stripped", false),
            ("application/vnd.pgrst.array+json", false),
            ("application/*", false),
            ("", false),
        ] {
            let prefers = |formats: &[_]| prefers_only_row([&HeaderValue::from_static(accept)], formats);
            assert_eq!(prefers(&[Json, Ndjson]), expected, "{accept}");
            assert!(!prefers(&[Ndjson]), "{accept}: an endpoint without JSON has no objects");
        }
    }

    #[test]
    fn the_control_parameter_comes_first_then_the_suffix() {
        for (suffix, control, expected) in [
            (Some(Ndjson), None, Some(Ndjson)),
            (Some(Ndjson), Some("json"), Some(Json)),
            (Some(Ndjson), Some("xml"), None),
            (None, Some("ndjson"), Some(Ndjson)),
            (None, Some("csv"), None),
            (None, Some("xml"), None),
            (None, Some(""), None),
            (None, Some("JSON"), None),
        ] {
            let choice = chosen(suffix, control, &["application/json"]);
            assert_eq!(choice, expected.map(|format| (format, false)), "{suffix:?} {control:?}");
        }
    }

    #[test]
    fn what_is_not_offered_is_a_406() {
        for (suffix, control, accept, message) in [
            (Some(Ndjson), None, None, "this endpoint doesn't answer in `ndjson`; its formats are `json`"),
            (None, Some("ndjson"), None, "`ndjson` isn't a format of this endpoint; its formats are `json`"),
            (
                None,
                None,
                Some("application/x-ndjson"),
                "`Accept` doesn't name a format of this endpoint; its formats are `json`",
            ),
        ] {
            let accept = accept.map(HeaderValue::from_static);
            let suffix = suffix.map_or(Suffix::None, Suffix::Format);
            let error = choose(&suffix, control, accept.as_ref(), &[Json]).unwrap_err();
            assert_eq!((error.code(), error.status().as_u16()), ("not_acceptable", 406));
            assert_eq!(error.message(), message);
            assert_eq!(
                error.hint_text(),
                Some("choose one with `_format`, or send `Accept` with one of `application/json`")
            );
        }
    }

    #[test]
    fn a_slip_is_recognised() {
        for (name, hint) in [
            ("jsn", Some("did you mean `json`?")),
            ("JSON", Some("did you mean `json`?")),
            ("xml", None),
            ("csv", None),
        ] {
            for (suffix, control) in [(Suffix::Unknown(name.to_owned()), None), (Suffix::None, Some(name))] {
                let error = choose(&suffix, control, [], &[Json, Ndjson]).unwrap_err();
                assert_eq!(error.status().as_u16(), 406);
                let near = error.hint_text().filter(|hint| hint.starts_with("did"));
                assert_eq!(near, hint, "{name}");
            }
        }
    }
}
