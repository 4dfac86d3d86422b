//! The replacement for HTTP/3 in a build without that feature. It accepts nothing.

use std::io;
use std::sync::Arc;

use tokio::sync::watch;

use super::connections::Connections;
use super::reload::CurrentApp;
use super::{Listener, State};
use crate::config::Config;

/// This build has no HTTP/3 port.
pub(super) enum QuicPort {}

/// This build accepts no QUIC connection.
pub(super) enum ArrivedConnection {}

impl QuicPort {
    pub(super) fn open(_: &Listener, _: &Config) -> io::Result<Option<Self>> {
        Ok(None)
    }

    pub(super) async fn accept(_: Option<&Self>) -> ArrivedConnection {
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

impl ArrivedConnection {
    pub(super) async fn serve(self, _: &Arc<Connections>, _: Arc<CurrentApp>, _: watch::Receiver<State>) {
        match self {}
    }
}
