//! `--parallel`: several requests read the shards of a table, and their rows form one file.
//!
//! ```text
//! shard 1 ──its snapshot──► shards 2 to n     each in a file without a name
//!    └────────────┬─────────────┘
//!             FILE.part ──► FILE              once all are complete
//! ```
//!
//! 1. All requests read the snapshot that the first one took, also after a cut.
//! 2. Each shard is verified and resumed by itself. If one fails, the others are cancelled.
//! 3. No mark of a shard is saved, because its snapshot soon expires.
//! 4. The rows of the file are in the order of the shards.

use std::fmt;
use std::fs::File;
use std::io::{self, BufReader, Read as _, Seek as _, SeekFrom};

use futures_util::future::try_join_all;
use tokio::sync::watch;

use super::super::Failure;
use super::fault::Fault;
use super::lines::Form;
use super::output::Output;
use super::request::Response;
use super::{Args, Complete, Download, Stop};

/// The longest header of CSV, in bytes.
const LONGEST_HEADER: u64 = 4 << 20;

/// One shard of a download.
pub(super) struct Shard<'a> {
    /// From 0.
    pub(super) index: u32,
    pub(super) of: u32,
    /// The first response of the first shard.
    first: &'a watch::Sender<Option<First>>,
}

/// The form of shards whose rows can be joined.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ShardFormat {
    Lines(Form),
    Csv { has_header: bool },
}

/// Facts about the first shard that are the same for the others.
#[derive(Debug, Clone, PartialEq, Eq)]
struct First {
    snapshot: String,
    format: ShardFormat,
}

/// A shard that is complete.
struct Part {
    complete: Complete,
    resumed: u32,
    file: Option<File>,
}

/// Checks that the arguments allow several requests.
pub(super) fn check(args: &Args) -> Result<(), Failure> {
    let refused = |text: String| Err(Failure::Message(text));
    if args.file().is_none() {
        return refused("--parallel needs a file\n    hint: write -o FILE".to_owned());
    }
    let taken = ["_shard", "_snapshot"].into_iter().find(|name| args.url.parameter(name).is_some());
    match taken {
        Some(name) => refused(format!(
            "the URL has `{name}`, so it's already for one shard\n    hint: leave out `{name}`, or --parallel"
        )),
        None => Ok(()),
    }
}

/// Downloads the shards of the endpoint into the file. `None`: the endpoint has no shards.
pub(super) async fn download(whole: &mut Download<'_>) -> Result<Option<Complete>, Stop> {
    let mut shards = whole.args.parallel;
    loop {
        let fault = match Box::pin(read_all(whole, shards)).await {
            Err(Stop::Fault(fault)) if fault.is_about("_shard") => fault,
            ended => return ended.map(Some),
        };
        let Some(most) = fault.shards.filter(|most| (2..shards).contains(most)) else {
            whole.note("the endpoint has no shards, so one request reads all rows");
            whole.tally.restart(1);
            return Ok(None);
        };
        whole.note(format_args!("the endpoint has at most {most} shards"));
        shards = most;
    }
}

/// Reads this many shards side by side, and joins them.
async fn read_all(whole: &mut Download<'_>, shards: u32) -> Result<Complete, Stop> {
    let (args, tally) = (whole.args, whole.tally);
    let Some(path) = args.file() else { return Err(io::Error::from(io::ErrorKind::InvalidInput).into()) };
    tally.restart(shards as usize);
    let first = watch::Sender::new(None);
    let mut parts = Vec::new();
    for index in 0..shards {
        let requests = whole.requests.of_shard(index, shards);
        let mut part = Download::new(args, requests, Output::beside(path)?, tally);
        part.shard = Some(Shard { index, of: shards, first: &first });
        parts.push(read(part));
    }
    // Rows of an earlier download are of no use, once the snapshot exists.
    let restart = async {
        wait(&first).await;
        whole.output.restart().map_err(Stop::from)
    };
    let (parts, ()) = tokio::try_join!(try_join_all(parts), restart)?;
    let format = first.borrow().as_ref().map(|first| first.format);
    let (rows, proof) = (parts.iter().map(|part| part.complete.rows).sum(), parts[0].complete.proof);
    whole.resumed = parts.iter().map(|part| part.resumed).sum();
    let files: Vec<_> = parts.into_iter().filter_map(|part| part.file).collect();
    let has_header = format == Some(ShardFormat::Csv { has_header: true });
    whole.output.append(move |file| join(&file, files, has_header)).await?;
    Ok(Complete { rows, proof, is_full_page: false, requests: shards })
}

/// Reads one shard.
async fn read(mut part: Download<'_>) -> Result<Part, Stop> {
    if let Some(shard) = &part.shard
        && shard.index > 0
    {
        let first = wait(shard.first).await;
        part.requests.is_framed = matches!(first.format, ShardFormat::Lines(_));
        part.output.safe.snapshot = Some(first.snapshot);
    }
    let complete = part.attempt().await.map_err(|stop| match stop {
        Stop::Fault(fault) if fault.is_refused_cursor() => {
            fault.with_hint("the same command begins from the start, with a new snapshot").into()
        }
        stop => stop,
    })?;
    let file = part.output.into_shard()?;
    let resumed = part.resumed;
    Ok(Part { complete, resumed, file })
}

