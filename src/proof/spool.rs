//! `_wait=end`: the whole result before its head, so that it has its exact status and length.
//!
//! Up to [`IN_MEMORY`] it waits in memory, then in a temporary file without a name, which is gone with its last descriptor
//! however the server ends. Files block, so they are written and read on threads for that. Once all is there the database is free.

use std::fs::File;
use std::future::Future;
use std::io::{self, Read, Seek, Write};
use std::path::PathBuf;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::StatusCode;
use tokio::task::JoinHandle;

use crate::Error;

/// What is held in memory.
pub(crate) const IN_MEMORY: usize = 256 * 1024;
/// What is read from a file at a time.
const PIECE: usize = 64 * 1024;

/// How results are spooled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Spooling {
    /// The longest result, in bytes as they are sent; beyond: 507.
    pub limit: u64,
    /// The folder of the temporary files; `None`: the system's.
    pub folder: Option<PathBuf>,
}

impl Default for Spooling {
    fn default() -> Self {
        Self { limit: 1 << 30, folder: None }
    }
}

/// A result on its way into the spool.
pub(crate) struct Spool<'a> {
    settings: &'a Spooling,
    memory: Vec<u8>,
    file: Option<File>,
    length: u64,
}

/// A result that is there as a whole.
pub(crate) enum Spooled {
    Memory(Bytes),
    File(SpooledFile),
}

/// A result in a file, as it is read.
pub(crate) struct SpooledFile {
    left: u64,
    reading: Option<Reading>,
}

enum Reading {
    Idle(File),
    Piece(JoinHandle<io::Result<(File, Bytes)>>),
}

impl<'a> Spool<'a> {
    pub(crate) fn new(settings: &'a Spooling) -> Self {
        Self { settings, memory: Vec::new(), file: None, length: 0 }
    }

    /// Takes the next chunk.
    ///
    /// # Errors
    /// 507: the result is too long, or the file cannot be written.
    pub(crate) async fn put(&mut self, chunk: &[u8]) -> Result<(), Error> {
        self.length += chunk.len() as u64;
        if self.length > self.settings.limit {
            return Err(too_long(self.settings.limit));
        }
        self.memory.extend_from_slice(chunk);
        if self.memory.len() > IN_MEMORY { self.spill().await } else { Ok(()) }
    }

    /// Writes what is in memory to the file.
    async fn spill(&mut self) -> Result<(), Error> {
        let (memory, file) = (std::mem::take(&mut self.memory), self.file.take());
        let folder = self.settings.folder.clone().unwrap_or_else(std::env::temp_dir);
        let spilled = tokio::task::spawn_blocking(move || spill(memory, file, folder));
        let (memory, file) = spilled.await.map_err(io::Error::from).flatten().map_err(failed)?;
        (self.memory, self.file) = (memory, Some(file));
        Ok(())
    }

    /// Every chunk was taken.
    ///
    /// # Errors
    /// The file cannot be written.
    pub(crate) async fn finish(mut self) -> Result<Spooled, Error> {
        if self.file.is_none() {
            return Ok(Spooled::Memory(Bytes::from(self.memory)));
        }
        self.spill().await?;
        let reading = self.file.map(Reading::Idle);
        Ok(Spooled::File(SpooledFile { left: self.length, reading }))
    }
}

impl SpooledFile {
    /// Bytes that are still to come.
    pub(crate) fn left(&self) -> u64 {
        self.left
    }

    /// The next bytes; `None` behind the last.
    ///
    /// # Errors
    /// The file cannot be read.
    pub(crate) fn poll_chunk(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, Error>>> {
        if self.left == 0 {
            return Poll::Ready(None);
        }
        loop {
            match &mut self.reading {
                None => return Poll::Ready(Some(Err(failed(io::ErrorKind::UnexpectedEof.into())))),
                Some(Reading::Piece(piece)) => {
                    let piece = ready!(Pin::new(piece).poll(cx)).map_err(io::Error::from).flatten();
                    self.reading = None;
                    return Poll::Ready(Some(
                        piece.map_err(failed).map(|(file, bytes)| self.take(file, bytes)),
                    ));
                }
                Some(Reading::Idle(_)) => self.begin_piece(),
            }
        }
    }

    fn begin_piece(&mut self) {
        if let Some(Reading::Idle(file)) = self.reading.take() {
            let length = usize::try_from(self.left).unwrap_or(PIECE).min(PIECE);
            let piece = tokio::task::spawn_blocking(move || read_piece(file, length));
            self.reading = Some(Reading::Piece(piece));
        }
    }

    fn take(&mut self, file: File, bytes: Bytes) -> Bytes {
        self.left -= bytes.len() as u64;
        self.reading = Some(Reading::Idle(file));
        bytes
    }
}

/// Appends to the file, which is made when there is none, and is read from its start afterwards; gives the memory back, empty.
fn spill(mut memory: Vec<u8>, file: Option<File>, folder: PathBuf) -> io::Result<(Vec<u8>, File)> {
    let mut file = file.map_or_else(|| tempfile::tempfile_in(folder), Ok)?;
    file.seek(io::SeekFrom::End(0))?;
    file.write_all(&memory)?;
    file.rewind()?;
    memory.clear();
    Ok((memory, file))
}

fn read_piece(mut file: File, length: usize) -> io::Result<(File, Bytes)> {
    let mut piece = vec![0; length];
    file.read_exact(&mut piece)?;
    Ok((file, Bytes::from(piece)))
}

fn too_long(limit: u64) -> Error {
    Error::new(
        "result_too_long",
        StatusCode::INSUFFICIENT_STORAGE,
        format!("the result is longer than the {limit} bytes that may wait for its end"),
    )
    .hint("ask without `_wait`, ask for less, or raise `spool_limit`")
}

fn failed(cause: io::Error) -> Error {
    Error::new("spool_failed", StatusCode::INSUFFICIENT_STORAGE, "the result could not be kept until its end")
        .hint("ask without `_wait`")
        .cause(cause)
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use super::*;

    async fn spooled(settings: &Spooling, chunks: usize) -> Result<Spooled, Error> {
        let mut spool = Spool::new(settings);
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
        let settings = Spooling { limit: 2_000_000, folder: Some(folder.path().to_owned()) };
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
        let settings = Spooling { limit: 1_999_999, folder: None };
        let error = spooled(&settings, 200).await.err().unwrap();
        assert_eq!((error.code(), error.status().as_u16()), ("result_too_long", 507));
        let settings = Spooling { folder: Some("/nowhere/at/all".into()), ..Spooling::default() };
        let error = spooled(&settings, 200).await.err().unwrap();
        assert_eq!((error.code(), error.status().as_u16()), ("spool_failed", 507));
    }
}
