//! A temporary file for the rest of a result: bytes are appended at its end, and read once, in
//! order.
//!
//! It has no name, so the system removes it with its last descriptor, however the server ends. File
//! operations block, so threads for blocking work write, read and close the file, with at most one
//! write and one read at a time. All files of a server share one quota.

use std::fs::File;
use std::future::Future;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use tokio::runtime::Handle;
use tokio::task::JoinHandle;

use super::SpoolSettings;

/// The most bytes of one read. They become a chunk, and each stream has one or two of those.
pub(crate) const PIECE: usize = 32 * 1024;

/// The bytes of the quota that a server's files use.
#[derive(Debug, Default)]
pub(crate) struct UsedQuota(AtomicU64);

/// The limit that a file would exceed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SpoolLimit {
    /// The file would be longer than `spool_limit`.
    Limit,
    /// All files together would be longer than `spool_quota`.
    Quota,
}

/// The bytes of the quota that one file uses. Given back when it's dropped.
struct QuotaShare {
    used: Arc<UsedQuota>,
    bytes: AtomicU64,
}

impl QuotaShare {
    fn take(&self, bytes: u64, settings: &SpoolSettings) -> Result<(), SpoolLimit> {
        if self.bytes.load(Ordering::Relaxed) + bytes > settings.limit {
            return Err(SpoolLimit::Limit);
        }
        let add = |used: u64| used.checked_add(bytes).filter(|&used| used <= settings.quota);
        let taken = self.used.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add);
        taken.map_err(|_| SpoolLimit::Quota)?;
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        Ok(())
    }
}

impl Drop for QuotaShare {
    fn drop(&mut self) {
        self.used.0.fetch_sub(*self.bytes.get_mut(), Ordering::Relaxed);
    }
}

/// An open file. The fields are dropped in this order, so that the disk has the space again before
/// the quota does.
struct OpenFile {
    file: File,
    #[expect(dead_code, reason = "held for its drop: a write may outlive its stream")]
    part: Arc<QuotaShare>,
}

/// The file of one stream. The first write creates it.
pub(crate) struct SpoolFile {
    settings: SpoolSettings,
    open: Option<Arc<OpenFile>>,
    part: Arc<QuotaShare>,
    writing: Option<(u64, JoinHandle<io::Result<Arc<OpenFile>>>)>,
    reading: Option<JoinHandle<io::Result<Bytes>>>,
    written: u64,
    read: u64,
}

impl SpoolFile {
    pub(crate) fn new(settings: &SpoolSettings, used: &Arc<UsedQuota>) -> Self {
        let part = QuotaShare { used: Arc::clone(used), bytes: AtomicU64::new(0) };
        Self {
            settings: settings.clone(),
            open: None,
            part: Arc::new(part),
            writing: None,
            reading: None,
            written: 0,
            read: 0,
        }
    }

    /// Reserves room for so many bytes more, until the file is dropped.
    ///
    /// # Errors
    /// There's no room.
    pub(crate) fn reserve(&mut self, bytes: usize) -> Result<(), SpoolLimit> {
        self.part.take(bytes as u64, &self.settings)
    }

    /// Begins to append bytes for which room was reserved. The previous write must have ended
    /// ([`poll_written`](Self::poll_written)).
    pub(crate) fn begin_write(&mut self, bytes: Bytes) {
        let (length, at) = (bytes.len() as u64, self.written);
        let (open, part) = (self.open.clone(), Arc::clone(&self.part));
        let folder = self.settings.folder.clone().unwrap_or_else(std::env::temp_dir);
        let write = move || write(open.map_or_else(|| make(folder, part), Ok)?, &bytes, at);
        self.writing = Some((length, tokio::task::spawn_blocking(write)));
    }

    /// True if a write is under way.
    pub(crate) fn is_writing(&self) -> bool {
        self.writing.is_some()
    }

    /// Ready when no write is under way.
    ///
    /// # Errors
    /// The write failed. Its bytes aren't in the file.
    pub(crate) fn poll_written(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let Some((length, writing)) = &mut self.writing else { return Poll::Ready(Ok(())) };
        let (length, written) = (*length, ready!(Pin::new(writing).poll(cx)));
        self.writing = None;
        self.open = Some(written.map_err(io::Error::from).flatten()?);
        self.written += length;
        Poll::Ready(Ok(()))
    }

    /// The number of bytes in the file that haven't been read.
    pub(crate) fn unread(&self) -> u64 {
        self.written - self.read
    }

