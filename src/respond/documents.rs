//! Documents about the server: the files of the console, the list of endpoints, and the OpenAPI
//! document.
//!
//! A [`ServedDocument`] is made once for a configuration and a set of rights, compressed, and shared by
//! all answers. For a client that doesn't accept gzip it's unpacked piece by piece, so that a
//! document of megabytes needs kilobytes per client. [`Documents`] keeps the ones used last. One is
//! made at a time, and [`DOCUMENTS`] limits the memory of all.

use std::io::{self, BufWriter, Read as _, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::{Buf as _, Bytes, buf};
use flate2::Compression;
use flate2::bufread::GzDecoder;
use flate2::write::GzEncoder;
use http::header::{self, HeaderName, HeaderValue};
use http::{HeaderMap, Response, StatusCode};
use rowstream_core::Error;
use rowstream_core::lock::Mutex;
use sha2::{Digest as _, Sha256};

use super::app::App;
use super::body::AnswerBody;
use super::exchange::Exchange;
use super::index;
use crate::admission::Holder;
use crate::budget::{CHUNK, DOCUMENTS, UNPACKING};
use crate::endpoint::Endpoint;
use crate::openapi;

/// A text about the server.
pub(super) struct ServedDocument {
    gzip: Bytes,
    /// The length of the text, in bytes.
    length: u64,
    /// The beginning of the text's hash, in hexadecimal.
    pub(super) version: String,
    /// Weak, because the text and its compressed form share it (RFC 9110, section 8.8.1).
    tag: HeaderValue,
}

/// The bytes of a kept document. They're counted as long as an answer uses them.
struct CountedBytes {
    gzip: Bytes,
    taken: Arc<AtomicUsize>,
}

impl AsRef<[u8]> for CountedBytes {
    fn as_ref(&self) -> &[u8] {
        &self.gzip
    }
}

impl Drop for CountedBytes {
    fn drop(&mut self) {
        self.taken.fetch_sub(self.gzip.len(), Ordering::Relaxed);
    }
}

impl ServedDocument {
    /// The document that `write` writes.
    ///
    /// # Errors
    /// Those of `write`.
    pub(super) fn new(write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> io::Result<Self> {
        let mut out = BufWriter::with_capacity(CHUNK, DocumentPacker::default());
        write(&mut out)?;
        let DocumentPacker { encoder, hash, length } =
            out.into_inner().map_err(io::IntoInnerError::into_error)?;
        let version: String = hash.finalize().iter().take(8).map(|byte| format!("{byte:02x}")).collect();
        let tag = HeaderValue::try_from(format!("W/\"{version}\"")).map_err(io::Error::other)?;
        Ok(Self { gzip: encoder.finish()?.into(), length, version, tag })
    }

    /// Answers with the document, or tells that the client has it already.
    pub(super) fn answer(&self, headers: &HeaderMap) -> Response<AnswerBody> {
        let mut response = Response::new(AnswerBody::Nothing);
        if items(headers, &header::IF_NONE_MATCH).any(|tag| tag == self.tag) {
            *response.status_mut() = StatusCode::NOT_MODIFIED;
        } else if items(headers, &header::ACCEPT_ENCODING).any(takes_gzip) {
            *response.body_mut() = AnswerBody::Whole(self.gzip.clone());
            response.headers_mut().insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
        } else {
            let decoder = GzDecoder::new(self.gzip.clone().reader());
            *response.body_mut() =
                AnswerBody::Unpacked(Box::new(UnpackedDocument { decoder, left: self.length }));
        }
        response.headers_mut().insert(header::ETAG, self.tag.clone());
        response
    }
}

/// Compresses and hashes a text.
struct DocumentPacker {
    encoder: GzEncoder<Vec<u8>>,
    hash: Sha256,
    length: u64,
}

impl Default for DocumentPacker {
    fn default() -> Self {
        let encoder = GzEncoder::new(Vec::new(), Compression::default());
        Self { encoder, hash: Sha256::new(), length: 0 }
    }
}

impl Write for DocumentPacker {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.encoder.write(bytes)?;
        self.hash.update(&bytes[..written]);
        self.length += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A document on its way to a client that doesn't accept it compressed.
pub(super) struct UnpackedDocument {
    decoder: GzDecoder<buf::Reader<Bytes>>,
    /// Bytes that haven't been sent yet.
    left: u64,
}

impl UnpackedDocument {
    /// Bytes that haven't been sent yet.
    pub(super) fn left(&self) -> u64 {
        self.left
    }

    /// The next piece; `None` after the last.
    ///
    /// # Errors
    /// The document is damaged, which is a bug of ours.
    pub(super) fn next(&mut self) -> Result<Option<Bytes>, Error> {
        if self.left == 0 {
            return Ok(None);
        }
        let mut piece = vec![0; self.left.min(CHUNK as u64) as usize];
        let read = self.decoder.read_exact(&mut piece);
        read.map_err(|cause| Error::endpoint("a document could not be unpacked").cause(cause))?;
        self.left -= piece.len() as u64;
        Ok(Some(piece.into()))
    }
}

/// The subject of a document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum DocumentSubject {
    /// The endpoints, as a page for browsers.
    Page,
    /// The endpoints, as JSON.
    List,
    /// The endpoints, as an OpenAPI document.
    OpenApi(openapi::DocumentOptions),
}

/// Identifies a document. A change of any field makes another document.
#[derive(Debug, Clone, PartialEq, Eq)]
struct DocumentKey {
    subject: DocumentSubject,
    /// Tells which of the configuration's authorizations the client has.
    rights: Vec<bool>,
    /// The number of times that columns had been noted.
    columns: u64,
}

/// The documents of a configuration that were used last.
#[derive(Default)]
pub(super) struct Documents {
    /// The most recently used one is the last.
    kept: Mutex<Vec<(DocumentKey, Arc<ServedDocument>)>>,
    /// Their compressed lengths together, in bytes, including documents that aren't kept any more
    /// but are still being read.
    taken: Arc<AtomicUsize>,
    /// Locked while a document is made.
    making: Arc<tokio::sync::Mutex<()>>,
    /// Locked while a text that isn't kept is made and compressed.
    packing: tokio::sync::Mutex<()>,
}

impl Documents {
    fn find(&self, key: &DocumentKey) -> Option<Arc<ServedDocument>> {
        let mut kept = self.kept.lock();
        let at = kept.iter().position(|(known, _)| known == key)?;
        kept[at..].rotate_left(1);
        kept.last().map(|(_, document)| Arc::clone(document))
    }

    /// Keeps a document in place of those that weren't used as recently. `None` if the ones that
    /// clients still read need all the memory for documents.
    fn keep(&self, key: DocumentKey, mut document: ServedDocument) -> Option<Arc<ServedDocument>> {
        let mut kept = self.kept.lock();
        kept.retain(|(known, _)| known.columns == key.columns);
        let bytes = document.gzip.len();
        let fits = || match self.taken.load(Ordering::Relaxed) {
            0 => true,
            taken => taken + bytes <= DOCUMENTS,
        };
        while !fits() && !kept.is_empty() {
            kept.remove(0);
        }
        if !fits() {
            return None;
        }
        self.taken.fetch_add(bytes, Ordering::Relaxed);
        let counted = CountedBytes { gzip: document.gzip, taken: Arc::clone(&self.taken) };
        document.gzip = Bytes::from_owner(counted);
        let document = Arc::new(document);
        kept.push((key, Arc::clone(&document)));
        Some(document)
    }
}

impl Exchange<'_> {
    /// Answers with a document about the endpoints that a client with these rights may call.
    ///
    /// # Errors
    /// 503: there's no memory for it.
    pub(super) async fn answer_document(
        &mut self,
        subject: DocumentSubject,
        rights: Vec<bool>,
    ) -> Result<Response<AnswerBody>, Error> {
        let key = DocumentKey { subject, rights, columns: self.app.columns.times() };
        let document = match self.app.documents.find(&key) {
            Some(document) => document,
            None => make(Arc::clone(&self.tracker.app), key).await?,
        };
        let mut response = document.answer(self.request.headers());
        if let AnswerBody::Unpacked(_) = response.body() {
            self.hold_for_document(UNPACKING)?;
        }
        response.headers_mut().insert(header::CACHE_CONTROL, IF_SAME);
        Ok(response)
    }

    /// Answers with a text that differs each time and may be long. Only one is made at a time.
    ///
    /// # Errors
    /// Those of `text`. 503: there's no memory for it.
    pub(super) async fn answer_text(
        &mut self,
        text: impl Future<Output = Result<String, Error>>,
        media_type: &'static str,
    ) -> Result<Response<AnswerBody>, Error> {
        let one = self.app.documents.packing.lock().await;
        let text = text.await?;
        let packed =
            tokio::task::spawn_blocking(move || ServedDocument::new(|out| out.write_all(text.as_bytes())));
        let document = packed.await.map_err(io::Error::other).flatten();
        drop(one);
        let document = document.map_err(|cause| Error::endpoint(NOT_WRITTEN).cause(cause))?;
        let mut response = document.answer(self.request.headers());
        let unpacking = if let AnswerBody::Unpacked(_) = response.body() { UNPACKING } else { 0 };
        self.hold_for_document(document.gzip.len() + unpacking)?;
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(media_type));
        headers.insert(header::VARY, HeaderValue::from_static("accept-encoding"));
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
        Ok(response)
    }

    fn hold_for_document(&mut self, bytes: usize) -> Result<(), Error> {
        let admission = &self.app.admission;
        let held = self.tracker.permit.get_or_insert_with(|| admission.holding_nothing());
        admission.widen(held, bytes, Holder::Admin)
    }
}

