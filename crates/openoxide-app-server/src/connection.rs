//! One client: what was agreed with it, the threads it follows, and the questions that were put to it.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};

use openoxide_core::{ApprovalId, ApprovalRequest, Attachment, Decider, Decision, Thread, ThreadId};
use openoxide_rpc::listeners::Caller;
use openoxide_rpc::{Outcome, Outgoing, RequestId, lock};
use tokio::task::JoinHandle;

use crate::convert::{question, thread};
use crate::follower::Follower;
use crate::server::{AppServer, settle};
use crate::types::notification::Notification;
use crate::types::thread::ThreadItem;

/// Held while something is told of a thread.
pub(crate) type Order = Arc<Mutex<()>>;

/// Who a client says it is.
#[derive(Debug)]
pub(crate) struct Client {
    pub(crate) name: String,
    /// Notifications that it does not want, by their names.
    pub(crate) unwanted: HashSet<String>,
}

/// A thread that a client follows.
struct Subscription {
    thread: Arc<Thread>,
    order: Order,
    task: JoinHandle<()>,
}

/// One client; see the module.
pub(crate) struct Connection {
    pub(crate) server: Arc<AppServer>,
    pub(crate) caller: Caller,
    pub(crate) out: Arc<Outgoing>,
    /// Set by `initialize`.
    pub(crate) client: OnceLock<Client>,
    subscriptions: Mutex<HashMap<ThreadId, Subscription>>,
    questions: Mutex<Questions>,
}

/// Questions that were put to a client and are not settled.
#[derive(Default)]
pub(crate) struct Questions {
    last: i64,
    open: Vec<Question>,
    /// Whether the client can answer nothing any more.
    is_over: bool,
}

struct Question {
    id: i64,
    request: Arc<ApprovalRequest>,
    thread: Arc<Thread>,
    is_answered: bool,
}

impl Questions {
    /// Forgets a question that is settled, and says which request it was.
    pub(crate) fn settled(&mut self, approval: ApprovalId) -> Option<RequestId> {
        let at = self.open.iter().position(|question| question.request.id == approval)?;
        Some(RequestId::Number(self.open.remove(at).id))
    }
}

impl Connection {
    pub(crate) fn new(server: Arc<AppServer>, caller: Caller, out: Arc<Outgoing>) -> Arc<Self> {
        let (subscriptions, questions) = (Mutex::default(), Mutex::default());
        Arc::new(Self { server, caller, out, client: OnceLock::new(), subscriptions, questions })
    }

