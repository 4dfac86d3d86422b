//! Chooses the content coding of a response by `Accept-Encoding` (RFC 9110, section 12.5.3).

use http::{HeaderValue, StatusCode};
use rowstream_core::Error;
use rowstream_core::diagnostic::list;

use super::{split, weighted};
use crate::compress::Coding;

/// Shorter bodies fit into one packet without compression.
const WORTH_IT: usize = 1024;

/// The codings that a client accepts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Encoding {
    /// Uncompressed bodies.
    Identity,
    /// This coding is preferred, but uncompressed bodies are fine too.
    Preferred(Coding),
    /// Only this coding, even for short bodies.
    Required(Coding),
}

impl Encoding {
    /// Chooses by the lines of the header. For equal quality, the first of [`Coding::ALL`] is best.
    /// A coding of the same quality as `identity` is better than that, because a client that sends
    /// the header wants to save bytes. Without the header, nothing is compressed.
    ///
    /// # Errors
    /// 406 if the client refuses `identity`, and accepts none of our codings.
    pub fn choose<'a>(accept: impl IntoIterator<Item = &'a HeaderValue>) -> Result<Self, Error> {
        let items: Vec<(&str, u16)> = accept
            .into_iter()
            .filter_map(|line| line.to_str().ok())
            .flat_map(|line| split(line, ','))
            .filter_map(weighted)
            .collect();
        let liked = |coding: &Coding| Some((quality(&items, names(*coding))?, *coding));
        // `max_by_key` returns the last of equals, so we reverse the order.
        let best = Coding::ALL.iter().rev().filter_map(liked).max_by_key(|(quality, _)| *quality);
        let identity = quality(&items, &["identity"]);
        match (best.filter(|(quality, _)| *quality > 0), identity) {
            (None, Some(0)) => Err(not_acceptable()),
            (Some((_, coding)), Some(0)) => Ok(Self::Required(coding)),
            (Some((quality, coding)), identity) if identity.is_none_or(|identity| identity <= quality) => {
                Ok(Self::Preferred(coding))
            }
            _ => Ok(Self::Identity),
        }
    }

    /// The coding of a body with this many bytes.
    pub fn coding(self, bytes: usize) -> Option<Coding> {
        match self {
            Self::Identity => None,
            Self::Preferred(coding) => (bytes >= WORTH_IT).then_some(coding),
            Self::Required(coding) => Some(coding),
        }
    }
}

/// The quality of the coding with these names. If it isn't listed, `*` counts.
fn quality(items: &[(&str, u16)], names: &[&str]) -> Option<u16> {
    let named = |name: &str| names.iter().any(|known| known.eq_ignore_ascii_case(name));
    let found =
        items.iter().find(|(name, _)| named(name)).or_else(|| items.iter().find(|(name, _)| *name == "*"));
    found.map(|(_, quality)| *quality)
}

/// The names that clients use for a coding.
fn names(coding: Coding) -> &'static [&'static str] {
    match coding {
        Coding::Zstd => &["zstd"],
        Coding::Brotli => &["br"],
        // The old name (RFC 9110, section 8.4.1.3).
        Coding::Gzip => &["gzip", "x-gzip"],
    }
}

