//! A snapshot of one table, which several responses read parts of.

use http::StatusCode;
use rowstream_core::Error;
use rowstream_core::params::ParamValue;

/// The longest name of a snapshot, in bytes. PostgreSQL's names have some twenty.
const NAME: usize = 64;

/// A snapshot of one table, by its name in the database.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableSnapshot {
    /// Its name: digits, capital letters and hyphens.
    pub id: String,
    /// The number of pages that the table had, at most [`u32::MAX`].
    pub pages: u64,
    /// The file that contains its rows. It changes if the table is rewritten.
    pub file: u32,
}

impl TableSnapshot {
    /// The number of values in a token.
    pub const VALUES: usize = 3;

    /// Parses three texts: name, pages and file.
    pub fn read(texts: Vec<String>) -> Option<Self> {
        let [id, pages, file] = <[_; 3]>::try_from(texts).ok()?;
        // The name becomes part of the SQL, and a client can invent one.
        let is_name = |byte: u8| byte.is_ascii_digit() || byte.is_ascii_uppercase() || byte == b'-';
        let is_valid = id.len() <= NAME && id.bytes().all(is_name);
        let pages = pages.parse::<u32>().ok()?.into();
        is_valid.then_some(Self { id, pages, file: file.parse().ok()? })
    }

    /// Reads the values of a token.
    pub fn of_values(values: Vec<ParamValue>) -> Option<Self> {
        let text = |value| match value {
            ParamValue::Text(text) => Some(text),
            _ => None,
        };
        Self::read(values.into_iter().map(text).collect::<Option<_>>()?)
    }

    /// The same values as a JSON array.
    pub fn to_json(&self) -> Vec<u8> {
        let Self { id, pages, file } = self;
        format!(r#"["{id}","{pages}","{file}"]"#).into_bytes()
    }

    /// The error of a snapshot that isn't kept any more: 410.
    pub fn expired() -> Error {
        let message = "the snapshot that `_snapshot` names has expired";
        Error::new("snapshot_expired", StatusCode::GONE, message)
            .hint("start again with `_shard=1/n`, without `_snapshot`, and read all shards again")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_snapshot_is_read_only_from_what_was_written() {
        let values = |texts: [&str; 3]| texts.map(|text| ParamValue::Text(text.to_owned())).to_vec();
        let snapshot = TableSnapshot::of_values(values(["00000003-0000001B-1", "7", "16384"])).unwrap();
        assert_eq!(snapshot.to_json(), br#"["00000003-0000001B-1","7","16384"]"#);
        for made_up in [
            ["1'; drop table event; --", "7", "16384"],
            ["1", "-7", "16384"],
            ["1", "4294967296", "16384"],
            ["1", "7", ""],
            [&"1".repeat(NAME + 1), "7", "16384"],
        ] {
            assert_eq!(TableSnapshot::of_values(values(made_up)), None, "{made_up:?}");
        }
        assert_eq!(TableSnapshot::of_values(vec![ParamValue::Null]), None);
    }
}
