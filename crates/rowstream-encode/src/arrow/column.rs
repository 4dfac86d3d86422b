//! One column of the open batch: values, or lists of them.

use arrow_ipc::FieldNode;

use super::array::Array;
use super::list::ListArray;
use crate::{ColumnKind, ScalarKind, Value};

/// The values of one column.
pub(super) enum ColumnArray {
    Scalars(Array),
    Lists(ListArray),
}

impl ColumnArray {
    pub(super) fn new(kind: ColumnKind) -> Self {
        match kind {
            ColumnKind::List(element) => Self::Lists(ListArray::new(element)),
            kind => Self::Scalars(Array::new(ScalarKind::from(kind))),
        }
    }

    /// Removes all values.
    pub(super) fn clear(&mut self) {
        match self {
            Self::Scalars(array) => array.clear(),
            Self::Lists(lists) => lists.clear(),
        }
    }

    /// See [`Array::split_off`].
    pub(super) fn split_off(&mut self, row: usize, rows: usize) -> Self {
        match self {
            Self::Scalars(array) => Self::Scalars(array.split_off(row, rows)),
            Self::Lists(lists) => Self::Lists(lists.split_off(row, rows)),
        }
    }

    /// The memory of the values.
    #[inline]
    pub(super) fn bytes(&self) -> usize {
        match self {
            Self::Scalars(array) => array.bytes(),
            Self::Lists(lists) => lists.bytes(),
        }
    }

    /// See [`Array::bits`].
    #[inline]
    pub(super) fn bits(&self, rows: usize) -> usize {
        match self {
            Self::Scalars(array) => array.bits(rows),
            Self::Lists(lists) => lists.bits(rows),
        }
    }

    /// See [`Array::push`]. A list may take `room` bytes.
    #[inline]
    pub(super) fn push(&mut self, row: usize, value: Value<'_>, room: &mut usize) -> bool {
        match self {
            Self::Scalars(array) => array.push(row, value),
            Self::Lists(lists) => lists.push(row, value, room),
        }
    }

    /// Describes the element that didn't fit.
    pub(super) fn misfit(&self) -> Option<&'static str> {
        match self {
            Self::Scalars(_) => None,
            Self::Lists(lists) => lists.misfit(),
        }
    }

    /// The lengths and the numbers of NULLs: of its `rows` rows, and then of the elements.
    pub(super) fn nodes(&self, rows: usize) -> impl Iterator<Item = FieldNode> {
        let node = |length: usize, nulls: usize| FieldNode::new(length as i64, nulls as i64);
        let (first, elements) = match self {
            Self::Scalars(array) => (node(rows, array.nulls()), None),
            Self::Lists(lists) => {
                let (elements, count) = lists.elements();
                (node(rows, lists.nulls()), Some(node(count, elements.nulls())))
            }
        };
        [Some(first), elements].into_iter().flatten()
    }

    /// The buffers in the order of the format.
    pub(super) fn buffers(&self) -> impl Iterator<Item = &[u8]> {
        let (of_lists, array) = match self {
            Self::Scalars(array) => (None, array),
            Self::Lists(lists) => (Some(lists.buffers()), lists.elements().0),
        };
        of_lists.into_iter().flatten().chain(array.buffers())
    }
}
