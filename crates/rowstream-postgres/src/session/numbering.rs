//! The numbers of a statement's parameters, as they are sent to PostgreSQL.
//!
//! PostgreSQL infers the type of `$1` from the first place that determines one, and takes it for all
//! others. Sent so, `:x is null or real_column = :x` is an error, because the first place determines
//! nothing, and `real_column = :x or double_column = :x` doesn't find 0.1 in the second. So each
//! place of a parameter gets a number of its own, as if its value were written there, and places of
//! one type share a number again:
//!
//! ```text
//!   :x is null or real_column = :x or double_column = :x or other_real = :x
//!   $1 is null or real_column = $2 or double_column = $3 or other_real = $4    42P18, of $1
//!   $1 is null or real_column = $2 or double_column = $3 or other_real = $4    $1 has its declared type
//!   $1 is null or real_column = $2 or double_column = $3 or other_real = $2    this one is run
//! ```
//!
//! A few statements need the same number in two places (`select f(:x) … group by f(:x)`). Of these,
//! only a place without a type gets a number of its own.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::ops::Range;
use std::sync::Arc;

use postgres_types::Type;
use rowstream_core::params::BindType;
use rowstream_core::sql::numbered_placeholders;
use rowstream_database::Statement;

use super::super::dialect::DIALECT;
use super::super::error::DatabaseError;
use super::super::statement::{SentStatement, may_differ, parameter_type};

/// The place of a parameter in a statement.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Place {
    /// Its placeholder, in bytes of the statement.
    range: Range<usize>,
    /// The parameter, from 0.
    parameter: usize,
    /// The number that is sent instead, from 0.
    number: usize,
}

/// The number of each place of a statement's parameters, and the types that we send.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Numbering {
    places: Vec<Place>,
    /// The parameter of each number. The first numbers are the parameters' own.
    parameters: Vec<usize>,
    /// The type of each number; 0 leaves it to PostgreSQL.
    types: Vec<u32>,
}

impl Numbering {
    /// The numbering of the statement itself.
    pub(super) fn of(statement: &Statement) -> Self {
        let count = statement.types.len();
        let place = |(range, number): (Range<usize>, usize)| {
            let parameter = number.checked_sub(1).filter(|parameter| *parameter < count)?;
            Some(Place { range, parameter, number: parameter })
        };
        let places = numbered_placeholders(&statement.sql, &DIALECT).into_iter().filter_map(place).collect();
        Self { places, parameters: (0..count).collect(), types: vec![0; count] }
    }

    /// A number for each place.
    pub(super) fn split(mut self) -> Self {
        for place in 1..self.places.len() {
            let parameter = self.places[place].parameter;
            if self.places[..place].iter().any(|before| before.parameter == parameter) {
                self.split_off(place);
            }
        }
        self
    }

    /// True if each parameter has one number.
    pub(super) fn is_plain(&self) -> bool {
        self.places.iter().all(|place| place.number == place.parameter)
    }

    /// The statement with these numbers and types.
    pub(super) fn sent(&self, sql: &Arc<str>) -> SentStatement {
        let arguments = (!self.is_plain()).then(|| self.parameters.clone().into());
        let text = if self.is_plain() { Arc::clone(sql) } else { self.text(sql).into() };
        // A parameter that the statement doesn't use must not be sent at all.
        let types = self.types.iter().rposition(|&oid| oid != 0).map_or(0, |last| last + 1);
        SentStatement { text, types: self.types[..types].to_vec(), arguments }
    }

    fn text(&self, sql: &str) -> String {
        let mut text = String::with_capacity(sql.len() + self.places.len());
        let mut copied = 0;
        for place in &self.places {
            text.push_str(&sql[copied..place.range.start]);
            write!(text, "${}", place.number + 1).expect("a String takes all");
            copied = place.range.end;
        }
        text + &sql[copied..]
    }

    /// The place in the statement itself of an error of the statement with these numbers, in bytes.
    pub(super) fn place_of(&self, error: &DatabaseError, sent: &SentStatement) -> Option<usize> {
        let offset = error.offset(&sent.text)?;
        let (mut original, mut numbered) = (0, 0);
        for place in &self.places {
            let start = numbered + (place.range.start - original);
            if offset <= start {
                break;
            }
            let digits = (place.number + 1).to_string().len();
            (original, numbered) = (place.range.end, start + 1 + digits);
        }
        Some(original + offset.saturating_sub(numbered))
    }

