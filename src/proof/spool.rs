//! `_wait=end`: the whole result before its head, so that it has its exact status and length.
//!
//! Up to [`IN_MEMORY`] it waits in memory, then in a [file](SpoolFile). Once all is there the database is free.

use std::future::poll_fn;
use std::io;
use std::mem;
use std::path::PathBuf;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::StatusCode;

use crate::Error;
use crate::spill::file::{NoRoom, SpoolFile, Used};

/// What is held in memory.
pub(crate) const IN_MEMORY: usize = 256 * 1024;

/// How results are spooled: those that wait for their end, and those that wait for their client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Spooling {
    /// The longest result that waits for its end, in bytes as they are sent, beyond: 507; and the most that waits of one for its client.
    pub limit: u64,
    /// What all of them may take together in files, in bytes.
    pub quota: u64,
    /// The folder of the temporary files; `None`: the system's.
    pub folder: Option<PathBuf>,
}

impl Default for Spooling {
    fn default() -> Self {
        Self { limit: 1 << 30, quota: 8 << 30, folder: None }
    }
}

/// A result on its way into the spool.
pub(crate) struct Spool<'a> {
    settings: &'a Spooling,
    memory: Vec<u8>,
    file: SpoolFile,
    length: u64,
}

/// A result that is there as a whole.
pub(crate) enum Spooled {
    Memory(Bytes),
    File(SpooledFile),
}

/// A result in a file, as it is read.
pub(crate) struct SpooledFile(SpoolFile);

impl<'a> Spool<'a> {
    pub(crate) fn new(settings: &'a Spooling, used: &Arc<Used>) -> Self {
        Self { settings, memory: Vec::new(), file: SpoolFile::new(settings, used), length: 0 }
    }

    /// Takes the next chunk.
    ///
    /// # Errors
    /// 507: the result is too long, all files together are, or the file cannot be written.
    pub(crate) async fn put(&mut self, chunk: &[u8]) -> Result<(), Error> {
        self.length += chunk.len() as u64;
        if self.length > self.settings.limit {
            return Err(too_long(self.settings.limit));
        }
        self.memory.extend_from_slice(chunk);
        if self.memory.len() > IN_MEMORY { self.write().await } else { Ok(()) }
    }

    /// Writes what is in memory to the file.
    async fn write(&mut self) -> Result<(), Error> {
        self.file.reserve(self.memory.len()).map_err(|no_room| match no_room {
            NoRoom::Limit => too_long(self.settings.limit),
            NoRoom::Quota => no_quota(self.settings.quota),
        })?;
        let block = Bytes::from(mem::take(&mut self.memory));
        self.file.begin_write(block.clone());
        poll_fn(|cx| self.file.poll_written(cx)).await.map_err(failed)?;
        // The memory is used again.
        self.memory = block.into();
        self.memory.clear();
        Ok(())
    }

    /// Every chunk was taken.
    ///
    /// # Errors
    /// The file cannot be written.
    pub(crate) async fn finish(mut self) -> Result<Spooled, Error> {
        if self.file.unread() == 0 {
            return Ok(Spooled::Memory(Bytes::from(self.memory)));
        }
        self.write().await?;
        Ok(Spooled::File(SpooledFile(self.file)))
    }
}

impl SpooledFile {
    /// Bytes that are still to come.
    pub(crate) fn left(&self) -> u64 {
        self.0.unread()
    }

    /// The next bytes; `None` behind the last.
    ///
    /// # Errors
    /// The file cannot be read.
    pub(crate) fn poll_chunk(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, Error>>> {
        self.0.poll_read(cx).map_err(failed)
    }
}

fn too_long(limit: u64) -> Error {
    Error::new(
        "result_too_long",
        StatusCode::INSUFFICIENT_STORAGE,
        format!("the result is longer than the {limit} bytes that may wait for its end"),
    )
    .hint("ask without `_wait`, ask for less, or raise `spool_limit`")
}

fn no_quota(quota: u64) -> Error {
    Error::new(
        "spool_full",
        StatusCode::INSUFFICIENT_STORAGE,
        format!("the results that wait have all of the {quota} bytes that they may take together"),
    )
    .hint("ask without `_wait`, ask again later, or raise `spool_quota`")
    .retry_after(Duration::from_secs(1))
}

fn failed(cause: io::Error) -> Error {
    Error::new("spool_failed", StatusCode::INSUFFICIENT_STORAGE, "the result could not be kept until its end")
        .hint("ask without `_wait`")
        .cause(cause)
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn spooled(settings: &Spooling, chunks: usize) -> Result<Spooled, Error> {
        let mut spool = Spool::new(settings, &Arc::default());
        for chunk in 0..chunks {
            spool.put(&[u8::try_from(chunk % 251).unwrap(); 10_000]).await?;
            assert!(spool.memory.len() <= IN_MEMORY, "{}", spool.memory.len());
        }
        spool.finish().await
    }

    #[tokio::test]
    async fn a_short_result_stays_in_memory() {
        let Ok(Spooled::Memory(bytes)) = spooled(&Spooling::default(), 3).await else { panic!("in memory") };
        assert_eq!(bytes.len(), 30_000);
    }

    #[tokio::test]
    async fn a_long_result_comes_back_from_its_file() {
        let folder = tempfile::tempdir().unwrap();
        let settings =
            Spooling { limit: 2_000_000, folder: Some(folder.path().to_owned()), ..Spooling::default() };
        let Ok(Spooled::File(mut file)) = spooled(&settings, 200).await else { panic!("in a file") };
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
    async fn what_cannot_be_kept_is_an_error() {
        let settings = Spooling { limit: 1_999_999, ..Spooling::default() };
        let error = spooled(&settings, 200).await.err().unwrap();
        assert_eq!((error.code(), error.status().as_u16()), ("result_too_long", 507));
        let settings = Spooling { quota: 1_999_999, ..Spooling::default() };
        let error = spooled(&settings, 200).await.err().unwrap();
        assert_eq!((error.code(), error.status().as_u16()), ("spool_full", 507));
        let settings = Spooling { folder: Some("/nowhere/at/all".into()), ..Spooling::default() };
        let error = spooled(&settings, 200).await.err().unwrap();
        assert_eq!((error.code(), error.status().as_u16()), ("spool_failed", 507));
    }
}
