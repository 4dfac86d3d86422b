//! Holds a result until its end is known, before its headers are sent. They can then have its exact
//! status and length (`_wait=end`, HTTP/1.0), and facts that only the end shows (pages).
//!
//! Up to [`IN_MEMORY`] the result is kept in memory, and after that in a [file](SpoolFile). Once
//! it's complete, the database is free.

use std::future::poll_fn;
use std::io;
use std::mem;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http::StatusCode;
use rowstream_core::Error;

use super::SpoolSettings;
use super::file::{SpoolFile, SpoolLimit, UsedQuota};

/// The code of an error of the file.
pub(crate) const FAILED: &str = "spool_failed";
/// The most bytes that are kept in memory.
pub(crate) const IN_MEMORY: usize = 256 * 1024;

/// A result that is being spooled.
pub(crate) struct Spool<'a> {
    settings: &'a SpoolSettings,
    /// The longest result, in bytes.
    limit: u64,
    memory: Vec<u8>,
    file: SpoolFile,
    length: u64,
}

/// A spooled result while it's read: the whole result, or the beginning of one that is too long to
/// wait.
pub(crate) struct SpooledResult {
    file: SpoolFile,
    /// It follows the bytes in the file.
    memory: Bytes,
}

impl<'a> Spool<'a> {
    /// For a result of at most `limit` bytes, within the limits of `settings`.
    pub(crate) fn new(settings: &'a SpoolSettings, used: &Arc<UsedQuota>, limit: u64) -> Self {
        let (limit, file) = (limit.min(settings.limit), SpoolFile::new(settings, used));
        Self { settings, limit, memory: Vec::new(), file, length: 0 }
    }

    /// Adds the next chunk. It's kept even if this fails.
    ///
    /// # Errors
    /// 507: the result is too long, all files together are too long, or the file can't be written.
    pub(crate) async fn put(&mut self, chunk: &[u8]) -> Result<(), Error> {
        self.length += chunk.len() as u64;
        self.memory.extend_from_slice(chunk);
        if self.length > self.limit {
            return Err(too_long(self.limit));
        }
        if self.memory.len() > IN_MEMORY { self.write().await } else { Ok(()) }
    }

    /// Writes the bytes in memory to the file. If that fails, they stay in memory.
    async fn write(&mut self) -> Result<(), Error> {
        self.file.reserve(self.memory.len()).map_err(|no_room| match no_room {
            SpoolLimit::Limit => too_long(self.limit),
            SpoolLimit::Quota => no_quota(self.settings.quota),
        })?;
        let block = Bytes::from(mem::take(&mut self.memory));
        self.file.begin_write(block.clone());
        let written = poll_fn(|cx| self.file.poll_written(cx)).await;
        // We use the same memory for the next chunks.
        self.memory = block.into();
        written.map_err(failed)?;
        self.memory.clear();
        Ok(())
    }

    /// Ends the result. If it has a file, writes the rest to it too.
    ///
    /// # Errors
    /// The file can't be written.
    pub(crate) async fn finish(&mut self) -> Result<(), Error> {
        if self.file.unread() > 0 { self.write().await } else { Ok(()) }
    }

    /// Everything that was added.
    pub(crate) fn so_far(self) -> SpooledResult {
        SpooledResult { file: self.file, memory: Bytes::from(self.memory) }
    }
}

impl SpooledResult {
    /// The number of bytes that haven't been read.
    pub(crate) fn left(&self) -> u64 {
        self.file.unread() + self.memory.len() as u64
    }

    /// The whole result, if no part of it is in a file.
    pub(crate) fn in_memory(&self) -> Option<Bytes> {
        (self.file.unread() == 0).then(|| self.memory.clone())
    }

