//! `[source.NAME]`: a database or an HTTP service, and how the server uses it.

mod discover;
mod http;

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

use rowstream_core::diagnostic::reader::{Table, Value, set};
use rowstream_core::diagnostic::{did_you_mean, list, shown};
use rowstream_core::pool::PoolConfig;
use rowstream_core::settings::{Pooler, Roles, SettingOrigin};
use rowstream_core::sql::dialect::{Dialect, Location, PasswordOrigin};

use super::features;
use crate::database::DatabaseKind;
use crate::source::SourceConfig;

/// The schemes of HTTP services.
const HTTP: [&str; 2] = ["http", "https"];

/// The size of a driver's batch of rows, in bytes. With smaller batches, a fetch returns few rows.
/// With larger ones, a few streams fill the memory of their driver process.
const BATCHES: RangeInclusive<usize> = 4 << 10..=64 << 20;

/// Databases that a build may lack: the scheme, the name, and the Cargo feature.
const LEFT_OUT: [(&str, &str, &str); 5] = [
    ("adbc", "drivers of ADBC", "adbc"),
    ("duckdb", "DuckDB", "adbc"),
    ("odbc", "ODBC", "odbc"),
    ("flightsql", "Arrow Flight SQL", "flight"),
    ("flightsql+tls", "Arrow Flight SQL", "flight"),
];

/// The kind of source that a URL's scheme names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Scheme {
    Sql(DatabaseKind),
    Http,
}

/// Reads a source. Its paths are relative to `folder`, and `has_claims` is true if there is a
/// `[jwt]`. Returns `None` and records the reason if its URL can't be used.
pub(super) fn read(
    name: &str,
    value: &Value<'_>,
    (folder, has_claims): (&Path, bool),
) -> Option<SourceConfig> {
    let mut table = value.table(format!("[source.{name}]"))?;
    let given =
        table.require("url", "write `url = \"postgres://…\"`, `url = \"mysql://…\"`, `url = \"sqlite:…\"` or `url = \"https://…\"`");
    if let Some(list) = given.as_ref().filter(|value| value.is_list()) {
        return http::read(name, list, table, folder);
    }
    let url = given.as_ref().and_then(|value| read_url(value, folder));
    let (url, database) = match (url, &given) {
        (Some((_, Scheme::Http)), Some(given)) => return http::read(name, given, table, folder),
        (Some((url, Scheme::Sql(database))), _) => (url, Some(database)),
        _ => (String::new(), None),
    };
    // The other settings are checked too, even if the database isn't known.
    let mut source = SourceConfig::new(name, url, database.unwrap_or(DatabaseKind::ALL[0]));
    source.template = given.as_ref().and_then(Value::template);
    source.variables = variables(database, |name| value.variable(name));
    if let Some(mut pool) = table.take("pool").and_then(|pool| pool_table(name, &pool)) {
        read_pool(&mut pool, &mut source.pool);
        pool.finish();
    }
    set(&mut source.statement_cache, table.take("statement_cache").and_then(|value| value.count(0)));
    set(&mut source.fetch_rows, table.take("fetch_rows").and_then(|value| value.count(0)));
    set(&mut source.fetch_bytes, table.take("fetch_bytes").and_then(|value| read_batch(&value, database)));
    if let Some(bytes) = table.take("max_row_bytes").and_then(|value| value.size()) {
        (source.max_row_bytes, source.max_row_bytes_by) = (bytes, SettingOrigin::User);
    }
    source.expected_duration = table.take("expected_duration").and_then(|value| value.duration());
    source.statement_timeout = table.take("statement_timeout").and_then(|value| value.duration());
    if let Some(command) = table.take("password_command") {
        source.password_command = read_command(&command, database, folder).unwrap_or_default();
    }
    set(&mut source.mmap, table.take("mmap").and_then(|value| value.size()));
    set(&mut source.worker_memory, table.take("worker_memory").and_then(|value| value.size()));
    set(&mut source.pooler, table.take("pooler").and_then(|value| read_pooler(&value)));
    source.roles = read_roles(&mut table, database, has_claims);
    source.max_lag = table.take("max_lag").and_then(|value| value.duration());
    if let Some(scripts) = table.take("create") {
        source.create = read_scripts(&scripts, folder);
    }
    table.finish();
    database.map(|_| source)
}

/// The environment variables that apply if the URL of such a database lacks a setting. An empty
/// variable counts as not set.
pub(super) fn variables(
    database: Option<DatabaseKind>,
    environment: impl Fn(&str) -> Option<String>,
) -> BTreeMap<&'static str, String> {
    let names = database.map_or(&[][..], |database| database.dialect().urls.variables);
    let set =
        |name: &&'static str| environment(name).filter(|value| !value.is_empty()).map(|value| (*name, value));
    names.iter().filter_map(set).collect()
}

