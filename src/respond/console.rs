//! The console, at [`ADMIN`](super::admin::ADMIN) itself: a page for browsers, which reads what
//! other clients read, with the token of its user.
//!
//! Its sources are in `console/`; what is built of them is in `src/respond/console/`, and a part of
//! the program. It is open to everybody: there is no secret in it, and no data.

use std::sync::LazyLock;

use http::header::{self, HeaderValue};
use http::{HeaderMap, Request, Response};

use super::body::Answer;
use super::documents::{Document, IF_SAME};

/// Nothing comes from elsewhere, nothing is run that is not in the files, and no other site frames
/// the page.
const CONTENT_SECURITY_POLICY: HeaderValue = HeaderValue::from_static(
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; \
     base-uri 'none'; form-action 'none'; frame-ancestors 'none'; \
     require-trusted-types-for 'script'; trusted-types lit-html",
);
/// Asked for by their contents (`?v=…`), files never change.
const FOR_GOOD: HeaderValue = HeaderValue::from_static("public, max-age=31536000, immutable");

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
    document: Document,
}

impl File {
    fn new(name: &'static str, media_type: &'static str, text: &'static [u8]) -> Self {
        let document = Document::new(|out| out.write_all(text)).expect("it is written into memory");
        Self { name, media_type, document }
    }
}

/// A file of the console, as a request asks for it.
pub(super) struct Asked {
    file: &'static File,
    is_for_good: bool,
}

impl Asked {
    /// The file of this name; `None`: there is none.
    pub(super) fn find<B>(name: &str, request: &Request<B>) -> Option<Self> {
        let file = FILES.iter().find(|file| file.name == name)?;
        let version = request.uri().query().and_then(|query| query.strip_prefix("v="));
        Some(Self { file, is_for_good: version == Some(file.document.version.as_str()) })
    }

    /// The file, or that it is still the same.
    pub(super) fn answer(&self, headers: &HeaderMap) -> Response<Answer> {
        let mut response = self.file.document.answer(headers);
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(self.file.media_type));
        headers.insert(header::CACHE_CONTROL, if self.is_for_good { FOR_GOOD } else { IF_SAME });
        headers.insert(header::VARY, HeaderValue::from_static("accept-encoding"));
        headers.insert(header::CONTENT_SECURITY_POLICY, CONTENT_SECURITY_POLICY);
        headers.insert(header::REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
        response
    }
}
