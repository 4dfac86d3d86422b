//! `key`: the columns that order and identify an endpoint's rows. For cursors, the endpoint's
//! statement is wrapped in another one ([`sql`]).

mod nested;
mod sql;

use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;

use rowstream_core::Error;
use rowstream_core::cursor::{KeyTypes, Position, Signer};
use rowstream_core::diagnostic::reader::Value;
use rowstream_core::error::{COMPOSITE, Reason};
use rowstream_core::params::{BindType, ParamType, ParamValue};
use rowstream_core::sql::Limit;
use rowstream_core::sql::dialect::{Counters, Dialect, Infinities, UnorderedTypes};
use rowstream_encode::{Column, ColumnKind};

pub use self::nested::NestedStatement;
use self::sql::{StatementParts, counted};
pub(super) use self::sql::{direction, order_by};
use super::{Cardinality, Endpoint, Statement};
use crate::database;
use crate::source::Source;

/// The hint for a type that PostgreSQL doesn't sort or compare.
const CAST: &str = "select the part that orders the rows, or cast it: `c::text as c`, and an enum's domain to the enum, `c::mood as c`";

/// The key of an endpoint's rows.
#[derive(Debug, Clone)]
pub struct RowKey {
    /// The columns. The first one has the highest rank.
    pub columns: Vec<KeyColumn>,
    /// The index of the statement that returns these rows.
    pub statement: usize,
    /// The statement in the order of the key. The key's own values follow its columns.
    pub ordered: database::Statement,
    /// Like `ordered`, but only the rows after a given row.
    pub rest: database::Statement,
    /// The arguments of `rest`: the statement's own by their indices, and after these the values of
    /// the given row's key.
    rest_args: Vec<usize>,
    /// How many arguments the statement has of its own, without an offset.
    own: usize,
    /// Finds a row that cursors would skip: its key has a NULL, which isn't greater than any value,
    /// or its transaction hasn't begun yet.
    pub nulls: database::Statement,
    /// The statements that are nested in this one, in their order in the file.
    pub nested: Vec<NestedStatement>,
    /// Checks if the database has yet to issue the key of a given row. Each of its arguments is the
    /// first value of that key. `None`: the endpoint isn't followed, or the database can't tell.
    pub ahead: Option<database::Statement>,
    /// True if rows are left out while an earlier transaction may still commit.
    pub committed_only: bool,
    /// The limit at the end of the statement.
    limit: Option<Limit>,
    /// How `rest` gets what is left of the limit. `None`: there's no limit.
    rest_of_limit: Option<RestOfLimit>,
    /// The parameters that a cursor is bound to, by their names and in their order. Parameters that
    /// only set the limit aren't among them.
    bound: Vec<(String, usize)>,
    /// Another version makes earlier cursors invalid.
    pub(crate) version: usize,
    signer: Signer,
    /// The columns of the response. `None`: all.
    selection: Option<Selection>,
    unordered: &'static [UnorderedTypes],
    /// The form of infinite numbers in a cursor.
    pub infinities: Infinities,
    /// The setting's offset in the file, in bytes.
    pub offset: usize,
}

/// A column of a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyColumn {
    /// Its name in the result.
    pub name: String,
    /// True if the greatest value is first.
    pub descending: bool,
    /// The place of NULLs.
    pub nulls: KeyNulls,
}

/// The place of the NULLs of a key's column in the order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyNulls {
    /// There must be none.
    Refused,
    /// Before or behind all values.
    Placed {
        /// True if they're before them.
        first: bool,
        /// True if the database puts them there on its own.
        by_default: bool,
    },
}

/// The columns of a key's statement that a response contains.
#[derive(Debug, Clone)]
pub(super) struct Selection {
    /// The list of columns, as SQL.
    pub(super) list: String,
    /// All columns of the statement.
    pub(super) all: Arc<[Column]>,
}

