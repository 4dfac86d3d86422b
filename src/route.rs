//! Finds the endpoint of a request's path.
//!
//! Paths are compared segment by segment after decoding: `%2F` inside a segment is data, and `%61`
//! is an `a`. So we encode each segment of templates and requests again, in one canonical way, for
//! the tree that matches them.

pub(crate) mod near;

use std::borrow::Cow;
use std::collections::HashMap;

use http::StatusCode;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use rowstream_core::Error;
use rowstream_core::params::{Param, ParamPlace, ParamType, ParamValue, percent_decode};
use rowstream_encode::Format;

/// Characters that are encoded: all except RFC 3986's unreserved characters.
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// Longer suffixes aren't format names, or misspelled ones.
const LONGEST_SUFFIX: usize = 16;

/// An endpoint in the form that the router needs.
#[derive(Debug, Clone, Copy)]
pub struct Route<'a> {
    /// Its path template, which is valid.
    pub path: &'a str,
    /// The meaning of the end of its paths.
    pub suffixes: Suffixes,
}

/// The meaning of the end of a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Suffixes {
    /// `/authors.csv` is `/authors` in CSV.
    Formats,
    /// The dot and the rest are data: `/files/data.csv` is `/files/{name}` with `data.csv`.
    Data,
}

impl Suffixes {
    /// Chooses for an endpoint that writes rows. The last segment may name a format, unless a value
    /// of its parameter can end in a format's name.
    pub fn of(path: &str, params: &[Param]) -> Self {
        let last = path.rsplit('/').next().and_then(parameter_name);
        let mut own = params.iter().filter(|param| param.place == ParamPlace::Path);
        match own.any(|param| Some(&*param.name) == last && may_end_in_format(param)) {
            true => Self::Data,
            false => Self::Formats,
        }
    }
}

/// Only a text can. A document in JSON ends in a quote, a bracket, a digit or a word.
fn may_end_in_format(param: &Param) -> bool {
    let ends_so = |value: &ParamValue| matches!(value, ParamValue::Text(text) if ends_in_format(text));
    param.kind == ParamType::Text && (param.allowed.is_empty() || param.allowed.iter().any(ends_so))
}

/// Returns true if the last suffix of a value is the name of a format.
pub(crate) fn ends_in_format(text: &str) -> bool {
    text.rsplit_once('.').is_some_and(|(_, suffix)| Format::from_name(suffix).is_some())
}

/// Finds the endpoint of a path.
#[derive(Debug, Clone)]
pub struct Router {
    tree: matchit::Router<(usize, Suffixes)>,
}

/// Two endpoints that match the same paths, by their indices.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Conflict {
    /// The first of them.
    pub first: usize,
    /// The second one, which would never be reached.
    pub second: usize,
}

/// The endpoint of a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Match<'a> {
    /// Its index among the router's endpoints.
    pub endpoint: usize,
    /// The `{name}` segments of the path, decoded.
    pub args: Vec<(&'a str, String)>,
    /// The suffix of the path.
    pub suffix: Suffix,
}

/// The part of a path after its last dot, if an endpoint matches without it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Suffix {
    /// The whole path matches an endpoint.
    None,
    /// A format.
    Format(Format),
    /// Not the name of a format, and no endpoint matches the whole path.
    Unknown(String),
}

