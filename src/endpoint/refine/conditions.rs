//! Writes the conditions of a request as SQL.

use jiff::civil::DateTime;
use jiff::{SignedDuration, Span};
use rowstream_core::Error;
use rowstream_core::datetime::{instant, split_leap_second};
use rowstream_core::diagnostic::{list, shown};
use rowstream_core::filter::{Comparison, Condition, Truth};
use rowstream_core::params::{
    BindType, Param, ParamType, ParamValue, check_local, no_local_time, without_exponent,
};
use rowstream_core::sql::Operator;
use rowstream_core::sql::dialect::{
    Decimals, Infinities, OperatorSql, ParameterTypes, Placeholders, TimeComparisons,
};
use rowstream_encode::{Column, ColumnKind};

use super::{RefineSettings, WrongPair, is_costly};

/// Writes the conditions of a request, and collects their values.
pub(super) struct Conditions<'a> {
    settings: &'a RefineSettings,
    columns: &'a [Column],
    /// How many parameters precede the values.
    params: usize,
    /// How many arguments precede those of the conditions.
    before: usize,
    pub(super) values: Vec<ParamValue>,
    /// The type of each value.
    kinds: Vec<ParamType>,
    /// The arguments, as indices of parameters, and their types.
    pub(super) args: Vec<usize>,
    pub(super) types: Vec<BindType>,
}

/// A time that a column of times is compared with.
#[derive(Clone, Copy)]
struct Instant {
    /// Microseconds since 1970.
    micros: i64,
    /// The index of the value.
    index: usize,
}

impl<'a> Conditions<'a> {
    pub(super) fn new(
        settings: &'a RefineSettings,
        columns: &'a [Column],
        params: usize,
        before: usize,
    ) -> Self {
        let (values, kinds, args, types) = Default::default();
        Self { settings, columns, params, before, values, kinds, args, types }
    }

    /// The SQL of all conditions. `None` if one is wrong.
    pub(super) fn write(&mut self, conditions: &[Condition], wrong: &mut Vec<WrongPair>) -> Option<String> {
        let mut written = Vec::new();
        for condition in conditions {
            match self.condition(condition) {
                Ok(sql) => written.push(sql),
                Err(pair) => wrong.push(pair),
            }
        }
        wrong.is_empty().then(|| written.join(" and "))
    }

    fn condition(&mut self, condition: &Condition) -> Result<String, WrongPair> {
        match condition {
            Condition::All(members) => self.group(members, " and "),
            Condition::Any(members) => self.group(members, " or "),
            Condition::Not(inner) => Ok(format!("not ({})", self.condition(inner)?)),
            Condition::Column { column, comparison } => {
                self.comparison(column, comparison).map_err(|why| (column.clone(), why))
            }
        }
    }

    fn group(&mut self, members: &[Condition], word: &str) -> Result<String, WrongPair> {
        let members: Vec<_> =
            members.iter().map(|member| self.condition(member)).collect::<Result<_, _>>()?;
        Ok(format!("({})", members.join(word)))
    }

    fn comparison(&mut self, name: &str, comparison: &Comparison) -> Result<String, String> {
        let column = self.settings.filtered(name, self.columns)?;
        let quoted = self.settings.dialect.quoted(name);
        match comparison {
            Comparison::Is(truth) => {
                let [null, not_null] = self.settings.filters.null_tests;
                let test = match truth {
                    Truth::Null => null,
                    Truth::NotNull => not_null,
                    Truth::True | Truth::False => boolean_test(column, *truth)?,
                };
                Ok(format!("{quoted} {test}"))
            }
            Comparison::In(values) => self.any_of(column, &quoted, values),
            Comparison::With(operator, text) => match operator.sql() {
                Some(sql) => self.compare(column, &quoted, sql, text),
                None => self.with_operator(column, &quoted, *operator, text),
            },
        }
    }

