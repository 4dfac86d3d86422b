//! The database that an endpoint reads.

use rowstream_core::diagnostic::reader::Value;
use rowstream_core::diagnostic::{File, list, shown, suggest};
use rowstream_core::sql::Dialect;

use super::Defaults;
use crate::endpoint::SourceRef;
use crate::endpoint::upstream::per_row;
use crate::source::{SourceConfig, SourceKind};

/// The SQL dialect of a source. `None` if the source has an error, or no SQL.
pub(super) fn dialect_of(source: Option<&SourceConfig>) -> Option<&'static Dialect> {
    match source?.kind {
        SourceKind::Sql(database) => Some(database.dialect()),
        SourceKind::Http(_) => None,
    }
}

/// The database that an endpoint names, or the only one.
pub(super) fn choose_source(
    file: File<'_>,
    value: Option<&Value<'_>>,
    defaults: &Defaults<'_>,
) -> Option<(SourceRef, &'static Dialect)> {
    // A source with an error may be of any kind.
    let may_be = |source: &Option<SourceConfig>| source.is_none() || dialect_of(source.as_ref()).is_some();
    let databases: Vec<_> = defaults.sources.iter().filter(|(_, source)| may_be(source)).collect();
    let names = || databases.iter().map(|(name, _)| name.as_str());
    let Some(value) = value else {
        return match databases[..] {
            [(name, _)] => defaults.database(name),
            // Without any source, the reader of the configuration file reports it.
            [] if defaults.sources.is_empty() => None,
            [] => {
                let hint = "add a source with a database, or write `[upstream]` in a `.toml` file".to_owned();
                file.error(0, "this SQL needs a database, but the configuration has none", Some(hint));
                None
            }
            _ => {
                let hint = format!("choose one: `source = \"NAME\"`, one of {}", list(names()));
                file.error(0, "there are several sources, but this endpoint names none", Some(hint));
                None
            }
        };
    };
    let name = value.string()?;
    let Some((_, source)) = defaults.sources.iter().find(|(known, _)| *known == name) else {
        let hint = suggest("the sources are", &name, names().collect::<Vec<_>>());
        value.error_with(format!("there is no source {}", shown(&name)), hint);
        return None;
    };
    if !may_be(source) {
        let message = format!("the source {} is an HTTP service and can't run SQL", shown(&name));
        value.error_with(message, format!("the databases are {}", list(names())));
    }
    defaults.database(&name)
}

/// The database of `each`.
pub(super) fn each_source(
    file: File<'_>,
    each: &per_row::EachTable<'_>,
    defaults: &Defaults<'_>,
) -> Option<(SourceRef, &'static Dialect)> {
    let databases = defaults.sources.iter().filter(|(_, source)| dialect_of(source.as_ref()).is_some());
    match &each.source {
        None if databases.count() > 1 => {
            let hint = "choose one: `each = { sql = \"…\", source = \"NAME\" }`";
            each.sql.error_with("there are several databases, but `each` names none", hint);
            None
        }
        source => choose_source(file, source.as_ref(), defaults),
    }
}