    /// Follows an error that names a parameter whose type isn't determined. If the parameter has a
    /// type nowhere, it gets one; otherwise the place in the error gets a number of its own. `None`:
    /// neither helps.
    pub(super) fn follow(
        mut self,
        error: &DatabaseError,
        at: Option<usize>,
        declared: &[BindType],
    ) -> Option<Self> {
        let number = error.parameter()?.checked_sub(1)?;
        if *self.types.get(number)? != 0 {
            return None;
        }
        if error.sqlstate == "42P18" {
            self.types[number] = self.stand_in(number, declared)?;
            return Some(self);
        }
        let places = || (0..self.places.len()).filter(|&place| self.places[place].number == number);
        let named = places().find(|&place| Some(self.places[place].range.start) == at);
        let place = named.or_else(|| places().next())?;
        self.split_off(place).then_some(self)
    }

    /// The type for a number that has no type anywhere: the declared one. If none is declared, it's
    /// text, provided that the parameter has other numbers too.
    fn stand_in(&self, number: usize, declared: &[BindType]) -> Option<u32> {
        let parameter = self.parameters[number];
        match parameter_type(declared[parameter]) {
            0 => {
                let is_elsewhere = |place: &Place| place.parameter == parameter && place.number != number;
                self.places.iter().any(is_elsewhere).then(|| Type::TEXT.oid())
            }
            oid => Some(oid),
        }
    }

    /// Gives a place a number of its own, unless it has one.
    fn split_off(&mut self, place: usize) -> bool {
        let Place { number, parameter, .. } = self.places[place];
        let shares = self.places.iter().filter(|other| other.number == number).count() > 1;
        if shares {
            self.places[place].number = self.types.len();
            self.parameters.push(parameter);
            self.types.push(0);
        }
        shares
    }

    /// For an error that names no parameter, as that of a function which could be one of several: the
    /// places that could get their declared types. Those behind the place of the error are the first,
    /// as arguments are.
    pub(super) fn untyped_places(&self, at: Option<usize>, declared: &[BindType]) -> Vec<usize> {
        let is_behind = |place: &usize| Some(self.places[*place].range.start) >= at;
        let (behind, before): (Vec<_>, Vec<_>) = (0..self.places.len()).partition(is_behind);
        let is_untyped = |&place: &usize| {
            let Place { number, parameter, .. } = self.places[place];
            self.types[number] == 0 && parameter_type(declared[parameter]) != 0
        };
        behind.into_iter().chain(before.into_iter().rev()).filter(is_untyped).collect()
    }

    /// The places that could get their declared types, the nearest to that of an error first.
    pub(super) fn untyped_places_near(&self, at: Option<usize>, declared: &[BindType]) -> Vec<usize> {
        let mut places = self.untyped_places(at, declared);
        places.sort_by_key(|&place| self.places[place].range.start.abs_diff(at.unwrap_or(0)));
        places
    }

    /// The declared type of the parameter at a place.
    pub(super) fn declared(&self, place: usize, declared: &[BindType]) -> BindType {
        declared[self.places[place].parameter]
    }

    /// This numbering, with the declared types at some places.
    pub(super) fn declared_at(&self, places: &[usize], declared: &[BindType]) -> Self {
        let mut numbering = self.clone();
        for &place in places {
            numbering.split_off(place);
            let Place { number, parameter, .. } = numbering.places[place];
            numbering.types[number] = parameter_type(declared[parameter]);
        }
        numbering
    }

    /// One number for all places of a parameter that have one type, once PostgreSQL has inferred it
    /// for each number.
    pub(super) fn merged(&self, inferred: &[u32]) -> Self {
        let count = self.parameters.iter().max().map_or(0, |last| last + 1);
        let mut merged =
            Self { places: self.places.clone(), parameters: (0..count).collect(), types: vec![0; count] };
        let mut groups: BTreeMap<(usize, u32, Option<&u32>), usize> = BTreeMap::new();
        let mut begun = vec![false; count];
        for place in &mut merged.places {
            let (parameter, sent) = (place.parameter, self.types[place.number]);
            let group = groups.entry((parameter, sent, inferred.get(place.number))).or_insert_with(|| {
                if !std::mem::replace(&mut begun[parameter], true) {
                    merged.types[parameter] = sent;
                    return parameter;
                }
                merged.parameters.push(parameter);
                merged.types.push(sent);
                merged.types.len() - 1
            });
            place.number = *group;
        }
        merged
    }

