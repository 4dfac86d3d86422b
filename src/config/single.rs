//! One statement without a file, for `rowstream query` and `rowstream serve --sql`: finds its
//! source, and the types of its parameters.
//!
//! A parameter with the wrong type silently gives a wrong result. In SQLite, for example, each text
//! is greater than each number. So we use the type from the command line. If it gives none,
//! PostgreSQL infers one from the statement, or the form of the value determines it if there is a
//! value. Otherwise it's an error.

use std::path::Path;

use rowstream_core::diagnostic::{Collector, Diagnostics, File, Variables, shown, suggest};
use rowstream_core::params::{BindType, Param, ParamType, ParamValue};
use rowstream_core::sql::dialect::{Decimals, Dialect, ParameterTypes};

use super::source::{self, Scheme, UrlError};
use super::{Config, dotenv, files, generated};
use crate::database::{DatabaseFile, DatabaseKind, is_csv, is_table_file};
use crate::endpoint::{or_colon, read as endpoint};
use crate::source::SourceConfig;

/// The name of the source. Messages show it to users who have named none.
const SOURCE: &str = "database";

/// One `-p` of `query` or `--param` of `serve`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Argument {
    /// The parameter's name.
    pub name: String,
    /// The type, if the command line gives one, and true if it's a list.
    pub kind: Option<(ParamType, bool)>,
    /// The value, or the default if requests may give another.
    pub value: Option<String>,
}

/// The use of a statement without a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// Returns rows once. Each parameter has a value, and its form determines the type if nothing
    /// else does.
    Query,
    /// Serves an endpoint. Requests bring the values, and their types must be known before.
    Serve,
}

impl Purpose {
    fn option(self) -> &'static str {
        match self {
            Self::Query => "-p",
            Self::Serve => "--param",
        }
    }

    /// An example of how to write the type of a parameter.
    fn example(self, name: &str, kind: &str, value: Option<&str>) -> String {
        let option = self.option();
        match (self, value) {
            (Self::Query, Some(value)) => format!("`{option} {name}:{kind}={value}`"),
            (Self::Query, None) => format!("`{option} {name}=VALUE`"),
            (Self::Serve, _) => format!("`{option} {name}:{kind}`"),
        }
    }
}

/// See [`Config::single_with`].
pub(super) fn read(
    url: &str,
    name: &Path,
    sql: &str,
    purpose: Purpose,
    arguments: &[Argument],
) -> Result<Config, Diagnostics> {
    let errors = Collector::default();
    let (source, database) = database(url)?;
    let dialect = database.dialect();
    // Text that was copied from a file may begin with its byte order mark.
    let sql = sql.strip_prefix('\u{feff}').unwrap_or(sql);
    let file = File { path: name, text: sql, variables: Variables::Keep, errors: &errors };
    let mut declaring = ParamFinder { file, dialect, purpose, arguments };
    let endpoint = endpoint::single(file, SOURCE, dialect, &mut |name, offset| declaring.param(name, offset));
    if let Some(endpoint) = &endpoint {
        let names: Vec<_> = endpoint.params.iter().map(|param| param.name.as_str()).collect();
        for Argument { name, .. } in arguments.iter().filter(|given| !names.contains(&given.name.as_str())) {
            let message = format!("the statement has no parameter {}", shown(name));
            errors.add_to_argument(purpose.option(), message, suggest("it has", name, names.iter().copied()));
        }
    }
    let config = Config { endpoints: endpoint.into_iter().collect(), ..generated::bare(source) };
    errors.finish(config)
}

/// See [`Config::database`].
pub(super) fn database(url: &str) -> Result<(SourceConfig, DatabaseKind), Diagnostics> {
    let errors = Collector::default();
    let UrlError { message, hint } = match locate(url) {
        Ok((url, Scheme::Sql(database))) => {
            let beside = dotenv::read(Path::new(""), &errors);
            let environment = |name: &str| std::env::var(name).ok().or_else(|| beside.get(name).cloned());
            let mut source = SourceConfig::new(SOURCE, url, database);
            source.variables = source::variables(Some(database), environment);
            return errors.finish((source, database));
        }
        Ok((_, Scheme::Http)) => UrlError {
            message: "an HTTP service takes no SQL".to_owned(),
            hint: "write an endpoint file with `[upstream]`".to_owned(),
        },
        Err(error) => error,
    };
    errors.add_to_argument("URL", message, hint);
    // We can't read SQL without a database.
    Err(errors.into_diagnostics())
}

/// The URL and the meaning of its scheme. The path of an existing file means a SQLite file, unless
/// it's a DuckDB file or one that DuckDB reads as a table.
fn locate(url: &str) -> Result<(String, Scheme), UrlError> {
    source::url(url, Path::new("")).or_else(|error| {
        let path = Path::new(url);
        let of_file = || DatabaseKind::of_files().filter(|_| path.is_file());
        let hint =
            "write `postgres://user@host/database`, `sqlite:FILE` or the path of a SQLite file".to_owned();
        let is_duckdb = || DatabaseFile::of(path) == Some(DatabaseFile::DuckDb);
        if path.is_file() && (is_table_file(url) || is_duckdb()) {
            let with_scheme = format!("{}:{url}", DatabaseFile::DuckDb.scheme());
            return source::url(&with_scheme, Path::new("")).map_err(|error| of_csv(url, error));
        }
        if let Some(database) = of_file() {
            return Ok((format!("{}:{url}", database.dialect().urls.schemes[0]), Scheme::Sql(database)));
        }
        match url.contains(':') {
            _ if path.is_dir() => {
                Err(UrlError { message: format!("{} is a folder, not a database", shown(url)), hint })
            }
            // A text with a colon may be a URL with a password, so it isn't shown.
            true => Err(error),
            false => Err(UrlError {
                message: format!("there is no file {}, and a URL begins with its scheme", shown(url)),
                hint: match files::near(path) {
                    Some(near) => format!("did you mean {}?", shown(&near.to_string_lossy())),
                    None => hint,
                },
            }),
        }
    })
}

