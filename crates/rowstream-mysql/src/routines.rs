//! Functions and views of the database's users, and their effects on the session of a statement that uses them.
//!
//! Servers report most changes of a session at the end of a statement: settings, variables and temporary tables
//! ([`Connection::end_status`]). They don't report locks, `last_insert_id` and variables that `select … into @x`
//! sets, and an error hides all changes. So we read the catalog once for each source: the texts of functions, and of
//! the views in the URL's database.
//!
//! - A function whose text names a variable, calls `get_lock` or `last_insert_id`, or sets a role or the next
//!   transaction, may leave something that isn't reported (nor does MariaDB report `set @@name`). If the user can't
//!   read the text, that depends on the function's declaration.
//! - All other functions may change settings. So may a view whose text the user can't read.
//! - Functions and views also have the effects of those that they use.
//!
//! A function that's replaced later keeps its effect until the next start, and we don't see views of other databases
//! and loadable functions.

use std::collections::BTreeMap;

use rowstream_core::lock::RwLock;
use rowstream_core::sql::Outline;
use rowstream_core::{Error, log};

use super::connect::Connection;
use super::dialect::DIALECT;
use super::look;

/// The changes of its session that a statement may leave to the next request.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum SessionEffect {
    #[default]
    Nothing,
    /// The server reports it, unless the statement fails.
    Reported,
    /// The server doesn't report it.
    Unreported,
}

impl SessionEffect {
    /// Judges by the text alone: its variables and locks.
    fn of_text(outline: &Outline<'_>) -> Self {
        match outline.has_session_variable() || outline.calls_any(&["get_lock", "last_insert_id"]) {
            true => Self::Unreported,
            false => Self::Nothing,
        }
    }
}

/// The most names of functions and views, in all texts together, that we compare.
const NAMES_AT_MOST: usize = 100_000;

/// The functions and views of a source that have effects. `None` until we have read the catalog.
#[derive(Debug, Default)]
pub(super) struct Routines(RwLock<Option<BTreeMap<String, SessionEffect>>>);

impl Routines {
    /// Reads the catalog of `source`, unless that has happened already. A server that doesn't know such a query has no
    /// functions. If it can't answer in time, only its own reports count.
    ///
    /// # Errors
    /// The connection failed.
    pub(super) async fn read(&self, connection: &mut Connection, source: &str) -> Result<(), Error> {
        if self.0.read().is_some() {
            return Ok(());
        }
        let (mut routines, mut names) = (BTreeMap::<String, Routine>::new(), 0);
        let read = look::rows(connection, CATALOG, |row| {
            let Some((name, routine)) = Routine::of_row(row) else { return };
            names += 1 + routine.uses.len();
            if names <= NAMES_AT_MOST {
                routines.entry(name).or_default().add(routine);
            }
        });
        let why = match read.await? {
            Err(error) if error.ends_connection() => return Err(error.into_error(None)),
            Err(error) if !error.sqlstate.starts_with("42") => Some(error.message),
            Ok(()) if names > NAMES_AT_MOST => Some(format!("they name {names} others")),
            Ok(()) | Err(_) => None,
        };
        if let Some(why) = why {
            log::warning!(
                "the functions of source `{source}` can't be read, so locks that they take stay for later requests: {why}"
            );
            routines.clear();
        }
        *self.0.write() = Some(effects(routines));
        Ok(())
    }

    /// The effect of a statement, by its text and by the functions and views that it names.
    pub(super) fn effect_of(&self, sql: &str) -> SessionEffect {
        let Some(outline) = Outline::new(sql, &DIALECT) else { return SessionEffect::Nothing };
        let known = self.0.read();
        let of_name = |name: String| known.as_ref()?.get(&name).copied();
        names(&outline).filter_map(of_name).fold(SessionEffect::of_text(&outline), Ord::max)
    }
}

/// The functions and views that a text may name. The names of functions end in `(`.
fn names(outline: &Outline<'_>) -> impl Iterator<Item = String> {
    let functions = outline.functions().into_iter().map(|name| format!("{name}("));
    functions.chain(outline.tables_or_columns()).map(|name| name.to_lowercase())
}

/// The functions and views of one name.
#[derive(Default)]
struct Routine {
    effect: SessionEffect,
    /// The functions and views that its text names.
    uses: Vec<String>,
}

impl Routine {
    /// Reads a row of the catalog: the name, the text, and the effect of a routine without a known text.
    fn of_row(row: Vec<Option<String>>) -> Option<(String, Self)> {
        let [name, text, is_reported] = <[_; 3]>::try_from(row).ok()?;
        let name = name?.to_lowercase();
        let hidden = match is_reported.as_deref() {
            Some("1") => SessionEffect::Reported,
            _ => SessionEffect::Unreported,
        };
        let text = text.filter(|text| !text.is_empty());
        let Some(outline) = text.as_ref().and_then(|text| Outline::new(text, &DIALECT)) else {
            return Some((name, Self { effect: hidden, uses: Vec::new() }));
        };
        let is_function = name.ends_with('(');
        let sets_more = text.as_ref().is_some_and(|text| text.contains("@@"))
            || outline.has_any(&["set"]) && outline.has_any(&["transaction", "role"]);
        let least = match is_function {
            true if sets_more => SessionEffect::Unreported,
            true => SessionEffect::Reported,
            false => SessionEffect::Nothing,
        };
        let effect = SessionEffect::of_text(&outline).max(least);
        let uses = names(&outline).collect();
        Some((name, Self { effect, uses }))
    }

