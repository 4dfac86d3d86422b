//! Ports for programs that bind them later.

use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::sync::atomic::{AtomicU32, Ordering};

/// Returns two of [`free_port`].
pub fn free_ports() -> (SocketAddr, SocketAddr) {
    (free_port(), free_port())
}

/// Returns a port of 127.0.0.1 that's free for TCP and UDP. Linux gives ports from 32768 to
/// connections and listeners of other tests. This one is below, so it stays free until it's bound.
pub fn free_port() -> SocketAddr {
    static TRIED: AtomicU32 = AtomicU32::new(0);
    loop {
        let number = std::process::id() * 100 + TRIED.fetch_add(1, Ordering::Relaxed);
        let address = SocketAddr::from(([127, 0, 0, 1], 10_000 + (number % 22_000) as u16));
        if TcpListener::bind(address).is_ok() && UdpSocket::bind(address).is_ok() {
            return address;
        }
    }
}