    fn compare(
        &mut self,
        column: &Column,
        quoted: &str,
        operator: &str,
        text: &str,
    ) -> Result<String, String> {
        if let Some([number, other]) = self.untyped(column) {
            let infinity = self.infinity(text);
            let parsed = Param::new(&column.name, ParamType::Number).parse_one(text);
            if let Ok(number) = &parsed {
                let explain = |error: Error| format!("{error}: {}", error.hint_text().unwrap_or_default());
                number.check_float().map_err(explain)?;
            }
            let sql = if infinity.is_some() || parsed.is_ok() { number } else { other };
            let sql = sql.replace("{n}", infinity.as_deref().unwrap_or("{v}"));
            let value = self.add(ParamValue::Text(text.to_owned()), ParamType::Text);
            return Ok(self.fill(&sql, quoted, operator, value));
        }
        if let Some(times) = self.times(column) {
            let value = [self.time(text)?];
            let since = matches!(operator, "=" | ">" | ">=").then_some(value[0]);
            let until = matches!(operator, "=" | "<" | "<=").then_some(value[0]);
            return Ok(self.compare_times(&times, quoted, operator, &value, [since, until]));
        }
        Ok(format!("{quoted} {operator} {}", self.operand(column, text)?))
    }

    /// The placeholder of a value that a column is compared with. No parameter can be infinite.
    fn operand(&mut self, column: &Column, text: &str) -> Result<String, String> {
        let is_number = matches!(
            column.kind,
            ColumnKind::Float32 | ColumnKind::Float64 | ColumnKind::Decimal { .. } | ColumnKind::Number
        );
        if let Some(infinity) = self.infinity(text).filter(|_| is_number) {
            return Ok(infinity);
        }
        let (value, kind) = self.value(column, text)?;
        let value = self.add(value, kind);
        let place = self.place(value);
        Ok(match self.settings.filters.cast.contains(&&*column.type_name) {
            true => format!("cast({place} as {})", column.type_name),
            false => place,
        })
    }

    /// An infinite number in SQL, if the database writes it as a number.
    fn infinity(&self, text: &str) -> Option<String> {
        let sign = text.strip_suffix("Infinity").filter(|sign| matches!(*sign, "" | "-"))?;
        let Infinities::Number(infinity) = self.settings.dialect.keys.infinities else { return None };
        Some(format!("{sign}{infinity}"))
    }

    /// Compares the times of a column with values, as instants. `since` and `until` are the first and
    /// the last value of a range of them.
    fn compare_times(
        &mut self,
        times: &TimeComparisons,
        quoted: &str,
        operator: &str,
        values: &[Instant],
        [since, until]: [Option<Instant>; 2],
    ) -> String {
        let bounds = [since.map(|value| (times.since, value)), until.map(|value| (times.until, value))];
        let mut all: Vec<_> = bounds
            .into_iter()
            .flatten()
            .map(|(sql, value)| self.fill(sql, quoted, operator, value.index))
            .collect();
        let function = times.function;
        let values: Vec<_> =
            values.iter().map(|value| format!("{function}({})", self.place(value.index))).collect();
        // A value that isn't a time meets no comparison.
        let exact = format!("{function}({quoted}) {operator} ({})", values.join(", "));
        all.push(format!("coalesce({exact}, {quoted} is null and null)"));
        format!("({})", all.join(" and "))
    }

    /// Adds a time.
    fn time(&mut self, text: &str) -> Result<Instant, String> {
        let Some((micros, text)) = utc_time(text) else {
            let why = "is not a date and time: write `2026-03-01T09:00:00Z`, and `%2B` for a `+` in a URL";
            return Err(format!("{} {why}", shown(text)));
        };
        Ok(Instant { micros, index: self.add(ParamValue::Text(text), ParamType::Text) })
    }

    /// The comparisons of a column whose times are stored as texts.
    fn times(&self, column: &Column) -> Option<TimeComparisons> {
        let is_time = matches!(column.kind, ColumnKind::Timestamp | ColumnKind::TimestampTz);
        self.settings.filters.times.filter(|_| is_time)
    }

    /// The comparisons of a column whose values have no common type.
    fn untyped(&self, column: &Column) -> Option<[&'static str; 2]> {
        self.settings.filters.untyped.filter(|_| column.kind == ColumnKind::Any)
    }

