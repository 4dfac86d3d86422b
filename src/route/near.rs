//! Suggests a path for a request that matches no endpoint. Anyone can request any path, so the work
//! is bounded.

use rowstream_core::diagnostic::did_you_mean;
use rowstream_core::params::percent_decode;
use rowstream_encode::Format;

use super::{parameter_name, split_suffix};

/// Longer paths get no suggestion.
const LONGEST: usize = 64;
/// The most paths that are compared with the requested one.
const MOST: usize = 64;

/// The template that `path` most likely misspells, with the request's values for its parameters.
/// Only templates that pass `may_tell` are considered.
pub(crate) fn near<'a>(
    path: &str,
    templates: impl Iterator<Item = &'a str>,
    may_tell: impl Fn(usize) -> bool,
) -> Option<String> {
    let path = percent_decode(path).filter(|path| path.len() <= LONGEST)?;
    let is_format = |(_, suffix): &(&str, &str)| Format::from_name(suffix).is_some();
    let (stem, suffix) = match split_suffix(&path).filter(is_format) {
        Some((stem, _)) => path.split_at(stem.len()),
        None => (&*path, ""),
    };
    let stem = stem.trim_end_matches('/');
    let length = stem.chars().count();
    let is_as_long = |path: &String| {
        let other = path.chars().count();
        length.abs_diff(other) <= length.max(other) / 3
    };
    let filled = templates.enumerate().filter_map(|(index, template)| Some((index, fill(template, stem)?)));
    let near = filled.filter(|(index, path)| is_as_long(path) && may_tell(*index)).take(MOST);
    let near: Vec<_> = near.map(|(_, path)| path).collect();
    did_you_mean(stem, near.iter().map(String::as_str)).map(|path| format!("{path}{suffix}"))
}

/// Replaces the parameters of a template with the segments of a path, except those that are empty. Returns
/// `None` if their numbers of segments differ.
fn fill(template: &str, path: &str) -> Option<String> {
    // The first segment is before the first slash.
    let mut segments = path.split('/').enumerate().filter(|(at, segment)| *at == 0 || !segment.is_empty());
    let mut filled = String::new();
    for (at, segment) in template.split('/').enumerate() {
        let (_, given) = segments.next()?;
        filled.push_str(if at > 0 { "/" } else { "" });
        filled.push_str(if parameter_name(segment).is_some() { given } else { segment });
    }
    segments.next().is_none().then_some(filled)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slips_are_recognised() {
        let templates = ["/authors", "/authors/{id}", "/authors/{id}/books", "/secret"];
        for (path, expected) in [
            ("/author", Some("/authors")),
            ("/Authors", Some("/authors")),
            ("/authors/", Some("/authors")),
            ("/auhtors.csv", Some("/authors.csv")),
            ("/author/5", Some("/authors/5")),
            ("/authors//5", Some("/authors/5")),
            ("/authors//books", Some("/authors/books")),
            ("/autors/5/book", Some("/authors/5/books")),
            ("/%61uthor", Some("/authors")),
            ("/secre", None),
            ("/films", None),
            ("/%zz", None),
            ("/", None),
            ("*", None),
        ] {
            let near = near(path, templates.into_iter(), |index| templates[index] != "/secret");
            assert_eq!(near.as_deref(), expected, "{path}");
        }
    }

    #[test]
    fn long_paths_are_compared_with_none() {
        let asked = std::cell::Cell::new(0);
        let count = |_| {
            asked.set(asked.get() + 1);
            true
        };
        let templates = || std::iter::repeat_n("/authors", 100_000);
        assert_eq!(near(&"/author".repeat(10), templates(), count), None);
        assert_eq!(asked.get(), 0);
        assert!(near("/author", templates(), count).is_some());
        assert_eq!(asked.get(), MOST);
    }
}
