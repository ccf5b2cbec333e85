//! A session: the processes and handles of one client, over however many connections it takes. It knows who is attached.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use openoxide_rpc::listeners::Caller;
use openoxide_rpc::{Outgoing, RpcError, lock};
use tokio::sync::Semaphore;

use super::error::refused;
use super::handles::Handles;
use super::process::Process;

/// Processes of a session, those that are kept to be read included.
const MOST_PROCESSES: usize = 1024;
/// Processes that are kept when all of them was told; the oldest go first.
const MOST_CLOSED: usize = 128;
/// Bytes of output that are kept for all processes of a session, about.
const KEPT: usize = 64 << 20;
/// The same for one.
const KEPT_OF_ONE: usize = 1 << 20;
/// What is kept of one, however many there are.
const KEPT_AT_LEAST: usize = 64 << 10;

/// What a session does of one kind at the same time.
const AT_ONCE: usize = 16;

/// One session.
pub(super) struct Session {
    pub(super) id: String,
    pub(super) caller: Caller,
    pub(super) handles: Handles,
    /// Commands and workers that are being started, and operations on files; others of this session wait, and nobody else.
    pub(super) starting: Semaphore,
    pub(super) reading: Semaphore,
    pub(super) changing: Semaphore,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    attachment: Option<Attachment>,
    /// How often somebody was attached; says whether a wait for a client is still of use.
    attachments: u64,
    was_resumed: bool,
    is_ended: bool,
    processes: HashMap<String, Arc<Process>>,
    /// Ids in the order in which they were started.
    order: Vec<String>,
}

struct Attachment {
    connection: u64,
    out: Arc<Outgoing>,
}

impl Session {
    pub(super) fn new(id: String, caller: Caller) -> Arc<Self> {
        let [starting, reading, changing] = [AT_ONCE; 3].map(Semaphore::new);
        Arc::new(Self { id, caller, handles: Handles::default(), starting, reading, changing, state: Mutex::default() })
    }

    /// Attaches a connection; false where another one is.
    pub(super) fn attach(&self, connection: u64, out: &Arc<Outgoing>, is_resumed: bool) -> bool {
        let mut state = lock(&self.state);
        if state.is_ended || state.attachment.is_some() {
            return false;
        }
        state.attachment = Some(Attachment { connection, out: Arc::clone(out) });
        state.attachments += 1;
        state.was_resumed |= is_resumed;
        true
    }

    /// The connection has ended. Gives what [`Session::is_waited_for`] takes; none where another one is attached.
    pub(super) fn detach(&self, connection: u64) -> Option<u64> {
        let mut state = lock(&self.state);
        if state.attachment.as_ref().is_some_and(|attachment| attachment.connection != connection) {
            return None;
        }
        state.attachment = None;
        Some(state.attachments)
    }

    /// Whether nobody has come since.
    pub(super) fn is_waited_for(&self, attachments: u64) -> bool {
        let state = lock(&self.state);
        state.attachment.is_none() && state.attachments == attachments
    }

    /// Whether a client has ever come back.
    pub(super) fn was_resumed(&self) -> bool {
        lock(&self.state).was_resumed
    }

    pub(super) fn is_attached(&self) -> bool {
        lock(&self.state).attachment.is_some()
    }

    /// The queue of whoever is attached.
    pub(super) fn attached(&self) -> Option<Arc<Outgoing>> {
        lock(&self.state).attachment.as_ref().map(|attachment| Arc::clone(&attachment.out))
    }

    /// Bytes of output to keep of each process.
    pub(super) fn kept_bytes(&self) -> usize {
        (KEPT / lock(&self.state).processes.len().max(1)).clamp(KEPT_AT_LEAST, KEPT_OF_ONE)
    }

    /// Takes a process in.
    ///
    /// # Errors
    /// The id is taken, there are as many as may be, or the session has ended.
    pub(super) fn add(&self, id: &str, process: &Arc<Process>) -> Result<(), RpcError> {
        let mut state = lock(&self.state);
        if state.is_ended {
            return Err(refused("the session has ended"));
        }
        if state.processes.contains_key(id) {
            return Err(refused(format!("process ID already exists: {id:?}; choose another")));
        }
        state.forget_closed();
        if state.processes.len() >= MOST_PROCESSES {
            return Err(refused(format!("there are {MOST_PROCESSES} processes in this session; terminate some first")));
        }
        state.processes.insert(id.to_owned(), Arc::clone(process));
        state.order.push(id.to_owned());
        Ok(())
    }

    /// Forgets a process that did not start.
    pub(super) fn remove(&self, id: &str) {
        let mut state = lock(&self.state);
        state.processes.remove(id);
        state.order.retain(|known| known != id);
    }

    pub(super) fn process(&self, id: &str) -> Option<Arc<Process>> {
        lock(&self.state).processes.get(id).cloned()
    }

    /// Ends all that it started, and returns when nothing is left.
    pub(super) async fn end(&self) {
        let processes: Vec<_> = {
            let mut state = lock(&self.state);
            state.is_ended = true;
            state.attachment = None;
            state.order.clear();
            state.processes.drain().map(|(_, process)| process).collect()
        };
        self.handles.end();
        futures_util::future::join_all(processes.iter().map(|process| process.end())).await;
    }
}

impl State {
    fn forget_closed(&mut self) {
        let closed: Vec<_> = self
            .order
            .iter()
            .filter(|id| self.processes.get(*id).is_some_and(|process| process.is_gone()))
            .cloned()
            .collect();
        let over = closed.len().saturating_sub(MOST_CLOSED);
        for id in &closed[..over] {
            self.processes.remove(id);
        }
        self.order.retain(|id| !closed[..over].contains(id));
    }
}
