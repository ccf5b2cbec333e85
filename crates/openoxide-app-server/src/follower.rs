//! What happens on a thread, told to one client in the order that clients rely on.
//!
//! A task per client and thread reads core's events. It makes lines only when the client's queue has room, so that a client
//! that is behind leaves them with core, which merges them. Every item that began is completed before its turn is: what a
//! turn's end has cut off is completed here.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use openoxide_core::{
    ApprovalRequest, Attachment, Event, EventReceiver, Thread, TurnId, TurnItem, TurnItemKind, TurnResult, Usage,
};
use openoxide_rpc::lock;

use crate::connection::{Connection, Order};
use crate::convert::{item, question, thread};
use crate::types::notification::Notification;
use crate::types::thread::{ThreadItem, ThreadStatus, TokenUsage};

/// Bytes of one item's deltas that are kept for its end, should the turn cut it off.
const KEPT: usize = 256 << 10;

/// An item that began.
struct Open {
    item: ThreadItem,
    /// Its deltas so far.
    text: String,
    /// Whether only a question about it was put, and it has not begun itself.
    is_asked: bool,
}

/// Tells one client of one thread.
pub(crate) struct Follower {
    connection: Arc<Connection>,
    thread: Arc<Thread>,
    thread_id: String,
    dir: PathBuf,
    /// Held while something is told, so that an answer can be put before what follows from it.
    order: Order,
    open: BTreeMap<u64, Open>,
    pending: Vec<Arc<ApprovalRequest>>,
    /// Tokens of the turn as told last, and of the turns before it.
    spent: Usage,
    before: Usage,
    diff: String,
    last_message: Option<ThreadItem>,
    events: EventReceiver,
}

impl Follower {
    /// Follows a thread from an attachment on. What is under way is told with the first event.
    pub(crate) fn new(connection: Arc<Connection>, thread: Arc<Thread>, attachment: Attachment, order: Order) -> Self {
        let Attachment { snapshot, open_items, events } = attachment;
        let mut follower = Self {
            connection,
            thread_id: thread.id().to_string(),
            dir: thread.config().cwd.clone(),
            order,
            open: BTreeMap::new(),
            pending: Vec::new(),
            spent: snapshot.usage,
            before: thread.usage(),
            diff: String::new(),
            last_message: None,
            events,
            thread,
        };
        if let Some(turn) = snapshot.running {
            for open in open_items {
                follower.item_started(turn, &open.item, open.text);
            }
            for request in snapshot.pending {
                follower.asked(request);
            }
        }
        follower
    }

    /// Tells until the thread is closed.
    pub(crate) async fn run(mut self) {
        while let Some(event) = self.events.next().await {
            drop(self.connection.out.room_to_tell().await);
            let order = Arc::clone(&self.order);
            let _told = lock(&order);
            self.tell(event);
        }
        self.notify(&Notification::ThreadClosed { thread_id: self.thread_id.clone() });
    }

    fn notify(&self, notification: &Notification) {
        self.connection.notify(notification);
    }

    fn tell(&mut self, event: Event) {
        let turn = event.turn_id();
        match event {
            Event::TurnStarted { .. } => self.turn_started(turn),
            Event::ItemStarted { item, .. } => self.item_started(turn, &item, String::new()),
            Event::ItemDelta { item_id, delta, .. } => self.delta(turn, item_id, delta),
            Event::ItemCompleted { item, .. } => self.item_completed(turn, &item),
            Event::ApprovalRequested { request, .. } => {
                self.asked(request);
                self.tell_status();
            }
            Event::ApprovalSettled { id, .. } => {
                self.pending.retain(|request| request.id != id);
                if let Some(request_id) = self.connection.questions().settled(id) {
                    let thread_id = self.thread_id.clone();
                    self.notify(&Notification::ServerRequestResolved { thread_id, request_id });
                }
                self.tell_status();
            }
            Event::Usage { usage, .. } => self.usage(turn, usage),
            Event::Plan { steps, .. } => self.notify(&Notification::TurnPlanUpdated {
                thread_id: self.thread_id.clone(),
                turn_id: turn.to_string(),
                explanation: serde_json::Value::Null,
                plan: item::plan(&steps),
            }),
            Event::Warning { message, .. } => self.warn(message),
            Event::TurnEnded { result, .. } => self.turn_ended(turn, &result),
        }
    }

    fn warn(&self, message: String) {
        self.notify(&Notification::Warning { thread_id: Some(self.thread_id.clone()), message });
    }

    fn tell_status(&self) {
        let active_flags = question::flags_of(self.pending.iter().map(AsRef::as_ref));
        let status = ThreadStatus::Active { active_flags };
        self.notify(&Notification::ThreadStatusChanged { thread_id: self.thread_id.clone(), status });
    }

    fn turn_started(&mut self, turn: TurnId) {
        self.spent = Usage::default();
        self.diff.clear();
        (self.last_message, self.open) = (None, BTreeMap::new());
        self.tell_status();
        let (thread_id, turn_id) = (self.thread_id.clone(), turn.to_string());
        self.notify(&Notification::TurnStarted { thread_id, turn: thread::begun(turn) });
        if let Some(said) = self.connection.server.said(turn) {
            let told = item::user_message(format!("{turn_id}/input"), said.client_id, &said.text);
            self.connection.tell_whole(&self.thread_id, &turn_id, told);
        }
    }

    fn began(&mut self, turn: TurnId, id: u64, told: ThreadItem, text: String, is_asked: bool) {
        self.notify(&Notification::ItemStarted {
            thread_id: self.thread_id.clone(),
            turn_id: turn.to_string(),
            item: told.clone(),
            started_at_ms: thread::now_ms(),
        });
        self.open.insert(id, Open { item: told, text: String::new(), is_asked });
        if !text.is_empty() {
            self.delta(turn, id, text);
        }
    }

