//! Notifies systemd (`Type=notify`), and takes over the sockets that it opened for us (socket
//! activation). Does nothing without systemd's environment variables.
//!
//! systemd's sockets outlive the process. While it restarts, new connections wait in the socket's
//! queue instead of being refused.

use std::io;
use std::os::fd::{FromRawFd as _, RawFd};

use rowstream_core::log;
use sd_notify::NotifyState;
use socket2::Socket;

use super::Listener;
use crate::config::Config;

/// Reports that the server is ready. Also ends a reload, successful or not.
pub(super) fn ready() {
    tell(&[NotifyState::Ready]);
}

/// Reports that a reload has begun. The time identifies it (sd_notify(3), `RELOADING=1`).
pub(super) fn reloading() {
    match NotifyState::monotonic_usec_now() {
        Ok(now) => tell(&[NotifyState::Reloading, now]),
        Err(_) => tell(&[NotifyState::Reloading]),
    }
}

/// Reports that the shutdown has begun.
pub(super) fn stopping() {
    tell(&[NotifyState::Stopping]);
}

fn tell(states: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(states) {
        log::warning!("the service manager cannot be notified: {error}");
    }
}

/// A value for each kind of socket.
#[derive(Debug, Clone)]
pub struct Roles<T> {
    /// The port for clients.
    pub public: Option<T>,
    /// The port for admin endpoints (`admin_listen`).
    pub admin: Option<T>,
    /// The port that redirects plain HTTP to TLS (`redirect` in `[tls]`).
    pub redirect: Option<T>,
}

impl<T> Default for Roles<T> {
    fn default() -> Self {
        Self { public: None, admin: None, redirect: None }
    }
}

impl Roles<Listener> {
    /// Their addresses.
    pub fn addresses(&self) -> Roles<String> {
        // A listener without an address would have been refused.
        let address = |listener: &Option<Listener>| listener.as_ref()?.shown().ok();
        Roles {
            public: address(&self.public),
            admin: address(&self.admin),
            redirect: address(&self.redirect),
        }
    }
}

impl Roles<String> {
    /// Puts the addresses into a configuration.
    pub fn apply(&self, config: &mut Config) {
        if let Some(address) = &self.public {
            config.listen.clone_from(address);
        }
        if let Some(address) = &self.admin {
            config.admin_listen = Some(address.clone());
        }
        if let (Some(address), Some(tls)) = (&self.redirect, &mut config.tls) {
            tls.redirect = Some(address.clone());
        }
    }
}

/// Takes over the sockets that systemd opened, by their names (`FileDescriptorName=`): `admin`,
/// `redirect`, and any other name for clients. Call it only once.
///
/// # Errors
/// A socket isn't a listening TCP or Unix socket, or two have the same role.
///
/// # Panics
/// Called outside a runtime.
pub fn inherited() -> io::Result<Roles<Listener>> {
    let mut roles = Roles::default();
    for (descriptor, name) in sd_notify::listen_fds_with_names()? {
        let role = match name.as_str() {
            "admin" => &mut roles.admin,
            "redirect" => &mut roles.redirect,
            _ => &mut roles.public,
        };
        if role.is_some() {
            return Err(io::Error::other(format!("the socket `{name}` is a duplicate of its kind")));
        }
        let listener = take(descriptor)
            .map_err(|error| io::Error::other(format!("the socket `{name}` cannot be used: {error}")))?;
        *role = Some(listener);
    }
    Ok(roles)
}

fn take(descriptor: RawFd) -> io::Result<Listener> {
    #[expect(unsafe_code, reason = "the standard library knows of no sockets that are handed over")]
    // SAFETY: the descriptor is open, because its flags were just set. By the protocol it's ours:
    // no other code in the process knows its number, and we ask only once.
    let socket = unsafe { Socket::from_raw_fd(descriptor) };
    Listener::handed_over(socket)
}
