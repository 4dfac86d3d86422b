//! Entry points to private code, for the properties in `fuzz/`.

use super::{Failure, Instance, listed, srv};

/// Hosts and ports.
type Places = Vec<(String, u16)>;

/// The instances in a DNS answer. `None`: it can't be read.
pub fn srv_answer(answer: &[u8]) -> Option<Places> {
    places(srv::read(answer, true))
}

/// The instances in a Consul answer. `None`: it can't be read.
pub fn consul_answer(answer: &[u8]) -> Option<Places> {
    places(listed(answer))
}

fn places(instances: Result<Vec<Instance>, Failure>) -> Option<Places> {
    Some(instances.ok()?.into_iter().map(|one| (one.host, one.port)).collect())
}
