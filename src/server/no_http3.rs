//! The replacement for HTTP/3 in a build without that feature. It accepts nothing.

use std::io;
use std::sync::Arc;

use tokio::sync::watch;

use super::connections::Connections;
use super::reload::Current;
use super::{Listener, State};
use crate::config::Config;

/// This build has no HTTP/3 port.
pub(super) enum Door {}

/// This build accepts no QUIC connection.
pub(super) enum Arrived {}

impl Door {
    pub(super) fn open(_: &Listener, _: &Config) -> io::Result<Option<Self>> {
        Ok(None)
    }

    pub(super) async fn accept(_: Option<&Self>) -> Arrived {
        std::future::pending().await
    }

    pub(super) fn renew(&self, _: &Config) {
        match *self {}
    }

    pub(super) fn close(&self) {
        match *self {}
    }

    pub(super) async fn ended(self) {
        match self {}
    }
}

impl Arrived {
    pub(super) async fn serve(self, _: &Arc<Connections>, _: Arc<Current>, _: watch::Receiver<State>) {
        match self {}
    }
}
