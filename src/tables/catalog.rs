//! Queries the tables of a database: their columns, primary keys and foreign keys.

use std::collections::HashMap;
use std::future::poll_fn;
use std::path::Path;

use rowstream_core::Error;
use rowstream_core::diagnostic::shown;
use rowstream_core::params::{ParamType, ParamValue};
use rowstream_core::sql::dialect::{Catalog, Dialect};
use rowstream_encode::{Format, ValueOptions};
use serde_json::Value;

use super::links;
use crate::config::{Argument, Config, Purpose};
use crate::source::{Source, SourceConfig};
use crate::stream::RowStream;

/// The parameter of [`Catalog::columns`].
const TABLE: &str = "table";

/// The `param` of a column whose dates and times have no offset.
const LOCAL: &str = "local";

/// The most foreign keys that a warning names.
const NAMED: usize = 10;

/// The most rows to search without an index for values that a cursor can't contain.
const SAMPLE: usize = 100_000;

/// A table or a view.
#[derive(Debug, Clone)]
pub(crate) struct Table {
    /// Its name, without quotes.
    pub(crate) name: String,
    /// `table` or `view`.
    pub(crate) kind: String,
    /// Its columns, in their order.
    pub(crate) columns: Vec<Column>,
    /// Its foreign keys to tables that are served too, or to itself, which become lists.
    pub(crate) references: Vec<Reference>,
    /// The dialect that quotes its names.
    pub(crate) dialect: &'static Dialect,
}

/// A foreign key that makes a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Reference {
    /// The name of the table that it refers to.
    pub(crate) parent: String,
    /// Its columns, in their order.
    pub(crate) columns: Vec<ReferenceColumn>,
    /// The last segment of the list's path.
    pub(crate) list: String,
}

/// A column of a foreign key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ReferenceColumn {
    /// The column's name.
    pub(crate) own: String,
    /// The name of the other table's column.
    pub(crate) parent: String,
}

/// A column of a table.
#[derive(Debug, Clone)]
pub(crate) struct Column {
    /// Its name, without quotes.
    pub(crate) name: String,
    /// Its type, as the database names it.
    pub(crate) type_name: String,
    /// The type of a parameter that finds a row. `None` if neither a parameter nor a cursor can
    /// contain its values.
    pub(crate) param: Option<ParamType>,
    /// True if the parameter is a date and time without an offset.
    pub(crate) local: bool,
    /// The type to cast the parameter to before the comparison, if that's necessary.
    pub(crate) cast: Option<String>,
    /// The condition with the column `{c}` and the parameter `{v}`, if it isn't that they're equal.
    pub(crate) equal: Option<String>,
    /// Its position in the primary key, from 1; 0 if it isn't part of the key.
    place: u64,
    /// Equal for columns whose values are compared alike. `None` if equal values may not mean the
    /// same row.
    comparable: Option<String>,
    /// The reason why the table has no pages, if this is a column of its key.
    unordered: Option<String>,
}

impl Reference {
    /// True for another key of the same columns to the same table.
    fn has_columns_of(&self, other: &Self) -> bool {
        let mut pairs = self.columns.iter().zip(&other.columns);
        let is_alike = self.parent == other.parent && self.columns.len() == other.columns.len();
        is_alike && pairs.all(|(one, other)| one.own == other.own)
    }

    /// True if it refers to the primary key of `parent`.
    fn is_to_key(&self, parent: &Table) -> bool {
        let (key, columns) = (parent.key(), &self.columns);
        let has = |name: &str| columns.iter().any(|column| column.parent == name);
        key.len() == columns.len() && key.iter().all(|column| has(&column.name))
    }
}

/// A foreign key, as the catalog has it.
struct ForeignKey {
    child: String,
    id: Value,
    parent: String,
    columns: Vec<ForeignColumn>,
}

