//! The rows' way to standard output, or into a file that gets its name once it's complete.
//!
//! ```text
//! FILE.part       the rows so far, locked by the process that writes them
//! FILE.part.json  the URL, and the last mark whose rows are surely on the disk
//! FILE            both become this file, after the last row
//! ```
//!
//! 1. `FILE.part.json` never describes bytes that `FILE.part` may lose: the rows are synced first.
//! 2. It's replaced by renaming, so it's whole at any moment.
//! 3. Both are only touched under the lock of `FILE.part`.
//! 4. The rows of a shard are in a file without a name, which ends with the process.
//! 5. Standard output can't take back rows. If they may have to be, they wait for their mark.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use memchr::memrchr;
use rowstream_core::diagnostic::shown;
use serde::{Deserialize, Serialize};
use tokio::task::{JoinHandle, spawn_blocking};

use super::super::Failure;
use super::super::output::ResultOutput;

/// The bytes that are written to a file at once.
const PIECE: usize = 256 << 10;
/// The most bytes that wait for their mark. More are written to standard output without one.
const MOST_HELD: usize = 128 << 20;
/// A sync begins after this time, or after this many bytes, once the one before has ended. So the disk
/// writes while we download, and the last sync is short.
const INTERVAL: Duration = Duration::from_secs(1);
const UNSAVED: u64 = 16 << 20;
/// The longest `FILE.part.json` that we read, in bytes.
const LONGEST_STATE: u64 = 256 << 10;

/// The rows that standard output gets later.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Hold {
    Nothing,
    /// The last row, because an error record may follow that says it isn't whole.
    LastRow,
    /// Those after the last mark.
    UntilMark,
}

/// A place in the output after which the download can be resumed.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Position {
    pub(super) bytes: u64,
    pub(super) rows: u64,
    /// The cursor after these rows. Without one, it's the beginning.
    pub(super) cursor: Option<String>,
    /// The snapshot of a shard.
    pub(super) snapshot: Option<String>,
}

#[derive(Serialize, Deserialize)]
struct State {
    url: String,
    position: Position,
}

/// The destination of the rows.
enum Target {
    Stdout,
    /// `FILE.part`.
    Part(PartFile),
    /// The file of a shard, without a name.
    Unnamed(File),
}

pub(super) struct Output {
    target: Target,
    /// Bytes that aren't written yet.
    pub(super) buffer: Vec<u8>,
    pub(super) written: u64,
    /// The last mark.
    pub(super) safe: Position,
}

impl Output {
    pub(super) fn stdout() -> Self {
        Self { target: Target::Stdout, buffer: Vec::new(), written: 0, safe: Position::default() }
    }

    /// The rows of a shard, in a file without a name beside this one.
    pub(super) fn beside(path: &Path) -> io::Result<Self> {
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        let file = tempfile::tempfile_in(folder.unwrap_or(Path::new(".")))?;
        Ok(Self { target: Target::Unnamed(file), ..Self::stdout() })
    }

    /// Continues the file, if an earlier process began it with the same URL. Otherwise `note` gets
    /// the reason why it begins from the start.
    pub(super) fn file(path: &Path, url: &str, note: impl FnMut(&str)) -> Result<Self, Failure> {
        let mut file = PartFile::open(path, url)?;
        let safe = match file.read_state() {
            Ok(position) => position,
            Err(reason) => {
                reason.into_iter().for_each(note);
                Position::default()
            }
        };
        if safe == Position::default() {
            file.forget();
        }
        truncate(&file.file, safe.bytes)?;
        file.saved_bytes = safe.bytes;
        Ok(Self { target: Target::Part(file), buffer: Vec::new(), written: safe.bytes, safe })
    }

    /// The bytes so far.
    pub(super) fn bytes(&self) -> u64 {
        self.written + self.buffer.len() as u64
    }

    /// Writes the bytes that needn't wait.
    pub(super) async fn flush(&mut self, hold: Hold) -> io::Result<()> {
        let is_due = match &self.target {
            Target::Stdout => return self.print(self.ready(hold)).await,
            Target::Part(part) => part.is_due(self.written),
            Target::Unnamed(_) => false,
        };
        if is_due || self.buffer.len() >= PIECE {
            self.write()?;
        }
        if let Target::Part(part) = &mut self.target
            && is_due
        {
            part.save(&self.safe, self.written).await?;
        }
        Ok(())
    }

