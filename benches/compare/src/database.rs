//! The databases of a comparison, filled with the examples' data, and their own cost of reading the
//! same rows.

use std::fs::File;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use distance::Place;

use crate::process::without_postgres_settings;
use crate::{Result, Size, workspace};

/// The columns of `/events`, as every floor reads them.
pub(crate) const EVENTS: &str =
    "select event_no, paymt_status, status_chg_rsn, status_chg_date from payment_event order by event_no";
/// The columns of `/authors`.
pub(crate) const AUTHORS: &str = "select id, first_name, last_name, email, born, country, active, books, royalties, motto, joined from author order by id";

/// The example that a row reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Data {
    Authors,
    Events,
    Films,
}

impl Data {
    pub(crate) const ALL: [Self; 3] = [Self::Authors, Self::Events, Self::Films];

    /// The name of its folder and of its source.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Authors => "authors",
            Self::Events => "events",
            Self::Films => "films",
        }
    }

    /// The number of rows in its table. Films are few at any size.
    pub(crate) fn rows(self, size: Size) -> u64 {
        match self {
            Self::Authors => size.of(100_000),
            Self::Events => size.of(1_000_000),
            Self::Films => 1000,
        }
    }

    pub(crate) fn folder(self) -> PathBuf {
        workspace::root().join("examples").join(self.name())
    }

    /// The example's script, with the number of rows for this size.
    fn script(self, file: &str, size: Size) -> Result<String> {
        let script = workspace::read(&self.folder().join("data").join(file))?;
        let (all, wanted) = (self.rows(Size::Full), self.rows(size));
        let count = |rows| {
            [format!("(1::bigint, {rows})"), format!("where i < {rows})"), format!("seq_1_to_{rows})")]
        };
        let (all, fewer) = (count(all), count(wanted));
        let Some(kind) = all.iter().position(|words| script.contains(words)) else {
            return Err(format!("examples/{}/data/{file} does not say how many rows it makes", self.name()));
        };
        Ok(script.replace(&all[kind], &fewer[kind]))
    }
}

/// The PostgreSQL that `cargo xtask` started, with our own database.
#[derive(Clone)]
pub(crate) struct Postgres {
    host: Ipv4Addr,
    port: u16,
    bin: PathBuf,
    /// The folder of its Unix socket.
    folder: PathBuf,
}

impl Postgres {
    /// Finds it through the environment of `cargo xtask compare`.
    pub(crate) fn from_environment() -> Result<Self> {
        let missing = "there is no PostgreSQL: call `cargo xtask compare`";
        let url = std::env::var("ROWSTREAM_TEST_PG").map_err(|_| missing)?;
        let bin = std::env::var_os("ROWSTREAM_TEST_PG_BIN").ok_or(missing)?;
        let folder = std::env::var_os("ROWSTREAM_TEST_PG_SOCKET").ok_or(missing)?;
        let port = port_of(&url).ok_or_else(|| format!("no port in {url}"))?;
        Ok(Self { host: Ipv4Addr::LOCALHOST, port, bin: bin.into(), folder: folder.into() })
    }

    /// The same server at another place.
    pub(crate) fn relayed_at(&self, place: &Place) -> Result<Self> {
        let socket = self.folder.join(format!(".s.PGSQL.{}", self.port));
        let port = place.relay(socket).map_err(|error| format!("nothing is relayed: {error}"))?;
        Ok(Self { host: place.address, port, ..self.clone() })
    }

