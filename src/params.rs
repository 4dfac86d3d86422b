//! Parameters: their declared types, and the typed values of one request.

/// A parameter's type, as `type = "…"` names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ParamType {
    /// 64-bit integer.
    Integer,
    /// Exact decimal.
    Number,
    /// Text.
    Text,
    /// `true` or `false`.
    Boolean,
    /// RFC 3339 full-date.
    Date,
    /// RFC 3339 date-time.
    Timestamp,
    /// ISO 8601 duration.
    Duration,
    /// UUID.
    Uuid,
    /// A JSON document.
    Json,
}

/// One declared parameter.
#[derive(Debug, Clone)]
pub struct Param {
    /// Its name, as the request and the statement use it.
    pub name: String,
    /// Its type; of its elements when it is a list.
    pub kind: ParamType,
    /// Whether it is a list (`type = "integer[]"`).
    pub list: bool,
    /// Where the request carries it.
    pub place: ParamPlace,
    /// What it is when the request does not give it: a value (`default`), NULL (`optional`), or nothing: it is required.
    pub default: Option<ParamValue>,
    /// Least value (integer and number only).
    pub min: Option<ParamValue>,
    /// Greatest value (integer and number only).
    pub max: Option<ParamValue>,
    /// The only values allowed; empty: all.
    pub allowed: Vec<ParamValue>,
    /// One line for people.
    pub summary: Option<String>,
}

/// Where a request carries a parameter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ParamPlace {
    /// A `{name}` segment of the path.
    Path,
    /// The query string.
    Query,
    /// A header, by its name.
    Header(http::HeaderName),
}

/// The typed value of one parameter in one request, checked, ready to be bound.
#[derive(Debug, Clone, PartialEq)]
pub enum ParamValue {
    /// An optional parameter that was not given.
    Null,
    /// `integer`.
    Integer(i64),
    /// `number`: decimal text (`-12.50`, `1e3`), never a float.
    Number(String),
    /// `text`.
    Text(String),
    /// `boolean`.
    Boolean(bool),
    /// `date`.
    Date(jiff::civil::Date),
    /// `timestamp`: an instant.
    Timestamp(jiff::Timestamp),
    /// `duration`: ISO 8601 text, checked.
    Duration(String),
    /// `uuid`: lower-case hyphenated text.
    Uuid(String),
    /// `json`: a checked document, as it was given.
    Json(String),
    /// A list of values of one type.
    List(Vec<ParamValue>),
}

impl ParamValue {
    /// Text form for PostgreSQL.
    pub fn postgres_text(&self) -> Option<String> {
        unimplemented!()
    }
}
