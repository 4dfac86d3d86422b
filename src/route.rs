//! From a request's path to its endpoint.
//!
//! Paths are compared segment by segment after decoding: `%2F` inside a segment is data, and `%61`
//! is an `a`. For the tree that does the matching, each segment of templates and requests is
//! therefore encoded again in one fixed way.

pub(crate) mod near;

use std::borrow::Cow;
use std::collections::HashMap;

use http::StatusCode;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use rowstream_encode::Format;

use crate::Error;
use crate::params::percent_decode;

/// What is encoded in the fixed way: all but RFC 3986's unreserved characters.
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// Longer suffixes are meant for none.
const LONGEST_SUFFIX: usize = 16;

/// Finds the endpoint of a path.
#[derive(Debug, Clone)]
pub struct Router {
    tree: matchit::Router<usize>,
}

/// Two endpoints that match the same paths, by their indices.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Conflict {
    /// The one that came first.
    pub first: usize,
    /// The one that cannot be reached beside it.
    pub second: usize,
}

/// An endpoint that was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Match<'a> {
    /// Its index among those that the router was made of.
    pub endpoint: usize,
    /// The `{name}` segments of the path, decoded.
    pub args: Vec<(&'a str, String)>,
    /// What the path's suffix names.
    pub suffix: Suffix,
}

/// What stands after the last dot of a path, where an endpoint matches without it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Suffix {
    /// The whole path is an endpoint's.
    None,
    /// A format.
    Format(Format),
    /// No format; and no endpoint matches with it.
    Unknown(String),
}

impl Router {
    /// A router of path templates that have been checked, in the order of their endpoints.
    ///
    /// # Errors
    /// Two endpoints that match the same paths.
    pub fn new<'a>(templates: impl Iterator<Item = &'a str>) -> Result<Self, Conflict> {
        let paths: Vec<_> = templates.collect();
        match conflicts(&paths).first() {
            Some(conflict) => Err(*conflict),
            None => Ok(Self::of(&paths)),
        }
    }

    fn of(paths: &[&str]) -> Self {
        let mut tree = matchit::Router::new();
        for (i, path) in paths.iter().enumerate() {
            tree.insert(template(path), i).expect("checked paths that do not conflict can all be inserted");
        }
        Self { tree }
    }

    /// The endpoint of a path as the request has it, encoded; `None` when there is none. A suffix
    /// that names a format is cut off the last segment when an endpoint matches without it;
    /// otherwise it is a part of the segment. One that names none is cut off where no endpoint
    /// matches with it: a parameter may hold any name of a file.
    ///
    /// # Errors
    /// 400 for a path whose percent-encoding is not valid.
    pub fn find(&self, path: &str) -> Result<Option<Match<'_>>, Error> {
        if !path.starts_with('/') {
            return Ok(None);
        }
        let path = canonical(path)?;
        let whole = || self.find_exactly(&path, Suffix::None);
        Ok(self.find_in_format(&path).or_else(whole).or_else(|| self.find_with_suffix(&path)))
    }

    /// The endpoint of a path that names no format, whatever its suffix.
    ///
    /// # Errors
    /// 400 for a path whose percent-encoding is not valid.
    pub fn find_whole(&self, path: &str) -> Result<Option<Match<'_>>, Error> {
        Ok(self.find_exactly(&canonical(path)?, Suffix::None))
    }

    fn find_in_format(&self, path: &str) -> Option<Match<'_>> {
        let (rest, suffix) = split_suffix(path)?;
        self.find_exactly(rest, Suffix::Format(Format::from_name(suffix)?))
    }

    fn find_with_suffix(&self, path: &str) -> Option<Match<'_>> {
        let (rest, suffix) = split_suffix(path)?;
        let is_name =
            suffix.len() <= LONGEST_SUFFIX && suffix.bytes().all(|byte| byte.is_ascii_alphanumeric());
        self.find_exactly(rest, Suffix::Unknown(suffix.to_owned())).filter(|_| is_name)
    }

    fn find_exactly(&self, path: &str, suffix: Suffix) -> Option<Match<'_>> {
        let found = self.tree.at(path).ok()?;
        let decode = |value: &str| percent_decode(value).map(Cow::into_owned);
        let args = found.params.iter().map(|(name, value)| Some((name, decode(value)?)));
        Some(Match { endpoint: *found.value, args: args.collect::<Option<_>>()?, suffix })
    }
}

/// A path and the suffix of its last segment, which is not empty.
fn split_suffix(path: &str) -> Option<(&str, &str)> {
    // A suffix alone is the name of nothing: `/.json` is not `/` in JSON.
    path.rsplit_once('.').filter(|(rest, suffix)| !rest.ends_with('/') && !suffix.is_empty())
}

/// A request's path with every segment encoded in the fixed way.
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

/// A path template as a URL has it; its `{name}` segments stay.
pub(crate) fn encoded(path: &str) -> String {
    template(path)
}

/// A path template as the tree takes it.
fn template(path: &str) -> String {
    rebuild(path, |name| format!("{{{name}}}"))
}

/// The paths that a template matches: two templates of one shape match the same.
fn shape(path: &str) -> String {
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

/// Every template that matches the same paths as one before it.
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

    /// The template, the arguments and the format, as one text.
    fn found(path: &str) -> String {
        match Router::of(&PATHS).find(path) {
            Ok(Some(found)) => {
                let args: Vec<_> =
                    found.args.iter().map(|(name, value)| format!(" {name}={value}")).collect();
                let format = match found.suffix {
                    Suffix::None => String::new(),
                    Suffix::Format(format) => format!(" .{}", format.name()),
                    Suffix::Unknown(suffix) => format!(" ?{suffix}"),
                };
                format!("{}{}{format}", PATHS[found.endpoint], args.concat())
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
            ("/authors%2Ejson", "/authors .json"),
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

    proptest! {
        /// The tree knows more kinds of templates, and more conflicts among them, than ours: none
        /// of those may come up.
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
            let router = Router::of(&kept);
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