    /// The last value is repeated up to a power of two, so that there are few different statements.
    fn any_of(&mut self, column: &Column, quoted: &str, values: &[String]) -> Result<String, String> {
        let Some(last) = values.last() else { return Ok("1 = 0".to_owned()) };
        let missing = values.len().next_power_of_two() - values.len();
        let filled = values.iter().chain(std::iter::repeat_n(last, missing));
        if let Some(times) = self.times(column) {
            let times_asked: Vec<_> = filled.map(|text| self.time(text)).collect::<Result<_, _>>()?;
            let by_time = |time: &Instant| time.micros;
            let range = [
                times_asked.iter().copied().min_by_key(by_time),
                times_asked.iter().copied().max_by_key(by_time),
            ];
            return Ok(self.compare_times(&times, quoted, "in", &times_asked, range));
        }
        if self.untyped(column).is_some() {
            let each = filled.map(|text| self.compare(column, quoted, "=", text));
            let each: Vec<_> = each.collect::<Result<_, _>>()?;
            // SQLite refuses expressions of more than a thousand levels.
            let groups: Vec<_> = each.chunks(32).map(|group| format!("({})", group.join(" or "))).collect();
            return Ok(format!("({})", groups.join(" or ")));
        }
        let mut placeholders = Vec::with_capacity(values.len() + missing);
        for text in filled {
            placeholders.push(self.operand(column, text)?);
        }
        Ok(format!("{quoted} in ({})", placeholders.join(", ")))
    }

    fn with_operator(
        &mut self,
        column: &Column,
        quoted: &str,
        operator: Operator,
        text: &str,
    ) -> Result<String, String> {
        let Some(OperatorSql { sql, value, .. }) = self.settings.filters.sql(operator) else {
            return Err(self.no_operator(operator));
        };
        if is_costly(operator) && !self.settings.allows_costly(&column.name) {
            return Err(format!(
                "`{}` isn't allowed here, because a regular expression can cost any time: use `like`",
                operator.name()
            ));
        }
        let is_pattern = !matches!(operator, Operator::Cs | Operator::Cd | Operator::Ov);
        if is_pattern && !matches!(column.kind, ColumnKind::Text | ColumnKind::Any) {
            return Err(format!("`{}` is for texts, but the column is {}", operator.name(), type_of(column)));
        }
        // A text can't contain all characters.
        Param::new(&column.name, ParamType::Text).parse_one(text)?;
        let value = self.add(ParamValue::Text(value.write(text)), ParamType::Text);
        Ok(self.fill(sql, quoted, "", value))
    }

    /// The message for an operator that the database lacks.
    fn no_operator(&self, operator: Operator) -> String {
        let every = Operator::ALL.into_iter().filter(|operator| operator.sql().is_some());
        let own = self.settings.filters.operators.iter().map(|own| own.operator);
        let names = every.chain(own).map(Operator::name).chain(["in", "is"]);
        let database = self.settings.dialect.name;
        format!("{database} has no `{}`: the operators are {}", operator.name(), list(names))
    }

    /// The value of a request for a column, and its type.
    fn value(&self, column: &Column, mut text: &str) -> Result<(ParamValue, ParamType), String> {
        if self.settings.dialect.keys.infinities == Infinities::Texts
            && let Some(infinite) = infinite(column.kind, text)
        {
            return Ok(infinite);
        }
        match column.kind {
            ColumnKind::Timestamp => check_local(text)?,
            ColumnKind::Date => {
                let not_alone = || format!("{} is not a date alone: write `2026-03-01`", shown(text));
                text = date_alone(text).ok_or_else(not_alone)?;
            }
            ColumnKind::Time if text.contains(|c: char| !c.is_ascii_digit() && !":. apmAPM".contains(c)) => {
                return Err(not_a_time(text));
            }
            _ => {}
        }
        let kind = match column.kind {
            ColumnKind::Bytes => {
                return Err("the column has bytes: only `is.null` and `is.not_null` compare it".to_owned());
            }
            // The database reads the texts of all types, also of those that we don't know.
            _ if self.settings.dialect.parameter_types == ParameterTypes::Inferred => ParamType::Text,
            ColumnKind::Json | ColumnKind::List(_) => {
                return Err("the column has JSON: only `is.null` and `is.not_null` compare it".to_owned());
            }
            ColumnKind::Bool => ParamType::Boolean,
            ColumnKind::Int16 | ColumnKind::Int32 | ColumnKind::Int64 => ParamType::Integer,
            ColumnKind::Float32 | ColumnKind::Float64 | ColumnKind::Decimal { .. } | ColumnKind::Number => {
                ParamType::Number
            }
            ColumnKind::Date => ParamType::Date,
            ColumnKind::Timestamp => return Ok((local_time(text)?, ParamType::Text)),
            ColumnKind::TimestampTz => ParamType::Timestamp,
            ColumnKind::Uuid => ParamType::Uuid,
            // MySQL reads any other text as midnight.
            ColumnKind::Text if column.type_name.eq_ignore_ascii_case("time") => {
                check_time(text)?;
                ParamType::Text
            }
            ColumnKind::Time | ColumnKind::Text | ColumnKind::Any => ParamType::Text,
        };
        let value = Param::new(&column.name, kind).parse_one(text)?;
        Ok((self.exact(as_float(value, column.kind))?, kind))
    }