/// A column of a foreign key, as the catalog has it.
struct ForeignColumn {
    place: Option<u64>,
    own: String,
    /// `None` for the primary key's column at the same place.
    parent: Option<String>,
}

impl ForeignKey {
    /// The list that it makes.
    ///
    /// # Errors
    /// The reason why the list could have wrong rows.
    fn reference(&self, child: &Table, parent: &Table) -> Result<Reference, String> {
        let key = parent.key();
        if key.is_empty() {
            return Err(format!("{} has no primary key for a path", shown(&parent.name)));
        }
        let is_named = self.columns.iter().all(|column| column.parent.is_some());
        let pair = |(place, column): (usize, &ForeignColumn)| {
            let own = child.column_as_written(&column.own)?;
            let other = match &column.parent {
                Some(name) => parent.column_as_written(name)?,
                None => key.get(place)?,
            };
            (column.place == u64::try_from(place + 1).ok()).then_some((own, other))
        };
        let pairs: Option<Vec<_>> = self.columns.iter().enumerate().map(pair).collect();
        let pairs = pairs.filter(|pairs| is_named || pairs.len() == key.len());
        let pairs = pairs.ok_or("some of its columns are missing")?;
        let is_alike = |(own, other): &(&Column, &Column)| own.comparable == other.comparable;
        if !pairs.iter().all(is_alike) {
            return Err("its columns have other types or collations than those of the key".to_owned());
        }
        let mut compared = pairs.iter().map(|(own, _)| *own).chain(key);
        if compared.any(|column| column.comparable.is_none()) {
            return Err("equal values may not mean the same row".to_owned());
        }
        let column = |(own, other): (&Column, &Column)| ReferenceColumn {
            own: own.name.clone(),
            parent: other.name.clone(),
        };
        let columns = pairs.into_iter().map(column).collect();
        Ok(Reference { parent: parent.name.clone(), columns, list: String::new() })
    }
}

impl Table {
    /// The columns of its primary key, in the order of the key. Empty without a key, or if requests
    /// and cursors can't express the key.
    pub(crate) fn key(&self) -> Vec<&Column> {
        let mut key: Vec<_> = self.columns.iter().filter(|column| column.place > 0).collect();
        key.sort_by_key(|column| column.place);
        // `key` ignores blanks around a name.
        let is_whole = |column: &&Column| column.param.is_some() && column.name.trim() == column.name;
        if key.iter().all(is_whole) { key } else { Vec::new() }
    }

    /// The columns that order its pages: the key, or none.
    pub(crate) fn page_key(&self) -> Vec<&Column> {
        if self.unordered().is_none() { self.key() } else { Vec::new() }
    }

    /// Its column of this name. A foreign key may have the name in another case.
    fn column_as_written(&self, name: &str) -> Option<&Column> {
        let exact = self.columns.iter().find(|column| column.name == name);
        exact.or_else(|| self.columns.iter().find(|column| column.name.eq_ignore_ascii_case(name)))
    }

    /// Queries its columns, and searches its key for values that a cursor can't contain. Columns
    /// after the key's first may have no index, so only some rows are read for them.
    async fn describe(
        &mut self,
        config: &SourceConfig,
        source: &Source,
        catalog: &Catalog,
    ) -> Result<(), Error> {
        self.columns = columns(config, source, catalog, &self.name).await?;
        let Some((misfit, why)) = catalog.misfit else { return Ok(()) };
        let name = self.dialect.quoted(&self.name);
        let in_key: Vec<_> = self.key().iter().map(|column| column.name.clone()).collect();
        for column in self.columns.iter_mut().filter(|column| in_key.contains(&column.name)) {
            let quoted = self.dialect.quoted(&column.name);
            let rows = match column.place {
                1 => name.clone(),
                _ => format!("(select {quoted} from {name} limit {SAMPLE})"),
            };
            let condition = misfit.replace("{}", &quoted);
            let sql = format!("select 1 as found from {rows} where {condition} limit 1");
            if !ask(config, source, &sql, None).await?.is_empty() {
                column.unordered = Some(why.to_owned());
            }
        }
        Ok(())
    }