    pub(crate) fn questions(&self) -> MutexGuard<'_, Questions> {
        lock(&self.questions)
    }

    /// Tells the client, unless it does not want to hear of it.
    pub(crate) fn notify(&self, notification: &Notification) {
        if self.client.get().is_some_and(|client| !client.unwanted.contains(notification.method())) {
            self.out.push(notification.to_line());
        }
    }

    /// Tells an item that is complete as it begins.
    pub(crate) fn tell_whole(&self, thread_id: &str, turn_id: &str, item: ThreadItem) {
        let (thread_id, turn_id, now) = (thread_id.to_owned(), turn_id.to_owned(), thread::now_ms());
        self.notify(&Notification::ItemStarted {
            thread_id: thread_id.clone(),
            turn_id: turn_id.clone(),
            item: item.clone(),
            started_at_ms: now,
        });
        self.notify(&Notification::ItemCompleted { thread_id, turn_id, item, completed_at_ms: now });
    }

    /// Whether the client follows a thread.
    pub(crate) fn follows(&self, id: ThreadId) -> bool {
        lock(&self.subscriptions).contains_key(&id)
    }

    /// Follows a thread from now on, once. `first` is told before anything else is, with what the thread is doing.
    pub(crate) fn follow<T>(
        self: &Arc<Self>,
        thread: &Arc<Thread>,
        first: impl FnOnce(&openoxide_core::Snapshot) -> T,
    ) -> T {
        let mut subscriptions = lock(&self.subscriptions);
        if let Some(known) = subscriptions.get(&thread.id())
            && Arc::ptr_eq(&known.thread, thread)
        {
            let order = Arc::clone(&known.order);
            drop(subscriptions);
            let _order = lock(&order);
            return first(&thread.snapshot());
        }
        // Before anybody hears of it: what a turn asks from now on is this client's to answer.
        let before = subscriptions.remove(&thread.id());
        if before.is_none() {
            self.server.follow(thread.id());
        }
        let attachment = thread.attach();
        let told = first(&attachment.snapshot);
        let order = Order::default();
        let task = self.spawn(thread, attachment, &order);
        subscriptions.insert(thread.id(), Subscription { thread: Arc::clone(thread), order, task });
        drop(subscriptions);
        // The thread left memory and has come back.
        if let Some(before) = before {
            before.task.abort();
        }
        told
    }

    fn spawn(self: &Arc<Self>, thread: &Arc<Thread>, attachment: Attachment, order: &Order) -> JoinHandle<()> {
        let follower = Follower::new(Arc::clone(self), Arc::clone(thread), attachment, Arc::clone(order));
        tokio::spawn(follower.run())
    }

    /// What is done while nothing is told of a thread that the client follows.
    pub(crate) fn in_order<T>(&self, id: ThreadId, act: impl FnOnce() -> T) -> T {
        let order = lock(&self.subscriptions).get(&id).map(|subscription| Arc::clone(&subscription.order));
        let _order = order.as_ref().map(|order| lock(order));
        act()
    }

    /// Follows a thread no more. False where it was not followed.
    pub(crate) fn unfollow(&self, id: ThreadId) -> bool {
        let Some(subscription) = lock(&self.subscriptions).remove(&id) else { return false };
        self.leave(subscription);
        true
    }

    fn leave(&self, subscription: Subscription) {
        subscription.task.abort();
        let mut asked = Vec::new();
        self.questions().open.retain(|question| {
            let is_of_it = Arc::ptr_eq(&question.thread, &subscription.thread);
            asked.extend(is_of_it.then(|| Arc::clone(&question.request)));
            !is_of_it
        });
        self.server.unfollow(&subscription.thread, &asked);
    }

    /// Puts a question to the client.
    pub(crate) fn ask(&self, thread: &Arc<Thread>, request: Arc<ApprovalRequest>) {
        let (method, params) = question::to_wire(&request).parts();
        let id = {
            let mut questions = self.questions();
            if questions.is_over {
                return;
            }
            questions.last += 1;
            let (id, thread) = (questions.last, Arc::clone(thread));
            questions.open.push(Question { id, request: Arc::clone(&request), thread, is_answered: false });
            id
        };
        thread.put_question(request.id);
        self.out.request(&RequestId::Number(id), method, &params);
    }

    /// Takes the answer to a question: the first counts, and one that comes too late changes nothing.
    pub(crate) fn answered(&self, id: &RequestId, outcome: &Outcome) {
        let found = {
            let mut questions = self.questions();
            let is_it = |question: &&mut Question| RequestId::Number(question.id) == *id && !question.is_answered;
            questions.open.iter_mut().find(is_it).map(|question| {
                question.is_answered = true;
                (Arc::clone(&question.request), Arc::clone(&question.thread))
            })
        };
        let Some((request, thread)) = found else {
            tracing::debug!(%id, "an answer to no open question is ignored");
            return;
        };
        let decision = match outcome {
            Outcome::Result(answer) => question::from_wire(&request.action, answer),
            Outcome::Error(error) => question::from_error(error),
        };
        self.settle(&thread, &request, decision);
    }

    fn settle(&self, thread: &Arc<Thread>, request: &ApprovalRequest, decision: Decision) {
        let name = self.client.get().map(|client| client.name.clone());
        let by = match thread.is_faster_than_a_person(request.id) {
            true => Decider::Host(name),
            false => Decider::Client(name),
        };
        settle(thread, request, decision, by);
    }

    /// Ready when all that the threads still had to say was told: they are closed. Nobody is followed after it.
    pub(crate) async fn followed_to_the_end(&self) {
        let subscriptions = std::mem::take(&mut *lock(&self.subscriptions));
        for (_, Subscription { task, .. }) in subscriptions {
            // An error is a panic of the task, which has told all that it could.
            drop(task.await);
        }
    }

    /// The client is gone, or will answer nothing any more.
    pub(crate) fn end(&self) {
        self.questions().is_over = true;
        let subscriptions = std::mem::take(&mut *lock(&self.subscriptions));
        subscriptions.into_values().for_each(|subscription| self.leave(subscription));
    }
}
