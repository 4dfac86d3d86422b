//! `rowstream get --parallel`: several requests read the shards of a table, and their rows form one
//! file.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::HeaderValue;

use crate::get::{attempts, behind_proxy, command, download, file, names, server, survive_cuts, whole};
use crate::support::upstream::{Scripted, Speaks, Upstream, reply, stream};
use crate::support::{Cut, Faults, Pieces, Server, TestDb, wait_until};

/// A table of some 4 MB, with holes.
const TABLE: &str = "create table event as
        select n as id, 'row ' || n as t from generate_series(1, 60000) n;
    delete from event where id % 7 = 0";
const SHARDS: &str = "/*\nshards = 8\nformats = [\"ndjson\", \"json-seq\", \"csv\", \"json\"]\n*/\n";

/// A server with the table as `/s`, whose pool can keep ten snapshots.
async fn shards(db: &TestDb) -> Server {
    db.execute(TABLE).await;
    let config = format!("[source.db]\nurl = \"{}\"\npool = {{ max = 40 }}\n", db.url());
    let (s, bad) =
        (format!("{SHARDS}select * from event"), format!("{SHARDS}select 1 / (id - 55555) as x from event"));
    let bare = "/*\nshards = 8\ncsv = { header = false, bom = true }\n*/\nselect t from event";
    let files = [("rowstream.toml", &*config), ("endpoints/s.sql", &s), ("endpoints/bad.sql", &bad)];
    Server::start(&[&files[..], &[("endpoints/bare.sql", bare)]].concat()).await
}

fn sorted(text: &str) -> Vec<&str> {
    let mut lines: Vec<_> = text.lines().collect();
    lines.sort_unstable();
    lines
}

/// Checks that a file has the rows of a response, each once.
fn assert_is(path: &Path, whole: &str, why: &str) {
    let text = fs::read_to_string(path).unwrap();
    assert!(sorted(&text) == sorted(whole), "{} rows: {why}", text.lines().count());
}

#[tokio::test]
async fn shards_become_one_file() {
    let db = TestDb::new().await;
    let server = shards(&db).await;
    for (name, parallel, requests, proof) in [
        ("/s.ndjson", "3", 3, "its end record and digest"),
        ("/s", "2", 2, "its end record and digest"),
        ("/s.json-seq", "8", 8, "its end record and digest"),
        ("/s.csv", "3", 3, "its digest"),
        ("/s.ndjson", "64", 8, "its end record and digest"),
    ] {
        let (folder, path, text) = file("rows");
        let (status, told) = download(&[&server.url(name), "-o", &text, "--parallel", parallel]).await;
        assert_eq!((status, names(&folder)), (Some(0), vec!["rows".to_owned()]), "{name}: {told}");
        let whole = whole(&server, if name == "/s" { "/s.ndjson" } else { name }).await;
        assert_is(&path, &whole, name);
        assert_eq!(fs::read_to_string(path).unwrap().lines().next(), whole.lines().next(), "the header");
        assert!(told.contains(": 51,429 rows, "), "{told}");
        assert!(told.ends_with(&format!(" by {requests} requests, each verified by {proof}\n")), "{told}");
        assert_eq!(told.contains("the endpoint has at most 8 shards"), parallel == "64", "{told}");
    }
}

/// After the first bytes, each row is changed. Only the snapshot still has the old ones.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn shards_that_are_cut_continue_in_their_snapshot() {
    let db = TestDb::new().await;
    let server = shards(&db).await;
    for name in ["ndjson", "json-seq"] {
        let proxy = behind_proxy(&server, Faults::default()).await;
        let whole = whole(&server, &format!("/s.{name}")).await;
        let (folder, path, text) = file("rows");
        let url = format!("http://{}/s.{name}", proxy.address());
        let changed = async {
            wait_until("rows arrive", async || proxy.bytes_to_client() > 200_000).await;
            db.execute("update event set t = 'changed', id = -id").await;
        };
        let (output, ()) =
            tokio::join!(survive_cuts(&proxy, command(&[&url, "-o", &text, "--parallel", "3"])), changed);
        assert!(output.status.success() && attempts(&output) >= 10, "{output:?}");
        assert_is(&path, &whole, name);
        assert_eq!(names(&folder), ["rows"]);
        assert!(String::from_utf8_lossy(&output.stderr).contains(": shard 3/3: "), "{output:?}");
    }
}