    /// The bytes that standard output may have.
    fn ready(&self, hold: Hold) -> usize {
        match hold {
            Hold::UntilMark if self.buffer.len() < MOST_HELD => {
                self.safe.bytes.saturating_sub(self.written) as usize
            }
            Hold::LastRow if !self.buffer.is_empty() => {
                memrchr(b'\n', &self.buffer[..self.buffer.len() - 1]).map_or(0, |at| at + 1)
            }
            Hold::Nothing | Hold::LastRow | Hold::UntilMark => self.buffer.len(),
        }
    }

    /// The file of the rows. `None`: standard output.
    fn handle(&self) -> Option<&File> {
        match &self.target {
            Target::Stdout => None,
            Target::Part(part) => Some(&part.file),
            Target::Unnamed(file) => Some(file),
        }
    }

    /// Writes all bytes to the file.
    fn write(&mut self) -> io::Result<()> {
        if let Some(mut file) = self.handle() {
            file.write_all(&self.buffer)?;
            self.written += self.buffer.len() as u64;
            self.buffer.clear();
        }
        Ok(())
    }

    /// Writes bytes to standard output. Another thread does it, so that signals are handled even if
    /// the reader reads nothing.
    async fn print(&mut self, length: usize) -> io::Result<()> {
        if length == 0 {
            return Ok(());
        }
        let mut buffer = std::mem::take(&mut self.buffer);
        let writing = spawn_blocking(move || {
            let mut out = ResultOutput::new();
            out.write_all(&buffer[..length])?;
            out.flush()?;
            buffer.drain(..length);
            Ok::<_, io::Error>(buffer)
        });
        self.buffer = writing.await??;
        self.written += length as u64;
        Ok(())
    }

    /// Takes back the rows after the last mark. Returns false if they can't be taken back.
    pub(super) fn roll_back(&mut self) -> io::Result<bool> {
        if let Some(kept) = self.safe.bytes.checked_sub(self.written) {
            self.buffer.truncate(kept as usize);
            return Ok(true);
        }
        self.buffer.clear();
        let Some(file) = self.handle() else { return Ok(false) };
        truncate(file, self.safe.bytes)?;
        self.written = self.safe.bytes;
        Ok(true)
    }

    /// Takes back all rows of a file.
    pub(super) fn restart(&mut self) -> io::Result<()> {
        if let Target::Part(part) = &self.target {
            part.forget();
        }
        self.safe = Position::default();
        self.roll_back().map(drop)
    }

    /// Ends the file of a shard, which is read from its beginning. `None`: it has another target.
    pub(super) fn into_shard(mut self) -> io::Result<Option<File>> {
        self.write()?;
        let Target::Unnamed(mut file) = self.target else { return Ok(None) };
        file.rewind()?;
        Ok(Some(file))
    }

    /// Appends the rows of shards. `join` copies their bytes on another thread, so that signals are
    /// handled meanwhile, and returns the number.
    pub(super) async fn append<E: From<io::Error> + Send + 'static>(
        &mut self,
        join: impl FnOnce(File) -> Result<u64, E> + Send + 'static,
    ) -> Result<(), E> {
        if let Some(file) = self.handle() {
            let file = file.try_clone()?;
            self.written += spawn_blocking(move || join(file)).await.map_err(io::Error::from)??;
        }
        Ok(())
    }

    /// Gives a file its name, after its last bytes.
    pub(super) async fn finish(mut self) -> io::Result<()> {
        self.write()?;
        let Target::Part(mut file) = self.target else { return Ok(()) };
        file.end_saving().await?;
        file.file.sync_all()?;
        fs::rename(&file.part, &file.path)?;
        file.forget();
        Ok(())
    }

    /// Ends a file without the last row. Saves the last mark, for another process. Returns false if there's
    /// none. Then nothing of the file remains.
    pub(super) async fn abandon(self) -> io::Result<bool> {
        let Target::Part(mut file) = self.target else { return Ok(false) };
        // An error of these writes was reported before, and the last mark is still right.
        let _ = file.end_saving().await;
        if self.safe.cursor.is_none() {
            file.forget();
            fs::remove_file(&file.part)?;
            return Ok(false);
        }
        file.file.write_all(&self.buffer)?;
        file.save(&self.safe, self.written).await?;
        file.end_saving().await?;
        Ok(true)
    }
}

