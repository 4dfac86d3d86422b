//! Connections by drivers of ODBC.
//!
//! | file | what it holds |
//! |---|---|
//! | [`api`] | the C functions, loaded at run time, and handles |
//! | [`bind`] | arguments as they are bound |
//! | [`columns`] | how a column is read, and its values as an array |
//! | [`names`] | names in the quotes of the driver |
//! | [`rows`] | fetches: many rows at once, or value by value |
//! | [`session`] | a connection that is opened again if it has died |

mod api;
mod bind;
mod columns;
mod names;
mod rows;
mod session;

use std::cell::Cell;

use arrow_schema::{Field, Schema};

use super::super::frame::{Failed, Fault, OdbcOpening};
use super::{Ended, Run, data_failed};
use crate::database::arrow_rows::Argument;
use api::{Code, Statement};
use columns::Read;

pub(super) use session::Session;

/// The C types that values are read and bound as (`SQL_C_…`).
mod c {
    pub(super) const BIT: i16 = -7;
    pub(super) const BIGINT: i16 = -25;
    pub(super) const UBIGINT: i16 = -27;
    pub(super) const DOUBLE: i16 = 8;
    pub(super) const WCHAR: i16 = -8;
    pub(super) const BINARY: i16 = -2;
    pub(super) const DATE: i16 = 91;
    pub(super) const TIMESTAMP: i16 = 93;
}

/// How long a connection may take to open, where the driver has such a limit; shorter than the
/// server waits.
const LOGIN_SECONDS: usize = 20;

/// What a driver says of itself.
mod info {
    pub(super) const DBMS_NAME: u16 = 17;
    pub(super) const IDENTIFIER_QUOTE: u16 = 29;
    pub(super) const TRANSACTION_ISOLATIONS: u16 = 72;
    pub(super) const GET_DATA: u16 = 81;
}

/// The attributes of a connection.
mod attribute {
    pub(super) const AUTOCOMMIT: i32 = 102;
    pub(super) const ISOLATION: i32 = 108;
    pub(super) const DEAD: i32 = 1209;
}

/// Has MySQL take `"…"` for a name, as most others do, and as statements are read here.
const ANSI_QUOTES: &str = "set session sql_mode = concat(@@sql_mode, ',ANSI_QUOTES')";

/// How values of a result are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fetch {
    /// Many rows at once, and what did not fit its buffer by [`Statement::position`].
    Positioned,
    /// Many rows at once where all columns have a length that the database holds them to.
    Declared,
    /// Value by value.
    ByValue,
}

/// A connection of a driver.
struct Connection {
    api: api::Connection,
    fetch: Cell<Fetch>,
    /// Whether the database holds decimals to the digits of their column.
    keeps_decimals: bool,
    /// The isolation of transactions that read one snapshot; `None`: the driver has none.
    snapshot: Option<usize>,
    /// What it is otherwise.
    isolation: Option<usize>,
    /// What names stand in.
    quote: String,
    fetch_rows: usize,
    longest: usize,
    secrets: Vec<String>,
}

impl Connection {
    /// Connects.
    ///
    /// # Errors
    /// There is no driver manager, or no driver, or it cannot connect. No message has a password.
    fn open(opening: &OdbcOpening) -> Result<Self, Failed> {
        /// `SQL_GD_BLOCK` and `SQL_GD_BOUND`: any value of the rows that were fetched.
        const ANY_ROW: u32 = 4 | 8;
        const REPEATABLE_READ: u32 = 4;
        const SERIALIZABLE: u32 = 8;
        let secrets = secrets(&opening.connection);
        let api = api::Connection::open(&opening.connection, LOGIN_SECONDS)
            .map_err(|failed| Failed { fault: Fault::Connection, ..without(&secrets, failed) })?;
        let database = api.info_text(info::DBMS_NAME).to_ascii_lowercase();
        let isolations = api.info_number(info::TRANSACTION_ISOLATIONS);
        let snapshot = [REPEATABLE_READ, SERIALIZABLE].into_iter().find(|level| isolations & level != 0);
        let fetch = match api.info_number(info::GET_DATA) & ANY_ROW {
            // Its columns hold what they are given, whatever length they have.
            _ if database.contains("sqlite") => Fetch::ByValue,
            // Its driver has nothing left of a column of which it gave one value by itself.
            _ if database.contains("mariadb") || database.contains("mysql") => Fetch::Declared,
            ANY_ROW => Fetch::Positioned,
            _ => Fetch::Declared,
        };
        let this = Self {
            fetch: Cell::new(fetch),
            keeps_decimals: !database.contains("postgres") && !database.contains("sqlite"),
            snapshot: snapshot.map(|level| level as usize),
            isolation: api.attribute(attribute::ISOLATION),
            quote: api.info_text(info::IDENTIFIER_QUOTE),
            api,
            fetch_rows: opening.fetch_rows,
            longest: opening.longest,
            secrets,
        };
        if database.contains("mariadb") || database.contains("mysql") {
            let statement = this.api.statement()?;
            statement.prepare(ANSI_QUOTES)?;
            statement.execute()?;
        }
        Ok(this)
    }