    /// Creates the database `compare` from scratch. It's vacuumed, so that no run pays for the
    /// first visit of a page.
    pub(crate) fn fill(&self, size: Size) -> Result<()> {
        for sql in ["drop database if exists compare", "create database compare"] {
            self.execute("postgres", sql)?;
        }
        for data in Data::ALL {
            println!("filling PostgreSQL with {} {}", data.rows(size), data.name());
            self.execute("compare", &data.script("postgres.sql", size)?)?;
        }
        self.execute("compare", "vacuum analyze")?;
        self.execute("compare", "checkpoint")
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    pub(crate) fn url(&self) -> String {
        format!("postgres://postgres@{}:{}/compare?sslmode=disable", self.host, self.port)
    }

    /// The variables that libpq and the rivals read. TLS is off, because it would cost all sides
    /// the same.
    pub(crate) fn environment(&self) -> Vec<(String, String)> {
        let (host, port) = (self.host.to_string(), self.port.to_string());
        [
            ("PGHOST", host.as_str()),
            ("PGPORT", port.as_str()),
            ("PGUSER", "postgres"),
            ("PGPASSWORD", ""),
            ("PGDATABASE", "compare"),
            ("PGSSLMODE", "disable"),
        ]
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .to_vec()
    }

    /// One of PostgreSQL's own programs by its full path, because Debian's wrappers in `PATH` need
    /// longer than some of the runs.
    pub(crate) fn program(&self, name: &str) -> Command {
        let mut command = Command::new(self.bin.join(name));
        without_postgres_settings(&mut command).envs(self.environment());
        command
    }

    fn psql(&self) -> Command {
        let mut command = self.program("psql");
        command.args(["--no-psqlrc", "--quiet", "--set=ON_ERROR_STOP=1"]);
        command
    }

    fn execute(&self, database: &str, sql: &str) -> Result<()> {
        let file = workspace::scratch()?.join("script.sql");
        workspace::write(&file, sql)?;
        let mut command = self.psql();
        command.arg("--dbname").arg(database).arg("--file").arg(file).stdout(Stdio::null());
        run(&mut command)
    }

    /// The floor of a stream: PostgreSQL's own client discards the rows `times` times, in
    /// PostgreSQL's binary format.
    pub(crate) fn copy(&self, select: &str, times: usize) -> Command {
        let mut command = self.psql();
        for _ in 0..times {
            command.arg("--command").arg(format!("\\copy ({select}) to '/dev/null' with (format binary)"));
        }
        command.stdout(Stdio::null());
        command
    }

    /// Writes each row of a statement as PostgreSQL's own JSON, one per line. The targets'
    /// responses are compared with it.
    pub(crate) fn json_lines(&self, select: &str, file: &Path) -> Result<()> {
        let mut command = self.psql();
        command.args(["--no-align", "--tuples-only", "--output"]).arg(file);
        // Fetches with a cursor, because psql would otherwise hold the whole result.
        command.arg("--set=FETCH_COUNT=10000").arg("--command");
        run(command.arg(format!("select row_to_json(r) from ({select}) r")))
    }

    /// Writes the rows of a statement as CSV, with a header.
    pub(crate) fn csv(&self, select: &str, file: &Path) -> Result<()> {
        let copy = format!("\\copy ({select}) to '{}' with (format csv, header)", file.display());
        run(self.psql().arg("--command").arg(copy).stdout(Stdio::null()))
    }
}

fn port_of(url: &str) -> Option<u16> {
    let (_, rest) = url.rsplit_once('@')?;
    let (address, _) = rest.split_once('/')?;
    address.rsplit_once(':')?.1.parse().ok()
}

/// Runs a command that must succeed.
pub(crate) fn run(command: &mut Command) -> Result<()> {
    let status = command.status().map_err(|error| format!("cannot run {command:?}: {error}"))?;
    if status.success() { Ok(()) } else { Err(format!("{command:?} failed: {status}")) }
}

/// The duration of a command that must succeed, from the start of its process to its end, in
/// seconds.
pub(crate) fn timed(command: &mut Command) -> Result<f64> {
    let start = Instant::now();
    run(command)?;
    Ok(start.elapsed().as_secs_f64())
}

/// The MariaDB that `cargo xtask` started, with our own database.
pub(crate) struct MariaDb {
    port: u16,
}

impl MariaDb {
    /// Finds it through the environment of `cargo xtask compare`, and creates the database
    /// `compare` from scratch with an example's data.
    pub(crate) fn filled(data: Data, size: Size) -> Result<Self> {
        let url = std::env::var("ROWSTREAM_TEST_MARIADB")
            .map_err(|_| "there is no MariaDB: call `cargo xtask compare`")?;
        let this = Self { port: port_of(&url).ok_or_else(|| format!("no port in {url}"))? };
        println!("filling MariaDB with {} {}", data.rows(size), data.name());
        run(this.client().arg("--execute=drop database if exists compare; create database compare"))?;
        let file = workspace::scratch()?.join("script.sql");
        workspace::write(&file, &data.script("mariadb.sql", size)?)?;
        let script = File::open(&file).map_err(|error| format!("cannot open {}: {error}", file.display()))?;
        run(this.client().arg("compare").stdin(script))?;
        Ok(this)
    }

    pub(crate) fn url(&self) -> String {
        format!("mysql://root@127.0.0.1:{}/compare?ssl-mode=disabled", self.port)
    }

    /// One of MariaDB's own clients, connected to this server over TCP without TLS, like Rowstream.
    fn program(&self, name: &str) -> Command {
        let mut command = Command::new(name);
        command.args(["--no-defaults", "--user=root", "--host=127.0.0.1", "--protocol=tcp", "--skip-ssl"]);
        command.arg(format!("--port={}", self.port)).stdout(Stdio::null());
        command
    }

    fn client(&self) -> Command {
        let mut command = self.program("mariadb");
        command.args(["--default-character-set=utf8mb4", "--batch"]);
        command
    }

