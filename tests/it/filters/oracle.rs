//! The rows that a random request should have, by the rules of SQL, without a database.

use std::cmp::Ordering;

/// A database, with the differences that matter for an order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Database {
    Postgres,
    MariaDb,
    Sqlite,
}

/// A value that compares like that of its column. Decimals are hundredths.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Cell {
    Number(i64),
    Text(String),
}

/// A row: its id, and the values of [`COLUMNS`].
#[derive(Debug, Clone)]
pub(super) struct Row {
    id: i64,
    cells: [Option<Cell>; 4],
}

/// The columns except `id`.
const COLUMNS: [&str; 4] = ["n", "name", "amount", "day"];
const NAME: usize = 1;
/// The characters of names, some of them with a meaning in patterns.
const LETTERS: [&str; 9] = ["a", "A", "b", "B", "%", "_", "[", "\\", "?"];

/// A table with rows, as SQL, and its rows.
pub(super) fn table(database: Database) -> (String, Vec<Row>) {
    let mut random = Random::new(fastrand::u64(..));
    let rows: Vec<_> = (1..=60).map(|id| random.row(id)).collect();
    let text = match database {
        Database::Postgres => "text collate \"C\"",
        Database::MariaDb => "varchar(20) character set utf8mb4 collate utf8mb4_nopad_bin",
        Database::Sqlite => "text",
    };
    let values: Vec<_> = rows.iter().map(|row| row.sql(database)).collect();
    let sql = format!(
        "create table t (id integer primary key, n bigint, name {text}, amount decimal(10, 2), day date);
         insert into t values {}",
        values.join(", ")
    );
    (sql, rows)
}

impl Row {
    fn sql(&self, database: Database) -> String {
        let escape = |text: &str| match database {
            Database::MariaDb => text.replace('\\', "\\\\"),
            Database::Postgres | Database::Sqlite => text.to_owned(),
        };
        let cells = (0..COLUMNS.len()).map(|column| match &self.cells[column] {
            None => "null".to_owned(),
            Some(cell) => format!("'{}'", escape(&written(column, cell))),
        });
        format!("({}, {})", self.id, cells.collect::<Vec<_>>().join(", "))
    }
}

/// A value as a request and SQL write it.
fn written(column: usize, cell: &Cell) -> String {
    match cell {
        Cell::Text(text) => text.clone(),
        Cell::Number(number) if column == 2 => {
            let sign = if *number < 0 { "-" } else { "" };
            format!("{sign}{}.{:02}", number.abs() / 100, number.abs() % 100)
        }
        Cell::Number(number) => number.to_string(),
    }
}

/// The conditions and the order of a request.
#[derive(Debug)]
pub(super) struct Asked {
    conditions: Vec<Condition>,
    order: Vec<Term>,
    database: Database,
}

