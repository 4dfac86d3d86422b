//! The lists that foreign keys make: the rows of a table that refer to one row of another.
//!
//! A foreign key `orders.customer_id` to `customer` makes `/customer/{customer_id}/orders`. The
//! parameters are the primary key of `customer`. They have the names of the columns that refer to
//! it, so requests can still filter the list by its own `id`.

use std::collections::{BTreeMap, BTreeSet};

use rowstream_core::diagnostic::shown;

use super::catalog::{Column, Reference, ReferenceColumn, Table};
use super::unserved;
use super::write::{condition, conditions, exact, names, param_names, row_link};

/// The rows of `child` that refer to one row of `parent`.
pub(super) struct Link<'a> {
    pub(super) child: &'a Table,
    pub(super) parent: &'a Table,
    pub(super) reference: &'a Reference,
}

/// The links between tables, in the order of their children.
pub(super) struct Links<'a> {
    all: Vec<Link<'a>>,
    /// The indices of the links to a table, by its name.
    to: BTreeMap<&'a str, Vec<usize>>,
    /// The indices of the links of a child, by its name.
    of: BTreeMap<&'a str, Vec<usize>>,
    /// The names of the tables that have endpoints.
    chosen: BTreeSet<&'a str>,
}

impl<'a> Links<'a> {
    /// A link for each foreign key. Only the `chosen` tables have endpoints.
    pub(super) fn new(tables: &'a [Table], chosen: &[&'a Table]) -> Self {
        let by_name: BTreeMap<_, _> = tables.iter().map(|table| (table.name.as_str(), table)).collect();
        let chosen = chosen.iter().map(|table| table.name.as_str()).collect();
        let mut links = Self { all: Vec::new(), to: BTreeMap::new(), of: BTreeMap::new(), chosen };
        let references = tables.iter().flat_map(|child| child.references.iter().map(move |key| (child, key)));
        for (child, reference) in references {
            let Some(&parent) = by_name.get(reference.parent.as_str()) else { continue };
            links.to.entry(&parent.name).or_default().push(links.all.len());
            links.of.entry(&child.name).or_default().push(links.all.len());
            links.all.push(Link { child, parent, reference });
        }
        links
    }

    /// True if `table` has endpoints.
    pub(super) fn has(&self, table: &Table) -> bool {
        self.chosen.contains(table.name.as_str())
    }

    /// The paths of the rows that a row of `table` refers to.
    pub(super) fn parents(&self, table: &Table) -> impl Iterator<Item = String> {
        let served = self.of(table).filter(|link| self.has(link.parent));
        served.filter_map(|link| row_link(link.parent, &link.key()?))
    }

    /// The paths of the lists of rows that refer to a row of `table`.
    pub(super) fn lists(&self, table: &Table) -> impl Iterator<Item = String> {
        let row = row_link(table, &names(&table.key()));
        self.to(table).filter_map(move |link| Some(format!("{}/{}", row.as_ref()?, link.reference.list)))
    }

    /// The links to `table`, which is the parent.
    pub(super) fn to(&self, table: &Table) -> impl Iterator<Item = &Link<'a>> {
        self.to.get(table.name.as_str()).into_iter().flatten().map(|&index| &self.all[index])
    }

    /// The links of `table`, which is the child.
    pub(super) fn of(&self, table: &Table) -> impl Iterator<Item = &Link<'a>> {
        self.of.get(table.name.as_str()).into_iter().flatten().map(|&index| &self.all[index])
    }
}

/// Names the lists of all foreign keys, and removes the keys whose list can't have its name. Returns
/// the reasons. A child's own name comes first, so other tables don't change it.
pub(super) fn name_lists(tables: &mut [Table]) -> Vec<String> {
    let mut taken = BTreeSet::new();
    for child in &mut *tables {
        let names: Vec<_> = child.references.iter().map(|reference| name(child, reference)).collect();
        for (reference, name) in child.references.iter_mut().zip(names) {
            if name == child.name {
                taken.insert((reference.parent.clone(), name.clone()));
            }
            reference.list = name;
        }
    }
    let mut without = Vec::new();
    for child in tables {
        let Table { name, references, .. } = child;
        references.retain(|reference| {
            let list = &reference.list;
            let is_free = list == name || taken.insert((reference.parent.clone(), list.clone()));
            let is_taken = || (!is_free).then(|| "another list has its path".to_owned());
            let why = unserved(list).or_else(is_taken);
            without.extend(why.iter().map(|why| left_out(name, columns(reference).into_iter(), why)));
            why.is_none()
        });
    }
    without
}

/// A foreign key in a warning, and the reason why it has no list.
pub(super) fn left_out<'a>(child: &str, columns: impl Iterator<Item = &'a str>, why: &str) -> String {
    let columns: Vec<_> = columns.collect();
    format!("{}: {why}", shown(&format!("{child} ({})", columns.join(", "))))
}

/// The child's name. The columns follow if the name alone would be unclear: if the child refers to
/// itself, or has several foreign keys to the parent.
fn name(child: &Table, reference: &Reference) -> String {
    let alike = child.references.iter().filter(|other| other.parent == reference.parent);
    if alike.count() == 1 && child.name != reference.parent {
        return child.name.clone();
    }
    format!("{}_by_{}", child.name, columns(reference).join("_"))
}

fn columns(reference: &Reference) -> Vec<&str> {
    reference.columns.iter().map(|column| column.own.as_str()).collect()
}

impl Link<'_> {
    /// The child's columns that contain the parent's primary key. `None` if the foreign key refers
    /// to another unique key.
    pub(super) fn key(&self) -> Option<Vec<&str>> {
        let own = |column: &Column| {
            let column = self.reference.columns.iter().find(|one| one.parent == column.name)?;
            Some(column.own.as_str())
        };
        self.parent.key().into_iter().map(own).collect()
    }

    /// The names of the parameters, in the order of the parent's primary key.
    pub(super) fn param_names(&self) -> Vec<String> {
        match self.key() {
            Some(key) => param_names(self.child, &key),
            None => param_names(self.child, &names(&self.parent.key())),
        }
    }

    /// The conditions of the child's rows. If a column doesn't refer to the primary key, or its value has
    /// several forms, it's compared with the parent's row.
    pub(super) fn conditions(&self) -> Vec<String> {
        let (names, dialect) = (self.param_names(), self.child.dialect);
        let key = self.key().map(|_| self.parent.key()).unwrap_or_default();
        let of_row = |column: &str| {
            let (column, parent) = (dialect.quoted(column), dialect.quoted(&self.parent.name));
            let row = conditions(self.parent, &names).join(" and ") + &exact(self.parent, &names);
            format!("(select {column} from {parent} where {row})")
        };
        let of_column = |column: &ReferenceColumn| {
            let param = names.iter().zip(&key).find(|(_, one)| one.name == column.parent);
            let own = dialect.quoted(&column.own);
            match param {
                Some((name, one)) if one.equal.is_none() => condition(&own, name, one),
                _ => format!("{own} = {}", of_row(&column.parent)),
            }
        };
        self.reference.columns.iter().map(of_column).collect()
    }

    /// A line about the list.
    pub(super) fn summary(&self) -> String {
        let (child, parent) = (&self.child.name, &self.parent.name);
        format!(
            "Rows of table {child} that refer to one row of table {parent} by {}",
            columns(self.reference).join(", ")
        )
    }
}
