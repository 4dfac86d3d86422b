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
use super::proof::Proof;
use super::request::Response;
use super::{Args, Complete, Download, Stop};

/// The byte order mark, with which CSV can begin.
const MARK: &[u8] = "\u{feff}".as_bytes();
/// The longest header of CSV, in bytes.
const LONGEST_HEADER: u64 = 4 << 20;

/// The parameters that a request for several shards can't have, and the reason.
const REFUSED: [(&str, &str); 6] = [
    ("_signature", "so each shard would need a signature of its own"),
    ("_shard", "so it's already for one shard"),
    ("_snapshot", "so it's already for one shard"),
    ("_after", "so it continues a response, but shards begin at the start"),
    ("_explain", "so the response is a plan, which has no shards"),
    ("_wait", "so the other shards would wait for the end of the first one"),
];
/// The hint if shards differ that should be the same.
const CHANGED: &str = "the endpoint was changed: the same command begins from the start";

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
    for (name, why) in REFUSED {
        if args.url.parameter(name).is_some() {
            let hint = format!("leave out --parallel, or `{name}`");
            return refused(format!("the URL has `{name}`, {why}\n    hint: {hint}"));
        }
    }
    Ok(())
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
    let complete = sum(parts.iter().map(|part| &part.complete))?;
    whole.resumed = parts.iter().map(|part| part.resumed).sum();
    let files: Vec<_> = parts.into_iter().filter_map(|part| part.file).collect();
    let has_header = format == Some(ShardFormat::Csv { has_header: true });
    whole.output.append(move |file| join(&file, files, has_header)).await?;
    Ok(complete)
}

/// All shards as one response. Its proof is their weakest.
fn sum<'a>(shards: impl Iterator<Item = &'a Complete>) -> Result<Complete, Fault> {
    let mut all = Complete {
        rows: 0,
        proof: Proof::EndRecordAndDigest,
        columns: None,
        is_full_page: false,
        requests: 0,
    };
    for shard in shards {
        if all.requests > 0 && shard.columns != all.columns {
            return Err(Fault::lasting("the shards have different columns", CHANGED));
        }
        all.columns.clone_from(&shard.columns);
        all.rows += shard.rows;
        all.proof = all.proof.min(shard.proof);
        all.requests += 1;
    }
    Ok(all)
}

/// Reads one shard.
async fn read(mut part: Download<'_>) -> Result<Part, Stop> {
    if let Some(shard) = &part.shard
        && shard.index > 0
    {
        let first = wait(shard.first).await;
        part.requests.is_framed = matches!(first.format, ShardFormat::Lines(_));
        // With a header, the mark is a part of it.
        if first.format == (ShardFormat::Csv { has_header: false }) {
            part.requests.omit_mark();
        }
        part.output.safe.snapshot = Some(first.snapshot);
    }
    let complete = part.attempt().await.map_err(|stop| match stop {
        Stop::Fault(fault) if fault.is_refused_cursor() || fault.is_about("_snapshot") => {
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
                CHANGED,
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
                return Err(Fault::lasting("the shards have different headers", CHANGED).into());
            }
            shard.seek(SeekFrom::Start(skipped))?;
        }
        check_last(&shard)?;
        copied += io::copy(&mut shard, &mut file)?;
    }
    Ok(copied)
}

/// Checks that the rest of a shard ends with a line break, else the next row would continue its last
/// one. Only a byte order mark may be alone.
fn check_last(mut shard: &File) -> Result<(), Stop> {
    let start = shard.stream_position()?;
    let (end, longest) = (shard.seek(SeekFrom::End(0))?, MARK.len() as u64);
    shard.seek(SeekFrom::Start(end.saturating_sub(longest).max(start)))?;
    let mut last = Vec::new();
    shard.read_to_end(&mut last)?;
    if last.is_empty() || last.ends_with(b"\n") || (end == longest && last == MARK) {
        shard.seek(SeekFrom::Start(start))?;
        return Ok(());
    }
    let hint = "a proxy or an upstream changes the response: `rowstream doctor --via URL` checks the way";
    Err(Fault::lasting("a shard doesn't end with a line break, so its last row isn't whole", hint).into())
}

/// The header of CSV, with its line break. Quoted names may contain others.
fn read_header(file: &File) -> Result<Vec<u8>, Stop> {
    let mut header = Vec::new();
    let mut is_quoted = false;
    for byte in BufReader::new(file.take(LONGEST_HEADER)).bytes() {
        let byte = byte?;
        header.push(byte);
        is_quoted ^= byte == b'"';
        if byte == b'\n' && !is_quoted {
            return Ok(header);
        }
    }
    if (header.len() as u64) < LONGEST_HEADER {
        return Ok(header);
    }
    let detail = format!("the header of a shard is longer than {} MiB", LONGEST_HEADER >> 20);
    Err(Fault::lasting(detail, "select fewer columns, or request .ndjson").into())
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
            (&["1\n", "", "1\n"], false, "1\n1\n"),
            (&["\u{feff}1\n", "2\n"], false, "\u{feff}1\n2\n"),
            (&["\u{feff}", "2\n"], false, "\u{feff}2\n"),
        ] {
            assert_eq!(joined(shards, has_header).as_deref(), Ok(text));
        }
        let long = "n".repeat(LONGEST_HEADER as usize);
        for (shards, has_header, reason) in [
            (&["n\n1\n", "m\n1\n"][..], true, "the shards have different headers"),
            (&["n\n1", "n\n2\n"], true, "a shard doesn't end with a line break"),
            (&["1\n2", "3\n"], false, "a shard doesn't end with a line break"),
            (&["1\n", "3"], false, "a shard doesn't end with a line break"),
            (&["1\n\u{feff}", "3\n"], false, "a shard doesn't end with a line break"),
            (&["n", "n"], true, "a shard doesn't end with a line break"),
            (&[&format!("{long}\n1\n"), &format!("{long}\n1\n")], true, "is longer than 4 MiB"),
        ] {
            let told = joined(shards, has_header).unwrap_err();
            assert!(told.contains(reason), "{told}");
        }
    }

    #[test]
    fn the_file_has_the_weakest_proof() {
        let shard = |proof, columns: &str| Complete {
            rows: 2,
            proof,
            columns: Some(columns.into()),
            is_full_page: false,
            requests: 1,
        };
        let shards = [shard(Proof::Trailers, "a"), shard(Proof::LastChunk, "a"), shard(Proof::Length, "a")];
        let all = sum(shards.iter()).unwrap();
        assert_eq!((all.rows, all.proof, all.requests), (6, Proof::LastChunk, 3));
        let other = [shard(Proof::EndRecord, "a"), shard(Proof::EndRecord, "b")];
        assert_eq!(sum(other.iter()).err().unwrap().to_string(), "the shards have different columns");
    }
}
