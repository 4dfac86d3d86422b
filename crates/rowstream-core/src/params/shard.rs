//! `_shard` and `_snapshot`: the part of a table to read, and the snapshot to read it from.

/// `_shard=i/n`: one of several parts of a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shard {
    /// The part's index, from 0.
    pub index: u32,
    /// The number of parts, at least 1.
    pub of: u32,
}

impl Shard {
    /// Reads `i/n`, from `1/n` to `n/n`.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let number = |text: &str| text.parse::<u32>().ok().filter(|_| !text.starts_with('+'));
        let parts = text.split_once('/').and_then(|(shard, of)| Some((number(shard)?, number(of)?)));
        match parts {
            Some((shard, of)) if (1..=of).contains(&shard) => Ok(Self { index: shard - 1, of }),
            _ => Err("write `i/n`, from `1/n` to `n/n`".to_owned()),
        }
    }
}

/// The shard that a request asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestedShard {
    /// The part.
    pub shard: Shard,
    /// The token of the snapshot. `None`: a new snapshot.
    pub snapshot: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shard_is_one_of_so_many() {
        assert_eq!(Shard::parse("1/1"), Ok(Shard { index: 0, of: 1 }));
        assert_eq!(Shard::parse("8/8"), Ok(Shard { index: 7, of: 8 }));
        for wrong in [
            "",
            "1",
            "/",
            "1/",
            "/8",
            "0/8",
            "9/8",
            "1/0",
            "0/0",
            "-1/8",
            "+1/8",
            "1/8/8",
            "1.5/8",
            " 1/8",
            "1/99999999999",
        ] {
            assert!(Shard::parse(wrong).is_err(), "{wrong}");
        }
    }
}
