//! The columns of each endpoint's statements, once its source has prepared them.

use std::sync::Arc;

use rowstream_core::lock::Mutex;

use crate::check::Columns;

/// The columns of an endpoint's statements, in their order.
pub(crate) type ResultColumns = [Option<Columns>];

/// The columns of the endpoints, as far as they're known.
pub(crate) struct NotedColumns(Mutex<State>);

struct State {
    /// The number of times that columns were noted.
    times: u64,
    /// In the order of the configuration.
    endpoints: Vec<Option<Arc<ResultColumns>>>,
}

impl NotedColumns {
    pub(super) fn new(endpoints: usize) -> Self {
        Self(Mutex::new(State { times: 0, endpoints: vec![None; endpoints] }))
    }

    pub(crate) fn note(&self, endpoint: usize, results: Vec<Option<Columns>>) -> Arc<ResultColumns> {
        let (results, mut state) = (Arc::from(results), self.0.lock());
        state.times += 1;
        state.endpoints[endpoint] = Some(Arc::clone(&results));
        results
    }

    /// The number of times that columns were noted.
    pub(super) fn times(&self) -> u64 {
        self.0.lock().times
    }

    /// The columns of an endpoint's statements, if they're known.
    pub(super) fn of(&self, endpoint: usize) -> Option<Arc<ResultColumns>> {
        self.0.lock().endpoints[endpoint].clone()
    }

    /// The columns of each endpoint's statements, as far as they're known.
    pub(super) fn all(&self) -> Vec<Option<Arc<ResultColumns>>> {
        self.0.lock().endpoints.clone()
    }
}
