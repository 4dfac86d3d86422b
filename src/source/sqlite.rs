//! SQLite.
use std::sync::Arc;
use std::task::{Context, Poll};

use rowstream_encode::{Column, RowEncoder};

use super::{Snapshot, Statement};
use crate::Error;
use crate::params::ParamValue;

/// A SQLite file with its pool.
#[derive(Clone)]
pub struct Source;

impl Source {
    /// Opens.
    pub fn open(_config: &crate::config::SourceConfig) -> Result<Self, Error> {
        unimplemented!()
    }
    /// Reaps.
    pub async fn reap(&self) {}
    /// See [`super::Source::acquire`].
    pub async fn acquire(&self, _snapshot: Snapshot) -> Result<Session, Error> {
        unimplemented!()
    }
}

/// One SQLite connection on its own thread, held by one response.
pub struct Session;

impl Session {
    /// See [`super::Session::prepare`].
    pub async fn prepare(&mut self, _statement: &Statement) -> Result<Arc<[Column]>, Error> {
        unimplemented!()
    }
    /// See [`super::Session::execute`].
    pub fn execute(&mut self, _index: usize, _args: &[&ParamValue]) {
        unimplemented!()
    }
    /// See [`super::Session::poll_row`].
    pub fn poll_row(&mut self, _cx: &mut Context<'_>) -> Poll<Result<Option<Row<'_>>, Error>> {
        unimplemented!()
    }
}

/// One row.
pub struct Row<'a>(&'a [u8]);

impl Row<'_> {
    /// See [`super::Row::encode`].
    pub fn encode(self, _encoder: &mut RowEncoder, _out: &mut Vec<u8>) -> Result<(), Error> {
        let _ = self.0;
        unimplemented!()
    }
}