#[derive(Debug)]
enum Condition {
    Compare(usize, &'static str, Cell),
    Like(&'static str, String),
    In(usize, Vec<Cell>),
    IsNull(usize),
    Not(Box<Condition>),
    All(Vec<Condition>),
    Any(Vec<Condition>),
}

#[derive(Debug)]
struct Term {
    column: usize,
    descending: bool,
    nulls_first: Option<bool>,
}

impl Asked {
    /// The ids of the rows, in their order.
    pub(super) fn rows(&self, rows: &[Row]) -> Vec<i64> {
        let is_met = |row: &&Row| self.conditions.iter().all(|condition| condition.of(row) == Some(true));
        let mut found: Vec<_> = rows.iter().filter(is_met).collect();
        found.sort_by(|one, other| {
            let by_terms = self.order.iter().map(|term| term.compare(one, other, self.database));
            by_terms.fold(Ordering::Equal, Ordering::then).then(one.id.cmp(&other.id))
        });
        found.into_iter().map(|row| row.id).collect()
    }

    /// The query, not encoded.
    pub(super) fn query(&self) -> String {
        let order: Vec<_> = self.order.iter().map(Term::text).collect();
        let order = (!order.is_empty()).then(|| format!("order={}", order.join(",")));
        let conditions = self.conditions.iter().map(|condition| match condition {
            Condition::All(members) => format!("and={}", group(members)),
            Condition::Any(members) => format!("or={}", group(members)),
            other => other.pair(),
        });
        conditions.chain(order).collect::<Vec<_>>().join("&")
    }
}

impl Term {
    fn compare(&self, one: &Row, other: &Row, database: Database) -> Ordering {
        let default = match database {
            Database::Postgres => self.descending,
            Database::MariaDb | Database::Sqlite => !self.descending,
        };
        let nulls_first = self.nulls_first.unwrap_or(default);
        let of_null =
            |one_is_null: bool| if one_is_null == nulls_first { Ordering::Less } else { Ordering::Greater };
        match (&one.cells[self.column], &other.cells[self.column]) {
            (None, None) => Ordering::Equal,
            (None, Some(_)) => of_null(true),
            (Some(_), None) => of_null(false),
            (Some(one), Some(other)) if self.descending => other.cmp(one),
            (Some(one), Some(other)) => one.cmp(other),
        }
    }

    fn text(&self) -> String {
        let direction = if self.descending { ".desc" } else { "" };
        let nulls = match self.nulls_first {
            None => "",
            Some(true) => ".nullsfirst",
            Some(false) => ".nullslast",
        };
        format!("{}{direction}{nulls}", COLUMNS[self.column])
    }
}

fn group(members: &[Condition]) -> String {
    format!("({})", members.iter().map(Condition::member).collect::<Vec<_>>().join(","))
}

fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}

impl Condition {
    /// Its truth for a row, which may be unknown.
    fn of(&self, row: &Row) -> Option<bool> {
        match self {
            Self::Compare(column, operator, value) => {
                let order = row.cells[*column].as_ref()?.cmp(value);
                Some(match *operator {
                    "eq" => order.is_eq(),
                    "neq" => order.is_ne(),
                    "gt" => order.is_gt(),
                    "gte" => order.is_ge(),
                    "lt" => order.is_lt(),
                    _ => order.is_le(),
                })
            }
            Self::Like(operator, pattern) => {
                let Cell::Text(text) = row.cells[NAME].as_ref()? else { return None };
                let fold =
                    |text: &str| if *operator == "ilike" { text.to_lowercase() } else { text.to_owned() };
                let [pattern, text] =
                    [fold(pattern), fold(text)].map(|text| text.chars().collect::<Vec<_>>());
                Some(is_like(&pattern, &text))
            }
            Self::In(column, values) => match (&row.cells[*column], &values[..]) {
                (_, []) => Some(false),
                (cell, values) => Some(values.contains(cell.as_ref()?)),
            },
            Self::IsNull(column) => Some(row.cells[*column].is_none()),
            Self::Not(inner) => inner.of(row).map(|truth| !truth),
            Self::All(members) => decided(members, row, false),
            Self::Any(members) => decided(members, row, true),
        }
    }

    /// As a pair of its own.
    fn pair(&self) -> String {
        match self {
            Self::Not(inner) => match &**inner {
                Self::All(members) => format!("not.and={}", group(members)),
                Self::Any(members) => format!("not.or={}", group(members)),
                inner => inner.pair().replacen('=', "=not.", 1),
            },
            Self::Compare(column, operator, cell) => {
                format!("{}={operator}.{}", COLUMNS[*column], written(*column, cell))
            }
            Self::Like(operator, pattern) => format!("name={operator}.{pattern}"),
            other => other.member().replacen('.', "=", 1),
        }
    }

