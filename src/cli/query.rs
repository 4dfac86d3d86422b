//! `rowstream query`: runs a statement with the same engine, and writes to a terminal, a file or a
//! pipe.
//!
//! A file only gets its name when it's complete. Until then it's `FILE.partial`.

mod ending;
mod form;
mod table;

use std::ffi::OsString;
use std::fs::{self, File};
use std::future::{pending, poll_fn};
use std::io::{self, BufWriter, IsTerminal, Read, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use bytes::Bytes;
use indicatif::HumanCount;
use rowstream_core::Error;
use rowstream_core::diagnostic::encoding::{EncodingError, read_utf8};
use rowstream_core::diagnostic::shown;
use rowstream_encode::{
    BytesForm, Choice, CsvChoice, CsvDialect, Format, Intervals, Nulls, Numbers, Separator, ValueOptions,
};
use tokio::task::spawn_blocking;

pub(super) use self::ending::{EndSignal, EndSignals, reader_left};
use self::form::RowForm;
use self::table::TableWriter;
use super::output::ResultOutput;
use super::progress::{self, Progress};
use super::{Failure, param, tables};
use crate::check;
use crate::config::{Argument, Config, Purpose};
use crate::endpoint::{Endpoint, ParallelRead};
use crate::source::{Source, SourceKind};
use crate::stream::RowStream;

/// Runs one statement and writes its rows.
#[derive(Debug, clap::Args)]
pub(super) struct QueryArgs {
    /// The URL of the database (postgres://…, sqlite:FILE), or the path of a SQLite file.
    url: String,
    /// The statement, or - to read it from standard input; its `:names` are parameters.
    #[arg(required_unless_present = "file")]
    sql: Option<String>,
    /// The file that contains the statement, or - for standard input.
    #[arg(short, long, value_name = "FILE", conflicts_with = "sql")]
    file: Option<PathBuf>,
    /// A parameter of the statement, with its type (integer, number, text, boolean, date,
    /// timestamp, duration, uuid, json, and lists: integer[]).
    ///
    /// Without a type, PostgreSQL infers it from the statement. If it can't, and in other
    /// databases, the form of the value decides: digits are an integer (150, -2), digits with a
    /// point are a number (1.5), and everything else is text, including 007. An empty value is NULL
    /// if a type other than text is written; without a type it's an empty text.
    #[arg(short, long = "param", value_name = "NAME[:TYPE]=VALUE", value_parser = param::with_value)]
    param: Vec<Argument>,
    /// The format: table, json, ndjson, csv, sse, json-seq, arrow [default: by the suffix of the
    /// file; table on a terminal; else ndjson].
    #[arg(long, value_name = "FORMAT", value_parser = form::parse)]
    format: Option<RowForm>,
    #[command(flatten)]
    options: OptionArgs,
    #[command(flatten)]
    csv: CsvArgs,
    /// The file to write, instead of stdout.
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Read the rows with up to this many connections at once. Each reads a part of the only table
    /// in the statement, and the rows arrive in any order. PostgreSQL only.
    #[arg(long, value_name = "CONNECTIONS", value_parser = clap::value_parser!(u8).range(2..=64))]
    parallel: Option<u8>,
    /// The mode of a pooler in front of the database, which lends its connections for a transaction
    /// or for a session each, like `pooler` in a configuration. PostgreSQL only.
    #[arg(long, value_enum, value_name = "MODE")]
    pooler: Option<tables::PoolerMode>,
    /// Report the number of rows and the time on stderr at the end. A terminal always shows them.
    #[arg(long)]
    stats: bool,
}

/// The form of values.
#[derive(Debug, clap::Args)]
struct OptionArgs {
    /// 64-bit integers and decimals as: number, string.
    #[arg(long, value_name = "FORM", default_value = "number", value_parser = parse_choice::<Numbers>)]
    numbers: Numbers,
    /// Bytes as: hex, base64.
    #[arg(long, value_name = "FORM", default_value = "hex", value_parser = parse_choice::<BytesForm>)]
    bytes: BytesForm,
    /// Intervals as: text, iso.
    #[arg(long, value_name = "FORM", default_value = "text", value_parser = parse_choice::<Intervals>)]
    intervals: Intervals,
    /// NULLs in objects: null, omit.
    #[arg(long, value_name = "FORM", default_value = "null", value_parser = parse_choice::<Nulls>)]
    nulls: Nulls,
}

impl OptionArgs {
    fn options(&self) -> ValueOptions {
        let &Self { numbers, bytes, intervals, nulls } = self;
        ValueOptions { numbers, bytes, intervals, nulls }
    }
}

/// The dialect of CSV.
#[derive(Debug, clap::Args)]
struct CsvArgs {
    /// The separator of CSV: comma, semicolon, tab, pipe [default: tab for a file `.tsv`, else
    /// comma].
    #[arg(long, value_name = "SEPARATOR", value_parser = parse_separator)]
    csv_separator: Option<Separator>,
    /// Begin CSV with a byte order mark, for Excel.
    #[arg(long)]
    csv_bom: bool,
    /// The text for NULL in CSV, instead of an empty one.
    #[arg(long, value_name = "TEXT", value_parser = CsvChoice::null)]
    csv_null: Option<String>,
    /// Write an apostrophe before each text of CSV that a spreadsheet would run as a formula.
    #[arg(long)]
    csv_guard: bool,
}

impl CsvArgs {
    /// The dialect for a file.
    fn dialect(&self, output: Option<&Path>) -> CsvDialect {
        let is_tsv =
            output.and_then(Path::extension).is_some_and(|suffix| suffix.eq_ignore_ascii_case("tsv"));
        let default = CsvDialect {
            separator: if is_tsv { Separator::Tab } else { Separator::Comma },
            ..CsvDialect::default()
        };
        let &Self { csv_separator: separator, csv_bom, ref csv_null, csv_guard } = self;
        let (bom, guard) = (Some(csv_bom), Some(csv_guard));
        let choice = CsvChoice { separator, bom, null: csv_null.clone(), guard };
        choice.over(&default).unwrap_or(default)
    }
}

fn parse_separator(name: &str) -> Result<Separator, String> {
    Separator::from_name(name).ok_or_else(|| "the separators are comma, semicolon, tab, pipe".to_owned())
}

fn parse_choice<T: Choice>(name: &str) -> Result<T, String> {
    T::from_name(name).ok_or_else(|| {
        let names: Vec<_> = T::ALL.iter().map(|choice| choice.name()).collect();
        format!("the choices are {}", names.join(", "))
    })
}

impl QueryArgs {
    /// The statement's name in errors, and its text.
    fn statement(&self) -> Result<(&Path, String), Failure> {
        match (&self.file, &self.sql) {
            (Some(file), _) if file != Path::new("-") => {
                Ok((file, text_of(&shown(&file.to_string_lossy()), fs::read(file))?))
            }
            (None, Some(sql)) if sql != "-" => Ok((Path::new("SQL"), sql.clone())),
            _ => {
                let mut bytes = Vec::new();
                let read = io::stdin().read_to_end(&mut bytes);
                Ok((Path::new("stdin"), text_of("standard input", read.map(|_| bytes))?))
            }
        }
    }

    fn form(&self) -> Result<RowForm, Failure> {
        self.format.map_or_else(|| form::default(self.output.as_deref()), Ok)
    }
}

/// The text of a statement, read from `what`.
fn text_of(what: &str, read: io::Result<Vec<u8>>) -> Result<String, Failure> {
    let why = match read.map(read_utf8) {
        Ok(Ok(text)) => return Ok(text),
        Ok(Err(EncodingError::Utf16)) => "it is UTF-16\n    hint: save it as UTF-8".to_owned(),
        Ok(Err(EncodingError::From(line, column))) => {
            format!("it is not UTF-8 from {line}:{column} on\n    hint: save it as UTF-8")
        }
        Err(error) => error.to_string(),
    };
    Err(Failure::Message(format!("the statement in {what} cannot be read: {why}")))
}

pub(super) fn run(args: &QueryArgs) -> Result<(), Failure> {
    let form = args.form()?;
    let (name, sql) = args.statement()?;
    let mut config = Config::single_with(&args.url, name, &sql, Purpose::Query, &args.param)?;
    tables::refuse_missing(&config.sources[0])?;
    tables::set_pooler(&mut config.sources[0], args.pooler)?;
    // Otherwise a reader of the CSV couldn't tell an empty text from NULL.
    config.endpoints[0].response.csv = match form {
        RowForm::Table => CsvDialect { null: table::NULL.to_owned(), ..CsvDialect::default() },
        RowForm::Format(_) => args.csv.dialect(args.output.as_deref()),
    };
    if let Some(parts) = args.parallel {
        read_in_parts(&mut config, usize::from(parts))?;
    }
    match &args.output {
        None => block_on(write_rows(&config, args, form, ResultOutput::new())),
        Some(path) => write_file(path, |file| block_on(write_rows(&config, args, form, file))),
    }
}

/// Runs a query on this thread. If its reader reads nothing, the thread that writes is abandoned,
/// because the process is about to end.
fn block_on(query: impl Future<Output = Result<(), Failure>>) -> Result<(), Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let ended = runtime.block_on(query);
    runtime.shutdown_background();
    ended
}

