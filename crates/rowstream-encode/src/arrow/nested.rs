//! Rows with lists of other statements' rows in them, as an Arrow IPC stream. A list is a column of
//! type `list<struct<…>>` after those of its rows.
//!
//! Columns can't contain part of a row, so a batch has whole rows of the outermost statement. Their
//! lists are in memory until then, so they have a bound.

use std::fmt;

use arrow_ipc::FieldNode;
use arrow_schema::{Field, Schema};
use flatbuffers::FlatBufferBuilder;

use super::level::{ArrowLevel, LIST_BITS, Remainder};
use super::{BATCH, FIRST_BATCH, Misfit, message};
use crate::Column;

/// One statement whose rows are nested, or contain nested rows.
#[derive(Debug, Clone, Copy)]
pub struct NestedColumns<'a> {
    /// The name of its lists.
    pub name: &'a str,
    /// The index of the statement whose rows contain its lists. `None` for the outermost one.
    pub parent: Option<usize>,
    /// The columns of its rows.
    pub columns: &'a [Column],
}

/// Writes the rows of nested statements as an Arrow IPC stream.
///
/// The calls are `start`, then for each row `(level place list* end_row?)`, then `finish`. `level`
/// lends the columns that a row is added to, and `place` puts it in the open row of its parent. A list
/// is the rows of a child, and `end_list`. `end_row` is only for the outermost statement. The next
/// row of each statement may be added before it has a place. After adding a row, check
/// [`NestedArrowEncoder::misfit`]. Once there is a misfit, nothing is written any more, and `finish`
/// returns it.
pub struct NestedArrowEncoder {
    /// Each level follows its parent, and the first one is the outermost.
    levels: Box<[ArrowLevel]>,
    /// The size in bytes of a full batch.
    full: usize,
    /// The most bytes of the lists in a row.
    longest_lists: usize,
    /// The size of the lists in the open row, in bits.
    open: usize,
    /// The level whose row exceeded the bound.
    too_long: Option<usize>,
    metadata: FlatBufferBuilder<'static>,
}

/// The reason why nested rows don't fit into Arrow.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NestedMisfit {
    /// A value doesn't fit the type of its column. The column's name begins with those of the lists
    /// around it.
    Value(Misfit),
    /// A row's lists are too long together.
    TooLong {
        /// The list whose row exceeded the bound, after the lists around it.
        list: String,
        /// The most bytes of a row's lists.
        most: usize,
    },
}

impl fmt::Display for NestedMisfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Value(misfit) => misfit.fmt(f),
            Self::TooLong { list, most } => write!(
                f,
                "the lists in one row have more than {most} bytes in Arrow, the last of them in `{list}`"
            ),
        }
    }
}

