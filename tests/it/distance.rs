//! Distant clients and databases: we keep as much in flight as the line can carry, but don't buffer
//! more for a client that reads nothing.

#![expect(clippy::unwrap_used, reason = "the helpers of tests are tests, too")]

use std::fs;
use std::time::{Duration, Instant};

use distance::Place;

use crate::support::{
    Client, Launch, MariaDb, Server, TestDb, get, given, mariadb_socket, pg_port, pg_socket, program,
};

/// The delay from one place to the other. It's so long that a busy machine's own delays don't
/// matter.
const DELAY: Duration = Duration::from_millis(100);
const BYTES: u64 = 24_000_000;
/// The time until a line is fully used, because windows only double per round trip.
const FEW_ROUND_TRIPS: f64 = 60.0;

const ENDPOINT: (&str, &str) =
    ("endpoints/items.sql", "select i, repeat('x', 1000) as text from generate_series(1, 24000) i");

fn places() -> [Place; 2] {
    given("ROWSTREAM_TEST_TUN");
    distance::places(DELAY).unwrap()
}

fn launch(url: &str) -> Launch {
    Launch::files(&[
        ("rowstream.toml", &format!("[source.db]\nurl = \"{url}\"\npool = {{ max = 1 }}\n")),
        ENDPOINT,
    ])
}

/// Starts a server in its own network.
async fn start_at(place: &Place, launch: Launch) -> Server {
    let words = place.words().join(" ");
    launch.shell(&format!("exec {words} \"$0\" \"$@\"")).listen(&format!("{}:0", place.address)).start().await
}

/// The round trips between the places until a client at one of them has all items.
async fn round_trips(client: &Place, server: &Server) -> f64 {
    let mut curl = client.command("curl");
    curl.args(["--silent", "--show-error", "--noproxy", "*", "--max-time", "90", "--output", "/dev/null"]);
    curl.args(["--write-out", "%{http_code} %{size_download}", &server.url("/items.ndjson")]);
    let begun = Instant::now();
    let output = tokio::task::spawn_blocking(move || curl.output()).await.unwrap().unwrap();
    let taken = begun.elapsed();
    let said = String::from_utf8_lossy(&output.stdout);
    let (status, size) = said.split_once(' ').unwrap();
    assert_eq!(status, "200", "{}", String::from_utf8_lossy(&output.stderr));
    assert!(size.parse::<u64>().unwrap() > BYTES, "{size}");
    taken.as_secs_f64() / (2 * DELAY).as_secs_f64()
}

/// A stream waited until the client had acknowledged some 200 KiB, and then for the next
/// acknowledgement: 104 round trips. TCP itself needs most of the remaining 17 to start.
#[tokio::test]
async fn a_far_client_is_sent_what_its_line_takes() {
    let [near, far] = places();
    let db = TestDb::new().await;
    let folder = pg_socket();
    let url = format!("postgres:///{}?host={}&port={}&user=postgres", db.name(), folder.display(), pg_port());
    let server = start_at(&near, launch(&url)).await;
    let near_by = round_trips(&near, &server).await;
    let taken = round_trips(&far, &server).await;
    assert!(taken < near_by + FEW_ROUND_TRIPS, "{taken} round trips; {near_by} without the distance");
}

/// The URL of a database at this place.
fn url_at(place: &Place, db: &TestDb) -> String {
    let port = place.relay(pg_socket().join(format!(".s.PGSQL.{}", pg_port()))).unwrap();
    format!("postgres://postgres@{}:{port}/{}?sslmode=disable", place.address, db.name())
}

/// The database sent some 70 KiB and waited until we had read them, for 327 round trips. Now it's
/// 21.
#[tokio::test]
async fn a_far_database_sends_what_the_line_takes() {
    let [near, far] = places();
    let db = TestDb::new().await;
    let server = start_at(&near, launch(&url_at(&far, &db))).await;
    let taken = round_trips(&near, &server).await;
    assert!(taken < FEW_ROUND_TRIPS, "{taken} round trips");
}

