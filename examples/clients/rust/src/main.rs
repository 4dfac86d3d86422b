//! Prints the rows of a list as they arrive, and fails unless all of them did.

use std::{env, mem, process::ExitCode, time::Duration};

use bytes::Bytes;
use reqwest::{Response, Url};
use serde_json::{Value, json};
use tokio::time::{sleep, timeout};

const MAX_TRIES: u32 = 5;
const MAX_LINE: usize = 16 << 20;

/// A problem document, an error record, or a cut.
type Failure = Value;

fn cut(reason: impl ToString) -> Failure {
    json!({ "detail": reason.to_string() })
}

struct List {
    url: Url,
    /// The number of rows that were printed.
    rows: u64,
    /// A cut can be resumed after the last mark.
    marks: bool,
}

impl List {
    fn set(&mut self, parameter: &str, value: &str) {
        let pairs = self.url.query_pairs().into_owned().filter(|(name, _)| name != parameter);
        let pairs: Vec<_> = pairs.collect();
        self.url.query_pairs_mut().clear().extend_pairs(pairs).append_pair(parameter, value);
    }

    /// Prints each row once. Fails if one is missing.
    async fn read(&mut self) -> Result<(), Failure> {
        self.set("_end", "1");
        let mut tries = 0;
        loop {
            let before = self.rows;
            let Err(failure) = self.request().await else { return Ok(()) };
            tries = if self.rows > before { 1 } else { tries + 1 };
            let resumes = self.marks || self.rows == 0;
            if failure["retry"] == false || !resumes || tries == MAX_TRIES {
                return Err(failure);
            }
            let pause = Duration::from_millis(fastrand::u64(..100 << tries));
            sleep(Duration::from_secs(failure["retry_after"].as_u64().unwrap_or(0)) + pause).await;
        }
    }

    async fn request(&mut self) -> Result<(), Failure> {
        // The headers wait for the first row.
        let minute = Duration::from_secs(60);
        let response =
            timeout(minute, reqwest::get(self.url.clone())).await.map_err(cut)?.map_err(cut)?;
        let status = response.status().as_u16();
        if status != 200 {
            let retry = [408, 429, 502, 503, 504].contains(&status);
            let text = timeout(minute, response.text()).await.map_err(cut)?.map_err(cut)?;
            return Err(serde_json::from_str(&text)
                .unwrap_or(json!({ "detail": format!("HTTP {status}"), "retry": retry })));
        }
        let header = |name| response.headers().get(name)?.to_str().ok();
        let heartbeat =
            header("rowstream-heartbeat").and_then(|seconds| seconds.parse::<f64>().ok());
        let (Some(tag), Some(heartbeat), Some("1")) =
            (header("rowstream-tag"), heartbeat, header("rowstream-wire"))
        else {
            return Err(
                json!({ "detail": "it isn't framed, or has another version", "retry": false }),
            );
        };
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
            } else if let Ok(row) = serde_json::from_slice::<Value>(&line) {
                held.push(row);
                count += 1;
            } // Otherwise it's a heartbeat, or a row that an error cut.
            if record["error"].is_object() {
                return Err(record["error"].take());
            }
            let is_end = record["end"].is_object();
            let confirmed = record[if is_end { "end" } else { "mark" }].take();
            if confirmed.is_object() && confirmed["rows"] != count {
                return Err(cut("rows are missing"));
            }
            if confirmed.is_object() || !self.marks {
                self.rows += held.len() as u64;
                held.drain(..).for_each(|row| println!("{row}"));
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
        Err(json!({ "detail": "a row is too long", "retry": false }))
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let url = env::args().nth(1).and_then(|url| url.parse().ok()).expect("usage: rows URL");
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
