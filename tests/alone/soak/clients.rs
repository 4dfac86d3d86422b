//! The clients' actions, and the results that are allowed.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use fastrand::Rng;
use http::Request;
use tokio::task::JoinSet;

use super::setting::{ROWS, SHAPES, Setting, Source, WRITE_TIMEOUT, row};
use crate::support::{CODINGS, Client, Ended, Reply, Streaming, decode, get, wait};

/// The clients' actions with their weights.
const DEEDS: [(Deed, usize); 9] = [
    (Deed::Lookup, 30),
    (Deed::Read, 34),
    (Deed::Wait, 5),
    (Deed::Resume, 8),
    (Deed::ReadSlowly, 6),
    (Deed::Leave, 10),
    (Deed::Stall, 2),
    (Deed::Burst, 1),
    (Deed::Mistake, 4),
];

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Deed {
    /// One row by its key.
    Lookup,
    /// A complete result, in any shape, compressed or not.
    Read,
    /// The same with `_wait=end`.
    Wait,
    /// A result in two parts: interrupted in the middle, and resumed by its cursor.
    Resume,
    /// A result, a little at a time.
    ReadSlowly,
    /// Disconnects in the middle.
    Leave,
    /// Reads nothing for longer than allowed.
    Stall,
    /// More requests at once than allowed.
    Burst,
    /// An invalid request.
    Mistake,
}

/// The numbers of results.
#[derive(Debug, Default)]
pub(crate) struct Told(BTreeMap<(Deed, String), usize>);

impl Told {
    fn note(&mut self, deed: Deed, ended: String) {
        *self.0.entry((deed, ended)).or_default() += 1;
    }

    pub(crate) fn add(&mut self, other: Self) {
        for (key, count) in other.0 {
            *self.0.entry(key).or_default() += count;
        }
    }

    /// A soak without any success or any failure has tested nothing.
    pub(crate) fn assert_all_was_tried(&self, time: Duration) {
        let count = |words: &str| -> usize {
            self.0.iter().filter(|((_, ended), _)| ended.contains(words)).map(|(_, count)| count).sum()
        };
        assert!(count("whole") > 20, "{self}");
        if time >= Duration::from_secs(15) {
            assert!(count("aborted") > 0 && count("left") > 0, "{self}");
        }
    }
}

impl fmt::Display for Told {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for ((deed, ended), count) in &self.0 {
            writeln!(f, "{count:>8}  {:<11} {ended}", format!("{deed:?}"))?;
        }
        Ok(())
    }
}

/// Performs one action after another until the end.
pub(crate) async fn client(setting: Arc<Setting>, seed: u64, end: Instant) -> Told {
    let (mut random, mut told) = (Rng::with_seed(seed), Told::default());
    while Instant::now() < end {
        let deed = draw(&mut random);
        let mut asking = Asking { setting: &setting, random: &mut random };
        let ended = match deed {
            Deed::Lookup => vec![asking.look_up().await],
            Deed::Read => vec![asking.read().await],
            Deed::Wait => vec![asking.wait().await],
            Deed::Resume => vec![asking.resume().await],
            Deed::ReadSlowly => vec![asking.read_slowly().await],
            Deed::Leave => vec![asking.leave().await],
            Deed::Stall => vec![asking.stall().await],
            Deed::Burst => burst(&setting, asking.random).await,
            Deed::Mistake => vec![asking.mistake().await],
        };
        for ended in ended {
            told.note(deed, ended);
        }
    }
    told
}

fn draw(random: &mut Rng) -> Deed {
    let all: usize = DEEDS.iter().map(|(_, weight)| weight).sum();
    let mut drawn = random.usize(..all);
    for (deed, weight) in DEEDS {
        match drawn.checked_sub(weight) {
            Some(rest) => drawn = rest,
            None => return deed,
        }
    }
    unreachable!("less than the sum was drawn")
}