/// The error of a build without DuckDB. A CSV can be served without DuckDB.
fn of_csv(path: &str, UrlError { message, hint }: UrlError) -> UrlError {
    let hint = if is_csv(path) { with_init(path, &hint) } else { hint };
    UrlError { message, hint }
}

/// The hint for a CSV that DuckDB can't read here.
pub(super) fn with_init(path: &str, hint: &str) -> String {
    format!("`rowstream init {path}` makes a SQLite database of it, which needs no driver; or {hint}")
}

/// Finds the type and the value of each parameter of a statement.
struct ParamFinder<'a> {
    file: File<'a>,
    dialect: &'static Dialect,
    purpose: Purpose,
    arguments: &'a [Argument],
}

impl ParamFinder<'_> {
    /// Returns the parameter `name`, which first occurs at `offset` of the statement, and the type
    /// as which it's bound. Records its errors.
    fn param(&mut self, name: &str, offset: usize) -> (Param, BindType) {
        let given: Vec<_> = self.arguments.iter().filter(|given| given.name == name).collect();
        let values: Vec<_> = given.iter().filter_map(|given| given.value.as_deref()).collect();
        let mut declared: Vec<_> = given.iter().filter_map(|given| given.kind).collect();
        declared.dedup();
        let mut param = Param::new(name, ParamType::Text);
        let bind_type = match (&declared[..], &values[..]) {
            ([(kind, list)], _) => {
                (param.kind, param.list) = (*kind, *list);
                param.bind_type()
            }
            ([_, _, ..], _) => {
                self.wrong(name, "it has two types", "say one of them");
                BindType::Inferred
            }
            ([], [value, ..]) if self.purpose == Purpose::Query => {
                param.kind = self.type_by_form(name, value);
                param.bind_type()
            }
            ([], _) => {
                if self.purpose == Purpose::Serve && self.dialect.parameter_types == ParameterTypes::Declared
                {
                    self.undeclared(name, offset);
                }
                BindType::Inferred
            }
        };
        if values.is_empty() && self.purpose == Purpose::Query {
            let message = format!("the parameter `{name}` has no value");
            let kind = declared.first().map_or("text", |(kind, _)| kind.name());
            let hint = format!("add {}", self.purpose.example(name, kind, None));
            let hint = or_colon(hint, &self.file.text[..offset], name);
            self.file.error(offset, message, Some(hint));
        }
        param.default = self.value(&param, &values);
        (param, bind_type)
    }

    /// The value of the parameter from all the texts that were given for it.
    fn value(&self, param: &Param, texts: &[&str]) -> Option<ParamValue> {
        if texts.len() > 1 && !param.list {
            self.wrong(&param.name, "it is given more than once", "only a list (`:integer[]`) can be");
            return None;
        }
        let mut values = Vec::new();
        for text in texts {
            match param.parse(text) {
                _ if text.is_empty() && param.kind != ParamType::Text => return Some(ParamValue::Null),
                Ok(ParamValue::List(items)) => values.extend(items),
                Ok(value) => return Some(value),
                Err(message) => {
                    self.wrong(
                        &param.name,
                        &message,
                        "a value is of the type after the colon: `NAME:TYPE=VALUE`",
                    );
                    return None;
                }
            }
        }
        (!texts.is_empty()).then_some(ParamValue::List(values))
    }

    /// The type that the form of a value suggests. Digits are an integer, and digits with a point
    /// between them are a decimal, each with or without a minus. Everything else is text. Digits
    /// after a leading zero are text too, because they're a code and not a number.
    fn type_by_form(&self, name: &str, value: &str) -> ParamType {
        let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        let unsigned = value.strip_prefix('-').unwrap_or(value);
        let (whole, fraction) = unsigned.split_once('.').unwrap_or((unsigned, "0"));
        if !digits(whole) || !digits(fraction) || (whole.len() > 1 && whole.starts_with('0')) {
            return ParamType::Text;
        }
        if unsigned.contains('.') {
            return ParamType::Number;
        }
        if value.parse::<i64>().is_ok() {
            return ParamType::Integer;
        }
        if self.dialect.decimals == Decimals::Rounded {
            let message = format!("{} is beyond the integers of 64 bits", shown(value));
            let [text, number] =
                ["text", "number"].map(|kind| self.purpose.example(name, kind, Some("VALUE")));
            self.wrong(name, &message, &format!("write {text}, or {number}, which is rounded"));
        }
        ParamType::Number
    }

    fn undeclared(&self, name: &str, offset: usize) {
        let others = ParamType::ALL.into_iter().filter(|kind| *kind != ParamType::Integer);
        let hint = format!(
            "add {}, or another type ({}; a list is `integer[]`), and after it `=DEFAULT` if it is optional",
            self.purpose.example(name, "integer", None),
            rowstream_core::diagnostic::list(others.map(ParamType::name)),
        );
        self.file.error(offset, format!("the type of the parameter `{name}` is not declared"), Some(hint));
    }

    fn wrong(&self, name: &str, message: &str, hint: &str) {
        self.file.errors.add_to_argument(
            self.purpose.option(),
            format!("parameter `{name}`: {message}"),
            hint,
        );
    }
}
