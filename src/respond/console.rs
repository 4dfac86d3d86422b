//! The console, at [`ADMIN`](super::admin::ADMIN) itself: a page for browsers, which reads what
//! other clients read, with the token of its user.
//!
//! Its sources are in `console/`; what is built of them is in `src/respond/console/`, and a part of
//! the program. It is open to everybody: there is no secret in it, and no data.

use std::io::Write as _;
use std::sync::LazyLock;

use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use http::header::{self, HeaderName, HeaderValue};
use http::{HeaderMap, Request, Response, StatusCode};
use sha2::{Digest as _, Sha256};

use super::body::Answer;

/// Nothing comes from elsewhere, nothing is run that is not in the files, and no other site frames
/// the page.
const CONTENT_SECURITY_POLICY: HeaderValue = HeaderValue::from_static(
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; \
     base-uri 'none'; form-action 'none'; frame-ancestors 'none'; \
     require-trusted-types-for 'script'; trusted-types lit-html",
);
/// Asked for by their contents (`?v=…`), files never change.
const FOR_GOOD: HeaderValue = HeaderValue::from_static("public, max-age=31536000, immutable");
const IF_SAME: HeaderValue = HeaderValue::from_static("no-cache");

static FILES: LazyLock<[File; 3]> = LazyLock::new(|| {
    [
        File::new("", "text/html; charset=utf-8", include_bytes!("console/index.html")),
        File::new("console.js", "text/javascript; charset=utf-8", include_bytes!("console/console.js")),
        File::new("style.css", "text/css; charset=utf-8", include_bytes!("console/style.css")),
    ]
});

/// A file of the console.
struct File {
    /// Below the path of the console.
    name: &'static str,
    media_type: &'static str,
    plain: &'static [u8],
    gzip: Bytes,
    /// Weak, as it is that of both (RFC 9110, section 8.8.1).
    tag: HeaderValue,
    version: String,
}

impl File {
    fn new(name: &'static str, media_type: &'static str, plain: &'static [u8]) -> Self {
        let version: String =
            Sha256::digest(plain).iter().take(8).map(|byte| format!("{byte:02x}")).collect();
        let tag = HeaderValue::try_from(format!("W/\"{version}\"")).expect("it is ASCII");
        let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
        encoder.write_all(plain).expect("it is written into memory");
        let gzip = Bytes::from(encoder.finish().expect("it is written into memory"));
        Self { name, media_type, plain, gzip, tag, version }
    }
}

/// A file of the console, as a request asks for it.
pub(super) struct Asked {
    file: &'static File,
    is_known: bool,
    is_gzip: bool,
    is_for_good: bool,
}

impl Asked {
    /// The file of this name; `None`: there is none.
    pub(super) fn find<B>(name: &str, request: &Request<B>) -> Option<Self> {
        let file = FILES.iter().find(|file| file.name == name)?;
        let version = request.uri().query().and_then(|query| query.strip_prefix("v="));
        Some(Self {
            file,
            is_known: items(request.headers(), &header::IF_NONE_MATCH).any(|tag| tag == file.tag),
            is_gzip: items(request.headers(), &header::ACCEPT_ENCODING).any(takes_gzip),
            is_for_good: version == Some(file.version.as_str()),
        })
    }

    /// The file, or that it is still the same.
    pub(super) fn answer(&self) -> Response<Answer> {
        let file = self.file;
        let mut response = Response::new(Answer::Nothing);
        if self.is_known {
            *response.status_mut() = StatusCode::NOT_MODIFIED;
        } else if self.is_gzip {
            *response.body_mut() = Answer::Whole(file.gzip.clone());
            response.headers_mut().insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
        } else {
            *response.body_mut() = Answer::Whole(Bytes::from_static(file.plain));
        }
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(file.media_type));
        headers.insert(header::ETAG, file.tag.clone());
        headers.insert(header::CACHE_CONTROL, if self.is_for_good { FOR_GOOD } else { IF_SAME });
        headers.insert(header::VARY, HeaderValue::from_static("accept-encoding"));
        headers.insert(header::CONTENT_SECURITY_POLICY, CONTENT_SECURITY_POLICY);
        headers.insert(header::REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
        response
    }
}

/// What the lines of a header list.
fn items<'a>(headers: &'a HeaderMap, name: &HeaderName) -> impl Iterator<Item = &'a str> {
    let lines = headers.get_all(name).iter().filter_map(|line| line.to_str().ok());
    lines.flat_map(|line| line.split(',')).map(str::trim)
}

/// Whether an item of `Accept-Encoding` asks for gzip (RFC 9110, section 12.5.3).
fn takes_gzip(item: &str) -> bool {
    let (name, weight) = item.split_once(';').unwrap_or((item, ""));
    let weight = weight.trim().trim_start_matches("q=");
    name.trim().eq_ignore_ascii_case("gzip")
        && (weight.is_empty() || weight.parse().is_ok_and(|q: f32| q > 0.0))
}