    /// Writes a number so that databases compare it exactly with decimals. MySQL reads a number with an
    /// exponent as a float, and DuckDB rounds it to the places of the column. They do the same with too
    /// many digits, so these are refused.
    fn exact(&self, value: ParamValue) -> Result<ParamValue, String> {
        let (ParamValue::Number(text), Decimals::Exact(most)) = (&value, self.settings.dialect.decimals)
        else {
            return Ok(value);
        };
        match without_exponent(text, most) {
            Some(text) => Ok(ParamValue::Number(text)),
            None => Err(format!(
                "{} has more digits than the {most} that {} compares",
                shown(text),
                self.settings.dialect.name
            )),
        }
    }

    /// Adds a value. Returns its index.
    fn add(&mut self, value: ParamValue, kind: ParamType) -> usize {
        let index = self.values.len();
        self.values.push(value);
        self.kinds.push(kind);
        if let Placeholders::ByNumber(_) = self.settings.dialect.placeholders {
            self.add_arg(index);
        }
        index
    }

    fn add_arg(&mut self, value: usize) {
        self.args.push(self.params + value);
        self.types.push(match self.settings.dialect.parameter_types {
            ParameterTypes::Inferred => BindType::Inferred,
            ParameterTypes::Declared => BindType::One(self.kinds[value]),
        });
    }

    /// A condition with a value in it.
    fn fill(&mut self, sql: &str, quoted: &str, operator: &str, value: usize) -> String {
        let mut out = String::new();
        for (index, piece) in sql.split("{v}").enumerate() {
            if index > 0 {
                out.push_str(&self.place(value));
            }
            out.push_str(&piece.replace("{op}", operator).replace("{c}", quoted));
        }
        out
    }

    /// The placeholder of a value.
    fn place(&mut self, value: usize) -> String {
        let placeholders = self.settings.dialect.placeholders;
        if placeholders == Placeholders::ByOccurrence {
            self.add_arg(value);
        }
        let mut placeholder = String::new();
        placeholders.write(self.before + value + 1, &mut placeholder);
        placeholder
    }
}

/// `is.true` and `is.false`.
fn boolean_test(column: &Column, truth: Truth) -> Result<&'static str, String> {
    if !matches!(column.kind, ColumnKind::Bool | ColumnKind::Any) {
        return Err(format!(
            "`is.true` and `is.false` are for booleans, but the column is {}",
            type_of(column)
        ));
    }
    Ok(if truth == Truth::True { "is true" } else { "is false" })
}

fn type_of(column: &Column) -> String {
    shown(&column.type_name)
}

/// A time in microseconds since 1970, and its text for SQLite, which has no second 60.
fn utc_time(text: &str) -> Option<(i64, String)> {
    let (time, seconds) = split_leap_second(text)?;
    let micros = instant(time.as_bytes())?;
    if seconds == 0 {
        return Some((micros, text.to_owned()));
    }
    let micros = micros + seconds * 1_000_000;
    let epoch = jiff::civil::date(1970, 1, 1).at(0, 0, 0, 0);
    let time = epoch.checked_add(SignedDuration::from_micros(micros)).ok()?;
    Some((micros, format!("{time}Z")))
}

