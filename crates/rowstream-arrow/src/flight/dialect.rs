//! The SQL that servers of Arrow Flight SQL have in common, as data. They don't report their
//! dialect, so quoted names can be those of the SQL standard, or of MySQL and Spark.

use rowstream_core::sql::dialect::{
    Affixes, BlockComments, CommitOrder, Commits, Decimals, Dialect, Infinities, KeyComparison, Keys,
    LineComment, Lists, Location, Names, ParameterTypes, Placeholders, Quotes, Refusal, Strings, Syntax,
    Urls,
};
use rowstream_database::optional;

/// The SQL of servers of Arrow Flight SQL.
pub(super) static DIALECT: Dialect = Dialect {
    name: "Arrow Flight SQL",
    urls: Urls {
        schemes: optional::FLIGHT.schemes,
        location: Location::Server,
        example: "flightsql://user@host:port",
        variables: &[],
        password_places: &[],
    },
    syntax: Syntax {
        quote: '"',
        identifiers: &[Quotes::Doubled(b'`')],
        strings: &[Strings::Dollar],
        line_comments: &[LineComment::Dashes],
        block_comments: BlockComments::Nested,
        line_ends: b"\n\r",
        variables: b"?",
        names: Names::Caseless,
    },
    placeholders: Placeholders::ByOccurrence,
    parameter_types: ParameterTypes::Declared,
    decimals: Decimals::Exact(38),
    null_limit: None,
    lists: Lists::Arrays,
    keys: Keys {
        cast: Affixes::NOTHING,
        of_union: Affixes::NOTHING,
        comparison: KeyComparison::ByColumn,
        infinities: Infinities::Refused,
        bytes: Err("use a key of texts or numbers"),
        unordered: &[],
        alike: &[],
    },
    filters: Err(Refusal {
        message: "the SQL of a source of Arrow Flight SQL isn't known, so requests can't filter, sort or select",
        hint: "declare parameters, and use them in the statement",
    }),
    writes: &[],
    commits: Commits {
        order: CommitOrder::Unknown(NOT_FOLLOWED),
        transactions: Err(NOT_FOLLOWED),
        channel: Err(NOT_FOLLOWED),
        counters: None,
    },
    refcursors: Err(Refusal {
        message: "Arrow Flight SQL has no refcursors",
        hint: "only PostgreSQL has them: write a statement for each list",
    }),
    interleaved: Err(Refusal {
        message: "statements of Arrow Flight SQL read no common snapshot, so rows of one can't be nested in those of another",
        hint: "join the two, or let the engine nest the rows: a list of structs is a JSON array",
    }),
    snapshots: Err(Refusal {
        message: "statements of Arrow Flight SQL read no common snapshot, so an answer of several could hold two states of the data",
        hint: "write an endpoint for each statement, or join them",
    }),
    parts: Err(Refusal {
        message: "connections of Arrow Flight SQL can't read one snapshot together",
        hint: "leave out `parallel` and `shards`: if the engine returns parts, they're read in parallel \
            anyway",
    }),
    explain: None,
    estimate: None,
    unique_keys: None,
    catalog: None,
};

const NOT_FOLLOWED: Refusal = Refusal {
    message: "a source of Arrow Flight SQL has no live tail",
    hint: "it doesn't report when rows become visible: leave out `follow`",
};