fn not_acceptable() -> Error {
    let message = "`Accept-Encoding` refuses `identity` and names no supported coding";
    let hint = format!("the codings are {}", list(Coding::ALL.into_iter().map(Coding::name)));
    Error::new("not_acceptable", StatusCode::NOT_ACCEPTABLE, message).hint(hint)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::Coding::{Brotli, Gzip, Zstd};
    use super::Encoding::{Identity, Preferred, Required};
    use super::*;

    /// `None` for a 406.
    fn chosen(lines: &[&str]) -> Option<Encoding> {
        let lines: Vec<_> = lines.iter().map(|line| HeaderValue::from_str(line).unwrap()).collect();
        match Encoding::choose(&lines) {
            Ok(encoding) => Some(encoding),
            Err(error) => {
                assert_eq!((error.code(), error.status().as_u16()), ("not_acceptable", 406), "{lines:?}");
                assert_eq!(error.hint_text(), Some("the codings are `zstd`, `br`, `gzip`"));
                None
            }
        }
    }

    #[test]
    fn the_best_that_the_client_takes() {
        for (accept, expected) in [
            ("gzip", Some(Preferred(Gzip))),
            ("GZip", Some(Preferred(Gzip))),
            ("x-gzip", Some(Preferred(Gzip))),
            ("br", Some(Preferred(Brotli))),
            ("zstd", Some(Preferred(Zstd))),
            ("gzip, deflate", Some(Preferred(Gzip))),
            ("deflate, gzip, br", Some(Preferred(Brotli))),
            ("gzip, deflate, br, zstd", Some(Preferred(Zstd))),
            ("*", Some(Preferred(Zstd))),
            ("gzip, *;q=0.5", Some(Preferred(Gzip))),
            ("zstd;q=0, *", Some(Preferred(Brotli))),
            ("zstd;q=0.5, gzip", Some(Preferred(Gzip))),
            ("zstd;q=0.5,br;q=0.501 , gzip ; q=0.5", Some(Preferred(Brotli))),
            ("gzip;Q=0.001", Some(Preferred(Gzip))),
            ("gzip;level=9;q=0.5", Some(Preferred(Gzip))),
            ("identity, gzip", Some(Preferred(Gzip))),
            ("identity;q=0.5, gzip", Some(Preferred(Gzip))),
            ("identity, gzip;q=0.5", Some(Identity)),
            ("gzip;q=0.1, br;q=0.1, zstd;q=0.1, *", Some(Identity)),
            ("", Some(Identity)),
            (",,;,", Some(Identity)),
            ("identity", Some(Identity)),
            ("deflate", Some(Identity)),
            ("gzip;q=0", Some(Identity)),
            ("gzip;q=0, br;q=0.000", Some(Identity)),
            ("gzip;q=.0", Some(Identity)),
            ("gzip;q=.2, identity;q=.1", Some(Preferred(Gzip))),
            // A weight that can't be parsed is ignored.
            ("gzip;q=2", Some(Preferred(Gzip))),
            ("gzip;q=", Some(Preferred(Gzip))),
            ("gzip;q=-1", Some(Preferred(Gzip))),
            ("gzip br", Some(Identity)),
            ("gzip, identity;q=0", Some(Required(Gzip))),
            ("gzip;q=0.1, *;q=0", Some(Required(Gzip))),
            ("identity;q=0, *", Some(Required(Zstd))),
            ("identity;q=0", None),
            ("deflate, identity;q=0", None),
            ("*;q=0", None),
            ("gzip;q=0, *;q=0", None),
            ("identity;q=0.5, *;q=0", Some(Identity)),
        ] {
            assert_eq!(chosen(&[accept]), expected, "{accept}");
        }
        assert_eq!(chosen(&[]), Some(Identity));
        assert_eq!(chosen(&["identity;q=0", "br"]), Some(Required(Brotli)));
    }

    #[test]
    fn short_bodies_are_not_worth_it() {
        for (encoding, bytes, expected) in [
            (Identity, usize::MAX, None),
            (Preferred(Gzip), 1023, None),
            (Preferred(Gzip), 1024, Some(Gzip)),
            (Required(Gzip), 0, Some(Gzip)),
        ] {
            assert_eq!(encoding.coding(bytes), expected, "{encoding:?} {bytes}");
        }
    }

    proptest! {
        #[test]
        fn any_header_can_be_read(
            lines in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..40), 0..3),
            words in "((gzip|x-gzip|br|zstd|identity|\\*|[a-z\"\\\\]*) ?(; ?[qQ] ?= ?[0-9.\"\\\\-]{0,6})?,? ?){0,6}",
        ) {
            let lines: Vec<_> = lines.iter().filter_map(|line| HeaderValue::from_bytes(line).ok()).collect();
            drop(Encoding::choose(&lines));
            let words = HeaderValue::from_str(&words).unwrap();
            // A refused coding is never chosen, no matter what else the header contains.
            let refused = HeaderValue::from_static("zstd;q=0");
            let chosen = Encoding::choose([&refused, &words]);
            prop_assert!(!matches!(chosen, Ok(Preferred(Zstd) | Required(Zstd))), "{words:?}: {chosen:?}");
        }
    }
}
