//! `rowstream query`: the same engine into a file or a pipe.
//!
//! A file appears under its name only when it is whole: until then it is `FILE.partial`.

use std::ffi::OsString;
use std::fs::{self, File};
use std::future::poll_fn;
use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};

use indicatif::{HumanBytes, HumanCount, ProgressBar, ProgressStyle};
use rowstream_encode::{BytesForm, Choice, Format, Intervals, Nulls, Numbers, ValueOptions};

use super::output::Results;
use super::{Failure, block_on, param};
use crate::config::{Argument, Config, Purpose};
use crate::source::Source;
use crate::stream::RowStream;

/// Runs one statement and writes its rows.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The URL of the database (postgres://…, sqlite:FILE), or the path of a SQLite file.
    url: String,
    /// The statement; its `:names` are parameters.
    sql: String,
    /// A parameter of the statement, with its type (integer, number, text, boolean, date,
    /// timestamp, duration, uuid, json, and lists: integer[]).
    ///
    /// Without a type, PostgreSQL infers it from the statement. Where it cannot, and in other
    /// databases, the value's form decides: digits are an integer (150, -2), with a point between
    /// them a number (1.5); all else is text, and so is 007. An empty value is NULL, but for text.
    #[arg(short, long = "param", value_name = "NAME[:TYPE]=VALUE", value_parser = param::with_value)]
    param: Vec<Argument>,
    /// The format: json, ndjson, csv, sse, json-seq, arrow.
    #[arg(long, value_name = "FORMAT", default_value = "ndjson", value_parser = parse_format)]
    format: Format,
    #[command(flatten)]
    options: OptionArgs,
    /// The file to write, instead of stdout.
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

/// How values are written.
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

fn parse_choice<T: Choice>(name: &str) -> Result<T, String> {
    T::from_name(name).ok_or_else(|| {
        let names: Vec<_> = T::ALL.iter().map(|choice| choice.name()).collect();
        format!("the choices are {}", names.join(", "))
    })
}

fn parse_format(name: &str) -> Result<Format, String> {
    Format::from_name(name).ok_or_else(|| {
        let names = Format::ALL.map(Format::name);
        format!("the formats are {}", names.join(", "))
    })
}

pub(super) fn run(args: &Args) -> Result<(), Failure> {
    let config = Config::single_with(&args.url, &args.sql, Purpose::Query, &args.param)?;
    match &args.output {
        None => block_on(write_rows(&config, args, Results::new())),
        Some(path) => write_file(path, |file| block_on(write_rows(&config, args, file))),
    }
}

/// Writes into `PATH.partial`, and renames it when it is whole.
fn write_file(path: &Path, write: impl FnOnce(&File) -> Result<(), Failure>) -> Result<(), Failure> {
    let mut partial = OsString::from(path);
    partial.push(".partial");
    let file =
        File::create(&partial).map_err(|error| Failure::Message(format!("{}: {error}", path.display())))?;
    write(&file).inspect_err(|_| {
        let _ = fs::remove_file(&partial);
    })?;
    file.sync_all()?;
    Ok(fs::rename(&partial, path)?)
}

async fn write_rows(config: &Config, args: &Args, mut out: impl Write) -> Result<(), Failure> {
    let endpoint = &config.endpoints[0];
    let source = Source::open(&config.sources[0])?;
    let values = endpoint.params.iter().filter_map(|param| param.default.clone()).collect();
    let written = (args.format, args.options.options());
    let mut stream = RowStream::open_with(endpoint, &source, written, values).await?;
    let progress = Progress::new(args.output.is_none());
    let mut bytes = 0;
    while let Some(chunk) = poll_fn(|cx| stream.poll_chunk(cx)).await {
        let chunk = chunk?;
        out.write_all(&chunk)?;
        bytes += chunk.len() as u64;
        progress.show(stream.rows(), bytes);
    }
    progress.finish();
    Ok(out.flush()?)
}

/// Rows, bytes and rate on stderr, where a person sees them and they do not mix with the rows.
struct Progress(ProgressBar);

impl Progress {
    fn new(rows_on_stdout: bool) -> Self {
        let hidden = !io::stderr().is_terminal() || (rows_on_stdout && io::stdout().is_terminal());
        let bar = if hidden { ProgressBar::hidden() } else { ProgressBar::new_spinner() };
        let style = ProgressStyle::with_template("{spinner} {msg}").expect("the template is valid");
        Self(bar.with_style(style))
    }

    fn show(&self, rows: u64, bytes: u64) {
        if self.0.is_hidden() {
            return;
        }
        let rate = |total: u64| (total as f64 / self.0.elapsed().as_secs_f64().max(1e-3)) as u64;
        self.0.set_message(format!(
            "{} rows, {} ({} rows/s, {}/s)",
            HumanCount(rows),
            HumanBytes(bytes),
            HumanCount(rate(rows)),
            HumanBytes(rate(bytes)),
        ));
        self.0.tick();
    }

    /// Leaves the last numbers on the screen.
    fn finish(&self) {
        self.0.abandon();
    }
}
