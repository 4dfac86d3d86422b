//! What stands for HTTP/3 in a program that was built without it: nothing comes in by it.

use std::io;
use std::sync::Arc;

use tokio::sync::watch;

use super::connections::Connections;
use super::reload::Current;
use super::{Listener, State};
use crate::config::Config;

/// There is none.
pub(super) enum Door {}

/// Nobody arrives.
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