    fn prepare(&self, sql: &str, arguments: usize) -> Result<Statement<'_>, Failed> {
        let statement = self.api.statement()?;
        statement.prepare(&names::quoted(sql, &self.quote)?)?;
        match statement.placeholders() {
            Some(placeholders) if placeholders != arguments => {
                Err(super::wrong_number(placeholders, arguments))
            }
            _ => Ok(statement),
        }
    }

    /// The columns of a statement, which is run with NULLs where the driver knows them of no other:
    /// as of a procedure. What that writes is rolled back.
    fn columns_of(&self, sql: &str, arguments: &[Argument]) -> Result<Schema, Failed> {
        // What cannot be bound is said before anybody sends it.
        bind::bound(arguments)?;
        {
            let statement = self.prepare(sql, arguments.len())?;
            if !is_call(sql) && statement.columns()? > 0 {
                return Ok(self.schema(&statement)?.1);
            }
        }
        self.set_autocommit(false)?;
        let schema = self.run(sql, arguments).and_then(|statement| Ok(self.schema(&statement)?.1));
        self.api.roll_back()?;
        self.set_autocommit(true)?;
        schema
    }

    /// Runs a statement to its first result that has rows.
    fn run(&self, sql: &str, arguments: &[Argument]) -> Result<Statement<'_>, Failed> {
        let statement = self.prepare(sql, arguments.len())?;
        execute(&statement, arguments)?;
        Ok(statement)
    }

    fn schema(&self, statement: &Statement<'_>) -> Result<(Vec<Read>, Schema), Failed> {
        let mut reads = Vec::new();
        let mut fields: Vec<Field> = Vec::new();
        for number in 1..=statement.columns()? {
            let column = statement.describe(number)?;
            let read = Read::of(&column, self.keeps_decimals);
            fields.push(read.field(&column.name));
            reads.push(read);
        }
        Ok((reads, Schema::new(fields)))
    }

    fn set_autocommit(&self, on: bool) -> Result<(), Failed> {
        self.api.set_attribute(attribute::AUTOCOMMIT, on.into())
    }

    fn stream(&self, sql: &str, arguments: &[Argument], run: &Run<'_>) -> Result<(), Ended> {
        let statement = self.prepare(sql, arguments.len())?;
        let cancel = statement.cancel();
        let _cancellable = run.cancelled_by(vec![Box::new(move || cancel.call())])?;
        // As it was described: a driver may know more once there is a row.
        let before = if is_call(sql) { 0 } else { statement.columns()? };
        let known = if before > 0 { Some(self.schema(&statement)?) } else { None };
        execute(&statement, arguments)?;
        let (reads, schema) = match known {
            Some(_) if statement.columns()? != before => return Err(other_columns().into()),
            Some(known) => known,
            None => self.schema(&statement)?,
        };
        let mut rows = rows::Rows::new(&statement, &reads, self.rows_config(sql, run))?;
        let mut is_more = match rows.start() {
            Ok(is_more) => is_more,
            Err(rows::Start::Failed(failed)) => return Err(failed.into()),
            // Nothing was sent, and a statement that is no call writes nothing.
            Err(rows::Start::NotPositioned) => {
                drop(rows);
                self.fetch.set(Fetch::Declared);
                statement.close();
                execute(&statement, arguments)?;
                rows = rows::Rows::new(&statement, &reads, self.rows_config(sql, run))?;
                rows.start().map_err(rows::Start::failed)?
            }
        };
        let schema = std::sync::Arc::new(schema);
        let mut sender = run.rows(&schema)?;
        while is_more {
            run.go_on()?;
            sender.write(&rows.batch(&schema)?)?;
            is_more = rows.fetch()?;
        }
        drop(rows);
        one_result(&statement)?;
        sender.finish()
    }

    /// The schema of the rows of a statement.
    fn describe(&self, sql: &str, arguments: &[Argument]) -> Result<Schema, Failed> {
        self.columns_of(sql, arguments).map_err(|failed| self.failure(failed))
    }

    /// Runs a statement, and sends its rows.
    fn execute(&self, sql: &str, arguments: &[Argument], run: &Run<'_>) -> Result<(), Ended> {
        self.stream(sql, arguments, run).map_err(|ended| match ended {
            Ended::Failed(failed) => self.failure(failed).into(),
            gone => gone,
        })
    }

    fn begin(&self) -> Result<(), Failed> {
        if let Some(snapshot) = self.snapshot {
            self.api.set_attribute(attribute::ISOLATION, snapshot).map_err(|failed| self.failure(failed))?;
        }
        self.set_autocommit(false).map_err(|failed| self.failure(failed))
    }

    fn roll_back(&self) -> Result<(), Failed> {
        self.api.roll_back()?;
        self.set_autocommit(true)?;
        match self.isolation.filter(|_| self.snapshot.is_some()) {
            Some(isolation) => self.api.set_attribute(attribute::ISOLATION, isolation),
            None => Ok(()),
        }
    }

    /// A failure as the server gets it: that of the connection if the driver says that it's dead.
    /// Some drivers give such a failure no SQLSTATE of its own.
    fn failure(&self, failed: Failed) -> Failed {
        let fault = match failed.may_be_of_connection() && self.is_dead() {
            true => Fault::Connection,
            false => failed.fault,
        };
        without(&self.secrets, Failed { fault, ..failed })
    }

    fn is_dead(&self) -> bool {
        self.api.attribute(attribute::DEAD) == Some(1)
    }

    /// Sends the database a statement, so that its driver notices if the connection has died.
    /// Databases that don't know the statement answer, too.
    ///
    /// # Errors
    /// It has died.
    fn ping(&self) -> Result<(), Failed> {
        let pinged = self.api.statement().and_then(|statement| {
            statement.prepare("select 1")?;
            statement.execute()
        });
        match pinged.map_err(|failed| self.failure(failed)) {
            Err(failed) if failed.fault == Fault::Connection => Err(failed),
            _ => Ok(()),
        }
    }

    fn rows_config(&self, sql: &str, run: &Run<'_>) -> rows::Config {
        let fetch = match self.fetch.get() {
            // It would have to be run again where the driver does not keep its word.
            Fetch::Positioned if is_call(sql) => Fetch::Declared,
            fetch => fetch,
        };
        let (fetch_rows, fetch_bytes, longest) = (self.fetch_rows, run.fetch_bytes, self.longest);
        rows::Config { fetch, fetch_rows, fetch_bytes, longest }
    }
}