    fn item_started(&mut self, turn: TurnId, begun: &TurnItem, text: String) {
        match self.open.get_mut(&begun.id) {
            // It was told with the question about it.
            Some(open) => open.is_asked = false,
            None => self.began(turn, begun.id, item::item(begun, &self.dir), text, false),
        }
    }

    fn delta(&mut self, turn: TurnId, id: u64, delta: String) {
        let Some(open) = self.open.get_mut(&id) else { return };
        let is_first = open.text.is_empty();
        if open.text.len() + delta.len() <= KEPT {
            open.text.push_str(&delta);
        }
        let (thread_id, turn_id, item_id) = (self.thread_id.clone(), turn.to_string(), item::id_of(id));
        let told = match open.item {
            ThreadItem::AgentMessage { .. } => Notification::AgentMessageDelta { thread_id, turn_id, item_id, delta },
            ThreadItem::CommandExecution { .. } => {
                Notification::CommandOutputDelta { thread_id, turn_id, item_id, delta }
            }
            ThreadItem::Reasoning { .. } => {
                let summary_index = 0;
                if is_first {
                    let (thread_id, turn_id, item_id) = (thread_id.clone(), turn_id.clone(), item_id.clone());
                    self.notify(&Notification::ReasoningSummaryPartAdded {
                        thread_id,
                        turn_id,
                        item_id,
                        summary_index,
                    });
                }
                Notification::ReasoningSummaryTextDelta { thread_id, turn_id, item_id, delta, summary_index }
            }
            ThreadItem::UserMessage { .. } | ThreadItem::FileChange { .. } | ThreadItem::DynamicToolCall { .. } => {
                return;
            }
        };
        self.notify(&told);
    }

    fn item_completed(&mut self, turn: TurnId, done: &TurnItem) {
        let told = item::item(done, &self.dir);
        if self.open.remove(&done.id).is_none() {
            // One that was refused before it began.
            let (thread_id, turn_id) = (self.thread_id.clone(), turn.to_string());
            let (item, started_at_ms) = (told.clone(), thread::now_ms());
            self.notify(&Notification::ItemStarted { thread_id, turn_id, item, started_at_ms });
        }
        if matches!(&told, ThreadItem::AgentMessage { text, .. } if !text.is_empty()) {
            self.last_message = Some(told.clone());
        }
        self.completed(turn, told);
        if let TurnItemKind::Patch { status: openoxide_core::ItemStatus::Completed, changes, .. } = &done.kind {
            // Where a file is changed again, only the end of the turn knows what both came to.
            let is_again = changes.iter().any(|change| self.diff.contains(&format!("{}\n", change.path.display())));
            if !is_again {
                let diff = changes.iter().fold(self.diff.clone(), |diff, change| diff + &change.diff);
                self.tell_diff(turn, diff);
            }
        }
    }

    fn tell_diff(&mut self, turn: TurnId, diff: String) {
        self.diff.clone_from(&diff);
        let (thread_id, turn_id) = (self.thread_id.clone(), turn.to_string());
        self.notify(&Notification::TurnDiffUpdated { thread_id, turn_id, diff });
    }

    fn completed(&self, turn: TurnId, item: ThreadItem) {
        let (thread_id, turn_id) = (self.thread_id.clone(), turn.to_string());
        self.notify(&Notification::ItemCompleted { thread_id, turn_id, item, completed_at_ms: thread::now_ms() });
    }

    /// Puts a question to the client, behind the item that it is about.
    fn asked(&mut self, request: Arc<ApprovalRequest>) {
        if !self.open.contains_key(&request.item_id) {
            let told = item::of_question(&request, &self.dir);
            self.began(request.turn_id, request.item_id, told, String::new(), true);
        }
        self.pending.push(Arc::clone(&request));
        self.connection.ask(&self.thread, request);
    }

    fn usage(&mut self, turn: TurnId, usage: Usage) {
        let last = item::minus(&usage, &self.spent);
        self.spent = usage;
        let mut total = self.before;
        total += usage;
        self.notify(&Notification::ThreadTokenUsageUpdated {
            thread_id: self.thread_id.clone(),
            turn_id: turn.to_string(),
            token_usage: TokenUsage {
                total: item::tokens(&total),
                last: item::tokens(&last),
                model_context_window: Some(self.thread.context_window()),
            },
        });
    }

    fn turn_ended(&mut self, turn: TurnId, result: &TurnResult) {
        for (_, Open { item, text, is_asked }) in std::mem::take(&mut self.open) {
            let told = if is_asked { item::declined(item) } else { item::cut_off(item, text) };
            self.completed(turn, told);
        }
        if let Some(diff) = result.diff.as_ref().filter(|diff| **diff != self.diff) {
            self.tell_diff(turn, diff.clone());
        }
        result.warnings.iter().for_each(|warning| self.warn(warning.clone()));
        let thread_id = self.thread_id.clone();
        if let Some(error) = thread::error_of(result) {
            let (thread_id, turn_id) = (thread_id.clone(), turn.to_string());
            self.notify(&Notification::Error { thread_id, turn_id, error, will_retry: false });
        }
        self.before = result.thread_usage;
        self.pending.clear();
        let (status, last) = (ThreadStatus::Idle, self.last_message.take());
        self.notify(&Notification::ThreadStatusChanged { thread_id: thread_id.clone(), status });
        self.notify(&Notification::TurnCompleted { thread_id, turn: thread::ended(result, last) });
    }
}
