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

use crate::config::{Argument, Config, Purpose};
use crate::source::{Source, SourceConfig};
use crate::stream::RowStream;

/// The parameter of [`Catalog::columns`].
const TABLE: &str = "table";

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
    /// Its foreign keys to tables that are served too, or to itself.
    pub(crate) references: Vec<Reference>,
    /// The dialect that quotes its names.
    pub(crate) dialect: &'static Dialect,
}

/// A foreign key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Reference {
    /// The name of the table that it refers to.
    pub(crate) parent: String,
    /// Its columns, in their order.
    pub(crate) columns: Vec<ReferenceColumn>,
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
    /// The type to cast the parameter to before the comparison, if that's necessary.
    pub(crate) cast: Option<String>,
    /// Its position in the primary key, from 1; 0 if it isn't part of the key.
    place: u64,
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

    /// Its column of this name.
    pub(crate) fn column(&self, name: &str) -> Option<&Column> {
        self.columns.iter().find(|column| column.name == name)
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
            if !ask(config, source, (&sql, None)).await?.is_empty() {
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
    for row in ask(config, source, (catalog.tables, None)).await? {
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
        Ok(references) => found.add_references(references),
        Err(error) if error.is_of_source() => return Err(error),
        Err(error) => found.warnings.push(format!("warning: foreign keys are left out: {error}")),
    }
    Ok(found)
}

impl CatalogTables {
    /// Adds the foreign keys between served tables, each only once.
    fn add_references(&mut self, references: Vec<(String, Reference)>) {
        let places: HashMap<_, _> =
            (0..).zip(&self.tables).map(|(at, table)| (table.name.clone(), at)).collect();
        for (child, reference) in references {
            let (Some(&at), Some(&parent)) = (places.get(&child), places.get(&reference.parent)) else {
                continue;
            };
            let (child, parent): (&Table, &Table) = (&self.tables[at], &self.tables[parent]);
            let is_readable = |column: &ReferenceColumn| {
                child.column(&column.own).is_some() && parent.column(&column.parent).is_some()
            };
            let is_known = child.references.iter().any(|known| known.has_columns_of(&reference));
            if reference.columns.iter().all(is_readable) && !is_known {
                self.tables[at].references.push(reference);
            }
        }
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
    let rows = ask(config, source, (catalog.columns, Some(table))).await?;
    let column = |row: &Value| Column {
        name: text(row, "name"),
        type_name: text(row, "type"),
        param: row["param"].as_str().and_then(ParamType::from_name),
        cast: row["cast"].as_str().map(str::to_owned),
        place: row["place"].as_u64().unwrap_or_default(),
        unordered: row["unordered"].as_str().map(str::to_owned),
    };
    Ok(rows.iter().map(column).collect())
}

/// All foreign keys, with the names of their tables.
async fn references(
    config: &SourceConfig,
    source: &Source,
    catalog: &Catalog,
) -> Result<Vec<(String, Reference)>, Error> {
    let mut found: Vec<(String, Reference)> = Vec::new();
    for row in ask(config, source, (catalog.references, None)).await? {
        if row["place"] == 1 {
            found.push((text(&row, "name"), Reference { parent: text(&row, "parent"), columns: Vec::new() }));
        }
        let column = ReferenceColumn { own: text(&row, "column"), parent: text(&row, "parent_column") };
        if let Some((_, reference)) = found.last_mut() {
            reference.columns.push(column);
        }
    }
    Ok(found)
}

/// The rows of a statement, as an endpoint would send them.
async fn ask(
    config: &SourceConfig,
    source: &Source,
    (sql, table): (&str, Option<&str>),
) -> Result<Vec<Value>, Error> {
    let argument = |table: &str| Argument {
        name: TABLE.to_owned(),
        kind: Some((ParamType::Text, false)),
        value: Some(table.to_owned()),
    };
    let arguments: Vec<_> = table.map(argument).into_iter().collect();
    let asked = Config::single_with(&config.url, (Path::new("SQL"), sql), Purpose::Query, &arguments);
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