/// CSV has no marks, so a shard that was cut is requested again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_shard_without_marks_is_requested_again() {
    let db = TestDb::new().await;
    let server = shards(&db).await;
    let cut = Faults { cut: Some((100_000, Cut::Close)), ..Faults::default() };
    let proxy = behind_proxy(&server, cut).await;
    let (folder, path, text) = file("rows");
    let url = format!("http://{}/s.csv", proxy.address());
    let healed = async {
        wait_until("each shard is cut", async || proxy.connections() >= 3).await;
        proxy.set_to_client(Faults::default());
    };
    let arguments = [&*url, "-o", &text, "--parallel", "3"];
    let ((status, told), ()) = tokio::join!(download(&arguments), healed);
    assert!(status == Some(0) && told.contains("; requested again "), "{told}");
    assert_is(&path, &whole(&server, "/s.csv").await, &told);
    assert_eq!(names(&folder), ["rows"]);
}

/// A reload changed how values are written. The shards that were requested again had another form than the others,
/// all in one file, which was verified.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn shards_of_two_settings_are_no_file() {
    let db = TestDb::new().await;
    db.execute(
        "create table event as select n as id, nullif(n % 2, 0) as odd from generate_series(1, 150000) n",
    )
    .await;
    let config = |more: &str| format!("[source.db]\nurl = \"{}\"\npool = {{ max = 40 }}\n{more}", db.url());
    let s = "/* shards = 8 */ select * from event";
    let server = Server::start(&[("rowstream.toml", &config("")), ("endpoints/s.sql", s)]).await;
    for (round, (name, settings)) in [
        ("/s.csv", "[csv]\nnull = \"NULL\"\n"),
        ("/s.ndjson", "[values]\nnulls = \"omit\"\n"),
        ("/s.csv", "[values]\nnumbers = \"string\"\n"),
    ]
    .into_iter()
    .enumerate()
    {
        fs::write(server.folder().join("rowstream.toml"), config("")).unwrap();
        reload(&server, 2 * round + 1).await;
        // A connection has at most one mark, so a shard of NDJSON needs 50 of them, with a pause before each.
        let cut = Faults { cut: Some((30_000, Cut::Close)), ..Faults::default() };
        let proxy = behind_proxy(&server, cut).await;
        let url = format!("http://{}{name}", proxy.address());
        let changed = async {
            wait_until("each shard is cut", async || proxy.connections() >= 3).await;
            fs::write(server.folder().join("rowstream.toml"), config(settings)).unwrap();
            reload(&server, 2 * round + 2).await;
            proxy.set_to_client(Faults::default());
        };
        let (folder, path, text) = file("rows");
        let arguments = [&*url, "-o", &text, "--parallel", "3"];
        let ((status, told), ()) = tokio::join!(download(&arguments), changed);
        assert_eq!((status, names(&folder)), (Some(1), Vec::new()), "{name}: {told}");
        assert!(
            told.contains("`_snapshot`") && told.contains("the same command begins from the start"),
            "{told}"
        );
        let (status, told) = download(&arguments).await;
        assert_eq!(status, Some(0), "{name}: {told}");
        assert_is(&path, &whole(&server, name).await, &told);
    }
}

/// Makes the server reload, and waits for its `count`th report of a reload.
async fn reload(server: &Server, count: usize) {
    server.hang_up();
    wait_until("it has reloaded", async || server.stderr().matches("reloaded: ").count() >= count).await;
}

#[tokio::test]
async fn one_failed_shard_fails_the_file() {
    let db = TestDb::new().await;
    let server = shards(&db).await;
    let (folder, _, text) = file("rows");
    let (status, told) = download(&[&server.url("/bad.ndjson"), "-o", &text, "--parallel", "3"]).await;
    assert_eq!((status, names(&folder)), (Some(1), Vec::new()), "{told}");
    assert!(told.starts_with("error: bad_value: ") && told.contains("division by zero"), "{told}");
    let cut = Faults { cut: Some((100_000, Cut::Reset)), ..Faults::default() };
    let proxy = behind_proxy(&server, cut).await;
    let url = format!("http://{}/s.csv", proxy.address());
    let (status, told) = download(&[&url, "-o", &text, "--parallel", "3", "--retries", "1"]).await;
    assert_eq!((status, names(&folder)), (Some(1), Vec::new()), "{told}");
}

