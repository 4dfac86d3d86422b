//! `rowstream get`: downloads a response, so that exit status 0 means that it's complete.
//!
//! | module | contents |
//! |---|---|
//! | [`request`] | the URL, the token, and a connection for each request |
//! | [`lines`] | framed responses (NDJSON, JSON sequences), which can be resumed |
//! | [`document`] | other responses, and the proof that they're complete |
//! | [`proof`] | the proofs that a response is complete |
//! | [`shards`] | several requests, whose rows form one file |
//! | [`output`] | standard output, or a file that gets its name at the end |
//! | [`tally`] | the progress of all requests |
//! | [`fault`] | the reason why a response is incomplete |

mod document;
mod fault;
mod lines;
mod output;
mod proof;
mod request;
mod shards;
mod tally;

use std::future::pending;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use indicatif::HumanBytes;
use serde_json::Value;
use tokio::time::sleep;

use self::document::Document;
use self::fault::Fault;
use self::lines::{Form, LONGEST_ROW, Lines};
use self::output::{Hold, Output, Position};
use self::proof::{DigestNeed, Proof};
use self::request::{EndpointUrl, Requests, Response};
use self::shards::{Shard, ShardFormat};
use self::tally::Tally;
use super::Failure;
use super::output::is_left;
use super::progress::{self, Progress};
use super::query::{EndSignals, reader_left};

/// The pause before the first further attempt, which doubles with each one.
const FIRST_PAUSE: Duration = Duration::from_millis(200);
const LONGEST_PAUSE: Duration = Duration::from_secs(10);

/// Downloads a response. Exit status 0 means that it's complete.
///
/// After a cut, NDJSON and JSON sequences of endpoints with a `key` are resumed, and other
/// responses start over. Records of the server aren't written.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The URL: http://HOST:PORT/PATH or https://…
    url: EndpointUrl,
    /// The file to write, instead of stdout. Until the last row it's FILE.part, and the same
    /// command continues it.
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// The file that contains the bearer token, read for each request; a pipe is read once. It's in the
    /// variable ROWSTREAM_TOKEN otherwise.
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// A PEM file of the authorities to trust for the server's certificate, instead of the
    /// system's.
    #[arg(long, value_name = "FILE")]
    ca: Option<PathBuf>,
    /// The number of further attempts in a row that bring nothing new.
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u32).range(0..=1000))]
    retries: u32,
    /// The number of requests that download the file side by side. Each reads a shard of the same
    /// snapshot, if the endpoint has `shards`. 1 to 64; it needs -o.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=64))]
    parallel: u32,
    /// The longest wait for the first row, in seconds. After it, the next attempt begins.
    #[arg(long, value_name = "SECONDS", default_value_t = 600, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    timeout: u64,
    /// Report only errors.
    #[arg(long)]
    quiet: bool,
}

impl Args {
    /// The file. `None` is standard output.
    fn file(&self) -> Option<&Path> {
        self.output.as_deref().filter(|path| *path != Path::new("-"))
    }
}

pub(super) fn run(args: &Args) -> Result<(), Failure> {
    if args.parallel > 1 {
        shards::check(args)?;
    }
    let requests = Requests::new(args)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let ended = runtime.block_on(drive(args, requests));
    // If the reader of standard output reads nothing, the thread that writes to it is abandoned.
    runtime.shutdown_background();
    ended
}

/// Downloads until the last row, a fault, a signal, or until the reader of standard output leaves.
async fn drive(args: &Args, requests: Requests) -> Result<(), Failure> {
    let mut signals = EndSignals::new()?;
    let progress = if args.quiet { Progress::hidden() } else { Progress::new(args.file().is_none()) };
    let output = match args.file() {
        None => Output::stdout(),
        Some(path) => Output::file(path, &args.url.text, |reason| {
            eprintln!("{}: {reason}, so it begins from the start", path.display());
        })?,
    };
    let tally = Tally::new(progress);
    let mut download = Download::new(args, requests, output, &tally);
    let left = async {
        match args.file() {
            None => reader_left().await,
            Some(_) => pending().await,
        }
    };
    let ended = tokio::select! {
        biased;
        ended = download.run() => ended.map_err(Failure::from),
        signal = signals.next() => Err(Failure::Signalled(signal, "download")),
        // The response isn't complete, so this is a failure.
        () = left => Err(Failure::Reported),
    };
    tally.progress.clear();
    match ended {
        Ok(summary) => {
            download.output.finish().await.map_err(Stop::Output)?;
            if !args.quiet {
                eprintln!("{summary}");
            }
            Ok(())
        }
        Err(failure) => {
            let rows = download.output.safe.rows;
            if let (Ok(true), false) = (download.output.abandon().await, args.quiet) {
                eprintln!("{} are kept: the same command continues after them", progress::count(rows));
            }
            Err(failure)
        }
    }
}