/// One action of a client.
struct Asking<'a> {
    setting: &'a Setting,
    random: &'a mut Rng,
}

impl Asking<'_> {
    fn source(&mut self) -> Source {
        Source::ALL[self.random.usize(..Source::ALL.len())]
    }

    fn shape(&mut self) -> &'static str {
        SHAPES[self.random.usize(..SHAPES.len())]
    }

    fn client(&mut self) -> Client {
        if self.random.bool() { Client::HTTP1 } else { Client::H2C }
    }

    async fn look_up(&mut self) -> String {
        let (source, id, client) = (self.source(), self.random.usize(1..ROWS + 100), self.client());
        let target = format!("event/{id}");
        let reply = match self.open(client, source, &target, None).await {
            Ok(stream) => stream.rest().await,
            Err(ended) => return ended,
        };
        match reply.status.as_u16() {
            200 => assert_eq!(whole(&reply), row(id), "{source:?}"),
            404 => {
                assert!(id > ROWS && whole(&reply).contains("\"status\":404"), "{source:?} {id}: {reply:?}");
            }
            _ => return refused(self.setting, source, &reply),
        }
        "whole".to_owned()
    }

    async fn read(&mut self) -> String {
        let (source, shape, client) = (self.source(), self.shape(), self.client());
        let coding = (self.random.usize(..3) == 0).then(|| CODINGS[self.random.usize(..CODINGS.len())]);
        match self.open(client, source, shape, coding).await {
            Ok(stream) => judge(self.setting, source, shape, &stream.rest().await).await,
            Err(ended) => ended,
        }
    }

    async fn wait(&mut self) -> String {
        let (source, shape, client) = (self.source(), self.shape(), self.client());
        let separator = if shape.contains('?') { '&' } else { '?' };
        let target = format!("{shape}{separator}_wait=end");
        let reply = match self.open(client, source, &target, None).await {
            Ok(stream) => stream.rest().await,
            Err(ended) => return ended,
        };
        // The response has a length, so a client notices a truncation. It has no stream id to ask
        // about.
        match reply.ended {
            Ended::Complete => judge(self.setting, source, shape, &reply).await,
            Ended::Broken(_) => "aborted: shorter than its length".to_owned(),
        }
    }

    /// Acts like a browser's `EventSource` that loses its connection in the middle.
    async fn resume(&mut self) -> String {
        let (source, client) = (self.source(), self.client());
        let mut stream = match self.begun(client, source, "rows.sse").await {
            Ok(stream) => stream,
            Err(ended) => return ended,
        };
        let first = stream.at_least(self.random.usize(1..800_000)).await;
        drop(stream);
        let text = String::from_utf8_lossy(&first);
        let whole = text.rfind("\n\n").map_or("", |end| &text[..end + 2]);
        let Some(last) = whole.lines().rev().find_map(|line| line.strip_prefix("id: ")) else {
            return "left before its first row".to_owned();
        };
        let target = format!("rows.sse?_after={last}");
        let reply = match self.open(client, source, &target, None).await {
            Ok(stream) => stream.rest().await,
            Err(ended) => return ended,
        };
        if reply.status == 200 && reply.ended == Ended::Complete {
            let all = [whole.as_bytes(), &reply.body].concat();
            let checked = self.setting.check("rows.sse", &reply, &all);
            return checked.map_or_else(|why| panic!("{source:?} resumed: {why}"), |()| "whole".to_owned());
        }
        if reply.status == 204 {
            let checked = self.setting.check("rows.sse", &reply, whole.as_bytes());
            return checked
                .map_or_else(|why| panic!("{source:?} at its end: {why}"), |()| "whole".to_owned());
        }
        judge(self.setting, source, "rows.sse", &reply).await
    }

    /// A stream whose head has arrived, or else the result.
    async fn begun(&mut self, client: Client, source: Source, target: &str) -> Result<Streaming, String> {
        let stream = self.open(client.receive_buffer(32 * 1024), source, target, None).await?;
        match stream.status.as_u16() {
            200 => Ok(stream),
            _ => Err(refused(self.setting, source, &stream.rest().await)),
        }
    }

    /// A stream whose head has arrived, with any status. Without a head, a time limit must have
    /// passed: either the response lasted too long, or this client, on a busy machine, read nothing
    /// for too long.
    async fn open(
        &self,
        client: Client,
        source: Source,
        target: &str,
        coding: Option<&str>,
    ) -> Result<Streaming, String> {
        let mut request = Request::get(self.setting.url(source, target));
        if let Some(coding) = coding {
            request = request.header("accept-encoding", coding);
        }
        let asked = Instant::now();
        let opened = client.open(request.body(String::new()).expect("a request")).await;
        opened.map_err(|why| {
            let took = asked.elapsed();
            assert!(took >= WRITE_TIMEOUT, "{source:?} {target}: no answer after {took:?}: {why}");
            "aborted: before its head".to_owned()
        })
    }

    async fn read_slowly(&mut self) -> String {
        let (source, shape, client) = (self.source(), self.shape(), self.client());
        let mut stream = match self.begun(client, source, shape).await {
            Ok(stream) => stream,
            Err(ended) => return ended,
        };
        let (mut body, pause) = (Vec::new(), Duration::from_millis(self.random.u64(1..100)));
        let ended = loop {
            match stream.chunk().await {
                Ok(chunk) => body.extend_from_slice(&chunk),
                Err(ended) => break ended,
            }
            tokio::time::sleep(pause).await;
        };
        let headers = std::mem::take(&mut stream.headers);
        let reply = Reply { status: stream.status, headers, body: body.into(), trailers: None, ended };
        judge(self.setting, source, shape, &reply).await
    }

    async fn leave(&mut self) -> String {
        let (source, client, bytes) = (self.source(), self.client(), self.random.usize(..500_000));
        let target = if self.random.bool() { "endless.json" } else { self.shape() };
        if self.random.usize(..4) == 0 {
            // Possibly before the head.
            let patience = Duration::from_micros(self.random.u64(..3000));
            let request =
                Request::get(self.setting.url(source, target)).body(String::new()).expect("a request");
            drop(tokio::time::timeout(patience, client.open(request)).await);
            return "left early".to_owned();
        }
        match self.begun(client, source, target).await {
            Ok(mut stream) => drop(stream.at_least(bytes).await),
            Err(ended) => return ended,
        }
        "left".to_owned()
    }

    /// Stops reading, and then checks the result.
    async fn stall(&mut self) -> String {
        let (source, client) = (self.source(), self.client());
        let mut stream = match self.begun(client, source, "endless.ndjson").await {
            Ok(stream) => stream,
            Err(ended) => return ended,
        };
        stream.at_least(1000).await;
        tokio::time::sleep(3 * WRITE_TIMEOUT).await;
        let reply = stream.rest().await;
        judge(self.setting, source, "endless.ndjson", &reply).await
    }

    async fn mistake(&mut self) -> String {
        let (source, client) = (self.source(), self.client());
        let mistakes = [
            ("nothing", 404),
            ("event/x", 400),
            ("rows?unknown=1", 400),
            ("rows?_format=xml", 406),
            ("rows.csv?_end=1", 400),
            ("rows?_after=x", 400),
        ];
        let (target, status) = mistakes[self.random.usize(..mistakes.len())];
        let reply = match self.open(client, source, target, None).await {
            Ok(stream) => stream.rest().await,
            Err(ended) => return ended,
        };
        // A request must run before the server can judge its cursor, so it may be refused instead.
        if reply.status.is_server_error() {
            return refused(self.setting, source, &reply);
        }
        assert_eq!(
            (reply.status.as_u16(), &reply.ended),
            (status, &Ended::Complete),
            "{target}: {}",
            reply.text()
        );
        "refused, as it has to be".to_owned()
    }
}