/// The settings of a key in an endpoint's file.
#[derive(Clone)]
pub(super) struct KeySettings {
    pub(super) columns: Vec<KeyColumn>,
    /// The setting's offset in the file, in bytes.
    pub(super) offset: usize,
    /// Another version makes earlier cursors invalid.
    pub(super) version: usize,
}

/// The reason why an endpoint can't have a key.
#[derive(Debug)]
pub(super) struct KeyRefusal {
    /// The offset of the cause in the file, in bytes; `None` for the key itself.
    pub(super) offset: Option<usize>,
    pub(super) message: Cow<'static, str>,
    pub(super) hint: Cow<'static, str>,
}

impl From<(&'static str, &'static str)> for KeyRefusal {
    fn from((message, hint): (&'static str, &'static str)) -> Self {
        Self { offset: None, message: message.into(), hint: hint.into() }
    }
}

/// How the statement after a row gets what is left of its limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RestOfLimit {
    /// In place of the statement's argument with this index, which only the limit uses.
    InPlaceOf(usize),
    /// As an argument of its own, in place of this fixed number.
    Fixed(u64),
    /// The number of earlier rows is an argument of its own, and the limit is reduced by it.
    Reduced,
}

impl RestOfLimit {
    /// `None`: the limit at the end of the statement `query` limits nothing, or it can't be reduced.
    fn of(limit: &Limit, query: &database::Statement) -> Option<Self> {
        let count = &query.sql[limit.count.clone()];
        let is_integer = |number: usize| query.types[number - 1] == BindType::One(ParamType::Integer);
        // Without a value for the parameter, the fallback is the limit.
        let has_known_fallback = !count.contains('(') || limit.rows.is_some() || count.ends_with("-1)");
        match (limit.placeholder, limit.rows) {
            (Some(number), _) if limit.only.contains(&number) && is_integer(number) && has_known_fallback => {
                Some(Self::InPlaceOf(number - 1))
            }
            (None, Some(rows)) => Some(Self::Fixed(rows)),
            // DuckDB has limits in percent.
            _ if ["all", "null"].iter().any(|none| count.eq_ignore_ascii_case(none))
                || count.ends_with('%') =>
            {
                None
            }
            _ => Some(Self::Reduced),
        }
    }
}

/// The place in a list after which a request reads.
pub(crate) struct ListPosition {
    /// The rows of the list before it. 0: a new page begins there.
    pub(crate) before: u64,
    /// The types of the key when the cursor was made.
    pub(crate) types: KeyTypes,
    /// The values that [`RowKey::rest`] needs: the key, and then what is left of the limit.
    pub(crate) values: Vec<ParamValue>,
}

/// Reads `key = ["created desc", "id"]` and `cursor_version`.
pub(super) fn read_settings(key: Option<&Value<'_>>, version: Option<&Value<'_>>) -> Option<KeySettings> {
    let Some(key) = key else {
        if let Some(version) = version {
            version.error_with("`cursor_version` needs a `key`, but this endpoint has none", "remove it");
        }
        return None;
    };
    let version = version.map_or(Some(1), |value| value.count(1));
    let (columns, offset) = read(key)?;
    Some(KeySettings { columns, offset, version: version? })
}

/// Reads `key = ["created desc", "id"]`: the columns, and the setting's offset.
fn read(value: &Value<'_>) -> Option<(Vec<KeyColumn>, usize)> {
    let names = value.strings()?;
    if names.is_empty() {
        value.error_with("`key` names no column", "name the columns that order the rows, or leave it out");
    }
    let columns: Vec<_> = names.iter().map(|(text, _)| KeyColumn::read(text)).collect();
    for (i, (column, (_, item))) in columns.iter().zip(&names).enumerate() {
        if columns[..i].iter().any(|before| before.name == column.name) {
            item.error(format!("`key` names {} twice", item.shown(&column.name)));
        }
    }
    Some((columns, value.offset()))
}