/// Reads the rows on up to `parts` connections.
fn read_in_parts(config: &mut Config, parts: usize) -> Result<(), Failure> {
    let (source, endpoint) = (&mut config.sources[0], &mut config.endpoints[0]);
    let SourceKind::Sql(database) = source.kind else { return Ok(()) };
    let parallel = ParallelRead::new(endpoint, parts, database.dialect(), 0);
    let parallel = parallel.map_err(|(message, hint)| Error::endpoint(message).hint(hint))?;
    endpoint.read_in_parts(parallel);
    source.pool.max = source.pool.max.max(parts);
    Ok(())
}

/// Writes into `PATH.partial`, and renames it when it's complete.
fn write_file(path: &Path, write: impl FnOnce(File) -> Result<(), Failure>) -> Result<(), Failure> {
    let mut partial = OsString::from(path);
    partial.push(".partial");
    let file =
        File::create(&partial).map_err(|error| Failure::Message(format!("{}: {error}", path.display())))?;
    let written = file.try_clone().map_err(Failure::from).and_then(write).and_then(|()| {
        file.sync_all()?;
        Ok(fs::rename(&partial, path)?)
    });
    written.inspect_err(|_| {
        let _ = fs::remove_file(&partial);
    })
}

/// Writes the rows. Ends at the last one, at a signal, or when the reader of standard output
/// leaves.
async fn write_rows(
    config: &Config,
    args: &QueryArgs,
    form: RowForm,
    out: impl Write + Send + 'static,
) -> Result<(), Failure> {
    let signals = EndSignals::new()?;
    let source = Source::open(&config.sources[0])?;
    let left = async {
        match args.output {
            None => reader_left().await,
            Some(_) => pending().await,
        }
    };
    signals.drive(write_form(&config.endpoints[0], args, &source, form, out), left, &source).await
}

