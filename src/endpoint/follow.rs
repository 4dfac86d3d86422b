//! `follow`: whether streams of an endpoint's rows can stay open for new ones, and how these are
//! noticed.
//!
//! Rows are followed by their key, so none may become visible after a key that was given out
//! already. Transactions of some databases commit in another order than they took their numbers in:
//! a row with a lesser number may come later. There `transaction` names the column that holds the
//! row's transaction, which then is the first of the key: rows are read once no transaction before
//! theirs is still running.

use std::time::Duration;

use super::KeyColumn;
use crate::diagnostic::reader::{Table, Value};
use crate::sql::dialect::{Dialect, Refusal};

/// How often it is looked whether there is something new.
const POLL: Duration = Duration::from_secs(1);

/// The same where notifications tell it: a connection that has died silently is found by it.
const POLL_BESIDE_CHANNEL: Duration = Duration::from_secs(30);

/// How the rows of an endpoint are followed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Follow {
    /// The column that holds the transaction of each row; `None`: rows become visible in the order
    /// of their keys anyway.
    pub transaction: Option<String>,
    /// The channel of PostgreSQL's `notify` that tells of new rows.
    pub channel: Option<String>,
    /// How often it is looked whether there is something new.
    pub poll: Duration,
}

/// `follow = true`, or its settings, and where that stands. `None` where it is off, or has an
/// error.
pub(super) fn read(value: &Value<'_>, dialect: &Dialect) -> Option<Follow> {
    if value.is_boolean() {
        let on = value.boolean()?;
        return if on { Settings::default().check(value, dialect) } else { None };
    }
    let mut table = value.table("`follow`")?;
    let settings = Settings::read(&mut table);
    table.finish();
    settings?.check(value, dialect)
}

/// What the table says.
#[derive(Default)]
struct Settings {
    transaction: Option<String>,
    ordered: bool,
    channel: Option<String>,
    poll: Option<Duration>,
}

impl Settings {
    fn read(table: &mut Table<'_>) -> Option<Self> {
        let ordered = table.take("commits").map_or(Some(false), |value| is_ordered(&value));
        let mut text = |key| table.take(key).map_or(Some(None), |value| value.string().map(Some));
        let (transaction, channel) = (text("transaction"), text("channel"));
        let poll = table.take("poll").map_or(Some(None), |value| value.duration().map(Some));
        Some(Self { transaction: transaction?, ordered: ordered?, channel: channel?, poll: poll? })
    }

    fn check(self, value: &Value<'_>, dialect: &Dialect) -> Option<Follow> {
        let Self { transaction, ordered, channel, poll } = self;
        let commits = &dialect.commits;
        let in_order = match &transaction {
            Some(_) => commits.transactions.map(|_| ()),
            None => commits.order.check(ordered),
        };
        let by_channel = if channel.is_some() { commits.channel } else { Ok(()) };
        if let Err(Refusal { message, hint }) = in_order.and(by_channel) {
            value.error_with(message, hint);
            return None;
        }
        let default = if channel.is_some() { POLL_BESIDE_CHANNEL } else { POLL };
        Some(Follow { transaction, channel, poll: poll.unwrap_or(default) })
    }
}

fn is_ordered(value: &Value<'_>) -> Option<bool> {
    match value.string()?.as_str() {
        "ordered" => Some(true),
        text => {
            let message = format!("`commits` cannot be {}", value.shown(text));
            value.error_with(message, "write \"ordered\", or leave it out");
            None
        }
    }
}

impl Follow {
    /// Checks that the key is in the order of the transactions.
    ///
    /// # Errors
    /// Why it is not, and what to do.
    pub(super) fn check(&self, key: &[KeyColumn]) -> Result<(), (&'static str, &'static str)> {
        let Some(transaction) = &self.transaction else { return Ok(()) };
        match key.first() {
            Some(first) if first.name == *transaction && !first.descending => Ok(()),
            _ => Err((
                "the column of `follow.transaction` is not the first of the `key`",
                "rows come in the order of their transactions: `key = [\"the transaction\", \"…\"]`",
            )),
        }
    }
}