impl Router {
    /// A router of endpoints, in their order.
    ///
    /// # Errors
    /// Two endpoints match the same paths.
    pub fn new<'a>(routes: impl Iterator<Item = Route<'a>>) -> Result<Self, Conflict> {
        let routes: Vec<_> = routes.collect();
        let paths: Vec<_> = routes.iter().map(|route| route.path).collect();
        match conflicts(&paths).first() {
            Some(conflict) => Err(*conflict),
            None => Ok(Self::of(&routes)),
        }
    }

    fn of(routes: &[Route<'_>]) -> Self {
        let mut tree = matchit::Router::new();
        for (i, route) in routes.iter().enumerate() {
            tree.insert(template(route.path), (i, route.suffixes))
                .expect("checked paths that do not conflict can all be inserted");
        }
        Self { tree }
    }

    /// Finds the endpoint of a request's path, which is still encoded. The suffix of the last
    /// segment is removed if it names a format, and an endpoint with [`Suffixes::Formats`] matches
    /// without it. Another suffix is removed only if no endpoint matches the whole path. If the
    /// suffix or its dot is percent-encoded, it's always data.
    ///
    /// # Errors
    /// 400 for a path with invalid percent-encoding.
    pub fn find(&self, path: &str) -> Result<Option<Match<'_>>, Error> {
        if !path.starts_with('/') {
            return Ok(None);
        }
        let whole = canonical(path)?;
        // A suffix that isn't encoded is the same in both forms of the path.
        let cut = split_suffix(path)
            .and_then(|(_, suffix)| Some((whole.strip_suffix(suffix)?.strip_suffix('.')?, suffix)));
        let in_format = cut.and_then(|(rest, suffix)| self.find_in_format(rest, suffix));
        let all = || self.find_exactly(&whole, Suffix::None);
        Ok(in_format
            .or_else(all)
            .or_else(|| cut.and_then(|(rest, suffix)| self.find_with_suffix(rest, suffix))))
    }

    fn find_in_format(&self, rest: &str, suffix: &str) -> Option<Match<'_>> {
        self.find_exactly(rest, Suffix::Format(Format::from_name(suffix)?))
    }

    fn find_with_suffix(&self, rest: &str, suffix: &str) -> Option<Match<'_>> {
        let is_name =
            suffix.len() <= LONGEST_SUFFIX && suffix.bytes().all(|byte| byte.is_ascii_alphanumeric());
        self.find_exactly(rest, Suffix::Unknown(suffix.to_owned())).filter(|_| is_name)
    }

    fn find_exactly(&self, path: &str, suffix: Suffix) -> Option<Match<'_>> {
        let found = self.tree.at(path).ok()?;
        let (endpoint, suffixes) = *found.value;
        if suffix != Suffix::None && suffixes == Suffixes::Data {
            return None;
        }
        let decode = |value: &str| percent_decode(value).map(Cow::into_owned);
        let args = found.params.iter().map(|(name, value)| Some((name, decode(value)?)));
        Some(Match { endpoint, args: args.collect::<Option<_>>()?, suffix })
    }
}

/// Splits the suffix off a path's last segment. The suffix isn't empty.
fn split_suffix(path: &str) -> Option<(&str, &str)> {
    // A suffix needs a name before it: `/.json` isn't `/` in JSON.
    path.rsplit_once('.').filter(|(rest, suffix)| !rest.ends_with('/') && !suffix.is_empty())
}

/// A request's path with every segment in canonical encoding.
fn canonical(path: &str) -> Result<Cow<'_, str>, Error> {
    let stays = |byte: u8| byte.is_ascii_alphanumeric() || b"/-._~".contains(&byte);
    if path.bytes().all(stays) {
        return Ok(path.into());
    }
    let mut out = String::with_capacity(path.len());
    for (i, segment) in path.split('/').enumerate() {
        if i > 0 {
            out.push('/');
        }
        out.extend(utf8_percent_encode(&percent_decode(segment).ok_or_else(bad_path)?, ENCODED));
    }
    Ok(out.into())
}

fn bad_path() -> Error {
    Error::new("invalid_path", StatusCode::BAD_REQUEST, "the percent-encoding of the path is not valid")
}

/// A path template as in a URL. Its `{name}` segments aren't encoded.
pub(crate) fn encoded(path: &str) -> String {
    template(path)
}

/// A path template in the syntax of the tree.
fn template(path: &str) -> String {
    rebuild(path, |name| format!("{{{name}}}"))
}

/// The shape of a template. Two templates of the same shape match the same paths.
pub(crate) fn shape(path: &str) -> String {
    rebuild(path, |_| "{}".to_owned())
}

fn rebuild(path: &str, parameter: impl Fn(&str) -> String) -> String {
    let segment = |segment| match parameter_name(segment) {
        Some(name) => parameter(name),
        None => utf8_percent_encode(segment, ENCODED).to_string(),
    };
    path.split('/').map(segment).collect::<Vec<_>>().join("/")
}

/// The name in a segment `{name}`.
pub(crate) fn parameter_name(segment: &str) -> Option<&str> {
    segment.strip_prefix('{')?.strip_suffix('}')
}

