//! Prints the rows of a list as they arrive, and fails unless all of them did.

use std::io::{self, Write as _};
use std::{env, mem, process::ExitCode, time::Duration};

use bytes::Bytes;
use reqwest::{Response, Url};
use serde_json::{Value, json, value::RawValue};
use tokio::time::{sleep, timeout};

const MAX_TRIES: u32 = 5;
const MAX_LINE: usize = 16 << 20;
const MAX_PAUSE: u64 = 3600;

/// A problem document, an error record, or a cut.
type Failure = Value;

fn cut(reason: impl ToString) -> Failure {
    json!({ "detail": reason.to_string(), "retry": true })
}

fn fault(reason: impl ToString) -> Failure {
    json!({ "detail": reason.to_string(), "retry": false })
}

struct List {
    url: Url,
    /// The number of rows that were printed.
    rows: u64,
    /// A cut can be resumed after the last mark.
    marks: bool,
}

impl List {
    /// Replaces a parameter, and keeps the others as they are.
    fn set(&mut self, parameter: &str, value: &str) {
        let mut pairs: Vec<_> = self.url.query().unwrap_or("").split('&').collect();
        pairs.retain(|pair| !pair.is_empty() && pair.split('=').next() != Some(parameter));
        let others = pairs.join("&");
        self.url.set_query(Some(&others));
        self.url.query_pairs_mut().append_pair(parameter, value);
    }

    /// Prints each row once. Fails if one is missing.
    async fn read(&mut self) -> Result<(), Failure> {
        self.set("_end", "1");
        let mut tries = 0;
        loop {
            let before = self.rows;
            let Err(failure) = self.request().await else { return Ok(()) };
            tries = if self.rows > before { 0 } else { tries + 1 };
            let resumes = self.marks || self.rows == 0;
            if failure["retry"] != true || !resumes || tries == MAX_TRIES {
                return Err(failure);
            }
            let pause = Duration::from_millis(fastrand::u64(..100 << tries));
            let after = failure["retry_after"].as_u64().unwrap_or(0).min(MAX_PAUSE);
            sleep(Duration::from_secs(after) + pause).await;
        }
    }

    async fn request(&mut self) -> Result<(), Failure> {
        // The headers wait for the first row.
        let minute = Duration::from_secs(60);
        let mut response =
            timeout(minute, reqwest::get(self.url.clone())).await.map_err(cut)?.map_err(cut)?;
        let status = response.status().as_u16();
        if status != 200 {
            let retry = [408, 429, 502, 503, 504].contains(&status);
            let mut failure = json!({ "detail": format!("HTTP {status}"), "retry": retry });
            if let Some(Value::Object(problem)) = problem(&mut response, minute).await {
                problem.into_iter().for_each(|(name, value)| failure[name] = value);
            }
            return Err(failure);
        }
        let header = |name| response.headers().get(name)?.to_str().ok();
        let (Some(tag), Some("1")) = (header("rowstream-tag"), header("rowstream-wire")) else {
            return Err(fault("the response isn't framed, or has another version"));
        };
        let heartbeat = header("rowstream-heartbeat").and_then(|seconds| seconds.parse().ok());
        let heartbeat =
            heartbeat.filter(|seconds| (0.001..3600.0).contains(seconds)).unwrap_or(200.0);
        let start = format!(r#"{{"$rowstream":"{tag}","#);
        self.marks = header("rowstream-resume") == Some("marks");
        let silence = Duration::from_secs_f64(3.0 * heartbeat);
        self.lines(Lines { response, silence, rest: Bytes::new() }, start.as_bytes()).await
    }

    /// Holds rows until a mark or the end confirms them. Without marks, prints them at once.
    async fn lines(&mut self, mut lines: Lines, start: &[u8]) -> Result<(), Failure> {
        let (mut held, mut count) = (Vec::new(), 0_u64);
        loop {
            let line = lines.next().await?;
            let mut record = Value::Null;
            if line.starts_with(start) {
                record = serde_json::from_slice(&line).map_err(cut)?;
            } else if let Ok(row) = serde_json::from_slice::<Box<RawValue>>(&line) {
                held.push(row);
                count += 1;
            } // Otherwise it's a heartbeat, or a row that an error cut.
            if record["error"].is_object() {
                return Err(record["error"].take());
            }
            let is_end = record["end"].is_object();
            let mut confirmed = record[if is_end { "end" } else { "mark" }].take();
            if !is_end && !confirmed["next"].is_string() {
                confirmed = Value::Null;
            }
            if confirmed.is_object() && confirmed["rows"] != count {
                return Err(cut("rows are missing"));
            }
            if confirmed.is_object() || !self.marks {
                for row in held.drain(..) {
                    writeln!(io::stdout(), "{row}").map_err(fault)?;
                    self.rows += 1;
                }
            }
            if is_end {
                return Ok(());
            }
            if let Some(next) = confirmed["next"].as_str() {
                self.set("_after", next);
            }
        }
    }
}

/// The body of an error, if it's the server's and not a proxy's.
async fn problem(response: &mut Response, limit: Duration) -> Option<Value> {
    let kind = response.headers().get("content-type")?.to_str().ok()?;
    if !kind.starts_with("application/problem+json") {
        return None;
    }
    let mut text = Vec::new();
    while let Ok(Ok(Some(part))) = timeout(limit, response.chunk()).await
        && text.len() < MAX_LINE
    {
        text.extend(part);
    }
    serde_json::from_slice(&text).ok()
}

struct Lines {
    response: Response,
    silence: Duration,
    rest: Bytes,
}

impl Lines {
    /// Fails even at a clean end, because the last record is missing.
    async fn next(&mut self) -> Result<Vec<u8>, Failure> {
        let mut line = Vec::new();
        while line.len() < MAX_LINE {
            if let Some(at) = self.rest.iter().position(|byte| *byte == b'\n') {
                line.extend(self.rest.split_to(at + 1));
                return Ok(line);
            }
            line.extend(mem::take(&mut self.rest));
            let part =
                timeout(self.silence, self.response.chunk()).await.map_err(cut)?.map_err(cut)?;
            self.rest = part.ok_or_else(|| cut("the end is missing"))?;
        }
        Err(fault("a row is too long"))
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let url = env::args_os().nth(1).and_then(|url| url.to_str()?.parse().ok());
    let Some(url) = url.filter(|url: &Url| ["http", "https"].contains(&url.scheme())) else {
        eprintln!("usage: rows URL");
        return ExitCode::FAILURE;
    };
    let mut list = List { url, rows: 0, marks: false };
    match list.read().await {
        Ok(()) => eprintln!("{} rows, and none is missing", list.rows),
        Err(failure) => {
            let text = |member: &str| failure[member].as_str().unwrap_or("cut");
            eprintln!("rows are missing: {} ({})", text("detail"), text("code"));
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}