    /// The next bytes; `None` after the last.
    ///
    /// # Errors
    /// The file can't be read.
    pub(crate) fn poll_chunk(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, Error>>> {
        if let Some(piece) = ready!(self.file.poll_read(cx)) {
            return Poll::Ready(Some(piece.map_err(failed)));
        }
        let memory = mem::take(&mut self.memory);
        Poll::Ready((!memory.is_empty()).then_some(Ok(memory)))
    }
}

fn too_long(limit: u64) -> Error {
    Error::new(
        "result_too_long",
        StatusCode::INSUFFICIENT_STORAGE,
        format!("the result is longer than {limit} bytes, the most that may wait for its end"),
    )
    .hint("leave out `_wait`, request less, or raise `spool_limit`")
}

fn no_quota(quota: u64) -> Error {
    Error::new(
        "spool_full",
        StatusCode::INSUFFICIENT_STORAGE,
        format!("the waiting results use all of the {quota} bytes that they may take together"),
    )
    .hint("leave out `_wait`, try again later, or raise `spool_quota`")
    .retry_after(Duration::from_secs(1))
}

fn failed(cause: io::Error) -> Error {
    Error::new(FAILED, StatusCode::INSUFFICIENT_STORAGE, "the result could not be kept until its end")
        .hint("leave out `_wait`")
        .cause(cause)
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn spooled(settings: &SpoolSettings, chunks: usize) -> Result<SpooledResult, Error> {
        let mut spool = Spool::new(settings, &Arc::default(), u64::MAX);
        for chunk in 0..chunks {
            spool.put(&[u8::try_from(chunk % 251).unwrap(); 10_000]).await?;
            assert!(spool.memory.len() <= IN_MEMORY, "{}", spool.memory.len());
        }
        spool.finish().await?;
        Ok(spool.so_far())
    }

    #[tokio::test]
    async fn a_short_result_stays_in_memory() {
        let spooled = spooled(&SpoolSettings::default(), 3).await.unwrap();
        assert_eq!((spooled.in_memory().unwrap().len(), spooled.left()), (30_000, 30_000));
    }

    #[tokio::test]
    async fn a_long_result_comes_back_from_its_file() {
        let folder = tempfile::tempdir().unwrap();
        let settings = SpoolSettings {
            limit: 2_000_000,
            folder: Some(folder.path().to_owned()),
            ..SpoolSettings::default()
        };
        let mut file = spooled(&settings, 200).await.unwrap();
        assert!(file.in_memory().is_none());
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "the file has no name");
        let (mut read, length) = (Vec::new(), file.left());
        while let Some(piece) = poll_fn(|cx| file.poll_chunk(cx)).await {
            read.extend_from_slice(&piece.unwrap());
        }
        assert_eq!((read.len(), length), (2_000_000, 2_000_000));
        assert!(
            (0..200).all(|i| read[i * 10_000..][..10_000].iter().all(|&byte| usize::from(byte) == i % 251))
        );
    }

    #[tokio::test]
    async fn what_has_waited_comes_back_where_there_is_no_room_for_more() {
        let tight = |limit, quota| SpoolSettings { limit, quota, ..SpoolSettings::default() };
        let nowhere = SpoolSettings { folder: Some("/nowhere/at/all".into()), ..SpoolSettings::default() };
        for settings in [tight(1_000_000, u64::MAX), tight(u64::MAX, 1_000_000), nowhere] {
            let mut spool = Spool::new(&settings, &Arc::default(), u64::MAX);
            let (mut put, mut room) = (Vec::new(), true);
            for chunk in 0..=200 {
                let chunk = [chunk; 10_000];
                put.extend_from_slice(&chunk);
                room = spool.put(&chunk).await.is_ok();
                if !room {
                    break;
                }
            }
            assert!(!room, "all went in");
            let (mut read, mut so_far) = (Vec::new(), spool.so_far());
            while let Some(piece) = poll_fn(|cx| so_far.poll_chunk(cx)).await {
                read.extend_from_slice(&piece.unwrap());
            }
            assert!(read == put, "{} of {} bytes", read.len(), put.len());
        }
    }

    #[tokio::test]
    async fn what_cannot_be_kept_is_an_error() {
        let settings = SpoolSettings { limit: 1_999_999, ..SpoolSettings::default() };
        let error = spooled(&settings, 200).await.err().unwrap();
        assert_eq!((error.code(), error.status().as_u16()), ("result_too_long", 507));
        let settings = SpoolSettings { quota: 1_999_999, ..SpoolSettings::default() };
        let error = spooled(&settings, 200).await.err().unwrap();
        assert_eq!((error.code(), error.status().as_u16()), ("spool_full", 507));
        let settings = SpoolSettings { folder: Some("/nowhere/at/all".into()), ..SpoolSettings::default() };
        let error = spooled(&settings, 200).await.err().unwrap();
        assert_eq!((error.code(), error.status().as_u16()), ("spool_failed", 507));
    }
}
