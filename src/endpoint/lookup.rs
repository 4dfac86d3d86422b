//! What encodes the row of a lookup, kept from one request to the next.
//!
//! A list is encoded for longer than its columns take to be looked at. A lookup is not: its names
//! would be checked and escaped anew for each row.

use std::sync::Arc;

use rowstream_encode::{Column, RowEncoder, Shape};

use super::{Cardinality, Statement};
use crate::Error;
use crate::lock::Mutex;

/// The encoder of a statement's last request, and the columns that it is for.
#[derive(Debug, Default)]
pub(super) struct Kept(Mutex<Option<(Arc<[Column]>, RowEncoder)>>);

impl Clone for Kept {
    /// Another statement has other columns.
    fn clone(&self) -> Self {
        Self::default()
    }
}

impl Statement {
    /// Whether its answer is one row or one value, so that [`row_encoder`](Self::row_encoder) is
    /// what encodes it as JSON.
    pub(crate) fn is_lookup(&self) -> bool {
        self.cardinality != Cardinality::Many
    }

    /// What encodes its row of `columns` as JSON. Columns are known to be the same by where they
    /// are: a statement that is described anew gets others.
    ///
    /// # Errors
    /// Those of [`check_columns`](Self::check_columns).
    pub(crate) fn row_encoder(&self, columns: &Arc<[Column]>) -> Result<RowEncoder, Error> {
        let Kept(kept) = &self.kept;
        let mut kept = kept.lock();
        if let Some((known, encoder)) = &*kept
            && Arc::ptr_eq(known, columns)
        {
            return Ok(encoder.again());
        }
        self.check_columns(columns)?;
        let shape = if self.cardinality == Cardinality::Value { Shape::Scalar } else { Shape::Object };
        let (_, encoder) = kept.insert((Arc::clone(columns), RowEncoder::new(shape, columns)));
        Ok(encoder.again())
    }
}