fn pool_table<'a>(source: &str, value: &Value<'a>) -> Option<Table<'a>> {
    value.table_like(format!("`pool` of [source.{source}]"), "write `pool = { max = 20 }`")
}

/// The settings that every kind of pool has.
fn read_pool(table: &mut Table<'_>, pool: &mut PoolConfig) {
    set(&mut pool.max, table.take("max").and_then(|value| value.count(1)));
    set(&mut pool.idle_timeout, table.take("idle_timeout").and_then(|value| value.duration()));
    set(&mut pool.acquire_timeout, table.take("acquire_timeout").and_then(|value| value.duration()));
    set(&mut pool.waiting, table.take("waiting").and_then(|value| value.count(0)));
    set(&mut pool.max_idle, table.take("max_idle").and_then(|value| value.count(0)));
}

fn read_url(value: &Value<'_>, folder: &Path) -> Option<(String, Scheme)> {
    match url(&value.string()?, folder) {
        Ok(url) => Some(url),
        Err(UrlError { message, hint }) => {
            value.error_with(message, hint);
            None
        }
    }
}

/// The error of an unusable URL. It never quotes the URL, which may contain a password.
pub(super) struct UrlError {
    pub(super) message: String,
    pub(super) hint: String,
}

/// Prepares a URL for its source, and returns the meaning of its scheme. A path in it is joined to
/// `folder`.
pub(super) fn url(url: &str, folder: &Path) -> Result<(String, Scheme), UrlError> {
    let Some((scheme, rest)) = url.split_once(':') else { return Err(no_scheme()) };
    if let Some((database, scheme)) = DatabaseKind::of_scheme(scheme) {
        let dialect = database.dialect();
        let url = match dialect.urls.location {
            Location::File => file(dialect, scheme, rest, folder)?,
            Location::Server => host(scheme, rest, &format!("write `{}`", dialect.urls.example))?,
            Location::Driver => driver(scheme, rest, folder),
        };
        return Ok((url, Scheme::Sql(database)));
    }
    match HTTP.iter().find(|known| scheme.eq_ignore_ascii_case(known)) {
        Some(scheme) => Ok((host(scheme, rest, "write `http://host:port` or `https://host`")?, Scheme::Http)),
        None => Err(with_driver(scheme, rest).unwrap_or_else(|| unknown_scheme(scheme))),
    }
}

/// The URL of a database without the parts that may contain a password. `None` if `text` isn't such
/// a URL.
pub(super) fn shown_database(text: &str) -> Option<String> {
    let (scheme, _) = text.split_once(':')?;
    let (database, scheme) = DatabaseKind::of_scheme(scheme)?;
    Some(match database.dialect().urls.location {
        Location::File => text.to_owned(),
        Location::Server => format!("{scheme}://…"),
        Location::Driver => format!("{scheme}:…"),
    })
}

fn schemes() -> impl Iterator<Item = &'static str> {
    DatabaseKind::ALL.iter().flat_map(|database| database.dialect().urls.schemes).copied().chain(HTTP)
}

fn host(scheme: &str, rest: &str, hint: &str) -> Result<String, UrlError> {
    if rest.starts_with("//") {
        return Ok(format!("{scheme}:{rest}"));
    }
    let message = format!("`{scheme}:` is not followed by `//`");
    Err(UrlError { message, hint: hint.to_owned() })
}

/// The URL of a driver. A part that looks like a path is joined to the folder; `join` keeps an
/// absolute path as it is.
fn driver(scheme: &str, rest: &str, folder: &Path) -> String {
    let (path, options) = rest.split_at(rest.find('?').unwrap_or(rest.len()));
    let is_name = match scheme {
        "adbc" => path.is_empty() || !path.contains(['/', '.']),
        // A connection string. Its paths are up to the driver.
        "odbc" => true,
        _ => path.is_empty(),
    };
    match is_name {
        true => format!("{scheme}:{rest}"),
        false => format!("{scheme}:{}{options}", folder.join(path).display()),
    }
}

/// The error of a URL of this scheme if this build lacks its database.
pub(super) fn lacking(scheme: &str) -> Option<UrlError> {
    let (_, name, feature) = LEFT_OUT.iter().find(|(left_out, ..)| scheme.eq_ignore_ascii_case(left_out))?;
    let is_missing = DatabaseKind::of_scheme(scheme).is_none();
    is_missing.then(|| UrlError { message: features::message(name), hint: features::hint(feature) })
}