/// The end of a download before its last row.
enum Stop {
    Fault(Fault),
    /// The output can't be written.
    Output(io::Error),
}

impl From<Fault> for Stop {
    fn from(fault: Fault) -> Self {
        Self::Fault(fault)
    }
}

impl From<io::Error> for Stop {
    fn from(error: io::Error) -> Self {
        Self::Output(error)
    }
}

impl From<Stop> for Failure {
    fn from(stop: Stop) -> Self {
        match stop {
            Stop::Output(error) if is_left(&error) => Self::Reported,
            Stop::Output(error) => Self::Message(format!(
                "the output can't be written: {error}\n    hint: check the space and the permissions of its folder"
            )),
            Stop::Fault(fault) => Self::Message(format!("{fault:#}")),
        }
    }
}

struct Download<'a> {
    args: &'a Args,
    requests: Requests,
    output: Output,
    tally: &'a Tally,
    /// The part of the rows. `None`: all of them.
    shard: Option<Shard<'a>>,
    /// The further requests after cuts.
    resumed: u32,
    /// True if an earlier process wrote rows, and the server hasn't accepted their cursor yet.
    is_continued: bool,
}

/// A complete response.
struct Complete {
    rows: u64,
    proof: Proof,
    /// Those of the record, if there's one.
    columns: Option<Value>,
    is_full_page: bool,
    /// The requests that read it side by side.
    requests: u32,
}

impl<'a> Download<'a> {
    fn new(args: &'a Args, requests: Requests, output: Output, tally: &'a Tally) -> Self {
        let is_continued = output.safe.cursor.is_some();
        tally.keep(0, output.safe.bytes);
        Self { args, requests, output, tally, shard: None, resumed: 0, is_continued }
    }

    /// Downloads all rows, and returns the summary. Standard output gets what it may have.
    async fn run(&mut self) -> Result<String, Stop> {
        let began = Instant::now();
        if self.args.parallel > 1
            && let Some(complete) = shards::download(self).await?
        {
            return Ok(self.summary(&complete, began.elapsed()));
        }
        if self.is_continued {
            self.note(format_args!("continues after {}", progress::count(self.output.safe.rows)));
        }
        let ended = self.attempt().await;
        match &ended {
            Ok(_) => self.output.flush(Hold::Nothing).await?,
            Err(Stop::Fault(_)) => self.output.flush(Hold::UntilMark).await?,
            Err(Stop::Output(_)) => {}
        }
        Ok(self.summary(&ended?, began.elapsed()))
    }

    /// Requests the rows until all of them have arrived.
    async fn attempt(&mut self) -> Result<Complete, Stop> {
        let (mut failures, mut before) = (0, self.tally.advance(self.part()));
        loop {
            let fault = match self.receive().await {
                Ok(complete) => {
                    self.tally.keep(self.part(), self.output.bytes());
                    return Ok(complete);
                }
                Err(Stop::Fault(fault)) => fault,
                Err(stop) => return Err(stop),
            };
            if fault.is_refused_cursor() && self.output.safe.cursor.is_some() {
                self.begin_again(fault)?;
                continue;
            }
            self.tally.keep(self.part(), self.output.safe.bytes);
            // A shard may have to wait for a connection until another one has been read.
            let now = self.tally.advance(self.part());
            if now > before {
                failures = 0;
            }
            before = now;
            let Some(after) = fault.retry else { return Err(fault.into()) };
            if failures == self.args.retries {
                return Err(fault.or_hint("try again later, or with more --retries").into());
            }
            if !self.output.roll_back()? {
                return Err(fault
                    .or_hint("standard output can't take back rows; with -o FILE they're requested again")
                    .into());
            }
            let pause = pause(failures).max(after);
            self.note(format_args!("{fault}; the next attempt is in {:.1} s", pause.as_secs_f64()));
            sleep(pause).await;
            (failures, self.resumed) = (failures + 1, self.resumed + 1);
        }
    }