/// Makes a document on a thread for blocking work, because it may take longer than other requests of
/// the same thread should wait. The document is kept even if the client has left.
async fn make(app: Arc<App>, key: DocumentKey) -> Result<Arc<ServedDocument>, Error> {
    let one = Arc::clone(&app.documents.making).lock_owned().await;
    if let Some(document) = app.documents.find(&key) {
        return Ok(document);
    }
    let make = move || {
        let document = ServedDocument::new(|out| key.write(&app, out));
        let document = document.map_err(|cause| Error::endpoint(NOT_WRITTEN).cause(cause))?;
        let kept = app.documents.keep(key, document);
        drop(one);
        kept.ok_or_else(|| app.admission.no_memory())
    };
    let made = tokio::task::spawn_blocking(make).await;
    made.map_err(|cause| Error::endpoint(NOT_WRITTEN).cause(cause))?
}

impl DocumentKey {
    fn write(&self, app: &App, out: &mut dyn Write) -> io::Result<()> {
        let columns = app.columns.all();
        let all = app.config.endpoints.iter().zip(columns.iter().map(Option::as_deref));
        let described = all.zip(&app.authorizations.of).filter(|(_, index)| self.rights[**index]);
        let described = described.map(|(described, _)| described);
        let endpoints = || described.clone().map(|(endpoint, _)| endpoint).collect::<Vec<&Endpoint>>();
        match self.subject {
            DocumentSubject::Page => index::write_page(out, &endpoints(), &app.config),
            DocumentSubject::List => index::write_list(out, &endpoints()),
            DocumentSubject::OpenApi(asked) => {
                openapi::write(out, &app.config, described, asked, Some(ABOVE))
            }
        }
    }
}

/// The base of the OpenAPI document's paths, relative to the document, because a proxy may serve
/// them under a prefix.
const ABOVE: &str = "..";
const NOT_WRITTEN: &str = "the document could not be written";
/// Caches ask if the document is still the same.
pub(super) const IF_SAME: HeaderValue = HeaderValue::from_static("no-cache");

/// The items of a header, from all its lines.
fn items<'a>(headers: &'a HeaderMap, name: &HeaderName) -> impl Iterator<Item = &'a str> {
    let lines = headers.get_all(name).iter().filter_map(|line| line.to_str().ok());
    lines.flat_map(|line| line.split(',')).map(str::trim)
}

/// True if an item of `Accept-Encoding` accepts gzip (RFC 9110, section 12.5.3).
fn takes_gzip(item: &str) -> bool {
    let (name, weight) = item.split_once(';').unwrap_or((item, ""));
    let weight = weight.trim().trim_start_matches("q=");
    name.trim().eq_ignore_ascii_case("gzip")
        && (weight.is_empty() || weight.parse().is_ok_and(|q: f32| q > 0.0))
}