/// An infinite value or NaN of a column, as rows show it. No parameter has such a value.
fn infinite(kind: ColumnKind, text: &str) -> Option<(ParamValue, ParamType)> {
    match (kind, text) {
        (ColumnKind::Float32 | ColumnKind::Float64, "NaN" | "Infinity" | "-Infinity") => {
            Some((ParamValue::Float(text.parse().ok()?), ParamType::Number))
        }
        (ColumnKind::Date | ColumnKind::Timestamp | ColumnKind::TimestampTz, "infinity" | "-infinity") => {
            Some((ParamValue::Text(text.to_owned()), ParamType::Text))
        }
        _ => None,
    }
}

/// The value that a column of floats is compared with: the float that the column would store. A single 0.1 isn't
/// equal to the decimal 0.1, and some databases convert decimals to slightly different floats.
fn as_float(value: ParamValue, kind: ColumnKind) -> ParamValue {
    let ParamValue::Number(text) = &value else { return value };
    let single = || text.parse::<f32>().ok().filter(|single| single.is_finite() && *single != 0.0);
    let float = match kind {
        ColumnKind::Float32 => single().map_or_else(|| text.parse().ok(), |single| Some(f64::from(single))),
        ColumnKind::Float64 => text.parse().ok(),
        _ => None,
    };
    float.filter(|float| float.is_finite()).map_or(value, ParamValue::Float)
}

/// A date and time without an offset, in the form that databases store.
fn local_time(text: &str) -> Result<ParamValue, String> {
    let (time, seconds) = split_leap_second(text).ok_or_else(|| no_local_time(text))?;
    let time = time.parse::<DateTime>().and_then(|time| time.checked_add(Span::new().seconds(seconds)));
    let time = time.map_err(|_| no_local_time(text))?;
    Ok(ParamValue::Text(format!("{} {}", time.date(), time.time())))
}

/// The text of a date, without a time if that's midnight in UTC or without an offset. `None` if it has another
/// time or offset, which PostgreSQL would ignore.
fn date_alone(text: &str) -> Option<&str> {
    let end = text.find(|c: char| !c.is_ascii_digit() && !"-/.".contains(c)).unwrap_or(text.len());
    let (date, rest) = text.split_at(end);
    let is_whole = date.len() >= "260301".len();
    let rest = rest.trim_start_matches([' ', 'T', 't']);
    if is_whole && is_midnight(rest) {
        return Some(date);
    }
    // Other forms of PostgreSQL: `0044-03-15 BC`, `1 Mar 2026`, `infinity`. A further number is a time.
    let (part, most) = if is_whole { (rest, 0) } else { (text, 2) };
    let numbers = part.split(|c: char| !c.is_ascii_digit()).filter(|number| !number.is_empty());
    let has_time = numbers.count() > most || rest.contains([':', '+']) || rest.ends_with(['Z', 'z']);
    (!has_time).then_some(text)
}

/// True for `00:00`, with or without seconds, and in UTC or without an offset.
fn is_midnight(time: &str) -> bool {
    let time = time.strip_suffix(['Z', 'z']).or_else(|| time.strip_suffix("+00:00")).unwrap_or(time);
    time.starts_with("00:00") && time.bytes().all(|byte| b"0:.".contains(&byte))
}

/// Checks a time of MySQL, which may have several hundred hours and a sign.
fn check_time(text: &str) -> Result<(), String> {
    let mut parts = text.strip_prefix('-').unwrap_or(text).splitn(3, ':');
    let is_number = |part: Option<&str>| {
        part.is_some_and(|part| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit()))
    };
    let is_below_60 = |part: Option<&str>| {
        is_number(part) && part.and_then(|part| part.parse::<u8>().ok()).is_some_and(|number| number < 60)
    };
    let (hours, minutes) = (parts.next(), parts.next());
    let seconds = parts.next().map_or("0", |part| part.split_once('.').map_or(part, |(seconds, _)| seconds));
    match is_number(hours) && is_below_60(minutes) && is_below_60(Some(seconds)) {
        true => Ok(()),
        false => Err(not_a_time(text)),
    }
}

fn not_a_time(text: &str) -> String {
    format!("{} is not a time: write `09:00:00`", shown(text))
}