async fn write_form(
    endpoint: &Endpoint,
    args: &QueryArgs,
    source: &Source,
    form: RowForm,
    out: impl Write + Send + 'static,
) -> Result<(), Failure> {
    match form {
        RowForm::Format(format) => copy_rows(endpoint, args, source, format, out).await,
        RowForm::Table => {
            let terminal = args.output.is_none().then(terminal_size::terminal_size).flatten();
            let width = terminal.map_or(usize::MAX, |(width, _)| usize::from(width.0));
            let table = TableWriter::new(BufWriter::new(out), width);
            copy_rows(endpoint, args, source, Format::Csv, table).await
        }
    }
}

/// Writes the rows as they arrive. No row waits in `out` for further ones.
async fn copy_rows(
    endpoint: &Endpoint,
    args: &QueryArgs,
    source: &Source,
    format: Format,
    mut out: impl Write + Send + 'static,
) -> Result<(), Failure> {
    let began = Instant::now();
    if endpoint.parallel().is_some() {
        check::parts(endpoint, source).await?;
    }
    let values = endpoint.params.iter().filter_map(|param| param.default.clone()).collect();
    let written = (format, args.options.options());
    let mut stream = RowStream::open_with(endpoint, source, written, values).await?;
    let progress = Progress::new(args.output.is_none());
    let mut bytes = 0;
    while let Some(chunk) = poll_fn(|cx| stream.poll_chunk(cx)).await {
        let chunk = chunk?;
        bytes += chunk.len() as u64;
        out = write_chunk(out, chunk).await?;
        progress.show(stream.rows(), bytes, None);
    }
    progress.clear();
    if args.stats || io::stderr().is_terminal() {
        let by = stream.parts().map_or_else(String::new, |parts| format!(" by {parts} connections"));
        eprintln!("{}{by}", stats(stream.rows(), began.elapsed()));
    }
    Ok(())
}

/// Writes on another thread, so that signals are handled even if the reader reads nothing.
async fn write_chunk<W: Write + Send + 'static>(mut out: W, chunk: Bytes) -> io::Result<W> {
    let writing = spawn_blocking(move || {
        out.write_all(&chunk)?;
        out.flush()?;
        Ok(out)
    });
    writing.await?
}

/// The summary for people.
fn stats(rows: u64, elapsed: Duration) -> String {
    let seconds = elapsed.as_secs_f64();
    let rate = HumanCount((rows as f64 / seconds.max(1e-6)) as u64);
    format!("{} in {} ({rate} rows/s)", progress::count(rows), progress::time(elapsed))
}