    /// The floor of a stream: MariaDB's own client discards the rows, as text.
    pub(crate) fn quick(&self, select: &str) -> Command {
        let mut command = self.client();
        command.args(["--quick", "compare", "--execute", select]);
        command
    }

    /// The floor of lookups: the clients run the statements of a script, this many in total. Each
    /// connection runs `prepared` first.
    pub(crate) fn slap(&self, script: &Path, prepared: &str, clients: u64, statements: u64) -> Command {
        let mut command = self.program("mysqlslap");
        command.args(["--create-schema=compare", "--no-drop", "--delimiter=;", "--csv"]);
        command.arg(format!("--concurrency={clients}")).arg(format!("--number-of-queries={statements}"));
        command.arg(format!("--query={}", script.display())).arg(format!("--init-command={prepared}"));
        command.stdout(Stdio::piped());
        command
    }
}

/// Creates an example's SQLite file from scratch, and returns its path.
pub(crate) fn fill_sqlite(data: Data, size: Size) -> Result<PathBuf> {
    let file = workspace::scratch()?.join(format!("{}.db", data.name()));
    for suffix in ["", "-wal", "-shm", "-journal"] {
        let path = PathBuf::from(format!("{}{suffix}", file.display()));
        if path.exists() {
            std::fs::remove_file(&path)
                .map_err(|error| format!("cannot remove {}: {error}", path.display()))?;
        }
    }
    println!("filling SQLite with {} {}", data.rows(size), data.name());
    let cannot = |error| format!("cannot fill {}: {error}", file.display());
    let database = rusqlite::Connection::open(&file).map_err(cannot)?;
    database.execute_batch("pragma synchronous = off; begin").map_err(cannot)?;
    database.execute_batch(&data.script("sqlite.sql", size)?).map_err(cannot)?;
    database.execute_batch("commit").map_err(cannot)?;
    Ok(file)
}

/// SQLite's floor: steps through all rows, and reads each value where SQLite stores it.
pub(crate) fn step_through_events(file: &str) -> Result<()> {
    let bytes = step_and_read(file).map_err(|error| format!("cannot read {file}: {error}"))?;
    println!("{bytes}");
    Ok(())
}

/// The bytes of all values. The sum prevents the compiler from removing the reads.
fn step_and_read(file: &str) -> rusqlite::Result<usize> {
    use rusqlite::types::ValueRef;
    let database = rusqlite::Connection::open_with_flags(file, rusqlite::OpenFlags::SQLITE_OPEN_READ_ONLY)?;
    let mut statement = database.prepare(EVENTS)?;
    let columns = statement.column_count();
    let mut rows = statement.query([])?;
    let mut bytes = 0;
    while let Some(row) = rows.next()? {
        for column in 0..columns {
            bytes += match row.get_ref(column)? {
                ValueRef::Null => 0,
                ValueRef::Integer(_) | ValueRef::Real(_) => 8,
                ValueRef::Text(text) | ValueRef::Blob(text) => text.len(),
            };
        }
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_port_is_in_the_url() {
        assert_eq!(port_of("postgres://postgres@127.0.0.1:40123/postgres?sslmode=disable"), Some(40123));
        assert_eq!(port_of("postgres://postgres@127.0.0.1/postgres"), None);
    }

    #[test]
    fn a_quick_run_has_fewer_rows() {
        for (data, file) in [
            (Data::Events, "sqlite.sql"),
            (Data::Authors, "postgres.sql"),
            (Data::Events, "mariadb.sql"),
            (Data::Authors, "mariadb.sql"),
        ] {
            let (full, quick) =
                (data.script(file, Size::Full).unwrap(), data.script(file, Size::Quick).unwrap());
            assert_eq!(full.len(), quick.len() + 1, "{}", data.name());
        }
        let films = Data::Films.script("postgres.sql", Size::Full).unwrap();
        assert_eq!(films, Data::Films.script("postgres.sql", Size::Quick).unwrap());
    }

    #[test]
    fn the_bare_loop_reads_all_values() {
        let file = std::env::temp_dir().join(format!("compare-{}.db", std::process::id()));
        let database = rusqlite::Connection::open(&file).unwrap();
        let made = "create table payment_event (event_no, paymt_status, status_chg_rsn, status_chg_date);
                    insert into payment_event values (1, 'abc', null, 'de'), (2, '', 'f', 'g')";
        database.execute_batch(made).unwrap();
        assert_eq!(step_and_read(file.to_str().unwrap()).unwrap(), 8 + 3 + 2 + 8 + 1 + 1);
        std::fs::remove_file(&file).unwrap();
    }
}