/// After 50 ms without an answer, we assumed that a lookup was blocking others. Here all are slower
/// than that, so each ran on its own connection, and 310 of 640 found the queue full.
#[tokio::test]
async fn lookups_in_a_far_postgresql_share_its_connections() {
    let [near, far] = places();
    let db = TestDb::new().await;
    db.execute("create table item as select generate_series(1, 1000) as id").await;
    lookups_share_connections(&near, &url_at(&far, &db)).await;
}

#[tokio::test]
async fn lookups_in_a_far_mariadb_share_its_connections() {
    let [near, far] = places();
    let db = MariaDb::new("create table item as select seq as id from seq_1_to_1000");
    let port = far.relay(mariadb_socket()).unwrap();
    let url = db.url_at(port).replace("127.0.0.1", &far.address.to_string());
    lookups_share_connections(&near, &url).await;
}

/// Sixty-four clients at a place send ten requests each.
async fn lookups_share_connections(near: &Place, url: &str) {
    let config = format!("[source.db]\nurl = \"{url}\"\npool = {{ max = 8 }}\n");
    let item = "/*\nresult = \"one\"\n[params]\nid = \"integer\"\n*/\nselect id from item where id = :id";
    let files = [("rowstream.toml", &config[..]), ("endpoints/item/{id}.sql", item)];
    let server = start_at(near, Launch::files(&files)).await;
    let mut bench = near.command(program());
    bench.args(["bench", "-c", "64", "-n", "640", &server.url("/item/{1-1000}")]);
    let begun = Instant::now();
    let output = tokio::task::spawn_blocking(move || bench.output()).await.unwrap().unwrap();
    let taken = begun.elapsed().as_secs_f64() / (2 * DELAY).as_secs_f64();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(said.contains("640 complete, 0 failed"), "{said}");
    // Some are for opening connections and describing the statement.
    assert!(taken < 40.0, "{taken} round trips");
}

/// The kernel's buffers for a server's connections: unacknowledged bytes of responses, and unread
/// bytes of databases (proc(5), `/proc/net/tcp`).
fn held(server: &Server) -> (u64, u64) {
    let sockets: Vec<String> = fs::read_dir(format!("/proc/{}/fd", server.pid()))
        .unwrap()
        .filter_map(|entry| fs::read_link(entry.unwrap().path()).ok())
        .filter_map(|link| Some(link.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?.to_owned()))
        .collect();
    let bytes = |hexadecimal| u64::from_str_radix(hexadecimal, 16).unwrap();
    let (mut unacknowledged, mut unread) = (0, 0);
    for line in fs::read_to_string("/proc/net/tcp").unwrap().lines().skip(1) {
        let words: Vec<&str> = line.split_whitespace().collect();
        // For a listening socket, this is the backlog.
        if words[3] != "0A" && sockets.iter().any(|inode| inode == words[9]) {
            let (sent, received) = words[4].split_once(':').unwrap();
            (unacknowledged, unread) = (unacknowledged + bytes(sent), unread + bytes(received));
        }
    }
    (unacknowledged, unread)
}

/// A connection to the database that a fast client used before must not have a larger buffer for a
/// slow one.
#[tokio::test]
async fn of_a_client_that_takes_nothing_the_kernel_holds_little() {
    let db = TestDb::new().await;
    let server = launch(&db.url()).start().await;
    assert_eq!(get(&server.url("/items.ndjson")).await.status, 200);
    let stream = Client::HTTP1.stream(&server.url("/items.ndjson")).await;
    let mut before = (0, 0);
    loop {
        tokio::time::sleep(Duration::from_millis(500)).await;
        let now = held(&server);
        if now == before && now.1 > 0 {
            break;
        }
        before = now;
    }
    let (unsent, unread) = before;
    assert!(unsent <= 160 * 1024, "{unsent} bytes to the client");
    assert!(unread <= 96 * 1024, "{unread} bytes of the database");
    drop(stream);
}
