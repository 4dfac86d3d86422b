//! A snapshot of one table, from which several responses read parts.

use http::StatusCode;

use rowstream_core::Error;
use rowstream_core::params::ParamValue;

/// The most bytes of a snapshot's name. PostgreSQL's have some twenty.
const NAME: usize = 64;

/// A snapshot of one table, by its name in the database.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TableSnapshot {
    /// Its name: digits, capital letters and hyphens.
    pub(super) id: String,
    /// How many pages the table had, at most [`u32::MAX`].
    pub(super) pages: u64,
    /// The file that its rows lie in: another one, once the table was written anew.
    pub(super) file: u32,
}

impl TableSnapshot {
    /// How many values a token of it holds.
    pub(crate) const VALUES: usize = 3;

    /// That of these texts: its name, the pages, the file.
    pub(super) fn read(texts: Vec<String>) -> Option<Self> {
        let [id, pages, file] = <[_; 3]>::try_from(texts).ok()?;
        // It is put into SQL, and may be made up.
        let is_name = |byte: u8| byte.is_ascii_digit() || byte.is_ascii_uppercase() || byte == b'-';
        let is_valid = id.len() <= NAME && id.bytes().all(is_name);
        let pages = pages.parse::<u32>().ok()?.into();
        is_valid.then_some(Self { id, pages, file: file.parse().ok()? })
    }

    /// That of the values of a token.
    pub(crate) fn of_values(values: Vec<ParamValue>) -> Option<Self> {
        let text = |value| match value {
            ParamValue::Text(text) => Some(text),
            _ => None,
        };
        Self::read(values.into_iter().map(text).collect::<Option<_>>()?)
    }

    /// The same values as a JSON array.
    pub(crate) fn to_json(&self) -> Vec<u8> {
        let Self { id, pages, file } = self;
        format!(r#"["{id}","{pages}","{file}"]"#).into_bytes()
    }

    /// It is not kept any more: 410.
    pub(crate) fn expired() -> Error {
        let message = "the snapshot that `_snapshot` names is not kept any more";
        Error::new("snapshot_expired", StatusCode::GONE, message)
            .hint("begin again with `_shard=1/n`, without `_snapshot`, and read all shards anew")
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
