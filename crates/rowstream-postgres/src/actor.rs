//! The role that runs the statements of a response, with its settings, and the claims of the
//! request's token. All are set for the response's transaction only, as users of PostgREST know it.
//!
//! A request leaves nothing on its connection, because each setting is a `set local`, which ends
//! with the transaction.

use std::collections::BTreeMap;
use std::time::Duration;

use rowstream_database::Actor;

use super::connect::{IDLE_LIMIT, duration};

/// The letters that a server accepts in the claims of a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Letters {
    /// All, as UTF-8.
    Any,
    /// The letters of its encoding. Another one would fail each request of its user, even if the
    /// statements don't read the claims.
    Some,
}

impl Letters {
    /// The letters for this `server_encoding`. SQL_ASCII accepts all bytes, but not JSON's escapes.
    pub(super) fn of(encoding: &str) -> Self {
        if matches!(encoding, "UTF8" | "SQL_ASCII") { Self::Any } else { Self::Some }
    }
}

/// The settings of an actor, which follow the start of the transaction.
pub(super) fn sql(actor: &Actor, letters: Letters) -> String {
    let claims = match letters {
        Letters::Any => literal(actor.claims()),
        Letters::Some => literal(&in_ascii(actor.claims())),
    };
    format!("; set local role {}; set local request.jwt.claims = {claims}", literal(actor.role()))
}

/// JSON with its letters beyond ASCII, which are in its strings, as escapes.
fn in_ascii(json: &str) -> String {
    let mut plain = String::with_capacity(json.len());
    for c in json.chars() {
        if c.is_ascii() {
            plain.push(c);
        } else {
            plain.extend(c.encode_utf16(&mut [0; 2]).iter().map(|unit| format!("\\u{unit:04x}")));
        }
    }
    plain
}

/// The settings of roles (`alter role … set …`), which `set role` doesn't apply. PostgreSQL reads
/// its own user's settings when a session begins. We read a role's when a connection first serves
/// the role; a changed setting applies from the next connection on.
#[derive(Default)]
pub(super) struct RoleSettings(BTreeMap<Box<str>, Settings>);

/// The settings of one role.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Settings {
    /// They follow the start of the transaction.
    sql: String,
    /// The idle limit of its transactions; `None` if it has no such setting.
    idle_limit: Option<Option<Duration>>,
}

impl RoleSettings {
    /// The most roles that a connection remembers. A token may name any role, so there may be
    /// millions.
    const MOST: usize = 64;

    pub(super) fn of(&self, role: &str) -> Option<&Settings> {
        self.0.get(role)
    }

    pub(super) fn learn(&mut self, role: &str, settings: Settings) {
        if self.0.len() >= Self::MOST {
            self.0.clear();
        }
        self.0.insert(role.into(), settings);
    }
}

impl Settings {
    /// Asks for the name and the value of each setting that every user may change. The settings of
    /// the database are the last, because they win. A role can't change the form of values, nor that a
    /// transaction only reads one snapshot, nor the `search_path`, because statements are prepared with
    /// that of the source's user.
    pub(super) fn query(role: &str) -> String {
        format!(
            "select name, substr(item, length(name) + 2) from (
                select setdatabase, item, split_part(item, '=', 1) as name
                from pg_catalog.pg_db_role_setting, unnest(setconfig) as item
                where setrole = (select oid from pg_catalog.pg_roles where rolname = {})
                    and setdatabase in (0, (select oid from pg_catalog.pg_database where datname = current_database()))
            ) as settings
            where lower(name) not in ('client_encoding', 'datestyle', 'timezone', 'intervalstyle', 'bytea_output',
                'extra_float_digits', 'xmloption', 'standard_conforming_strings', 'array_nulls', 'client_min_messages',
                'default_transaction_read_only', 'transaction_read_only', 'transaction_isolation',
                'transaction_deferrable', 'role', 'search_path', 'temp_tablespaces', 'local_preload_libraries')
                and (name like '%.%' or name in (select name from pg_catalog.pg_settings where context = 'user'))
            order by setdatabase",
            literal(role)
        )
    }

    /// Appends a setting.
    pub(super) fn push(&mut self, name: &str, value: &str) {
        let quoted: Vec<_> =
            name.split('.').map(|part| format!("\"{}\"", part.replace('"', "\"\""))).collect();
        self.sql += &format!("; set local {} = {}", quoted.join("."), literal(value));
        if name == IDLE_LIMIT {
            self.idle_limit = Some(duration(value));
        }
    }

    pub(super) fn sql(&self) -> &str {
        &self.sql
    }

    /// The idle limit of its transactions, if `limit` is the connection's.
    pub(super) fn idle_limit(&self, limit: Option<Duration>) -> Option<Duration> {
        self.idle_limit.unwrap_or(limit)
    }
}

/// A string constant that means the same for both values of `standard_conforming_strings` (PostgreSQL
/// manual, "String Constants with C-Style Escapes").
fn literal(text: &str) -> String {
    format!("E'{}'", text.replace('\\', "\\\\").replace('\'', "''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_quoted() {
        let actor = Actor::new(r#"a'; drop table x; --\"#, r#"{"a":"\"'"}"#).unwrap();
        assert_eq!(
            sql(&actor, Letters::Any),
            r#"; set local role E'a''; drop table x; --\\'; set local request.jwt.claims = E'{"a":"\\"''"}'"#
        );
        let foreign = Actor::new("r", r#"{"a":"é","b":"Łu\n😀"}"#).unwrap();
        let said = |letters| sql(&foreign, letters).rsplit_once(" = ").map(|(_, claims)| claims.to_owned());
        assert_eq!(said(Letters::of("UTF8")).unwrap(), r#"E'{"a":"é","b":"Łu\\n😀"}'"#);
        assert_eq!(
            said(Letters::of("LATIN1")).unwrap(),
            r#"E'{"a":"\\u00e9","b":"\\u0141u\\n\\ud83d\\ude00"}'"#
        );
    }
}
