//! Entry points to private code, for the properties in `fuzz/`. A feature enables them, so releases
//! don't contain them.

use std::net::IpAddr;
use std::path::Path;

use futures_util::FutureExt as _;
use http::Uri;
use rowstream_core::diagnostic::{Collector, Diagnostic, File, Variables};
use rowstream_core::filter;
use rowstream_core::params::{Param, ParamType};
use rowstream_core::sql::Operator;
use rowstream_encode::{Column, ColumnKind};
use rowstream_upstream::url::Base;
use rowstream_upstream::{Balance, Protocol, Settings, Timeouts, TlsFiles};

pub use crate::auth::fuzzing::{claims, signed_claims, url_signer};
use crate::database::DatabaseKind;
use crate::endpoint::Endpoint;
use crate::endpoint::read::{self, ClientIdentification, Defaults};
use crate::respond::take_signature as take;
use crate::server::proxy_protocol;
use crate::source::SourceConfig;

/// Reads an endpoint file with this path and text. The configuration has one database, one HTTP
/// service and one token. Also returns the errors.
pub fn read_endpoint(path: &Path, text: &str, database: DatabaseKind) -> (Option<Endpoint>, Vec<Diagnostic>) {
    let url = "http://192.0.2.1";
    let settings = Base::parse(url).ok().map(|base| Settings {
        hosts: vec![base],
        discover: None,
        balance: Balance::default(),
        max_per_host: None,
        health: None,
        protocol: Protocol::default(),
        tls: TlsFiles::default(),
        allow: None,
        headers: Vec::new(),
        header_files: Vec::new(),
        timeouts: Timeouts::default(),
        retries: None,
        max_age: None,
    });
    let main = SourceConfig::new("main", "", database);
    let sources = [
        (main.name.clone(), Some(main)),
        ("up".to_owned(), settings.map(|settings| SourceConfig::http("up", url, settings))),
    ];
    let known = ClientIdentification { asks: true, has_claims: true, scopes: vec!["token".to_owned()] };
    let defaults = Defaults::new(&sources, &known);
    collected(path, text, |file| read::read(file, path, &defaults))
}

/// Reads a text with a single statement, like `rowstream serve URL --sql` and `rowstream query`.
pub fn read_statement(text: &str, database: DatabaseKind) -> (Option<Endpoint>, Vec<Diagnostic>) {
    let dialect = database.dialect();
    let text_param = |name: &str, _: usize| (Param::new(name, ParamType::Text), ParamType::Text.into());
    collected(Path::new("--sql"), text, |file| read::single(file, "main", dialect, &mut { text_param }))
}

/// The statement that answers a request with filters.
#[derive(Debug)]
pub struct RefinedStatement {
    /// Its text.
    pub sql: String,
    /// How many arguments it has.
    pub args: usize,
}

/// Writes the statement for a list of `id`, `name` and `day` and the pairs of a query. `None` if the
/// request is refused, or the database has no filters.
pub fn refined(pairs: &[(&str, &str)], database: DatabaseKind) -> Option<RefinedStatement> {
    const TEXT: &str =
        "/*\nkey = [\"id\"]\nfilter = [\"id\", \"name.match\", \"day\"]\nsort = true\nselect = true\n*/
        select id, name, day from t order by id";
    let text = match database.dialect().filters.ok()?.sql(Operator::Match) {
        Some(_) => TEXT.to_owned(),
        None => TEXT.replace(".match", ""),
    };
    let endpoint = read_endpoint(Path::new("t.sql"), &text, database).0?;
    let column = |name: &str, kind| Column { name: name.to_owned(), type_name: String::new(), kind };
    let columns = [("id", ColumnKind::Int64), ("name", ColumnKind::Text), ("day", ColumnKind::Any)]
        .map(|(name, kind)| column(name, kind));
    let asked = filter::read(pairs.iter().copied()).ok()?;
    let refined = endpoint.refine_settings()?.refine(&endpoint, &columns, &asked).ok()?;
    let refined = refined.build(&endpoint, &columns).expect("its key is a column of the table");
    let [statement] = refined.statements() else { return None };
    assert_eq!(statement.args.len(), statement.query.types.len());
    Some(RefinedStatement { sql: statement.query.sql.to_string(), args: statement.args.len() })
}

/// Reads a PROXY protocol header. Returns the client's address and the remaining bytes, or `None`
/// if there's no header.
pub fn proxy_header(mut bytes: &[u8]) -> Option<(Option<IpAddr>, &[u8])> {
    let read = proxy_protocol::read(&mut bytes).now_or_never().expect("all bytes are there at once");
    Some((read.ok()?, bytes))
}

/// Removes the signature from a URL. Returns it as it was sent.
pub fn take_signature(uri: &mut Uri) -> Option<Box<str>> {
    take(uri)
}

fn collected(
    path: &Path,
    text: &str,
    read: impl FnOnce(File<'_>) -> Option<Endpoint>,
) -> (Option<Endpoint>, Vec<Diagnostic>) {
    let errors = Collector::default();
    let endpoint = read(File { path, text, variables: Variables::Keep, errors: &errors });
    (endpoint, errors.into_diagnostics().iter().cloned().collect())
}