/// Snapshots soon expire, so nothing is kept for another process.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_signal_leaves_no_file() {
    let db = TestDb::new().await;
    let server = shards(&db).await;
    let slow = Pieces { bytes: 500, pause: Duration::from_millis(2) };
    let proxy = behind_proxy(&server, Faults { pieces: Some(slow), ..Faults::default() }).await;
    let url = format!("http://{}/s.ndjson", proxy.address());
    let (folder, path, text) = file("rows");
    fs::write(&path, "the earlier file").unwrap();
    for (signal, code, left) in [("TERM", Some(143), vec!["rows"]), ("KILL", None, vec!["rows", "rows.part"])]
    {
        let arguments = [&url, "-o", &text, "--parallel", "3"];
        let before = proxy.bytes_to_client();
        let mut child = command(&arguments).stderr(Stdio::null()).spawn().unwrap();
        let flows = async || proxy.bytes_to_client() > before + 20_000;
        wait_until("rows arrive", flows).await;
        let killed = Command::new("kill").args(["-s", signal, &child.id().to_string()]).status();
        assert!(killed.unwrap().success());
        assert_eq!(tokio::task::block_in_place(|| child.wait()).unwrap().code(), code);
        assert_eq!(
            (names(&folder), fs::read_to_string(&path).unwrap()),
            (left.iter().map(|name| (*name).to_owned()).collect(), "the earlier file".to_owned())
        );
    }
    let (status, told) = download(&[&server.url("/s.ndjson"), "-o", &text, "--parallel", "3"]).await;
    assert_eq!((status, names(&folder)), (Some(0), vec!["rows".to_owned()]), "{told}");
    assert_is(&path, &whole(&server, "/s.ndjson").await, &told);
}

/// The first shard has the only byte order mark, also if values begin with that character.
#[tokio::test]
async fn a_file_without_a_header_has_one_mark() {
    let db = TestDb::new().await;
    let server = shards(&db).await;
    db.execute("update event set t = U&'\\FEFF' || t").await;
    for name in ["/bare.csv", "/bare.csv?_csv_bom=1", "/bare.csv?_csv_bom=0", "/s.csv?_csv_bom=1"] {
        let (_folder, path, text) = file("rows");
        let (status, told) = download(&[&server.url(name), "-o", &text, "--parallel", "3"]).await;
        assert_eq!(status, Some(0), "{name}: {told}");
        let (whole, text) = (whole(&server, name).await, fs::read_to_string(path).unwrap());
        let has_mark = !name.ends_with('0');
        assert_eq!(text.starts_with("\u{feff}\u{feff}"), has_mark && name.starts_with("/bare"), "{name}");
        let rows = |text: &str| {
            let text = text.strip_prefix(if has_mark { "\u{feff}" } else { "" }).unwrap();
            sorted(text).join("\n")
        };
        assert!(rows(&text) == rows(&whole), "{name}");
    }
}

/// The first response of a URL without a suffix isn't framed. It's closed before the second request.
#[tokio::test]
async fn one_connection_is_enough_without_a_suffix() {
    let db = TestDb::new().await;
    let config = format!("[source.db]\nurl = \"{}\"\npool = {{ max = 1 }}\n", db.url());
    let rows =
        "/* formats = [\"ndjson\"] */ select n, repeat('x', 100) as t from generate_series(1, 300000) n";
    let server = Server::start(&[("rowstream.toml", &config), ("endpoints/rows.sql", rows)]).await;
    let (_folder, path, text) = file("rows");
    let (status, told) = download(&[&server.url("/rows"), "-o", &text, "--retries", "0"]).await;
    assert_eq!(status, Some(0), "{told}");
    assert_eq!(fs::read_to_string(path).unwrap().lines().count(), 300_000);
}