impl KeyColumn {
    fn read(text: &str) -> Self {
        let (name, direction) = text.trim().rsplit_once(char::is_whitespace).unwrap_or((text, ""));
        let (name, descending) = match direction.to_ascii_lowercase().as_str() {
            "desc" => (name.trim_end(), true),
            "asc" => (name.trim_end(), false),
            _ => (text, false),
        };
        Self { name: name.to_owned(), descending, nulls: KeyNulls::Refused }
    }
}

impl RowKey {
    /// The key of an endpoint, for the text of its statement.
    ///
    /// # Errors
    /// The reason why it can't have one, and a hint.
    pub(super) fn new(
        endpoint: &Endpoint,
        settings: KeySettings,
        dialect: &'static Dialect,
        secret: &str,
    ) -> Result<Self, KeyRefusal> {
        Self::refined(endpoint, settings, dialect, secret, &endpoint.path, None)
    }

    /// The key of an endpoint that a request refines. Its cursors are for the rows of `scope`.
    ///
    /// # Errors
    /// Those of [`RowKey::new`].
    pub(super) fn refined(
        endpoint: &Endpoint,
        KeySettings { columns, offset, version }: KeySettings,
        dialect: &'static Dialect,
        secret: &str,
        scope: &str,
        selection: Option<Selection>,
    ) -> Result<Self, KeyRefusal> {
        let statement = endpoint
            .rows_statement()
            .filter(|&index| endpoint.statements()[index].cardinality == Cardinality::Many)
            .ok_or((
                "`key` orders the rows of one list, but this endpoint has another shape",
                "remove it, or write an endpoint whose only list outside of others is a `:many`",
            ))?;
        if endpoint.statements()[statement].opener.is_some() {
            return Err(("the rows of a refcursor can't have a `key`", "remove it").into());
        }
        if let Some(follow) = endpoint.follow() {
            follow.check(&columns)?;
        }
        let committed_only = endpoint.follow().is_some_and(|follow| follow.transaction.is_some());
        let transactions = dialect.commits.transactions.as_ref().ok().filter(|_| committed_only);
        let query = &endpoint.statements()[statement].query;
        let limit = Limit::find(&query.sql, dialect);
        let wrapped = StatementParts {
            query,
            limit: limit.as_ref(),
            columns: &columns,
            selected: selection.as_ref().map_or("*", |selection| &selection.list),
            transactions,
            dialect,
        };
        let (ordered, (rest, rest_args)) = (wrapped.ordered(), wrapped.rest());
        let nested = nested::read(endpoint, statement, &columns, dialect, &ordered, &rest)?;
        let signer = cursor_signer(secret, scope, version, &columns);
        Ok(Self {
            statement,
            ordered,
            rest,
            rest_args,
            nested,
            own: wrapped.query.types.len(),
            nulls: wrapped.nulls(),
            ahead: endpoint.follow().and_then(|_| wrapped.ahead()),
            committed_only,
            rest_of_limit: wrapped.rest_of_limit(),
            bound: bound(endpoint, statement, limit.as_ref()),
            limit,
            version,
            signer,
            selection,
            unordered: dialect.keys.unordered,
            infinities: dialect.keys.infinities,
            columns,
            offset,
        })
    }

    /// Returns true if the statement limits the number of its rows.
    pub fn has_limit(&self) -> bool {
        self.limit.is_some()
    }

    /// Returns true if the statement has a limit that we don't understand, so no response is known to be cut
    /// by it, and none has a next page.
    pub fn has_unknown_limit(&self) -> bool {
        let is_unknown = |limit: &Limit| limit.placeholder.is_none() && limit.rows.is_none();
        self.rest_of_limit.is_some() && self.limit.as_ref().is_some_and(is_unknown)
    }

    /// Returns true if a cursor is bound to the value of this parameter, by its index.
    pub fn binds(&self, param: usize) -> bool {
        self.bound.iter().any(|(_, bound)| *bound == param)
    }

