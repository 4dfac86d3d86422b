//! The header fields of every request. Their secrets may be in files, which may change while the source is
//! in use.
//!
//! If the upstream refuses a request with 401 or 403, we read the files again. If a field has changed, we
//! send the request once more. So a rotation that changes the file first causes no errors. A 403 often
//! concerns the client and not our fields, so we read for it only if the last time is a second ago.

use std::sync::Arc;
use std::time::{Duration, Instant};

use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use rowstream_core::diagnostic::Template;
use rowstream_core::lock::Mutex;
use rowstream_core::log;

use super::settings::Settings;

/// The shortest time after which a 403 lets us read the files again.
const INTERVAL: Duration = Duration::from_secs(1);

/// The current fields, and a way to read them again.
pub(super) struct OwnHeaders {
    source: String,
    current: Mutex<Arc<HeaderMap>>,
    files: Arc<[(HeaderName, Template)]>,
    /// Requests that are refused at the same time wait for each other, and share a read.
    last: tokio::sync::Mutex<Option<LastRead>>,
}

struct LastRead {
    at: Instant,
    has_failed: bool,
}

impl OwnHeaders {
    pub(super) fn new(source: &str, settings: &Settings) -> Self {
        let fields: HeaderMap = settings.headers.iter().cloned().collect();
        Self {
            source: source.to_owned(),
            current: Mutex::new(Arc::new(fields)),
            files: settings.header_files.clone().into(),
            last: tokio::sync::Mutex::default(),
        }
    }

    pub(super) fn current(&self) -> Arc<HeaderMap> {
        Arc::clone(&self.current.lock())
    }

    /// The current fields. `None` if none of them has a file.
    pub(super) fn changeable(&self) -> Option<Arc<HeaderMap>> {
        (!self.files.is_empty()).then(|| self.current())
    }

    /// Returns true if a request that was sent with the fields `sent`, and got this status, should be
    /// sent again with other fields.
    pub(super) async fn have_changed(&self, sent: &HeaderMap, status: StatusCode) -> bool {
        if !matches!(status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN) {
            return false;
        }
        let mut last = self.last.lock().await;
        // Another request may have read them.
        let mut fields = HeaderMap::clone(&self.current());
        if fields != *sent {
            return true;
        }
        let is_recent = last.as_ref().is_some_and(|last| last.at.elapsed() < INTERVAL);
        if is_recent && status == StatusCode::FORBIDDEN {
            return false;
        }
        let files = Arc::clone(&self.files);
        // Reading files can be slow.
        let Ok(read) = tokio::task::spawn_blocking(move || read(&files)).await else { return false };
        let had_failed = last.as_ref().is_some_and(|last| last.has_failed);
        *last = Some(LastRead { at: Instant::now(), has_failed: read.is_err() });
        match read {
            Ok(read) => read.into_iter().for_each(|(name, value)| drop(fields.insert(name, value))),
            Err(name) if !had_failed => log::warning!(
                "source {}: the header `{name}` can't be read from its file again\n    hint: the file must be readable, with one line of printable ASCII",
                self.source
            ),
            Err(_) => {}
        }
        let have_changed = fields != *sent;
        if have_changed {
            *self.current.lock() = Arc::new(fields);
        }
        have_changed
    }
}

/// The fields with the current contents of their files, or the name of one that has no valid content now.
fn read(files: &[(HeaderName, Template)]) -> Result<Vec<(HeaderName, HeaderValue)>, HeaderName> {
    let value = |template: &Template| {
        let mut value = HeaderValue::from_str(&template.expand()?).ok()?;
        value.set_sensitive(true);
        Some(value)
    };
    let field = |(name, template): &(HeaderName, Template)| {
        value(template).map(|value| (name.clone(), value)).ok_or_else(|| name.clone())
    };
    files.iter().map(field).collect()
}
