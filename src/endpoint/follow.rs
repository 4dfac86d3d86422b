//! `follow`: keeps streams of an endpoint's rows open for new rows, and decides how they're
//! noticed.
//!
//! Streams follow rows by their key. So no row may become visible after a row with a greater key
//! was already sent. Some databases don't commit transactions in the order of their numbers, so a
//! row with a lower number may become visible later. For these, `transaction` names the column with
//! the row's transaction, and that column must be the first of the key. A row is read only after
//! all earlier transactions have ended.

use std::time::Duration;

use rowstream_core::diagnostic::reader::{Table, Value};
use rowstream_core::sql::dialect::{Dialect, Refusal};

use super::KeyColumn;

/// The default interval between polls for new rows.
const POLL: Duration = Duration::from_secs(1);

/// The default interval if the database also sends notifications. It's how we find out about a
/// connection that died silently.
const POLL_BESIDE_CHANNEL: Duration = Duration::from_secs(30);

/// How an endpoint's rows are followed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FollowSettings {
    /// The column with the transaction of each row. `None`: rows become visible in the order of
    /// their keys anyway.
    pub transaction: Option<String>,
    /// The PostgreSQL channel whose notifications announce new rows.
    pub channel: Option<String>,
    /// The interval between polls for new rows.
    pub poll: Duration,
}

/// Reads `follow = true`, or a table of settings. Returns `None` if it's off or has an error.
pub(super) fn read(value: &Value<'_>, dialect: &Dialect) -> Option<FollowSettings> {
    if value.is_boolean() {
        let on = value.boolean()?;
        return if on { FollowTable::default().check(value, dialect) } else { None };
    }
    let mut table = value.table("`follow`")?;
    let settings = FollowTable::read(&mut table);
    table.finish();
    settings?.check(value, dialect)
}

/// The settings of the table.
#[derive(Default)]
struct FollowTable {
    transaction: Option<String>,
    ordered: bool,
    channel: Option<String>,
    poll: Option<Duration>,
}

impl FollowTable {
    fn read(table: &mut Table<'_>) -> Option<Self> {
        let ordered = table.take("commits").map_or(Some(false), |value| is_ordered(&value));
        let mut text = |key| table.take(key).map_or(Some(None), |value| value.string().map(Some));
        let (transaction, channel) = (text("transaction"), text("channel"));
        let poll = table.take("poll").map_or(Some(None), |value| value.duration().map(Some));
        Some(Self { transaction: transaction?, ordered: ordered?, channel: channel?, poll: poll? })
    }

    fn check(self, value: &Value<'_>, dialect: &Dialect) -> Option<FollowSettings> {
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
        Some(FollowSettings { transaction, channel, poll: poll.unwrap_or(default) })
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

impl FollowSettings {
    /// Checks that the key orders rows by their transactions.
    ///
    /// # Errors
    /// The reason if it doesn't, and a hint.
    pub(super) fn check(&self, key: &[KeyColumn]) -> Result<(), (&'static str, &'static str)> {
        let Some(transaction) = &self.transaction else { return Ok(()) };
        match key.first() {
            Some(first) if first.name == *transaction && !first.descending => Ok(()),
            _ => Err((
                "the column of `follow.transaction` is not the first of the `key`",
                "rows are sent in the order of their transactions: `key = [\"the transaction\", \"…\"]`",
            )),
        }
    }
}
