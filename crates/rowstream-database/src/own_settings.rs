//! The settings of a source that only some databases have.
//!
//! A driver lists them in [`Database::SETTINGS`](crate::Database::SETTINGS), and reads them. The server
//! refuses them for all other databases.

use std::path::Path;

use rowstream_core::diagnostic::reader::Value;
use rowstream_core::settings::SourceSettings;

/// A setting that only some databases have. If several drivers have it, they share it.
pub struct OwnSetting {
    /// Its key in `[source.NAME]`.
    pub name: &'static str,
    /// Reads its value, and reports a wrong one.
    pub read: fn(&Value<'_>, &SourceContext<'_>, &mut SourceSettings),
    /// The treatment of the setting if the source is another database.
    pub elsewhere: Elsewhere,
    /// The remedy if it's refused.
    pub hint: &'static str,
}

/// The treatment of a setting in the source of a database that doesn't have it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Elsewhere {
    /// It's refused, because the source would lack a guard or a secret.
    Refused,
    /// It's refused, unless a variable chooses the database: `url = "${SHOP_URL:-sqlite:shop.db}"`.
    IgnoredIfChosen,
    /// It's ignored.
    Ignored,
}

/// The parts of a configuration that the settings of a source refer to.
#[derive(Debug, Clone, Copy)]
pub struct SourceContext<'a> {
    /// The folder that relative paths start from.
    pub folder: &'a Path,
    /// True if there is a `[jwt]`, so that requests can have claims.
    pub has_claims: bool,
}
