//! Keeps the encoder of a lookup's row from one request to the next.
//!
//! For a list, the setup for its columns is short compared with encoding the rows. For a lookup it
//! isn't: we would check and escape the column names again for each row.

use std::sync::Arc;

use rowstream_core::Error;
use rowstream_core::lock::Mutex;
use rowstream_encode::{Column, RowEncoder, Shape};

use super::{Cardinality, Statement};

/// The encoder of a statement's last request, and the columns that it's for.
#[derive(Debug, Default)]
pub(super) struct EncoderCache(Mutex<Option<(Arc<[Column]>, RowEncoder)>>);

impl Clone for EncoderCache {
    /// A clone starts empty, because another statement has other columns.
    fn clone(&self) -> Self {
        Self::default()
    }
}

impl Statement {
    /// Returns true if the result is one row or one value. Then [`row_encoder`](Self::row_encoder)
    /// encodes it as JSON.
    pub(crate) fn is_lookup(&self) -> bool {
        self.cardinality != Cardinality::Many
    }

    /// The encoder that writes its row of `columns` as JSON. The address identifies the columns: a
    /// statement that's described again gets a new allocation.
    ///
    /// # Errors
    /// Those of [`check_columns`](Self::check_columns).
    pub(crate) fn row_encoder(&self, columns: &Arc<[Column]>) -> Result<RowEncoder, Error> {
        let EncoderCache(kept) = &self.kept;
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