    /// The next bytes, at most [`PIECE`]. `None` if everything that was written has been read.
    ///
    /// # Errors
    /// The file can't be read.
    pub(crate) fn poll_read(&mut self, cx: &mut Context<'_>) -> Poll<Option<io::Result<Bytes>>> {
        let unread = self.unread();
        let Some(open) = self.open.as_ref().filter(|_| unread > 0) else { return Poll::Ready(None) };
        let reading = self.reading.get_or_insert_with(|| {
            let length = usize::try_from(unread).unwrap_or(PIECE).min(PIECE);
            let (open, at) = (Arc::clone(open), self.read);
            // Allocated here, because memory that a blocking thread allocates stays in that
            // thread's part of the allocator.
            let piece = vec![0; length];
            tokio::task::spawn_blocking(move || read(&open, piece, at))
        });
        let piece = ready!(Pin::new(reading).poll(cx)).map_err(io::Error::from).flatten();
        self.reading = None;
        Poll::Ready(Some(piece.inspect(|piece| self.read += piece.len() as u64)))
    }
}

impl Drop for SpoolFile {
    /// Closes the file on a thread for blocking work, because freeing the space of a long file
    /// takes time.
    fn drop(&mut self) {
        if let (Some(open), Ok(runtime)) = (self.open.take(), Handle::try_current()) {
            runtime.spawn_blocking(move || drop(open));
        }
    }
}

fn make(folder: PathBuf, part: Arc<QuotaShare>) -> io::Result<Arc<OpenFile>> {
    Ok(Arc::new(OpenFile { file: tempfile::tempfile_in(folder)?, part }))
}

fn write(open: Arc<OpenFile>, bytes: &[u8], at: u64) -> io::Result<Arc<OpenFile>> {
    open.file.write_all_at(bytes, at)?;
    Ok(open)
}

fn read(open: &OpenFile, mut piece: Vec<u8>, at: u64) -> io::Result<Bytes> {
    open.file.read_exact_at(&mut piece, at)?;
    Ok(Bytes::from(piece))
}

#[cfg(test)]
impl UsedQuota {
    pub(crate) fn bytes(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    /// Waits until the blocking threads have given back everything.
    pub(crate) async fn until_none(&self) {
        let given_back = async {
            while self.bytes() > 0 {
                tokio::time::sleep(std::time::Duration::from_millis(1)).await;
            }
        };
        let waited = tokio::time::timeout(std::time::Duration::from_secs(30), given_back).await;
        assert!(waited.is_ok(), "{} bytes are left", self.bytes());
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use super::*;

    async fn append(file: &mut SpoolFile, bytes: &[u8]) -> io::Result<()> {
        file.reserve(bytes.len()).expect("there is room");
        file.begin_write(Bytes::copy_from_slice(bytes));
        poll_fn(|cx| file.poll_written(cx)).await
    }

    async fn read_all(file: &mut SpoolFile) -> Vec<u8> {
        let mut read = Vec::new();
        while let Some(piece) = poll_fn(|cx| file.poll_read(cx)).await {
            let piece = piece.unwrap();
            assert!(piece.len() <= PIECE, "{}", piece.len());
            read.extend_from_slice(&piece);
        }
        read
    }

    #[tokio::test]
    async fn what_went_in_comes_out_once_and_in_order() {
        let (folder, used) = (tempfile::tempdir().unwrap(), Arc::<UsedQuota>::default());
        let settings = SpoolSettings { folder: Some(folder.path().to_owned()), ..SpoolSettings::default() };
        let mut file = SpoolFile::new(&settings, &used);
        let blocks: Vec<Vec<u8>> = (0..5).map(|i| vec![i; 50_000]).collect();
        append(&mut file, &blocks[0]).await.unwrap();
        append(&mut file, &blocks[1]).await.unwrap();
        assert_eq!(read_all(&mut file).await, blocks[..2].concat());
        for block in &blocks[2..] {
            append(&mut file, block).await.unwrap();
        }
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "the file has no name");
        assert_eq!((file.unread(), used.bytes()), (150_000, 250_000));
        assert_eq!(read_all(&mut file).await, blocks[2..].concat());
        drop(file);
        used.until_none().await;
    }

    #[tokio::test]
    async fn a_file_has_a_limit_and_all_have_a_quota() {
        let settings = SpoolSettings { limit: 100, quota: 150, folder: None };
        let used = Arc::default();
        let mut first = SpoolFile::new(&settings, &used);
        let mut second = SpoolFile::new(&settings, &used);
        assert_eq!(first.reserve(101), Err(SpoolLimit::Limit));
        assert_eq!(first.reserve(100), Ok(()));
        assert_eq!(first.reserve(1), Err(SpoolLimit::Limit));
        assert_eq!(second.reserve(51), Err(SpoolLimit::Quota));
        assert_eq!(second.reserve(50), Ok(()));
        drop(first);
        assert_eq!(second.reserve(50), Ok(()));
    }

    #[tokio::test]
    async fn a_folder_that_cannot_be_written_to_is_an_error() {
        let settings = SpoolSettings { folder: Some("/nowhere/at/all".into()), ..SpoolSettings::default() };
        let used = Arc::<UsedQuota>::default();
        let mut file = SpoolFile::new(&settings, &used);
        append(&mut file, b"abc").await.unwrap_err();
        assert_eq!(file.unread(), 0);
        drop(file);
        used.until_none().await;
    }
}