    /// The signer for cursors of a request with these values of its parameters.
    pub(crate) fn signer(&self, values: &[ParamValue]) -> Signer {
        let given = self.bound.iter().map(|(name, index)| (name.as_str(), &values[*index]));
        self.signer.bind(given.filter(|(_, value)| **value != ParamValue::Null))
    }

    /// True if cursors within a list have to contain the number of rows before them, because the
    /// list has a limit. `page` is that limit, if it's known.
    pub(crate) fn counts_rows(&self, page: Option<u64>) -> bool {
        match self.rest_of_limit {
            None => false,
            Some(RestOfLimit::InPlaceOf(_)) => page.is_some(),
            Some(RestOfLimit::Fixed(_) | RestOfLimit::Reduced) => true,
        }
    }

    /// Begins the list at an offset: SQL whose argument follows those of [`RowKey::ordered`]. After
    /// a cursor, the list begins there instead.
    pub(super) fn begin_at(&mut self, offset: &str, types: &[BindType]) {
        self.ordered.sql = format!("{}{offset}", self.ordered.sql).into();
        self.ordered.types = types.to_vec();
    }

    /// True if a row can have these values in its key.
    pub(crate) fn may_hold(&self, values: &[ParamValue]) -> bool {
        let is_lost = |(column, value): (&KeyColumn, &ParamValue)| {
            column.nulls == KeyNulls::Refused && *value == ParamValue::Null
        };
        !self.columns.iter().zip(values).any(is_lost)
    }

    /// The place after which a list of at most `page` rows continues. If it isn't `within` that
    /// list, a new page begins there.
    pub(crate) fn list_position(&self, position: Position, page: Option<u64>, within: bool) -> ListPosition {
        let Position { types, rows, key: mut values, .. } = position;
        let before = rows.filter(|_| within).unwrap_or(0);
        let left = |limit: u64| limit.saturating_sub(before);
        values.extend(
            match self.rest_of_limit {
                None => None,
                Some(RestOfLimit::InPlaceOf(_)) => page.filter(|_| before > 0).map(left),
                Some(RestOfLimit::Fixed(rows)) => Some(left(rows)),
                Some(RestOfLimit::Reduced) => Some(before),
            }
            .map(|rows| ParamValue::Integer(i64::try_from(rows).unwrap_or(i64::MAX))),
        );
        ListPosition { before, types, values }
    }

    /// The columns of the statement. Those of the result, `columns`, are some of them.
    fn all_columns<'a>(&'a self, columns: &'a [Column]) -> &'a [Column] {
        self.selection.as_ref().map_or(columns, |selection| &selection.all)
    }

    /// The types of the key's columns, which are among these of the result.
    pub(crate) fn types(&self, columns: &[Column]) -> KeyTypes {
        let columns = self.all_columns(columns);
        let of_key = |key: &KeyColumn| columns.iter().find(|column| column.name == key.name);
        KeyTypes::of(self.columns.iter().filter_map(of_key).map(order_of))
    }

    /// The most rows that `statement`, the key's own, returns. `None` if that's not known without
    /// asking the database.
    pub fn page(&self, statement: &Statement, values: &[ParamValue]) -> Option<u64> {
        let limit = self.limit.as_ref()?;
        let given = limit.placeholder.map(|number| &values[statement.args[number - 1]]);
        match given {
            Some(ParamValue::Integer(rows)) => u64::try_from(*rows).ok(),
            Some(ParamValue::Null) | None => limit.rows,
            Some(_) => None,
        }
    }