impl NestedArrowEncoder {
    /// An encoder for the rows of these statements. Each one follows its parent. The columns of the
    /// lists in a row, including those of PostgreSQL's arrays, may have `longest_lists` bytes.
    pub fn new<'a>(statements: impl Iterator<Item = NestedColumns<'a>>, longest_lists: usize) -> Self {
        let level = |NestedColumns { name, parent, columns }: NestedColumns<'a>| {
            ArrowLevel::new(name, parent, columns, longest_lists)
        };
        let mut levels: Box<[_]> = statements.map(level).collect();
        for which in 0..levels.len() {
            if let Some(parent) = levels[which].parent {
                levels[parent].children.push(which);
            }
        }
        Self {
            levels,
            full: FIRST_BATCH,
            longest_lists,
            open: 0,
            too_long: None,
            metadata: FlatBufferBuilder::new(),
        }
    }

    /// The rows of statement `which` that have a place so far.
    pub fn rows(&self, which: usize) -> u64 {
        self.levels[which].rows()
    }

    /// The columns of statement `which`, to add its next row to.
    pub fn level(&mut self, which: usize) -> &mut ArrowLevel {
        &mut self.levels[which]
    }

    /// The reason why the last row of statement `which` doesn't fit.
    pub fn misfit(&self, which: usize) -> Option<NestedMisfit> {
        if self.too_long == Some(which) {
            let list = self.path(which, None);
            return Some(NestedMisfit::TooLong { list, most: self.longest_lists });
        }
        let misfit = self.levels[which].misfit.as_ref()?;
        let column = self.path(which, Some(&misfit.column));
        Some(NestedMisfit::Value(Misfit { column, ..misfit.clone() }))
    }

    /// Returns true if complete rows wait in the open batch.
    pub fn holds_rows(&self) -> bool {
        self.levels[0].complete() > 0
    }

    /// Writes the schema.
    pub fn start(&mut self, out: &mut Vec<u8>) {
        let schema = Schema::new(self.fields(0));
        message::write_schema(&mut self.metadata, &schema, out);
    }

    /// Puts the row of statement `which` that was added last in its place: the open list.
    ///
    /// # Errors
    /// The lists in the open row are too long.
    pub fn place(&mut self, which: usize) -> Result<(), NestedMisfit> {
        let bits = self.levels[which].place();
        self.open = if which == 0 { 0 } else { self.open.saturating_add(bits) };
        self.check_lists(which, true)
    }

    /// Ends the open list of statement `which`.
    ///
    /// # Errors
    /// The lists in the open row are too long.
    pub fn end_list(&mut self, which: usize) -> Result<(), NestedMisfit> {
        let has_offset = self.levels[which].end_list();
        self.open = self.open.saturating_add(LIST_BITS);
        self.check_lists(which, has_offset)
    }

    /// Checks the lists in the open row, after a row or an end was added to one of statement `which`.
    fn check_lists(&mut self, which: usize, has_offset: bool) -> Result<(), NestedMisfit> {
        if !has_offset || self.open > self.longest_lists.saturating_mul(8) {
            self.too_long.get_or_insert(which);
        }
        self.misfit(which).map_or(Ok(()), Err)
    }

    /// Ends a row of the outermost statement.
    pub fn end_row(&mut self, out: &mut Vec<u8>) {
        self.levels.iter_mut().for_each(ArrowLevel::end_outermost_row);
        if self.levels.iter().map(ArrowLevel::complete_bits).sum::<usize>() >= 8 * self.full {
            self.flush(out);
            self.full = (2 * self.full).min(BATCH);
        }
    }

    /// Writes the complete rows as a batch.
    pub fn flush(&mut self, out: &mut Vec<u8>) {
        if !self.holds_rows() || self.first_misfit().is_some() {
            return;
        }
        let remainders: Vec<Remainder> = self.levels.iter_mut().map(ArrowLevel::split_off).collect();
        let (mut nodes, mut buffers) = (Vec::new(), Vec::new());
        add_columns(&self.levels, 0, &mut nodes, &mut buffers);
        message::write_batch(&mut self.metadata, self.levels[0].complete(), &nodes, &buffers, out);
        for (level, remainder) in self.levels.iter_mut().zip(remainders) {
            level.begin_batch(remainder);
        }
    }

    /// Writes the complete rows and the end.
    ///
    /// # Errors
    /// A row doesn't fit, so there's no end.
    pub fn finish(&mut self, out: &mut Vec<u8>) -> Result<(), NestedMisfit> {
        self.flush(out);
        self.first_misfit().map_or(Ok(()), Err)?;
        out.extend_from_slice(&message::END);
        Ok(())
    }

    /// The reason why a row of any statement doesn't fit.
    fn first_misfit(&self) -> Option<NestedMisfit> {
        (0..self.levels.len()).find_map(|which| self.misfit(which))
    }

    /// The fields of a level's rows.
    fn fields(&self, which: usize) -> Vec<Field> {
        let ArrowLevel { columns, children, .. } = &self.levels[which];
        let list = |&child: &usize| message::list_field(&self.levels[child].name, self.fields(child));
        columns.iter().map(message::field).chain(children.iter().map(list)).collect()
    }

    /// The name of a level's list, or of one of its columns, after the lists around it.
    fn path(&self, which: usize, column: Option<&str>) -> String {
        let around =
            std::iter::successors(Some(&self.levels[which]), |level| Some(&self.levels[level.parent?]));
        let mut names: Vec<_> =
            around.filter(|level| level.parent.is_some()).map(|level| &*level.name).collect();
        names.reverse();
        names.extend(column);
        names.join(".")
    }
}

/// Adds the nodes and the buffers of a level's columns, and of the lists in its rows.
fn add_columns<'a>(
    levels: &'a [ArrowLevel],
    which: usize,
    nodes: &mut Vec<FieldNode>,
    buffers: &mut Vec<&'a [u8]>,
) {
    let level = &levels[which];
    nodes.extend(level.nodes());
    buffers.extend(level.buffers());
    for &child in &level.children {
        let lengths = [level.complete(), levels[child].complete()];
        nodes.extend(lengths.map(|length| FieldNode::new(length as i64, 0)));
        buffers.extend(levels[child].list_buffers());
        add_columns(levels, child, nodes, buffers);
    }
}
