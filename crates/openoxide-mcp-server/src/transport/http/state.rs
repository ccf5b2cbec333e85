//! What the handlers of a listener share.

use std::sync::Arc;

use tokio::sync::watch;

use super::body::Bodies;
use super::guard::Guard;
use super::sessions::Sessions;
use super::unread::EachUnread;
use crate::service::Service;

/// What the handlers share.
pub(super) struct HttpState {
    pub(super) service: Arc<dyn Service>,
    pub(super) guard: Guard,
    pub(super) bodies: Bodies,
    pub(super) sessions: Arc<Sessions>,
    pub(super) unread: Arc<EachUnread>,
    /// True once the server ends.
    pub(super) stopping: watch::Receiver<bool>,
}
