//! All sessions: begun, resumed, waited for, ended.
//!
//! A session whose connection has ended waits for its client. It ends at once where the client closed the connection properly
//! and has never come back to a session, and where nobody is waited for.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use openoxide_rpc::listeners::Caller;
use openoxide_rpc::{Outgoing, RpcError, lock};

use super::error::refused;
use super::session::Session;
use crate::protocol::code::SESSION_ATTACHED;

/// Sessions of a caller at the same time. Where there are as many, one of them that waits for its client ends.
const MOST: usize = 64;

pub(super) struct Sessions {
    resume: Duration,
    next_connection: AtomicU64,
    all: Mutex<HashMap<String, Arc<Session>>>,
}

/// A connection's place in its session.
pub(super) struct Attached {
    pub(super) session: Arc<Session>,
    connection: u64,
}

impl Sessions {
    pub(super) fn new(resume: Duration) -> Arc<Self> {
        Arc::new(Self { resume, next_connection: AtomicU64::new(1), all: Mutex::default() })
    }

    /// Begins a session, or goes on with one.
    ///
    /// # Errors
    /// There is no such session of this caller, another connection is attached to it, or there are too many.
    pub(super) fn attach(
        &self,
        caller: &Caller,
        resumed: Option<&str>,
        out: &Arc<Outgoing>,
    ) -> Result<Attached, RpcError> {
        let connection = self.next_connection.fetch_add(1, Ordering::Relaxed);
        let mut all = lock(&self.all);
        let session = match resumed {
            Some(id) => {
                let own = all.get(id).filter(|session| session.caller == *caller).cloned();
                own.ok_or_else(|| refused(format!("there is no session {id:?} any more; initialize without it")))?
            }
            None => {
                let own = || all.values().filter(|session| session.caller == *caller);
                if own().count() >= MOST {
                    let waiting = own().find(|session| !session.is_attached()).cloned();
                    let waiting = waiting.ok_or_else(|| refused(format!("you have {MOST} sessions; close one")))?;
                    all.remove(&waiting.id);
                    tokio::spawn(async move { waiting.end().await });
                }
                let id = uuid::Uuid::new_v4().to_string();
                let session = Session::new(id.clone(), caller.clone());
                all.insert(id, Arc::clone(&session));
                session
            }
        };
        if !session.attach(connection, out, resumed.is_some()) {
            let message = format!("session {} is already attached to another connection", session.id);
            return Err(RpcError::new(SESSION_ATTACHED, message));
        }
        Ok(Attached { session, connection })
    }

    /// A connection has ended. `properly` says that its client closed it.
    pub(super) fn detach(self: &Arc<Self>, attached: &Attached, properly: bool) {
        let session = Arc::clone(&attached.session);
        let Some(attachments) = session.detach(attached.connection) else { return };
        let wait = match properly && !session.was_resumed() {
            true => Duration::ZERO,
            false => self.resume,
        };
        let sessions = Arc::clone(self);
        tokio::spawn(async move {
            if !wait.is_zero() {
                tokio::time::sleep(wait).await;
            }
            {
                let mut all = lock(&sessions.all);
                if !session.is_waited_for(attachments) {
                    return;
                }
                all.remove(&session.id);
            }
            session.end().await;
        });
    }

    pub(super) async fn end_all(&self) {
        let all: Vec<_> = lock(&self.all).drain().map(|(_, session)| session).collect();
        futures_util::future::join_all(all.iter().map(|session| session.end())).await;
    }
}
