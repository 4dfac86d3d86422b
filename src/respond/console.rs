//! The console, at [`ADMIN`](super::admin::ADMIN) itself: a page for browsers. It reads the same
//! endpoints as other clients, with the token of its user.
//!
//! Its sources are in `console/`. `npm run build` there writes the files in `src/respond/console/`,
//! which are part of the program. They're committed, so a build of Rowstream doesn't need Node.
//! Everyone may load the page, because it contains neither secrets nor data.

use std::sync::LazyLock;

use http::header::{self, HeaderValue};
use http::{HeaderMap, Request, Response};

use super::body::AnswerBody;
use super::documents::{IF_SAME, ServedDocument};

/// The page loads nothing from other sites and runs only the code in its files, and no other site
/// can frame it.
const CONTENT_SECURITY_POLICY: HeaderValue = HeaderValue::from_static(
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; \
     base-uri 'none'; form-action 'none'; frame-ancestors 'none'; \
     require-trusted-types-for 'script'; trusted-types lit-html",
);
/// A file that is requested by its content (`?v=…`) never changes.
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
    /// Its path below that of the console.
    name: &'static str,
    media_type: &'static str,
    document: ServedDocument,
}

impl File {
    fn new(name: &'static str, media_type: &'static str, text: &'static [u8]) -> Self {
        let document = ServedDocument::new(|out| out.write_all(text)).expect("it is written into memory");
        Self { name, media_type, document }
    }
}

/// A requested file of the console.
pub(super) struct RequestedFile {
    file: &'static File,
    is_for_good: bool,
}

impl RequestedFile {
    /// The file of this name; `None` if there isn't one.
    pub(super) fn find<B>(name: &str, request: &Request<B>) -> Option<Self> {
        let file = FILES.iter().find(|file| file.name == name)?;
        let version = request.uri().query().and_then(|query| query.strip_prefix("v="));
        Some(Self { file, is_for_good: version == Some(file.document.version.as_str()) })
    }

    /// Answers with the file, or tells that it hasn't changed.
    pub(super) fn answer(&self, headers: &HeaderMap) -> Response<AnswerBody> {
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