    fn add(&mut self, other: Self) {
        self.effect = self.effect.max(other.effect);
        self.uses.extend(other.uses);
    }
}

/// The effects of functions and views. They include the effects of all functions and views that these use.
fn effects(mut routines: BTreeMap<String, Routine>) -> BTreeMap<String, SessionEffect> {
    loop {
        let used = |routine: &Routine| {
            let effects = routine.uses.iter().filter_map(|name| Some(routines.get(name)?.effect));
            effects.fold(routine.effect, Ord::max)
        };
        let raised: Vec<_> = routines.values().map(used).collect();
        let mut is_complete = true;
        for (routine, effect) in routines.values_mut().zip(raised) {
            is_complete &= routine.effect == effect;
            routine.effect = effect;
        }
        if is_complete {
            break;
        }
    }
    let effects = routines.into_iter().map(|(name, routine)| (name, routine.effect));
    effects.filter(|(_, effect)| *effect > SessionEffect::Nothing).collect()
}

/// The functions and views, as [`Routine::of_row`] reads them. Procedures are here because functions can call them. A
/// text that is longer than the shortest limit of a row counts as one that the user can't read.
const CATALOG: &str = "select concat(routine_name, '('),
      if(octet_length(routine_definition) > 32768, null, routine_definition),
      sql_data_access in ('NO SQL', 'READS SQL DATA')
    from information_schema.routines
    where routine_schema not in ('mysql', 'sys', 'information_schema', 'performance_schema')
    union all
    select table_name, if(octet_length(view_definition) > 32768, null, view_definition), 1
    from information_schema.views where table_schema = database()";

#[cfg(test)]
mod tests {
    use super::*;

    fn row(name: &str, text: Option<&str>, is_reported: &str) -> Vec<Option<String>> {
        vec![Some(name.to_owned()), text.map(str::to_owned), Some(is_reported.to_owned())]
    }

    #[test]
    fn an_effect_reaches_all_users_of_a_function() {
        let rows = [
            row("Plain(", Some("begin declare v int; set v = 1; return v; end"), "0"),
            row("locks(", Some("return get_lock('a', 0)"), "1"),
            row("enters(", Some("begin if locks() then return 1; end if; return 0; end"), "1"),
            row("counts(", Some("begin select 1 into @x; return 1; end"), "0"),
            row("secret(", None, "0"),
            row("reads(", None, "1"),
            row("of_view", Some("select `d`.`v`.`x` AS `x` from `d`.`V`"), "1"),
            row("V", Some("select `d`.`enters`() AS `x`"), "1"),
            row("tables", Some("select `d`.`t`.`id` AS `id` from `d`.`t`"), "1"),
            row("hidden", Some(""), "1"),
            row("around(", Some("return again()"), "1"),
            row("again(", Some("return around()"), "1"),
            row("server(", Some("begin set @@sql_select_limit = 1; return 1; end"), "1"),
            row("next(", Some("begin set transaction read write; return 1; end"), "1"),
            row("calls(", Some("begin call p; return 1; end"), "1"),
            row("p(", Some("begin do get_lock('a', 0); end"), "1"),
            // Of two databases.
            row("twice(", Some("return get_lock('a', 0)"), "1"),
            row("twice(", Some("return 1"), "1"),
            row("ÄRGER(", Some("return get_lock('a', 0)"), "1"),
        ];
        let routines = Routines::default();
        let mut read = BTreeMap::<String, Routine>::new();
        for (name, routine) in rows.into_iter().filter_map(Routine::of_row) {
            read.entry(name).or_default().add(routine);
        }
        *routines.0.write() = Some(effects(read));
        for (sql, effect) in [
            ("select count(*) from t", SessionEffect::Nothing),
            ("select id from tables", SessionEffect::Nothing),
            ("select plain()", SessionEffect::Reported),
            ("select `PLAIN` (), d.around()", SessionEffect::Reported),
            ("select x from hidden", SessionEffect::Reported),
            ("select reads()", SessionEffect::Reported),
            ("select secret()", SessionEffect::Unreported),
            ("select id from t join d.of_view using (id)", SessionEffect::Unreported),
            ("select x from t straight_join of_view", SessionEffect::Unreported),
            ("select counts()", SessionEffect::Unreported),
            ("select server()", SessionEffect::Unreported),
            ("select next()", SessionEffect::Unreported),
            ("select calls()", SessionEffect::Unreported),
            ("select twice()", SessionEffect::Unreported),
            ("select Ärger()", SessionEffect::Unreported),
            ("select @@version", SessionEffect::Nothing),
            ("select get_lock('a', 0)", SessionEffect::Unreported),
            ("select @x", SessionEffect::Unreported),
        ] {
            assert_eq!(routines.effect_of(sql), effect, "{sql}");
        }
    }
}