fn no_scheme() -> UrlError {
    let hint = format!("write one of {} and a colon before it", list(schemes()));
    UrlError { message: "this URL has no scheme".to_owned(), hint }
}

/// The error of a URL of SQLAlchemy or JDBC, whose scheme also names a driver.
fn with_driver(scheme: &str, rest: &str) -> Option<UrlError> {
    let is_jdbc = scheme.eq_ignore_ascii_case("jdbc");
    let wanted = if is_jdbc { rest.split(':').next()? } else { scheme.split_once('+')?.0 };
    let (_, known) = DatabaseKind::of_scheme(wanted)?;
    let what = if is_jdbc { "`jdbc:`" } else { "the driver in the scheme" };
    let message = format!("this URL is for a {} program", if is_jdbc { "Java" } else { "Python" });
    Some(UrlError { message, hint: format!("leave out {what}: the URL begins with `{known}:`") })
}

/// Shows a scheme only if it looks like one, because the text before a colon may be half of a
/// password.
fn unknown_scheme(scheme: &str) -> UrlError {
    let near = did_you_mean(scheme, schemes());
    if let Some(error) = lacking(scheme) {
        return error;
    }
    let known = ["file", "jdbc", "mssql", "oracle", "sqlite3"];
    let named = near.is_some() || known.contains(&scheme.to_ascii_lowercase().as_str());
    let message = match named {
        true => format!("the scheme {} isn't known", shown(scheme)),
        false => "the scheme of this URL isn't known".to_owned(),
    };
    UrlError { message, hint: format!("the schemes are {}", list(schemes())) }
}

/// Reads `sqlite:file.db`, `sqlite:/abs/file.db` or `sqlite:///abs/file.db`. Returns the scheme and
/// the path of the file.
fn file(dialect: &Dialect, scheme: &str, rest: &str, folder: &Path) -> Result<String, UrlError> {
    let error = |message: String, hint: String| Err(UrlError { message, hint });
    let (name, example) = (dialect.name, format!("write `{scheme}:file.db`"));
    let path = match rest.strip_prefix("//") {
        // SQLAlchemy, Rails and Django write four slashes before an absolute path.
        Some(path) if path.starts_with('/') => &rest[rest.len() - path.trim_start_matches('/').len() - 1..],
        Some(_) => {
            let hint = format!("{example} or `{scheme}:///path/to/file.db`");
            return error(format!("this {name} URL names a host"), hint);
        }
        None => rest,
    };
    if path.is_empty() {
        return error(format!("this {name} URL names no file"), example);
    }
    if path.eq_ignore_ascii_case(":memory:") {
        let message = "a database in memory is not shared by the connections of a pool";
        return error(message.to_owned(), example);
    }
    if path.contains(['?', '#']) {
        let hint = "leave out what begins with `?` or `#`";
        return error(format!("a {name} URL has no options"), hint.to_owned());
    }
    // `join` keeps an absolute path as it is.
    match folder.join(path).to_str() {
        Some(path) => Ok(format!("{scheme}:{path}")),
        None => error(
            "the folder of the configuration file is not UTF-8".to_owned(),
            "rename it, or write an absolute path".to_owned(),
        ),
    }
}

/// The longest batch of a driver, in bytes.
fn read_batch(value: &Value<'_>, database: Option<DatabaseKind>) -> Option<usize> {
    if database.is_some_and(|database| database.dialect().urls.location != Location::Driver) {
        value.error_with(
            "only drivers (ADBC, ODBC) have batches of a size",
            "leave it out; `fetch_rows` says how many rows PostgreSQL sends at once",
        );
        return None;
    }
    let bytes = value.size()?;
    if !BATCHES.contains(&bytes) {
        value.error_with(
            "`fetch_bytes` is between 4KiB and 64MiB",
            "write `fetch_bytes = \"1MiB\"`, or leave it out, which is the same",
        );
        return None;
    }
    Some(bytes)
}