impl Shard<'_> {
    /// Checks a response of the shard, and returns its snapshot. The first response lets the other
    /// shards begin.
    pub(super) fn begin(&self, format: ShardFormat, response: &Response) -> Result<String, Fault> {
        let Some(snapshot) = response.header("rowstream-snapshot") else {
            return Err(Fault::lasting(
                "the header Rowstream-Snapshot is missing, so the response isn't a shard",
                "leave out --parallel; if a proxy removes headers, `rowstream doctor --via URL` shows it",
            ));
        };
        let own = First { snapshot: snapshot.to_owned(), format };
        let first = self.first.borrow().clone();
        match first {
            Some(first) if first != own => Err(Fault::lasting(
                "the response has another snapshot or format than the first shard",
                "the endpoint was changed: the same command begins from the start",
            )),
            Some(_) => Ok(own.snapshot),
            None => {
                self.first.send_replace(Some(own.clone()));
                Ok(own.snapshot)
            }
        }
    }
}

/// `shard 2/3`.
impl fmt::Display for Shard<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "shard {}/{}", self.index + 1, self.of)
    }
}

impl ShardFormat {
    /// The form of a response.
    pub(super) fn of(form: Option<Form>, content_type: &str) -> Result<Self, Fault> {
        let mut words = content_type.split(';').map(str::trim);
        match form {
            Some(form) => Ok(Self::Lines(form)),
            None if words.next() == Some("text/csv") => {
                Ok(Self::Csv { has_header: !words.any(|word| word == "header=absent") })
            }
            None => Err(Fault::lasting(
                format_args!("shards in the format {content_type:?} can't be joined"),
                "request .ndjson, .json-seq or .csv, or leave out --parallel",
            )),
        }
    }
}

/// Waits until the first shard has a response.
async fn wait(first: &watch::Sender<Option<First>>) -> First {
    let mut receiver = first.subscribe();
    loop {
        let begun = receiver.borrow_and_update().clone();
        match begun {
            Some(first) => return first,
            // The sender is borrowed, so it isn't closed.
            None => drop(receiver.changed().await),
        }
    }
}

/// Appends the rows of all shards to a file. If they have a header, the file gets the first one's.
/// Returns the number of bytes.
fn join(mut file: &File, shards: Vec<File>, has_header: bool) -> Result<u64, Stop> {
    let mut header: Option<Vec<u8>> = None;
    let mut copied = 0;
    for mut shard in shards {
        if has_header {
            let own = read_header(&shard)?;
            let skipped = header.as_ref().map_or(0, Vec::len) as u64;
            if *header.get_or_insert_with(|| own.clone()) != own {
                let hint = "the endpoint was changed: the same command begins from the start";
                return Err(Fault::lasting("the shards have different headers", hint).into());
            }
            shard.seek(SeekFrom::Start(skipped))?;
        }
        copied += io::copy(&mut shard, &mut file)?;
    }
    Ok(copied)
}

/// The header of CSV, with its line break. Quoted names may contain others.
fn read_header(file: &File) -> io::Result<Vec<u8>> {
    let mut header = Vec::new();
    let mut is_quoted = false;
    for byte in BufReader::new(file.take(LONGEST_HEADER)).bytes() {
        let byte = byte?;
        header.push(byte);
        is_quoted ^= byte == b'"';
        if byte == b'\n' && !is_quoted {
            break;
        }
    }
    Ok(header)
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    /// The file of shards with these rows.
    fn joined(shards: &[&str], has_header: bool) -> Result<String, String> {
        let shard = |text: &&str| {
            let mut file = tempfile::tempfile().unwrap();
            file.write_all(text.as_bytes()).unwrap();
            file.rewind().unwrap();
            file
        };
        let mut file = shard(&"");
        let copied =
            join(&file, shards.iter().map(shard).collect(), has_header).map_err(|stop| match stop {
                Stop::Fault(fault) => fault.to_string(),
                Stop::Output(error) => error.to_string(),
            })?;
        file.rewind().unwrap();
        let text = io::read_to_string(file).unwrap();
        assert_eq!(copied, text.len() as u64);
        Ok(text)
    }

    #[test]
    fn the_file_has_one_header() {
        for (shards, has_header, text) in [
            (&["n\n1\n", "n\n", "n\n2\n"][..], true, "n\n1\n2\n"),
            (&["\"a\n\"\"b\"\r\n1\r\n", "\"a\n\"\"b\"\r\n2\r\n"], true, "\"a\n\"\"b\"\r\n1\r\n2\r\n"),
            (&["\u{feff}n\n1\n", "\u{feff}n\n2\n"], true, "\u{feff}n\n1\n2\n"),
            (&["1\n", "1\n"], false, "1\n1\n"),
        ] {
            assert_eq!(joined(shards, has_header).as_deref(), Ok(text));
        }
        assert_eq!(joined(&["n\n1\n", "m\n1\n"], true).unwrap_err(), "the shards have different headers");
    }
}