    /// The statement's arguments without that of an offset.
    pub(crate) fn own_args<'a>(&self, own: &'a [usize]) -> &'a [usize] {
        &own[..self.own]
    }

    /// The arguments of [`RowKey::rest`] as indices into the values of a request: the statement's
    /// `own` arguments, and the range of the values of a [`ListPosition`], `after`.
    pub(crate) fn rest_args(&self, own: &[usize], after: Range<usize>) -> impl Iterator<Item = usize> {
        let own = self.own_args(own);
        let left = after.start + self.columns.len();
        let in_place_of = match self.rest_of_limit {
            Some(RestOfLimit::InPlaceOf(arg)) if left < after.end => Some(arg),
            _ => None,
        };
        self.rest_args.iter().map(move |&arg| match own.get(arg) {
            Some(_) if in_place_of == Some(arg) => left,
            Some(&own) => own,
            None => after.start + (arg - own.len()),
        })
    }

    /// The error for rows of a refcursor. They belong to a call, which can't be repeated.
    pub fn of_refcursor() -> Error {
        Error::endpoint("the rows of a refcursor can't have a `key`").hint("remove the `key`")
    }

    /// Explains why the statement can't continue after a row, if the key is the cause.
    pub fn explain(&self, error: Error) -> Error {
        let names: Vec<_> = self.columns.iter().map(|column| format!("`{}`", column.name)).collect();
        let which = match &names[..] {
            [name] => format!("{name}, whose values are"),
            names => format!("a column ({}) whose values are", names.join(", ")),
        };
        if error.reason() == Some(Reason::NoOperator) {
            return Error::endpoint(format!("`key` names {which} not ordered: {error}")).hint(CAST);
        }
        if error.code() != COMPOSITE {
            return error;
        }
        Error::endpoint(format!(
            "`key` names {which} composites, which PostgreSQL can't read back from a cursor"
        ))
        .hint("select the parts that order the rows, `(c).a as a`, and name these")
    }

    /// Checks that no column of the key has bytes, if the source can't read them back.
    ///
    /// # Errors
    /// A column of the key has bytes.
    pub fn check_bytes(&self, columns: &[Column], source: &Source) -> Result<(), Error> {
        let Err(hint) = source.database()?.dialect().keys.bytes else { return Ok(()) };
        let has_bytes = |key: &&KeyColumn| {
            let is_bytes = |kind| matches!(kind, ColumnKind::Bytes | ColumnKind::Uuid);
            columns.iter().any(|column| column.name == key.name && is_bytes(column.kind))
        };
        match self.columns.iter().find(has_bytes) {
            Some(key) => {
                let message =
                    format!("`key` names `{}`, whose values are bytes, which a cursor can't hold", key.name);
                Err(Error::endpoint(message).hint(hint))
            }
            None => Ok(()),
        }
    }

    /// Checks that the database sorts the key's columns in the same way as it compares them, and
    /// that a cursor can contain their values. The last of `columns` are those of the key, as in
    /// [`RowKey::ordered`].
    ///
    /// # Errors
    /// A column fails one of these checks.
    pub fn check_order(&self, columns: &[Column]) -> Result<(), Error> {
        let of_key = &columns[columns.len().saturating_sub(self.columns.len())..];
        for (KeyColumn { name, .. }, column) in self.columns.iter().zip(of_key) {
            if matches!(column.kind, ColumnKind::Json | ColumnKind::List(_)) {
                let message =
                    format!("`key` names `{name}`, whose values are JSON, which a cursor can't hold");
                return Err(
                    Error::endpoint(message).hint("select the part that orders the rows, and name it")
                );
            }
            // The key's own column may be cast.
            let own = self.all_columns(columns).iter().find(|column| column.name == *name).unwrap_or(column);
            if let Some(UnorderedTypes { why, hint, .. }) = unordered(self.unordered, own) {
                let message = format!("`key` names `{name}`, whose values {why}: pages would lose rows");
                return Err(Error::endpoint(message).hint(*hint));
            }
        }
        Ok(())
    }

    /// The table of the statement `sql`, and its column that a counter fills.
    pub fn counted(
        &self,
        sql: &str,
        counters: &Counters,
        dialect: &'static Dialect,
    ) -> Option<(String, String)> {
        counted(sql, &self.columns[0], counters, dialect)
    }

    /// Checks that each of the key's columns is one of the result's.
    ///
    /// # Errors
    /// A column isn't in the result.
    pub fn check(&self, columns: &[Column]) -> Result<(), Error> {
        let columns = self.all_columns(columns);
        let missing = |key: &&KeyColumn| !columns.iter().any(|column| column.name == key.name);
        match self.columns.iter().find(missing) {
            Some(key) => {
                let message = format!("`key` names `{}`, which isn't a column of the result", key.name);
                Err(Error::endpoint(message))
            }
            None => Ok(()),
        }
    }
}

