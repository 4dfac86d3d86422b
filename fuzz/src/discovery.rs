//! The locations of services in responses of DNS and Consul.

use rowstream_upstream::discovery::fuzzing::{consul_answer, srv_answer};
use serde_json::Value;

/// The smallest DNS record with a host and a port, in bytes (RFC 1035, section 3.2.1; RFC 2782).
const LEAST_RECORD: usize = 1 + 10 + 6 + 1;

/// A response of either.
pub fn discovery(data: &[u8]) {
    if let Some(places) = srv_answer(data) {
        assert!(places.len() * LEAST_RECORD <= data.len(), "{places:?}");
        for (host, port) in &places {
            assert!(!host.is_empty() && *port > 0, "{host:?} {port}");
        }
    }
    if let Some(places) = consul_answer(data) {
        // Our reader ignores invalid UTF-8 in texts that it skips, but this reader checks all of
        // them.
        let Ok(read) = serde_json::from_slice::<Value>(data) else { return };
        let entries = read.as_array().expect("it is a list");
        let expected: Vec<_> = entries.iter().map(place).collect();
        assert_eq!(places, expected);
    }
}

fn place(entry: &Value) -> (String, u16) {
    let of = |entry: &Value, name: &str| entry[name]["Address"].as_str().unwrap_or_default().to_owned();
    let own = of(entry, "Service");
    let host = if own.is_empty() { of(entry, "Node") } else { own };
    let port = entry["Service"]["Port"].as_u64().and_then(|port| port.try_into().ok());
    (host, port.expect("it has a port"))
}
