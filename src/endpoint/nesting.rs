//! Nested statements: the tree that they form, and a check that their columns fit together.

use rowstream_core::Error;
use rowstream_core::diagnostic::{shown, suggest};
use rowstream_encode::{Column, ColumnKind};

use super::Endpoint;

/// The tree of nested statements. A statement follows its parent, so cycles are impossible.
impl Endpoint {
    /// The statements nested in `statement`, in the order of their lists in its rows.
    pub fn children(&self, statement: usize) -> impl Iterator<Item = usize> {
        let is_child = move |&child: &usize| self.parent(child) == Some(statement);
        (0..self.statements().len()).filter(is_child)
    }

    /// The parent of `statement`, if it's nested.
    pub fn parent(&self, statement: usize) -> Option<usize> {
        self.statements().get(statement)?.nested.as_ref().map(|nested| nested.parent)
    }

    /// `root`, which isn't nested, and all statements that are nested in it at any depth. Each one
    /// follows its parent.
    pub fn nest(&self, root: usize) -> Vec<usize> {
        let mut nest = vec![root];
        for statement in root + 1..self.statements().len() {
            if self.parent(statement).is_some_and(|parent| nest.contains(&parent)) {
                nest.push(statement);
            }
        }
        nest
    }

    /// Checks that the nested `statement` can be merged into its parent's rows, by the columns of
    /// both. Returns the indices of the columns that must be equal: its own, and the parent's.
    ///
    /// # Errors
    /// A column doesn't exist. Two columns are never equal, because only one of them contains
    /// numbers. Or the parent has a column with the name of the list.
    pub fn join(
        &self,
        statement: usize,
        columns: &[Column],
        parent_columns: &[Column],
    ) -> Result<Vec<(usize, usize)>, Error> {
        let child = &self.statements()[statement];
        let Some(nested) = &child.nested else { return Ok(Vec::new()) };
        let (name, parent) = (&child.name, &self.statements()[nested.parent].name);
        if parent_columns.iter().any(|column| column.name == *name) {
            let message = format!(
                "statement `{parent}` has a column `{name}`, but `{name}` is also nested in its rows"
            );
            return Err(Error::endpoint(message).hint("rename one of them"));
        }
        // Below a key, the database compares the values.
        let is_keyed = self.key().is_some_and(|key| key.has_nested(statement));
        let pair = |(own, other): &(String, String)| {
            let pair = (place(columns, own, name)?, place(parent_columns, other, parent)?);
            let (own, other) = (&columns[pair.0], &parent_columns[pair.1]);
            if kinds_differ(&own.type_name, &other.type_name) {
                return Err(never_the_same(name, own, parent, other));
            }
            let is_single = |column: &Column| column.kind == ColumnKind::Float32;
            if is_keyed && is_single(own) != is_single(other) {
                return Err(rarely_the_same(name, own, parent, other));
            }
            Ok(pair)
        };
        nested.on.iter().map(pair).collect()
    }
}

/// The index of the column `name` in the result of `statement`.
fn place(columns: &[Column], name: &str, statement: &str) -> Result<usize, Error> {
    columns.iter().position(|column| column.name == name).ok_or_else(|| {
        let message =
            format!("{} isn't a column of statement `{statement}`, but rows are nested by it", shown(name));
        let hint = suggest("its columns are", name, columns.iter().map(|column| column.name.as_str()));
        Error::endpoint(message).hint(hint)
    })
}

fn never_the_same(name: &String, own: &Column, parent: &String, other: &Column) -> Error {
    let message = format!(
        "`{}` of statement `{name}` is {}, and `{}` of `{parent}` is {}: they can't be equal",
        own.name, own.type_name, other.name, other.type_name
    );
    Error::endpoint(message).hint("cast one of them to the type of the other")
}

/// 0.1 in single precision is another number than in double precision, but looks the same.
fn rarely_the_same(name: &String, own: &Column, parent: &String, other: &Column) -> Error {
    let message = format!(
        "`{}` of statement `{name}` is {}, and `{}` of `{parent}` is {}: numbers that look the same differ",
        own.name, own.type_name, other.name, other.type_name
    );
    Error::endpoint(message).hint("nest by integers, decimals or texts")
}

/// Returns true if one of the types is a number, and the other one is known not to be.
fn kinds_differ(one: &str, other: &str) -> bool {
    matches!((JsonForm::of(one), JsonForm::of(other)), (Some(one), Some(other)) if one != other)
}

/// The form of a type's values in JSON.
#[derive(Debug, PartialEq, Eq)]
enum JsonForm {
    Number,
    String,
}

impl JsonForm {
    /// The kind of a type by its name, in PostgreSQL or in the declaration of a SQLite column.
    /// `None` if the name isn't known.
    fn of(type_name: &str) -> Option<Self> {
        let name = type_name.split('(').next().unwrap_or_default().trim();
        match name.to_ascii_lowercase().as_str() {
            "int2" | "int4" | "int8" | "smallint" | "int" | "integer" | "bigint" | "numeric" | "decimal"
            | "float4" | "float8" | "real" | "float" | "double" | "double precision" => Some(Self::Number),
            "text" | "varchar" | "bpchar" | "char" | "name" | "uuid" | "date" | "time" | "timestamp"
            | "timestamptz" | "bytea" | "blob" => Some(Self::String),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_told_from_texts() {
        for (one, other, differ) in [
            ("int4", "int8", false),
            ("int4", "text", true),
            ("INTEGER", "varchar(20)", true),
            ("DECIMAL(10, 2)", "int", false),
            ("uuid", "text", false),
            ("", "integer", false),
            ("mood", "int4", false),
        ] {
            assert_eq!(kinds_differ(one, other), differ, "{one}, {other}");
            assert_eq!(kinds_differ(other, one), differ, "{other}, {one}");
        }
    }
}