/// The signer for the cursors of an endpoint. They stay valid if its statement changes but still
/// has these columns of the key.
fn cursor_signer(secret: &str, path: &str, version: usize, columns: &[KeyColumn]) -> Signer {
    let (version, count) = (version.to_string(), columns.len().to_string());
    let mut parts = vec!["cursor", path, &version, &count];
    parts.extend(columns.iter().flat_map(|column| [column.name.as_str(), direction(column), place(column)]));
    Signer::new(secret, &parts)
}

/// The reason why a column can't order the rows.
pub(super) fn unordered<'a>(types: &'a [UnorderedTypes], column: &Column) -> Option<&'a UnorderedTypes> {
    types.iter().find(|other| other.has(&column.type_name))
}

/// The parameters of an endpoint, except those that only the limit uses, by their names.
fn bound(endpoint: &Endpoint, statement: usize, limit: Option<&Limit>) -> Vec<(String, usize)> {
    let selecting = |(index, other): (usize, &Statement)| {
        let args = other.args.iter().enumerate();
        let used = args.filter(|(arg, _)| match limit {
            Some(limit) if index == statement => !limit.only.contains(&(arg + 1)),
            _ => true,
        });
        used.map(|(_, &param)| param).collect::<Vec<_>>()
    };
    let selecting: Vec<_> = endpoint.statements().iter().enumerate().flat_map(selecting).collect();
    let params = endpoint.params.iter().enumerate().filter(|(index, _)| selecting.contains(index));
    let mut named: Vec<_> = params.map(|(index, param)| (param.name.clone(), index)).collect();
    named.sort();
    named
}

/// The order of a column's values. Values of types with the same order are compared alike.
pub(crate) fn order_of(column: &Column) -> &str {
    match column.kind {
        ColumnKind::Int16
        | ColumnKind::Int32
        | ColumnKind::Int64
        | ColumnKind::Float32
        | ColumnKind::Float64
        | ColumnKind::Decimal { .. }
        | ColumnKind::Number => "number",
        ColumnKind::Text if is_plain_text(&column.type_name) => "text",
        // An enum, for example, has an order of its own.
        ColumnKind::Text | ColumnKind::Any | ColumnKind::Json | ColumnKind::List(_) => &column.type_name,
        ColumnKind::Bool => "boolean",
        ColumnKind::Bytes => "bytes",
        ColumnKind::Date => "date",
        ColumnKind::Time => "time",
        ColumnKind::Timestamp => "timestamp",
        ColumnKind::TimestampTz => "instant",
        ColumnKind::Uuid => "uuid",
    }
}

/// True for types of texts that differ only in their lengths, such as `VARCHAR(20)`.
fn is_plain_text(name: &str) -> bool {
    let name = name.split('(').next().unwrap_or_default().trim();
    ["text", "varchar", "string"].iter().any(|plain| name.eq_ignore_ascii_case(plain))
}

/// The place of NULLs for a signature.
fn place(column: &KeyColumn) -> &'static str {
    match column.nulls {
        KeyNulls::Refused => "",
        KeyNulls::Placed { first: true, .. } => "nulls first",
        KeyNulls::Placed { first: false, .. } => "nulls last",
    }
}