    /// Begins from the start, if an earlier process wrote the rows. Otherwise only the user can decide
    /// to do so.
    fn begin_again(&mut self, refusal: Fault) -> Result<(), Stop> {
        if !std::mem::take(&mut self.is_continued) {
            self.output.safe.cursor = None;
            return Err(refusal.or_hint("the same command begins from the start").into());
        }
        self.output.restart()?;
        self.tally.keep(self.part(), 0);
        self.note(format_args!("the server refuses to continue ({refusal}), so it begins from the start"));
        Ok(())
    }

    /// Requests the rows after the last mark.
    async fn receive(&mut self) -> Result<Complete, Stop> {
        let mut response = self.requests.open(&self.output.safe).await?;
        self.is_continued = false;
        if let Some(coding) = response.header("content-encoding").filter(|coding| *coding != "identity") {
            let detail = format!("the response is compressed ({coding}), which `get` didn't request");
            return Err(Fault::lasting(detail, "a proxy or an upstream does it: turn it off there").into());
        }
        let content_type = response.header("content-type").unwrap_or_default().to_owned();
        self.requests.url.check_format(&content_type)?;
        let is_signed = self.requests.url.is_signed();
        let form = Form::of(&content_type).filter(|_| self.requests.is_framed || !is_signed);
        if let Some(shard) = &self.shard {
            let format = ShardFormat::of(form, &content_type)?;
            self.output.safe.snapshot = Some(shard.begin(format, &response)?);
        }
        let complete = match form {
            Some(_) if !self.requests.is_framed => {
                // The URL doesn't name the format, so the first request couldn't ask for records.
                self.requests.is_framed = true;
                // Its rows aren't read, and they would occupy a connection of the database.
                drop(response);
                return Box::pin(self.receive()).await;
            }
            Some(form) => self.receive_lines(&mut response, form).await?,
            None => self.receive_document(&mut response, &content_type).await?,
        };
        response.close().await;
        Ok(complete)
    }

    fn digest_need(&self) -> DigestNeed {
        match self.requests.url.parameter("_digest") {
            Some(_) => DigestNeed::Required,
            None => DigestNeed::Optional,
        }
    }

    async fn receive_lines(&mut self, response: &mut Response, form: Form) -> Result<Complete, Stop> {
        let tag = record_tag(response)?;
        let longest = LONGEST_ROW / self.shard.as_ref().map_or(1, |shard| shard.of as usize);
        let mut lines = Lines::new(form, tag, self.digest_need(), longest);
        // A cursor would make a signature invalid.
        let is_resumable = !self.requests.url.is_signed();
        let hold = match response.header("rowstream-resume") {
            Some("marks") if is_resumable => Hold::UntilMark,
            _ => Hold::LastRow,
        };
        let snapshot =
            response.header("rowstream-snapshot").filter(|_| self.requests.url.parameter("_shard").is_some());
        let snapshot = snapshot.map(str::to_owned);
        let before = self.output.safe.rows;
        while lines.end.is_none() {
            let bytes = response.next().await?.ok_or_else(|| Fault::cut("the end record is missing"))?;
            let read = lines.feed(&bytes, &mut self.output.buffer);
            if let Some(mark) = lines.mark.take().filter(|_| is_resumable) {
                let (bytes, rows) = (self.output.written + mark.at as u64, before + mark.rows);
                self.output.safe =
                    Position { bytes, rows, cursor: Some(mark.next), snapshot: snapshot.clone() };
            }
            if read.is_ok() {
                self.output.flush(hold).await?;
            }
            read?;
            self.tally.show(self.part(), before + lines.rows, self.output.bytes(), None);
        }
        let end = lines.end.as_ref();
        let proof = match end.is_some_and(|end| end.has_digest) {
            true => Proof::EndRecordAndDigest,
            false => Proof::EndRecord,
        };
        let is_full_page = end.is_some_and(|end| end.is_full_page);
        let (rows, columns) = (before + lines.rows, lines.columns);
        Ok(Complete { rows, proof, columns, is_full_page, requests: 1 })
    }

