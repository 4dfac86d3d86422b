//! `[source.NAME]`: a database or an HTTP service, and how the server uses it.

mod discover;
mod http;

use std::collections::BTreeMap;
use std::path::Path;

use rowstream_core::diagnostic::reader::{Table, Value, set};
use rowstream_core::diagnostic::{did_you_mean, list, shown};
use rowstream_core::pool::PoolConfig;
use rowstream_core::settings::SettingOrigin;
use rowstream_core::sql::dialect::{Dialect, Location};

use super::features;
use crate::database::{DatabaseKind, Elsewhere, OwnSetting, SourceContext, optional};
use crate::source::SourceConfig;

/// The schemes of HTTP services.
const HTTP: [&str; 2] = ["http", "https"];

/// The kind of source that a URL's scheme names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Scheme {
    Sql(DatabaseKind),
    Http,
}

/// Reads a source. Returns `None` and records the reason if its URL can't be used.
pub(super) fn read(name: &str, value: &Value<'_>, context: &SourceContext<'_>) -> Option<SourceConfig> {
    let folder = context.folder;
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
    if let Some(bytes) = table.take("max_row_bytes").and_then(|value| value.size()) {
        (source.max_row_bytes, source.max_row_bytes_by) = (bytes, SettingOrigin::User);
    }
    source.expected_duration = table.take("expected_duration").and_then(|value| value.duration());
    source.statement_timeout = table.take("statement_timeout").and_then(|value| value.duration());
    let is_chosen = given.as_ref().is_some_and(is_chosen_by_variable);
    for setting in DatabaseKind::ALL.iter().flat_map(|kind| kind.settings()) {
        let Some(value) = table.take(setting.name) else { continue };
        match database.is_some_and(|database| is_refused(setting, database, is_chosen)) {
            true => value.error_with(is_for_others(setting), setting.hint),
            false => (setting.read)(&value, context, &mut source),
        }
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

/// True if a variable contains the scheme of a URL: `${SHOP_URL:-sqlite:shop.db}`.
fn is_chosen_by_variable(url: &Value<'_>) -> bool {
    url.source_text().split(':').next().is_some_and(|scheme| scheme.contains("${"))
}

fn is_refused(setting: &OwnSetting, database: DatabaseKind, is_chosen: bool) -> bool {
    let is_lenient = match setting.elsewhere {
        Elsewhere::Refused => false,
        Elsewhere::IgnoredIfChosen => is_chosen,
        Elsewhere::Ignored => true,
    };
    !is_lenient && !database.has(setting.name)
}

/// The message that a setting is for other databases than that of its source.
fn is_for_others(setting: &OwnSetting) -> String {
    let databases = DatabaseKind::ALL.iter().filter(|database| database.has(setting.name));
    let names: Vec<_> = databases.map(|database| database.dialect().name).collect();
    format!("`{}` is for {}", setting.name, names.join(", "))
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
            Location::Driver { by_name } => driver(scheme, rest, folder, by_name),
            Location::ConnectionString => format!("{scheme}:{rest}"),
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
        Location::Driver { .. } | Location::ConnectionString => format!("{scheme}:…"),
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

/// The URL of a driver. A path is joined to the folder; `join` keeps an absolute path as it is. For the
/// schemes `by_name`, it must look like a path.
fn driver(scheme: &str, rest: &str, folder: &Path, by_name: &[&str]) -> String {
    let (path, options) = rest.split_at(rest.find('?').unwrap_or(rest.len()));
    let is_name = path.is_empty() || by_name.contains(&scheme) && !path.contains(['/', '.']);
    match is_name {
        true => format!("{scheme}:{rest}"),
        false => format!("{scheme}:{}{options}", folder.join(path).display()),
    }
}

/// The error of a URL of this scheme if this build lacks its database.
pub(super) fn lacking(scheme: &str) -> Option<UrlError> {
    let lacking = optional::of_scheme(scheme).filter(|_| DatabaseKind::of_scheme(scheme).is_none())?;
    Some(UrlError { message: features::message(lacking.name), hint: features::hint(lacking.feature) })
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

#[cfg(test)]
mod tests {
    use rowstream_core::diagnostic::{Collector, File, Variables};

    use super::*;

    /// The errors of a source with these settings.
    fn errors(settings: &str) -> String {
        let errors = Collector::default();
        let environment = |name: &str| (name == "URL").then(|| "mysql://h/d".to_owned());
        let (path, variables) = (Path::new("f"), Variables::Expand(&environment));
        let file = File { path, text: settings, variables, errors: &errors };
        let table = Table::parse(file, 0..settings.len(), None).expect("TOML");
        let context = SourceContext { folder: Path::new(""), has_claims: true };
        for (_, name, value) in table.entries() {
            read(&name, &value, &context);
        }
        errors.finish(()).map_or_else(|errors| errors.to_string(), |()| String::new())
    }

    /// A guard of another database, such as `max_lag` on MySQL, was once accepted and ignored.
    #[test]
    fn a_setting_of_another_database_is_refused() {
        for setting in DatabaseKind::ALL.iter().flat_map(|kind| kind.settings()) {
            let name = setting.name;
            let value = match name {
                "pooler" => "'session'",
                "max_lag" => "'5s'",
                "role_claim" | "anonymous_role" => "'a'",
                "roles" | "create" => "[]",
                "password_command" => "['pass']",
                "mmap" | "fetch_bytes" | "worker_memory" => "'1MiB'",
                _ => panic!("a value of `{name}` to test"),
            };
            let claim = if ["anonymous_role", "roles"].contains(&name) { ", role_claim = 'a'" } else { "" };
            for kind in DatabaseKind::ALL {
                let url = kind.dialect().urls.example;
                let [is_fixed, is_chosen] = [url.to_owned(), format!("${{SHOP_URL:-{url}}}")]
                    .map(|url| errors(&format!("main = {{ url = '{url}', {name} = {value}{claim} }}")));
                let expected = format!("`{name}` is for ");
                let (of_fixed, of_chosen) = match setting.elsewhere {
                    _ if kind.has(setting.name) => (false, false),
                    Elsewhere::Refused => (true, true),
                    Elsewhere::IgnoredIfChosen => (true, false),
                    Elsewhere::Ignored => (false, false),
                };
                for (report, is_refused) in [(is_fixed, of_fixed), (is_chosen, of_chosen)] {
                    assert_eq!(report.contains(&expected), is_refused, "{url}, {name}: {report}");
                    assert_eq!(report.is_empty(), !is_refused, "{url}, {name}: {report}");
                    assert_eq!(report.contains("hint: leave it out"), is_refused, "{url}, {name}: {report}");
                }
            }
        }
    }

    #[test]
    fn a_variable_chooses_the_database_only_by_its_scheme() {
        for (url, is_refused) in [
            ("${URL}", false),
            ("${URL:-sqlite:a.db}", false),
            ("${NO:-mysql://h/d}", false),
            ("mysql://${NO:-h}/d", true),
            ("mysql://h/${NO:-d}", true),
        ] {
            let report = errors(&format!("main = {{ url = '{url}', mmap = '1MiB' }}"));
            let expected = if is_refused { "`mmap` is for SQLite\n    hint: leave it out" } else { "" };
            assert_eq!(report.split_once(": ").map_or("", |(_, message)| message), expected, "{url}");
        }
    }

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

    #[cfg(all(feature = "adbc", feature = "odbc"))]
    #[test]
    fn only_paths_of_drivers_and_files_are_joined_to_the_folder() {
        for (text, expected) in [
            ("adbc:sqlite?uri=a/b", "adbc:sqlite?uri=a/b"),
            ("adbc:libx.so", "adbc:conf/libx.so"),
            ("adbc:lib/x?uri=a/b", "adbc:conf/lib/x?uri=a/b"),
            ("duckdb:", "duckdb:"),
            ("duckdb:shop", "duckdb:conf/shop"),
            ("duckdb:?threads=2", "duckdb:?threads=2"),
            ("odbc:Driver=/opt/x.so;Database=./shop.db", "odbc:Driver=/opt/x.so;Database=./shop.db"),
        ] {
            let url = url(text, Path::new("conf")).map(|(url, _)| url).map_err(|error| error.message);
            assert_eq!(url.as_deref(), Ok(expected), "{text}");
        }
    }
}