    /// A column of its key that can't order pages, and the reason.
    fn unordered(&self) -> Option<(&str, &str)> {
        let why = |column: &&Column| column.unordered.is_some();
        let column = self.key().into_iter().find(why)?;
        Some((&column.name, column.unordered.as_deref()?))
    }
}

/// The tables and views of a database.
#[derive(Debug, Default)]
pub(crate) struct CatalogTables {
    /// The tables that can be served, by name.
    pub(crate) tables: Vec<Table>,
    /// The reasons why others can't.
    pub(crate) warnings: Vec<String>,
}

/// The tables and views that `source` may read. `config` is its configuration.
///
/// # Errors
/// The database can't be queried.
pub(crate) async fn read(config: &SourceConfig, source: &Source) -> Result<CatalogTables, Error> {
    let dialect = source.database()?.dialect();
    let Some(catalog) = &dialect.catalog else {
        return Err(Error::endpoint(format!("the tables of {} can't be listed", dialect.name))
            .hint("write endpoint files, or `--sql 'select …'`"));
    };
    let mut found = CatalogTables::default();
    for row in ask(config, source, catalog.tables, None).await? {
        let (name, kind) = (text(&row, "name"), text(&row, "kind"));
        let mut table = Table {
            name: name.clone(),
            kind: kind.clone(),
            columns: Vec::new(),
            references: Vec::new(),
            dialect,
        };
        match table.describe(config, source, catalog).await {
            Ok(()) => found.add(table),
            Err(error) if error.is_of_source() => return Err(error),
            Err(error) => {
                found.warnings.push(format!("warning: the {kind} {} is left out: {error}", shown(&name)));
            }
        }
    }
    match references(config, source, catalog).await {
        Ok(references) => found.add_references(&references),
        Err(error) if error.is_of_source() => return Err(error),
        Err(error) => found.warnings.push(format!("warning: foreign keys are left out: {error}")),
    }
    Ok(found)
}

impl CatalogTables {
    /// Adds the foreign keys between served tables, each only once. Warns of those without a list.
    fn add_references(&mut self, keys: &[ForeignKey]) {
        let places: HashMap<_, _> =
            (0..).zip(&self.tables).map(|(at, table)| (table.name.clone(), at)).collect();
        let mut left_out = Vec::new();
        for key in keys {
            let (Some(&at), Some(&parent)) = (places.get(&key.child), places.get(&key.parent)) else {
                continue;
            };
            let (child, parent): (&Table, &Table) = (&self.tables[at], &self.tables[parent]);
            let reference = match key.reference(child, parent) {
                Ok(reference) => reference,
                Err(why) => {
                    let columns = key.columns.iter().map(|column| column.own.as_str());
                    left_out.push(links::left_out(&child.name, columns, &why));
                    continue;
                }
            };
            let is_to_key = reference.is_to_key(parent);
            let references = &mut self.tables[at].references;
            match references.iter_mut().find(|known| known.has_columns_of(&reference)) {
                Some(known) if is_to_key => *known = reference,
                Some(_) => {}
                None => references.push(reference),
            }
        }
        left_out.extend(links::name_lists(&mut self.tables));
        self.warn_of_lists(left_out);
    }

    fn warn_of_lists(&mut self, mut left_out: Vec<String>) {
        if left_out.is_empty() {
            return;
        }
        let more = left_out.len().saturating_sub(NAMED);
        left_out.truncate(NAMED);
        if more > 0 {
            left_out.push(format!("and {more} more"));
        }
        self.warnings.push(format!(
            "warning: foreign keys without a list: {}\n    hint: write an endpoint file for each list that \
             you need",
            left_out.join("; ")
        ));
    }