    /// As a member of a group.
    fn member(&self) -> String {
        match self {
            Self::Compare(column, operator, cell) => {
                format!("{}.{operator}.{}", COLUMNS[*column], quoted(&written(*column, cell)))
            }
            Self::Like(operator, pattern) => format!("name.{operator}.{}", quoted(pattern)),
            Self::In(column, values) => {
                let values: Vec<_> = values.iter().map(|cell| quoted(&written(*column, cell))).collect();
                format!("{}.in.({})", COLUMNS[*column], values.join(","))
            }
            Self::IsNull(column) => format!("{}.is.null", COLUMNS[*column]),
            Self::All(members) => format!("and{}", group(members)),
            Self::Any(members) => format!("or{}", group(members)),
            Self::Not(inner) => match &**inner {
                Self::All(_) | Self::Any(_) => format!("not.{}", inner.member()),
                inner => inner.member().replacen('.', ".not.", 1),
            },
        }
    }
}

/// The truth of a group: one member of the truth `deciding` decides, or else an unknown one.
fn decided(members: &[Condition], row: &Row, deciding: bool) -> Option<bool> {
    let truths: Vec<_> = members.iter().map(|member| member.of(row)).collect();
    match truths.contains(&Some(deciding)) {
        true => Some(deciding),
        false => (!truths.contains(&None)).then_some(!deciding),
    }
}

/// `like`, with a backslash before characters that mean themselves.
fn is_like(pattern: &[char], text: &[char]) -> bool {
    match pattern {
        [] => text.is_empty(),
        ['%', rest @ ..] => (0..=text.len()).any(|skipped| is_like(rest, &text[skipped..])),
        ['_', rest @ ..] => !text.is_empty() && is_like(rest, &text[1..]),
        ['\\', c, rest @ ..] | [c, rest @ ..] => text.first() == Some(c) && is_like(rest, &text[1..]),
    }
}

/// Random requests.
pub(super) struct Random(fastrand::Rng);

impl Random {
    pub(super) fn new(seed: u64) -> Self {
        Self(fastrand::Rng::with_seed(seed))
    }

    /// A page's size.
    pub(super) fn size(&mut self) -> usize {
        self.0.usize(1..20)
    }

    /// An index of a list of this length; `None` if it's empty.
    pub(super) fn below(&mut self, length: usize) -> Option<usize> {
        (length > 0).then(|| self.0.usize(..length))
    }

    fn row(&mut self, id: i64) -> Row {
        Row { id, cells: std::array::from_fn(|column| (self.0.u8(..4) > 0).then(|| self.cell(column))) }
    }

    fn cell(&mut self, column: usize) -> Cell {
        match column {
            0 => Cell::Number([0, 1, -1, 7, i64::MAX, i64::MIN][self.0.usize(..6)]),
            NAME => {
                Cell::Text((0..self.0.usize(..4)).map(|_| LETTERS[self.0.usize(..LETTERS.len())]).collect())
            }
            2 => Cell::Number(self.0.i64(-300..300)),
            _ => Cell::Text(format!("2026-01-{:02}", self.0.u8(1..9))),
        }
    }

    pub(super) fn asked(&mut self, database: Database) -> Asked {
        let conditions = (0..self.0.usize(..3)).map(|_| self.condition(3)).collect();
        let mut columns = vec![0, NAME, 2, 3];
        self.0.shuffle(&mut columns);
        columns.truncate(self.0.usize(..4));
        let term = |column| Term {
            column,
            descending: self.0.bool(),
            nulls_first: [None, Some(true), Some(false)][self.0.usize(..3)],
        };
        Asked { conditions, order: columns.into_iter().map(term).collect(), database }
    }

    fn condition(&mut self, depth: usize) -> Condition {
        let column = self.0.usize(..COLUMNS.len());
        match self.0.u8(..if depth == 0 { 5 } else { 8 }) {
            0 | 1 => {
                let operator = ["eq", "neq", "gt", "gte", "lt", "lte"][self.0.usize(..6)];
                Condition::Compare(column, operator, self.cell(column))
            }
            2 => Condition::Like(["like", "ilike"][self.0.usize(..2)], self.pattern()),
            3 => Condition::In(column, (0..self.0.usize(..6)).map(|_| self.cell(column)).collect()),
            4 => Condition::IsNull(column),
            5 => match self.condition(depth - 1) {
                // Two `not` can't be written side by side.
                inner @ Condition::Not(_) => inner,
                inner => Condition::Not(Box::new(inner)),
            },
            6 => Condition::All(self.members(depth)),
            _ => Condition::Any(self.members(depth)),
        }
    }

    fn members(&mut self, depth: usize) -> Vec<Condition> {
        (0..self.0.usize(1..4)).map(|_| self.condition(depth - 1)).collect()
    }

    /// A pattern. A backslash is always before another character.
    fn pattern(&mut self) -> String {
        let piece = |random: &mut fastrand::Rng| match random.u8(..4) {
            0 => "%".to_owned(),
            1 => format!("\\{}", ["%", "_", "\\"][random.usize(..3)]),
            _ => ["a", "A", "b", "_", "[", "?"][random.usize(..6)].to_owned(),
        };
        (0..self.0.usize(..5)).map(|_| piece(&mut self.0)).collect()
    }
}