/// Every template that matches the same paths as an earlier one.
pub(crate) fn conflicts(paths: &[&str]) -> Vec<Conflict> {
    let mut shapes = HashMap::new();
    let mut conflicts = Vec::new();
    for (second, path) in paths.iter().enumerate() {
        let first = *shapes.entry(shape(path)).or_insert(second);
        if first != second {
            conflicts.push(Conflict { first, second });
        }
    }
    conflicts
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const PATHS: [&str; 9] = [
        "/",
        "/authors",
        "/authors/{id}",
        "/authors/all",
        "/{area}/{id}/books",
        "/authors/{author}/{book}",
        "/größe {x}",
        "/a.b",
        "/files/{name}",
    ];

    fn routes<'a>(paths: &[&'a str]) -> Vec<Route<'a>> {
        paths.iter().map(|path| Route { path, suffixes: Suffixes::Formats }).collect()
    }

    /// The template, the arguments and the format, as one text.
    fn found(path: &str) -> String {
        show(&Router::of(&routes(&PATHS)), &PATHS, path)
    }

    fn show(router: &Router, paths: &[&str], path: &str) -> String {
        match router.find(path) {
            Ok(Some(found)) => {
                let args: Vec<_> =
                    found.args.iter().map(|(name, value)| format!(" {name}={value}")).collect();
                let format = match found.suffix {
                    Suffix::None => String::new(),
                    Suffix::Format(format) => format!(" .{}", format.name()),
                    Suffix::Unknown(suffix) => format!(" ?{suffix}"),
                };
                format!("{}{}{format}", paths[found.endpoint], args.concat())
            }
            Ok(None) => "none".to_owned(),
            Err(error) => format!("{} {}", error.status().as_u16(), error.code()),
        }
    }

    #[test]
    fn paths_lead_to_endpoints() {
        for (path, expected) in [
            ("/", "/"),
            ("/authors", "/authors"),
            ("/authors/", "none"),
            ("//authors", "none"),
            ("/Authors", "none"),
            ("/%61uthors", "/authors"),
            ("/authors/5", "/authors/{id} id=5"),
            ("/authors/all", "/authors/all"),
            ("/authors/a%20b", "/authors/{id} id=a b"),
            ("/authors/a+b", "/authors/{id} id=a+b"),
            ("/authors/a%2Fb", "/authors/{id} id=a/b"),
            ("/authors/a%2fall", "/authors/{id} id=a/all"),
            ("/authors/%C3%A4", "/authors/{id} id=ä"),
            ("/authors/ä", "/authors/{id} id=ä"),
            ("/authors/%7Bid%7D", "/authors/{id} id={id}"),
            ("/authors/%2541", "/authors/{id} id=%41"),
            ("/authors/..", "/authors/{id} id=.."),
            ("/authors/5/books", "/authors/{author}/{book} author=5 book=books"),
            ("/films/5/books", "/{area}/{id}/books area=films id=5"),
            ("/gr%C3%B6%C3%9Fe%20%7Bx%7D", "/größe {x}"),
            ("/a.b", "/a.b"),
            ("*", "none"),
            ("", "none"),
            ("/authors/%zz", "400 invalid_path"),
            ("/authors/%C3", "400 invalid_path"),
            ("/authors/%", "400 invalid_path"),
        ] {
            assert_eq!(found(path), expected, "{path}");
        }
    }

    #[test]
    fn suffixes_choose_formats() {
        for (path, expected) in [
            ("/authors.json", "/authors .json"),
            ("/authors.ndjson", "/authors .ndjson"),
            ("/authors%2Ejson", "none"),
            ("/authors.%6ason", "none"),
            ("/authors%2Exml", "none"),
            ("/authors.x%6Dl", "none"),
            ("/%61uthors.json", "/authors .json"),
            ("/authors/5%2Ejson", "/authors/{id} id=5.json"),
            ("/authors/a%2Fb.json", "/authors/{id} id=a/b .json"),
            ("/authors.xml", "/authors ?xml"),
            ("/authors.JSON", "/authors ?JSON"),
            ("/authors.", "none"),
            ("/authors.x+y", "none"),
            ("/authors.averyveryverylongsuffix", "none"),
            ("/author.xml", "none"),
            ("/files/a.tar.gz", "/files/{name} name=a.tar.gz"),
            ("/files/a.b/c.xml", "none"),
            ("/authors/5.json", "/authors/{id} id=5 .json"),
            ("/authors/5.json.json", "/authors/{id} id=5.json .json"),
            ("/authors/5.xml", "/authors/{id} id=5.xml"),
            ("/authors/5.", "/authors/{id} id=5."),
            ("/authors/all.ndjson", "/authors/all .ndjson"),
            ("/a.b.json", "/a.b .json"),
            ("/.json", "none"),
            ("/authors/.json", "/authors/{id} id=.json"),
            ("/a.json/b", "none"),
        ] {
            assert_eq!(found(path), expected, "{path}");
        }
    }

    /// The lookup `/files/{name}` used to search `readme.json` as `readme` in JSON, and found no
    /// row.
    #[test]
    fn a_text_has_all_of_its_segment() {
        let paths = ["/files/{name}", "/files/all", "/files/{name}/rows", "/{x}"];
        let data = |path| Route { path, suffixes: Suffixes::Data };
        let formats = |path| Route { path, suffixes: Suffixes::Formats };
        let router = Router::of(&[data(paths[0]), formats(paths[1]), formats(paths[2]), data(paths[3])]);
        for (path, expected) in [
            ("/files/readme.json", "/files/{name} name=readme.json"),
            ("/files/readme%2Ejson", "/files/{name} name=readme.json"),
            ("/files/a.tar.gz", "/files/{name} name=a.tar.gz"),
            ("/files/all.json", "/files/all .json"),
            ("/files/all%2Ejson", "/files/{name} name=all.json"),
            ("/files/a.json/rows", "/files/{name}/rows name=a.json"),
            ("/files/a.json/rows.csv", "/files/{name}/rows name=a.json .csv"),
            ("/files/a/rows.xml", "/files/{name}/rows name=a ?xml"),
            ("/data.csv", "/{x} x=data.csv"),
        ] {
            assert_eq!(show(&router, &paths, path), expected, "{path}");
        }
    }

    #[test]
    fn types_whose_values_end_in_no_format_leave_suffixes() {
        for kind in ParamType::ALL {
            let param = Param { place: ParamPlace::Path, ..Param::new("x", kind) };
            let expected = if kind == ParamType::Text { Suffixes::Data } else { Suffixes::Formats };
            assert_eq!(Suffixes::of("/a/{x}", std::slice::from_ref(&param)), expected, "{kind:?}");
            assert_eq!(Suffixes::of("/{x}/a", &[param]), Suffixes::Formats);
        }
        let allowed = |texts: &[&str]| {
            let allowed = texts.iter().map(|text| ParamValue::Text((*text).to_owned())).collect();
            Param { place: ParamPlace::Path, allowed, ..Param::new("x", ParamType::Text) }
        };
        assert_eq!(Suffixes::of("/{x}", &[allowed(&["sales", "v1.2"])]), Suffixes::Formats);
        assert_eq!(Suffixes::of("/{x}", &[allowed(&["sales", "a.csv"])]), Suffixes::Data);
    }

    proptest! {
        /// The tree supports more kinds of templates than we use, and detects more conflicts. None of
        /// those may occur.
        #[test]
        fn templates_without_conflicts_make_a_tree(
            paths in prop::collection::vec("(/(a|b|ab|a b|ä|a\\.b|\\{x\\}|\\{y\\}|\\{xy\\})){1,4}", 1..12)
        ) {
            let mut kept: Vec<&str> = Vec::new();
            for path in &paths {
                kept.push(path);
                if !conflicts(&kept).is_empty() {
                    kept.pop();
                }
            }
            let router = Router::of(&routes(&kept));
            for path in &kept {
                let found = router.find(&path.replace(['{', '}'], "")).unwrap();
                prop_assert!(found.is_some(), "{path}");
            }
        }
    }

    #[test]
    fn templates_of_one_shape_conflict() {
        let paths = ["/a/{x}", "/a/b", "/a/{y}", "/{z}/b", "/a/b"];
        let expected = [Conflict { first: 0, second: 2 }, Conflict { first: 1, second: 4 }];
        assert_eq!(conflicts(&paths), expected);
    }
}