    fn add(&mut self, table: Table) {
        let (kind, name) = (&table.kind, shown(&table.name));
        let Some(why) = super::unserved(&table.name) else {
            if let Some((column, why)) = table.unordered() {
                let column = shown(column);
                let hint = "write an endpoint file for it, with another `key`";
                let warning = format!(
                    "warning: the {kind} {name} has no pages, because of {column}: {why}\n    hint: {hint}"
                );
                self.warnings.push(warning);
            }
            return self.tables.push(table);
        };
        let hint = "write an endpoint file for it, with a `path` of its own";
        self.warnings.push(format!("warning: the {kind} {name} is not served: {why}\n    hint: {hint}"));
    }
}

async fn columns(
    config: &SourceConfig,
    source: &Source,
    catalog: &Catalog,
    table: &str,
) -> Result<Vec<Column>, Error> {
    let rows = ask(config, source, catalog.columns, Some(table)).await?;
    let column = |row: &Value| Column {
        name: text(row, "name"),
        type_name: text(row, "type"),
        param: row["param"].as_str().and_then(param_type),
        local: row["param"] == LOCAL,
        cast: row["cast"].as_str().map(str::to_owned),
        equal: row["equal"].as_str().map(str::to_owned),
        place: row["place"].as_u64().unwrap_or_default(),
        comparable: row["comparable"].as_str().map(str::to_owned),
        unordered: row["unordered"].as_str().map(str::to_owned),
    };
    Ok(rows.iter().map(column).collect())
}

/// The type of a parameter, as a catalog names it.
fn param_type(name: &str) -> Option<ParamType> {
    if name == LOCAL { Some(ParamType::Text) } else { ParamType::from_name(name) }
}

/// All foreign keys.
async fn references(
    config: &SourceConfig,
    source: &Source,
    catalog: &Catalog,
) -> Result<Vec<ForeignKey>, Error> {
    let mut found: Vec<ForeignKey> = Vec::new();
    for row in ask(config, source, catalog.references, None).await? {
        let column = ForeignColumn {
            place: row["place"].as_u64(),
            own: text(&row, "column"),
            parent: row["parent_column"].as_str().map(str::to_owned),
        };
        let (child, id) = (text(&row, "name"), row["id"].clone());
        match found.last_mut() {
            Some(key) if key.child == child && key.id == id => key.columns.push(column),
            _ => found.push(ForeignKey { child, id, parent: text(&row, "parent"), columns: vec![column] }),
        }
    }
    Ok(found)
}

/// The rows of a statement, as an endpoint would send them.
async fn ask(
    config: &SourceConfig,
    source: &Source,
    sql: &str,
    table: Option<&str>,
) -> Result<Vec<Value>, Error> {
    let argument = |table: &str| Argument {
        name: TABLE.to_owned(),
        kind: Some((ParamType::Text, false)),
        value: Some(table.to_owned()),
    };
    let arguments: Vec<_> = table.map(argument).into_iter().collect();
    let asked = Config::single_with(&config.url, Path::new("SQL"), sql, Purpose::Query, &arguments);
    let asked = asked.map_err(|errors| Error::endpoint(errors.to_string()))?;
    let values = table.map(|table| ParamValue::Text(table.to_owned())).into_iter().collect();
    let written = (Format::Ndjson, ValueOptions::DEFAULT);
    let mut stream = RowStream::open_with(&asked.endpoints[0], source, written, values).await?;
    let mut bytes = Vec::new();
    while let Some(chunk) = poll_fn(|cx| stream.poll_chunk(cx)).await {
        bytes.extend_from_slice(&chunk?);
    }
    let rows = serde_json::Deserializer::from_slice(&bytes).into_iter().collect::<Result<_, _>>();
    rows.map_err(|error| Error::endpoint("the catalog cannot be read").cause(error))
}

fn text(row: &Value, name: &str) -> String {
    row[name].as_str().unwrap_or_default().to_owned()
}