/// More requests at once than streams and pool slots. Each is answered or refused at once.
async fn burst(setting: &Arc<Setting>, random: &mut Rng) -> Vec<String> {
    setting.bursts.fetch_add(1, Ordering::Relaxed);
    let mut requests = JoinSet::new();
    for _ in 0..80 {
        let (setting, seed) = (Arc::clone(setting), random.u64(..));
        requests.spawn(async move {
            Asking { setting: &setting, random: &mut Rng::with_seed(seed) }.read().await
        });
    }
    let ended = requests.join_all().await;
    *setting.last_burst.lock().expect("nobody panics with it") = Some(Instant::now());
    setting.bursts.fetch_sub(1, Ordering::Relaxed);
    ended
}

/// The body of a complete response.
#[track_caller]
fn whole(reply: &Reply) -> &str {
    assert_eq!(reply.ended, Ended::Complete, "{reply:?}");
    reply.text()
}

/// Checks a response against the promise: complete and correct, or visibly failed for a valid
/// reason.
async fn judge(setting: &Setting, source: Source, shape: &str, reply: &Reply) -> String {
    let what =
        || format!("{source:?} {shape}: {} {:?}, {} bytes", reply.status, reply.ended, reply.body.len());
    if reply.status != 200 {
        return refused(setting, source, reply);
    }
    if reply.ended != Ended::Complete {
        return broken(setting, source, reply, &what()).await;
    }
    let body = match reply.header("content-encoding") {
        Some(coding) => {
            decode(coding, &reply.body).unwrap_or_else(|_| panic!("{}: no end of {coding}", what()))
        }
        None => reply.body.to_vec(),
    };
    setting.check(shape, reply, &body).unwrap_or_else(|why| panic!("{}: {why}", what()));
    "whole".to_owned()
}