struct PartFile {
    path: PathBuf,
    part: PathBuf,
    state: PathBuf,
    url: String,
    file: File,
    /// When the last sync began.
    saved_at: Instant,
    /// The bytes until then.
    saved_bytes: u64,
    saving: Option<JoinHandle<io::Result<()>>>,
}

impl PartFile {
    fn open(path: &Path, url: &str) -> Result<Self, Failure> {
        if fs::metadata(path).is_ok_and(|file| !file.is_file()) {
            return Err(Failure::Message(format!(
                "{} isn't a regular file, so it can't be replaced\n    hint: write to standard output: `rowstream get URL > FILE`",
                path.display()
            )));
        }
        let part = with_suffix(path, ".part");
        let file = lock(&part)?;
        let state = with_suffix(&part, ".json");
        let (path, url) = (path.to_owned(), url.to_owned());
        Ok(Self { path, part, state, url, file, saved_at: Instant::now(), saved_bytes: 0, saving: None })
    }

    /// The last mark of an earlier process. Otherwise the reason why there's none, if the user
    /// should know it.
    fn read_state(&self) -> Result<Position, Option<&'static str>> {
        let text =
            File::open(&self.state).and_then(|file| io::read_to_string(io::Read::take(file, LONGEST_STATE)));
        let state: State = text.ok().and_then(|text| serde_json::from_str(&text).ok()).ok_or(None)?;
        if state.url != self.url {
            return Err(Some("an earlier download had another URL"));
        }
        let length = self.file.metadata().map_err(|_| None)?.len();
        if length < state.position.bytes {
            Err(Some("rows of an earlier download are missing"))
        } else {
            Ok(state.position)
        }
    }

    /// True if the next mark should be saved.
    fn is_due(&self, bytes: u64) -> bool {
        let is_saving = self.saving.as_ref().is_some_and(|saving| !saving.is_finished());
        let unsaved = bytes.saturating_sub(self.saved_bytes);
        !is_saving && (self.saved_at.elapsed() >= INTERVAL || unsaved >= UNSAVED)
    }

    /// Begins to sync the rows so far on another thread, and to save their last mark if there's one.
    async fn save(&mut self, safe: &Position, bytes: u64) -> io::Result<()> {
        self.end_saving().await?;
        (self.saved_at, self.saved_bytes) = (Instant::now(), bytes);
        let state = State { url: self.url.clone(), position: safe.clone() };
        let (file, path) = (self.file.try_clone()?, self.state.clone());
        self.saving = Some(spawn_blocking(move || {
            file.sync_data()?;
            if state.position.cursor.is_some() { write_state(&path, &state) } else { Ok(()) }
        }));
        Ok(())
    }

    async fn end_saving(&mut self) -> io::Result<()> {
        match self.saving.take() {
            Some(saving) => saving.await?,
            None => Ok(()),
        }
    }

    /// Removes the saved mark.
    fn forget(&self) {
        let _ = fs::remove_file(&self.state);
        let _ = fs::remove_file(with_suffix(&self.state, ".new"));
    }
}

fn truncate(mut file: &File, length: u64) -> io::Result<()> {
    file.set_len(length)?;
    file.seek(SeekFrom::Start(length)).map(drop)
}

fn write_state(path: &Path, state: &State) -> io::Result<()> {
    let new = with_suffix(path, ".new");
    // A URL may contain secrets.
    let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&new)?;
    file.write_all(serde_json::to_string(state)?.as_bytes())?;
    file.sync_data()?;
    fs::rename(&new, path)
}

/// Opens and locks a file. Another process that had the lock may have given it another name since.
fn lock(path: &Path) -> Result<File, Failure> {
    let name = shown(&path.to_string_lossy());
    let failed = |error: io::Error| Failure::Message(format!("{name} can't be written: {error}"));
    loop {
        let options = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path);
        let file = options.map_err(failed)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                return Err(Failure::Message(format!(
                    "another process is writing {name}\n    hint: wait for its end, or choose another file"
                )));
            }
            Err(TryLockError::Error(error)) => return Err(failed(error)),
        }
        let locked = file.metadata().map_err(failed)?;
        if fs::metadata(path).is_ok_and(|named| (named.dev(), named.ino()) == (locked.dev(), locked.ino())) {
            return Ok(file);
        }
    }
}

fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}