fn read_pooler(value: &Value<'_>) -> Option<Pooler> {
    let text = value.string()?;
    match text.as_str() {
        "transaction" => Some(Pooler::Transaction),
        "session" => Some(Pooler::Session),
        _ => {
            let message = format!("{} isn't a mode of a pooler", value.shown(&text));
            value.error_with(message, r#"write "transaction" or "session", or leave it out"#);
            None
        }
    }
}

/// A program and its arguments. A path of the program is relative to `folder`; a bare name is
/// searched in the PATH.
fn read_command(value: &Value<'_>, database: Option<DatabaseKind>, folder: &Path) -> Option<Vec<String>> {
    if database.is_some_and(|database| database.dialect().urls.password == PasswordOrigin::Url) {
        value.error_with(
            "`password_command` is for PostgreSQL, MySQL, MariaDB, ODBC and Arrow Flight SQL",
            "leave it out; a driver of ADBC has options for secrets, which can be in files: `${file:PATH}`",
        );
    }
    let mut command: Vec<_> = value.strings()?.into_iter().map(|(word, _)| word).collect();
    match command.first_mut() {
        Some(program) if program.contains('/') => *program = folder.join(&program).to_str()?.to_owned(),
        Some(program) if !program.is_empty() => {}
        _ => value.error_with(
            "`password_command` names no program",
            "write a program and its arguments: `password_command = [\"/usr/bin/pass\", \"shop\"]`",
        ),
    }
    Some(command)
}

/// The database roles of requests, by their tokens.
fn read_roles(table: &mut Table<'_>, database: Option<DatabaseKind>, has_claims: bool) -> Option<Roles> {
    let claim = table.take("role_claim");
    let anonymous = table.take("anonymous_role");
    let allowed = table.take("roles");
    let given = claim.as_ref().or(anonymous.as_ref()).or(allowed.as_ref())?;
    if database.is_some_and(|database| database != DatabaseKind::Postgres) {
        given.error_with("only PostgreSQL has roles for requests", "leave it out, or filter by `:jwt.sub`");
    }
    let Some(claim) = &claim else {
        given.error_with("this needs `role_claim`", "write `role_claim = \"role\"` beside it");
        return None;
    };
    if !has_claims {
        claim.error_with(
            "without `[jwt]`, no request has a claim that names its role",
            "add `[jwt]` with `issuer` and `audience`",
        );
    }
    Some(Roles {
        claim: claim.string()?,
        anonymous: match anonymous {
            Some(role) => Some(role.string()?),
            None => None,
        },
        allowed: match allowed {
            Some(roles) => roles.strings()?.into_iter().map(|(role, _)| role).collect(),
            None => Vec::new(),
        },
    })
}

/// The paths of the scripts, which must exist. Only SQLite runs them. Other databases ignore them,
/// so that the environment can choose either database (`url = "${SHOP_URL:-sqlite:shop.db}"`).
fn read_scripts(value: &Value<'_>, folder: &Path) -> Vec<PathBuf> {
    let scripts = value.strings().unwrap_or_default().into_iter();
    scripts
        .map(|(script, item)| {
            let path = folder.join(&script);
            if !path.is_file() {
                item.error(format!("there is no file {}", item.shown(&script)));
            }
            path
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls() {
        for (text, expected) in [
            ("postgres://u:p@h/d", Ok("postgres://u:p@h/d")),
            ("postgresql://h", Ok("postgresql://h")),
            ("POSTGRES://h", Ok("postgres://h")),
            ("sqlite:shop.db", Ok("sqlite:conf/shop.db")),
            ("sqlite:../shop.db", Ok("sqlite:conf/../shop.db")),
            ("sqlite:/abs/shop.db", Ok("sqlite:/abs/shop.db")),
            ("sqlite:///abs/shop.db", Ok("sqlite:/abs/shop.db")),
            ("sqlite:////abs/shop.db", Ok("sqlite:/abs/shop.db")),
            ("sqlite::memory:", Err("a database in memory is not shared by the connections of a pool")),
            ("sqlite:", Err("this SQLite URL names no file")),
            ("sqlite://shop.db", Err("this SQLite URL names a host")),
            ("sqlite:shop.db?mode=ro", Err("a SQLite URL has no options")),
            ("postgres:h", Err("`postgres:` is not followed by `//`")),
            ("HTTPS://h/a", Ok("https://h/a")),
            ("http:h", Err("`http:` is not followed by `//`")),
            ("postgresql+asyncpg://u:p@h/d", Err("this URL is for a Python program")),
            ("mysql+pymysql://u:p@h/d", Err("this URL is for a Python program")),
            ("jdbc:postgresql://h/d?password=p", Err("this URL is for a Java program")),
            ("jdbc:hunter2:x", Err("the scheme `jdbc` isn't known")),
            ("hunter+2:x", Err("the scheme of this URL isn't known")),
            ("oracle://h", Err("the scheme `oracle` isn't known")),
            ("postgre://h", Err("the scheme `postgre` isn't known")),
            ("hunter2:x", Err("the scheme of this URL isn't known")),
            ("shop.db", Err("this URL has no scheme")),
            ("", Err("this URL has no scheme")),
        ] {
            let url = url(text, Path::new("conf")).map(|(url, _)| url).map_err(|error| error.message);
            assert_eq!(url.as_deref().map_err(String::as_str), expected, "{text}");
        }
    }
}
