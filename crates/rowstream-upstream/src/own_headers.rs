//! The header fields of every request. Their secrets may be in files, which may change while the source is
//! in use.
//!
//! If the upstream refuses a request with 401 or 403, we read the files again. If a field has changed, we
//! send the request once more. So a rotation that changes the file first causes no errors.

use std::sync::Arc;

use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use rowstream_core::diagnostic::Template;
use rowstream_core::lock::Mutex;

use super::settings::Settings;

/// The current fields, and a way to read them again.
pub(super) struct OwnHeaders {
    current: Mutex<Arc<HeaderMap>>,
    files: Arc<[(HeaderName, Template)]>,
}

impl OwnHeaders {
    pub(super) fn new(settings: &Settings) -> Self {
        let fields: HeaderMap = settings.headers.iter().cloned().collect();
        Self { current: Mutex::new(Arc::new(fields)), files: settings.header_files.clone().into() }
    }

    pub(super) fn current(&self) -> Arc<HeaderMap> {
        Arc::clone(&self.current.lock())
    }

    /// Returns true if a request that was sent with the fields `sent`, and got this status, should be
    /// sent again with other fields.
    pub(super) async fn have_changed(&self, sent: &HeaderMap, status: StatusCode) -> bool {
        if self.files.is_empty() || !matches!(status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN) {
            return false;
        }
        // Another request may have read them.
        let mut fields = HeaderMap::clone(&self.current());
        if fields != *sent {
            return true;
        }
        let files = Arc::clone(&self.files);
        // Reading files can be slow.
        let Ok(Some(read)) = tokio::task::spawn_blocking(move || read(&files)).await else { return false };
        fields.extend(read);
        let have_changed = fields != *sent;
        if have_changed {
            *self.current.lock() = Arc::new(fields);
        }
        have_changed
    }
}

/// The fields with the current contents of their files; `None` if that's impossible now.
fn read(files: &[(HeaderName, Template)]) -> Option<Vec<(HeaderName, HeaderValue)>> {
    let field = |(name, template): &(HeaderName, Template)| {
        let mut value = HeaderValue::from_str(&template.expand()?).ok()?;
        value.set_sensitive(true);
        Some((name.clone(), value))
    };
    files.iter().map(field).collect()
}
