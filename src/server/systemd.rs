//! What systemd is notified of (`Type=notify`), and the sockets that it listens on for us (socket
//! activation). Without its variables in the environment, nothing of either happens.
//!
//! A socket of systemd's outlives the process: while it restarts, connections wait in the socket's
//! queue instead of being refused.

use std::io;
use std::os::fd::{FromRawFd as _, RawFd};

use sd_notify::NotifyState;
use socket2::Socket;

use super::Listener;
use crate::config::Config;
use rowstream_core::log;

/// Requests are answered; also after a reload, whatever came of it.
pub(super) fn ready() {
    tell(&[NotifyState::Ready]);
}

/// A reload has begun. The time tells it from others (sd_notify(3), `RELOADING=1`).
pub(super) fn reloading() {
    match NotifyState::monotonic_usec_now() {
        Ok(now) => tell(&[NotifyState::Reloading, now]),
        Err(_) => tell(&[NotifyState::Reloading]),
    }
}

/// The end has begun.
pub(super) fn stopping() {
    tell(&[NotifyState::Stopping]);
}

fn tell(states: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(states) {
        log::warning!("the service manager cannot be notified: {error}");
    }
}

/// What there is of each kind of socket.
#[derive(Debug, Clone)]
pub struct Roles<T> {
    /// Where clients come.
    pub public: Option<T>,
    /// Where the admin endpoints are (`admin_listen`).
    pub admin: Option<T>,
    /// Where plain HTTP is led to TLS (`redirect` of `[tls]`).
    pub redirect: Option<T>,
}

impl<T> Default for Roles<T> {
    fn default() -> Self {
        Self { public: None, admin: None, redirect: None }
    }
}

impl Roles<Listener> {
    /// Where they listen.
    pub fn addresses(&self) -> Roles<String> {
        // One without an address was not taken.
        let address = |listener: &Option<Listener>| listener.as_ref()?.shown().ok();
        Roles {
            public: address(&self.public),
            admin: address(&self.admin),
            redirect: address(&self.redirect),
        }
    }
}

impl Roles<String> {
    /// Has a configuration say what is so.
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

/// The sockets that were handed over, by the names that they have (`FileDescriptorName=`): `admin`,
/// `redirect`, and any other for clients. To be asked for once.
///
/// # Errors
/// One of them is no socket of TCP or Unix that listens, or there are two for the same.
///
/// # Panics
/// Outside of a runtime.
pub fn inherited() -> io::Result<Roles<Listener>> {
    let mut roles = Roles::default();
    for (descriptor, name) in sd_notify::listen_fds_with_names()? {
        let role = match name.as_str() {
            "admin" => &mut roles.admin,
            "redirect" => &mut roles.redirect,
            _ => &mut roles.public,
        };
        if role.is_some() {
            return Err(io::Error::other(format!("the socket `{name}` is one too many of its kind")));
        }
        let listener = take(descriptor)
            .map_err(|error| io::Error::other(format!("the socket `{name}` cannot be used: {error}")))?;
        *role = Some(listener);
    }
    Ok(roles)
}

fn take(descriptor: RawFd) -> io::Result<Listener> {
    #[expect(unsafe_code, reason = "the standard library knows of no sockets that are handed over")]
    // SAFETY: it is open, as its flags were just set, and by the protocol it is ours: nobody else
    // in the process knows its number, and it is asked for once.
    let socket = unsafe { Socket::from_raw_fd(descriptor) };
    Listener::handed_over(socket)
}