/// Checks why a response was refused: a limit was reached, or the database failed.
#[track_caller]
fn refused(setting: &Setting, source: Source, reply: &Reply) -> String {
    let problem: serde_json::Value = serde_json::from_str(whole(reply)).expect("a problem document");
    let code = problem["code"].as_str().expect("it has a code").to_owned();
    let crowded = setting.is_crowded();
    let right = match (reply.status.as_u16(), code.as_str()) {
        (503, "too_many_streams") => crowded,
        // Stalled connections keep their slots until their streams time out.
        (503, "pool_full") | (504, "pool_timeout" | "first_row_timeout" | "total_timeout") => {
            crowded || source == Source::Faulty
        }
        // Endless streams whose clients read nothing can fill all space in files.
        (507, "spool_full") => true,
        _ => is_fault(source, &code),
    };
    assert!(right, "{source:?} was refused without a reason: {} {problem}", reply.status);
    format!("refused: {} {code}", reply.status)
}

/// Returns true for errors that cut connections and terminated backends cause.
fn is_fault(source: Source, code: &str) -> bool {
    let lost = ["source_unavailable", "source_protocol", "source_shutdown"].contains(&code);
    lost && source != Source::Lite
}

/// Checks the server's reason for an aborted response.
async fn broken(setting: &Setting, source: Source, reply: &Reply, what: &str) -> String {
    let stream = reply.header("rowstream-stream").unwrap_or_else(|| panic!("{what}: broken, and no stream"));
    let url = setting.server.url(&format!("/_rowstream/streams/{stream}"));
    let told = async {
        loop {
            let told = get(&url).await.json();
            if told["state"] != "running" {
                break told;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let told = wait(&format!("{what}: what was aborted ends"), told).await;
    let state = told["state"].as_str().expect("a state");
    let code = told["error"]["code"].as_str().unwrap_or_default();
    let right = match (state, code) {
        ("failed", "total_timeout") | ("client_stalled", _) => true,
        ("failed", code) => is_fault(source, code),
        _ => false,
    };
    assert!(right, "{what}: {told}");
    format!("aborted: {state} {code}")
}