fn other_columns() -> Failed {
    data_failed("the statement has other columns than it was prepared with".to_owned())
}

/// Runs a statement that was prepared, to its first result that has rows.
fn execute(statement: &Statement<'_>, arguments: &[Argument]) -> Result<(), Failed> {
    let mut bound = bind::bound(arguments)?;
    #[expect(unsafe_code, reason = "the driver reads the values while it executes, and no longer")]
    // SAFETY: `bound` lives until the statement was executed.
    unsafe {
        statement.bind(&mut bound)?;
    }
    statement.execute()?;
    while statement.columns()? == 0 {
        if statement.more_results()? == Code::NoData {
            return Err(data_failed("the statement has no rows, so it is no query".to_owned()));
        }
    }
    Ok(())
}

/// That no second result with rows follows, which nobody would read; and no error.
fn one_result(statement: &Statement<'_>) -> Result<(), Failed> {
    while statement.more_results()? != Code::NoData {
        if statement.columns()? > 0 {
            return Err(data_failed(
                "the statement has several results, and an endpoint reads one".to_owned(),
            ));
        }
    }
    Ok(())
}

/// Whether a statement calls a procedure: `{call p(?)}`, `call p(?)`, `exec p ?`.
fn is_call(sql: &str) -> bool {
    let first = sql.trim_start().trim_start_matches(['{', '?', '=', ' ']);
    let word: String = first.chars().take_while(char::is_ascii_alphabetic).collect();
    ["call", "exec", "execute"].iter().any(|call| word.eq_ignore_ascii_case(call))
}

/// The values of a connection string that no message may have.
fn secrets(connection: &str) -> Vec<String> {
    let mut secrets = Vec::new();
    let mut rest = connection;
    while let Some((key, after)) = rest.split_once('=') {
        let value = match after.strip_prefix('{').and_then(|braced| braced.split_once('}')) {
            Some((value, after)) => {
                rest = after.trim_start_matches(';');
                value
            }
            None => {
                let (value, after) = after.split_once(';').unwrap_or((after, ""));
                rest = after;
                value
            }
        };
        let key = key.trim().to_ascii_lowercase();
        let is_secret = ["pwd", "pass", "secret", "token", "key"].iter().any(|part| key.contains(part));
        if is_secret && !value.is_empty() {
            secrets.push(value.to_owned());
        }
    }
    secrets
}

/// A failure whose message has none of the secrets.
fn without(secrets: &[String], mut failed: Failed) -> Failed {
    for secret in secrets {
        failed.message = failed.message.replace(secret, "…");
    }
    failed
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_are_secret() {
        for (connection, expected) in [
            ("DSN=shop;UID=u;PWD=p;Port=1", vec!["p"]),
            ("Driver={A;b};Password={x;y};", vec!["x;y"]),
            ("DSN=shop;Token=t", vec!["t"]),
            ("DSN=shop", vec![]),
            ("PWD=", vec![]),
        ] {
            assert_eq!(secrets(connection), expected, "{connection}");
        }
        let failed = without(&["hush".to_owned()], data_failed("no user u with hush".to_owned()));
        assert_eq!(failed.message, "no user u with …");
    }

    #[test]
    fn calls_are_known() {
        for call in ["{call p(?)}", "call p()", "{ CALL p }", "{? = call p}", "exec p", "  Execute p ?"] {
            assert!(is_call(call), "{call}");
        }
        for other in ["select 1", "with called as (select 1) select 1", "executive"] {
            assert!(!is_call(other), "{other}");
        }
    }
}