    async fn receive_document(
        &mut self,
        response: &mut Response,
        content_type: &str,
    ) -> Result<Complete, Stop> {
        if self.output.safe.cursor.is_some() {
            let hint = "the endpoint has changed: remove FILE.part to begin from the start";
            return Err(Fault::lasting("the rows so far can't be continued in another format", hint).into());
        }
        let mut document = Document::new(content_type, self.digest_need());
        let length = response.header("content-length").and_then(|length| length.parse().ok());
        loop {
            let bytes = match response.next().await {
                Ok(Some(bytes)) => bytes,
                Ok(None) => break,
                // The server may know that another attempt is in vain.
                Err(cut) => return Err(self.requests.reason(&response.headers).await.unwrap_or(cut).into()),
            };
            document.feed(&bytes);
            self.output.buffer.extend_from_slice(&bytes);
            self.output.flush(Hold::Nothing).await?;
            self.tally.show(self.part(), document.rows(), self.output.bytes(), length);
        }
        let proof = match document.finish(&response.headers, &response.trailers)? {
            Some(Proof::Digest) => Proof::Digest,
            weaker => {
                let state = self.requests.ended_state(&response.headers, weaker).await;
                document.check_state(state.as_ref(), weaker)?
            }
        };
        let page = response.trailers.get("rowstream-page").or(response.headers.get("rowstream-page"));
        let is_full_page = page.is_some_and(|page| page == "full");
        Ok(Complete { rows: document.rows(), proof, columns: None, is_full_page, requests: 1 })
    }

    fn note(&self, text: impl std::fmt::Display) {
        if !self.args.quiet {
            let shard = self.shard.as_ref().map_or_else(String::new, |shard| format!(" {shard}:"));
            self.tally.progress.note(format_args!("{}:{shard} {text}", self.name()));
        }
    }

    fn name(&self) -> String {
        self.args.file().map_or_else(|| "stdout".to_owned(), |path| path.display().to_string())
    }

    /// The index of this part among those of the download.
    fn part(&self) -> usize {
        self.shard.as_ref().map_or(0, |shard| shard.index as usize)
    }

    /// `orders.ndjson: 1,000,000 rows, 83.10 MiB in 2.10 s, verified by its end record`.
    fn summary(&self, complete: &Complete, elapsed: Duration) -> String {
        let requests = match complete.requests {
            1 => ", verified".to_owned(),
            shards => format!(" by {shards} requests, each verified"),
        };
        let mut summary = format!(
            "{}: {}, {} in {}{requests} by {}",
            self.name(),
            progress::count(complete.rows),
            HumanBytes(self.output.bytes()),
            progress::time(elapsed),
            complete.proof,
        );
        match self.resumed {
            0 => {}
            1 => summary += "; requested again once",
            times => summary += &format!("; requested again {times} times"),
        }
        if complete.is_full_page {
            summary += "; it's a full page, so more rows may follow";
        }
        summary
    }
}

/// The tag of the records among the rows.
///
/// # Errors
/// The response has none, or its records have another version than ours.
fn record_tag(response: &Response) -> Result<&str, Fault> {
    if let Some(version) = response.header("rowstream-wire").filter(|version| *version != "1") {
        let detail = format!("the response has version {version} of the wire");
        return Err(Fault::lasting(detail, "install a newer `rowstream`"));
    }
    response.header("rowstream-tag").ok_or_else(|| {
        Fault::lasting(
            "the header Rowstream-Tag is missing, so the rows can't be verified",
            "the URL isn't an endpoint of Rowstream, or a proxy removes headers: `rowstream doctor --via URL`",
        )
    })
}

/// A random pause, which grows with each failure.
fn pause(failures: u32) -> Duration {
    let most = FIRST_PAUSE.saturating_mul(1 << failures.min(16)).min(LONGEST_PAUSE);
    most.mul_f64(0.5 + fastrand::f64() / 2.0)
}