/// The second shard is refused twice, more often than `--retries`. Before each refusal, the first shard
/// receives a row.
#[tokio::test]
async fn a_shard_waits_as_long_as_others_receive_rows() {
    let peer = Upstream::start(Speaks::Http1, |seen, asked| async move {
        let mut response = if asked.target.contains("_shard=1/") {
            stream(futures_util::stream::unfold(0, move |row| {
                let seen = Arc::clone(&seen);
                async move {
                    seen.gate.acquire().await.unwrap().forget();
                    (row < 3).then(|| (Ok(Bytes::from(format!("{row}\r\n"))), row + 1))
                }
            }))
        } else if seen.count() < 4 {
            seen.gate.add_permits(1);
            // The row has to arrive before the refusal, and they're on two connections.
            tokio::time::sleep(Duration::from_millis(300)).await;
            let mut refusal = reply(503, "text/plain", "later");
            refusal.headers_mut().insert("retry-after", HeaderValue::from_static("1"));
            return refusal;
        } else {
            seen.gate.add_permits(2);
            reply(200, "text/csv", "3\r\n")
        };
        response.headers_mut().insert("content-type", HeaderValue::from_static("text/csv; header=absent"));
        response.headers_mut().insert("rowstream-snapshot", HeaderValue::from_static("x"));
        response
    })
    .await;
    let (_folder, path, text) = file("rows");
    let url = format!("http://{}/rows.csv", peer.address());
    let (status, told) = download(&[&url, "-o", &text, "--parallel", "2", "--retries", "1"]).await;
    assert_eq!((status, told.matches("the next attempt").count()), (Some(0), 2), "{told}");
    assert_eq!(fs::read_to_string(path).unwrap(), "0\r\n1\r\n2\r\n3\r\n");
    assert!(told.contains(", each verified by HTTP's last chunk only;"), "the weakest proof: {told}");
    let others = peer.asked().into_iter().filter(|asked| !asked.target.contains("_shard=1/"));
    assert!(
        others.clone().count() == 3 && others.into_iter().all(|asked| asked.target.contains("_csv_bom=0"))
    );
}

/// SQLite has no shards.
#[tokio::test]
async fn an_endpoint_without_shards_is_read_by_one_request() {
    let server = server().await;
    let (folder, path, text) = file("rows");
    let (status, told) = download(&[&server.url("/rows.json"), "-o", &text, "--parallel", "4"]).await;
    assert!(status == Some(0) && told.contains("has no shards, so one request reads all rows\n"), "{told}");
    assert!(told.ends_with(", verified by its digest\n"), "{told}");
    assert!(fs::read_to_string(path).unwrap() == whole(&server, "/rows.json").await);
    assert_eq!(names(&folder), ["rows"]);
}

#[tokio::test]
async fn requests_that_cannot_be_joined_are_refused() {
    let db = TestDb::new().await;
    let server = shards(&db).await;
    let peer = Scripted::start(|_, _| {
        b"HTTP/1.1 200 OK\r\nContent-Type: text/csv\r\nContent-Length: 4\r\n\r\nn\n1\n".to_vec()
    })
    .await;
    let (folder, _, text) = file("rows");
    for (url, target, words) in [
        (server.url("/s.ndjson"), "-", "--parallel needs a file"),
        (server.url("/s.ndjson?_signature=x"), &*text, "the URL has `_signature`"),
        (server.url("/s.ndjson?_shard=1/2"), &*text, "the URL has `_shard`"),
        (server.url("/s.ndjson?_snapshot=x"), &*text, "the URL has `_snapshot`"),
        (server.url("/s.ndjson?_after=x"), &*text, "the URL has `_after`"),
        (server.url("/s.ndjson?%5Fexplain=1"), &*text, "the URL has `_explain`"),
        (server.url("/s.ndjson?_wait=end"), &*text, "the URL has `_wait`"),
        (server.url("/s.json"), &*text, "request .ndjson, .json-seq or .csv"),
        (format!("{}/rows.csv", peer.url), &*text, "Rowstream-Snapshot is missing"),
    ] {
        let (status, told) = download(&[&url, "-o", target, "--parallel", "2"]).await;
        assert!(status == Some(1) && told.contains(words) && told.contains("\n    hint: "), "{url} {told}");
        assert_eq!(names(&folder), Vec::<String>::new(), "{url}");
    }
    for parallel in ["0", "65"] {
        let (status, _) = download(&[&server.url("/s.ndjson"), "-o", &text, "--parallel", parallel]).await;
        assert_eq!(status, Some(2));
    }
}