    /// The numbers that PostgreSQL takes for text but that may be of another type, and these others, with
    /// their declared types.
    pub(super) fn declared_texts(
        &self,
        inferred: &[u32],
        declared: &[BindType],
        others: &[usize],
    ) -> Vec<(usize, u32)> {
        let numbers = self.parameters.iter().zip(&self.types).zip(inferred).enumerate();
        numbers
            .filter_map(|(number, ((&parameter, &sent), &inferred))| {
                let declared = declared[parameter];
                let may_differ = others.contains(&number) || may_differ(declared, inferred);
                (sent == 0 && may_differ).then(|| (number, parameter_type(declared)))
            })
            .collect()
    }

    /// The numbers of parameters that were declared as lists, with the types that PostgreSQL infers.
    pub(super) fn lists(&self, inferred: &[u32], declared: &[BindType]) -> Vec<(usize, u32)> {
        let numbers = self.parameters.iter().zip(inferred).enumerate();
        let lists = numbers.filter(|(_, (parameter, _))| matches!(declared[**parameter], BindType::List(_)));
        lists.map(|(number, (_, &inferred))| (number, inferred)).collect()
    }

    /// The first place of a number in the statement, in bytes.
    pub(super) fn start_of(&self, number: usize) -> Option<usize> {
        self.places.iter().find(|place| place.number == number).map(|place| place.range.start)
    }

    /// This numbering, with further types.
    pub(super) fn with(&self, types: &[(usize, u32)]) -> Self {
        let mut numbering = self.clone();
        types.iter().for_each(|&(number, oid)| numbering.types[number] = oid);
        numbering
    }
}

#[cfg(test)]
mod tests {
    use rowstream_core::params::ParamType;

    use super::*;

    fn statement(sql: &str, parameters: usize) -> Statement {
        Statement { sql: sql.into(), types: vec![ParamType::Integer.into(); parameters], ad_hoc: false }
    }

    fn text(numbering: &Numbering, statement: &Statement) -> String {
        numbering.sent(&statement.sql).text.to_string()
    }

    #[test]
    fn each_place_has_a_number_until_its_type_is_known() {
        let statement = statement("$1 is null or a = $1 or b = $1 or c = $1 and d > $2 -- $1", 2);
        let split = Numbering::of(&statement).split();
        assert_eq!(text(&split, &statement), "$1 is null or a = $3 or b = $4 or c = $5 and d > $2 -- $1");
        assert_eq!(split.sent(&statement.sql).arguments.as_deref(), Some(&[0, 1, 0, 0, 0][..]));
        // By number: a number without a type has its declared one, and the others are inferred.
        let merged = split.with(&[(0, 20)]).merged(&[20, 23, 700, 701, 700]);
        assert_eq!(text(&merged, &statement), "$1 is null or a = $3 or b = $4 or c = $3 and d > $2 -- $1");
        let sent = merged.sent(&statement.sql);
        assert_eq!((sent.arguments.as_deref(), &sent.types[..]), (Some(&[0, 1, 0, 0][..]), &[20][..]));
    }

    #[test]
    fn places_of_one_type_are_one_parameter() {
        let statement = statement("a = $1 or b = $1 and '$1' <> c", 1);
        let plain = Numbering::of(&statement);
        assert_eq!(plain.clone().split().merged(&[23, 23]), plain);
        let sent = plain.sent(&statement.sql);
        assert_eq!((&*sent.text, sent.arguments.as_deref()), (&*statement.sql, None));
    }

    #[test]
    fn the_place_of_an_error_is_that_of_the_statement() {
        let sql = format!("select {} from t where $1 = x and é", ["$1"; 12].join(", "));
        let statement = statement(&sql, 1);
        let split = Numbering::of(&statement).split();
        let sent = split.sent(&statement.sql);
        assert!(sent.text.len() > sql.len());
        for wanted in ["select", "from t", "where", "= x", "é"] {
            let position = sent.text[..sent.text.find(wanted).unwrap()].chars().count() + 1;
            let error = DatabaseError::at(position);
            assert_eq!(split.place_of(&error, &sent), sql.find(wanted), "{wanted}");
        }
        for (place, _) in sql.match_indices('$') {
            let index = sql[..place].matches('$').count();
            let (numbered, _) = sent.text.match_indices('$').nth(index).unwrap();
            assert_eq!(split.place_of(&DatabaseError::at(numbered + 1), &sent), Some(place));
        }
    }
}
