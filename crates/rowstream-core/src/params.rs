//! Parameters: their declared types, and their typed values in a request.
//!
//! Only this module turns text into values: requests, defaults of endpoint files and the command
//! line all use [`Param::parse`]. All errors of a request are reported at once.

mod bind;
mod body;
pub mod completeness;
mod decimal;
mod describe;
mod follow;
mod parse;
mod shard;

pub use bind::{BAD_ENCODING, ChosenOptions, IN_BOTH, MORE_THAN_ONCE, RequestValues};
pub use bind::{Claims, bind_with, claim, claim_at};
pub use bind::{bind, check_pairs, query_decode};
pub use body::{
    BodyParams, BodyType, NULL_CONDITION, Pair, TakenPairs, has_name, memory_of_values, take_pairs,
};
pub use decimal::without_exponent;
pub use follow::{CouchFeed, FollowMode};
pub use parse::{check_local, no_local_time, percent_decode};
pub use shard::{RequestedShard, Shard};

use crate::diagnostic::suggest;

/// The prefix of a claim's parameter: `:jwt.sub`.
pub const CLAIMS: &str = "jwt.";

/// The type of a parameter, as in `type = "…"`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
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

impl ParamType {
    /// All types, in the order of our lists for users.
    pub const ALL: [Self; 9] = [
        Self::Integer,
        Self::Number,
        Self::Text,
        Self::Boolean,
        Self::Date,
        Self::Timestamp,
        Self::Duration,
        Self::Uuid,
        Self::Json,
    ];

    /// The name in `type = "…"`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Integer => "integer",
            Self::Number => "number",
            Self::Text => "text",
            Self::Boolean => "boolean",
            Self::Date => "date",
            Self::Timestamp => "timestamp",
            Self::Duration => "duration",
            Self::Uuid => "uuid",
            Self::Json => "json",
        }
    }

    /// The type with this name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }

    /// "did you mean `integer`?" for a name that isn't a type, or else the list of the types.
    pub fn suggest(name: &str) -> String {
        let lower = name.to_ascii_lowercase();
        let meant = match &*lower {
            "int" | "int2" | "int4" | "int8" | "int32" | "int64" | "smallint" | "bigint" | "long" => {
                "integer"
            }
            "float" | "float4" | "float8" | "double" | "real" | "decimal" | "numeric" => "number",
            "string" | "str" | "varchar" | "char" => "text",
            "bool" => "boolean",
            "datetime" | "timestamptz" | "date-time" => "timestamp",
            "interval" => "duration",
            "jsonb" | "object" => "json",
            _ => &lower,
        };
        suggest("the types are", meant, Self::ALL.map(Self::name))
    }
}

/// The type of a placeholder, for statements that don't determine it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum BindType {
    /// A value of this type.
    One(ParamType),
    /// A list of such values.
    List(ParamType),
    /// Unknown: the statement must determine it.
    Inferred,
}

impl From<ParamType> for BindType {
    fn from(kind: ParamType) -> Self {
        Self::One(kind)
    }
}

/// One declared parameter.
#[derive(Debug, Clone)]
pub struct Param {
    /// Its name, in the request and in the statement.
    pub name: String,
    /// Its type. For a list, the type of its elements.
    pub kind: ParamType,
    /// True if it's a list (`type = "integer[]"`).
    pub list: bool,
    /// The part of the request that contains it.
    pub place: ParamPlace,
    /// Its value if the request doesn't set it: a value (`default`) or NULL (`optional`). `None`:
    /// it's required.
    pub default: Option<ParamValue>,
    /// The least value (only for integer and number).
    pub min: Option<ParamValue>,
    /// The greatest value (only for integer and number).
    pub max: Option<ParamValue>,
    /// The allowed values. Empty: all.
    pub allowed: Vec<ParamValue>,
    /// True for a text that is a date and time without an offset (`local = true`). For a column without a
    /// time zone, databases ignore an offset, or find no row.
    pub local: bool,
    /// A line for people.
    pub summary: Option<String>,
}

impl Param {
    /// A required query parameter without limits.
    pub fn new(name: impl Into<String>, kind: ParamType) -> Self {
        Self {
            name: name.into(),
            kind,
            list: false,
            place: ParamPlace::Query,
            default: None,
            min: None,
            max: None,
            allowed: Vec::new(),
            local: false,
            summary: None,
        }
    }

    /// The type as which it's bound.
    pub fn bind_type(&self) -> BindType {
        if self.list { BindType::List(self.kind) } else { BindType::One(self.kind) }
    }
}

/// The part of a request that contains a parameter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ParamPlace {
    /// A `{name}` segment of the path.
    Path,
    /// The query string.
    Query,
    /// A header.
    Header {
        /// Its name in lower case, as HTTP compares names.
        name: http::HeaderName,
        /// Its name as the endpoint spells it, for people.
        spelling: String,
    },
    /// A claim of the request's token. Its name follows [`CLAIMS`].
    Claim,
}

/// The typed value of a parameter in a request, checked and ready to be bound.
#[derive(Debug, Clone, PartialEq)]
pub enum ParamValue {
    /// The value of an optional parameter that the request doesn't set.
    Null,
    /// `integer`.
    Integer(i64),
    /// `number`: a decimal as JSON writes it (`-12.50`, `1e3`), never a float.
    Number(String),
    /// A finite double, which a column of floats is compared with. No parameter of a file has it.
    Float(f64),
    /// `text`.
    Text(String),
    /// `boolean`.
    Boolean(bool),
    /// `date`.
    Date(jiff::civil::Date),
    /// `timestamp`: an instant of the years 1 to 9999, in UTC. `jiff::Timestamp` ends a day before them.
    Timestamp(jiff::civil::DateTime),
    /// `duration`: ISO 8601 text, checked.
    Duration(String),
    /// `uuid`: lower-case hyphenated text.
    Uuid(String),
    /// `json`: a checked document, unchanged.
    Json(String),
    /// A list of values of one type.
    List(Vec<ParamValue>),
}

/// Infinity as a number in a cursor. No request has it: its exponent is beyond those of parameters.
pub const INFINITY: &str = "9e99999";

impl ParamValue {
    /// The value in PostgreSQL's text format, as a parameter of its type. `None` is NULL. A list is
    /// an array literal. All its elements are quoted, so that none can be read as NULL or as a
    /// nested array.
    pub fn postgres_text(&self) -> Option<String> {
        match self {
            Self::Null => None,
            Self::Integer(integer) => Some(integer.to_string()),
            Self::Boolean(boolean) => Some(boolean.to_string()),
            Self::Date(date) => Some(date.to_string()),
            Self::Timestamp(timestamp) => Some(format!("{timestamp}Z")),
            Self::Float(float) => Some(format!("{float:e}")),
            Self::Number(text)
            | Self::Text(text)
            | Self::Duration(text)
            | Self::Uuid(text)
            | Self::Json(text) => Some(text.clone()),
            Self::List(items) => Some(array_literal(items)),
        }
    }
}

fn array_literal(items: &[ParamValue]) -> String {
    let mut out = String::from("{");
    for (i, text) in items.iter().filter_map(ParamValue::postgres_text).enumerate() {
        if i > 0 {
            out.push(',');
        }
        out.push('"');
        for c in text.chars() {
            if matches!(c, '"' | '\\') {
                out.push('\\');
            }
            out.push(c);
        }
        out.push('"');
    }
    out.push('}');
    out
}

#[cfg(test)]
mod tests;
