//! What a call can do beside answering: tell its progress, and learn that it is not wanted any more.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};

use futures_util::future::{Either, select};
use futures_util::task::AtomicWaker;
use openoxide_rpc::lock;
use serde_json::{Map, Value, json};

use crate::protocol::{Id, Request};

/// Progress messages of all calls that wait to be sent; what comes beyond is dropped.
const WAITING: usize = 64;

/// One `tools/call`, given to [`super::McpHandler::tools_call_with_context`]. Clones are the same call.
#[derive(Clone)]
pub struct CallContext {
    call: Arc<Call>,
    /// Progress on its way to `serve`.
    messages: Arc<Messages>,
}

impl CallContext {
    pub(super) fn new(call: Arc<Call>, messages: Arc<Messages>) -> Self {
        Self { call, messages }
    }

    /// A context that nobody listens to, for tests and for calls from elsewhere.
    #[must_use]
    pub fn detached() -> Self {
        Self { call: Arc::new(Call::new(&Request::notification("tools/call", Value::Null))), messages: Arc::default() }
    }

    /// The id of the request; none for a notification.
    pub fn request_id(&self) -> Option<&Id> {
        self.call.id.as_ref()
    }

    /// Tells how far the call has come, of how much, and in a short sentence what it does. Nothing is sent where the client
    /// has not asked for it, where `progress` is not more than the last, and once the call is answered or cancelled.
    pub fn progress(&self, progress: f64, total: Option<f64>, message: Option<&str>) {
        let Some(token) = &self.call.progress_token else { return };
        if !progress.is_finite() {
            return;
        }
        let mut last = lock(&self.call.last_progress);
        if last.is_some_and(|last| progress <= last) {
            return;
        }
        *last = Some(progress);
        let mut params =
            Map::from_iter([("progressToken".to_owned(), token.clone()), ("progress".to_owned(), json!(progress))]);
        if let Some(total) = total.filter(|total| total.is_finite()) {
            params.insert("total".to_owned(), json!(total));
        }
        if let Some(message) = message {
            params.insert("message".to_owned(), json!(message));
        }
        // Sent under the lock, so that two threads cannot change their order.
        self.messages.send(&self.call, Value::Object(params));
    }

    /// Whether the client has cancelled the call. Its answer is not sent then.
    pub fn is_cancelled(&self) -> bool {
        lock(&self.call.cancel).is_cancelled
    }

    /// Ready when the client has cancelled the call. Cancel-safe.
    pub async fn cancelled(&self) {
        poll_fn(|cx| self.call.poll_cancelled(cx)).await;
    }

    /// Runs `work` until it is done, or drops it when the call is cancelled; none then.
    pub async fn unless_cancelled<T>(&self, work: impl Future<Output = T>) -> Option<T> {
        let (work, cancelled) = (std::pin::pin!(work), std::pin::pin!(self.cancelled()));
        match select(cancelled, work).await {
            Either::Left(_) => None,
            Either::Right((done, _)) => Some(done),
        }
    }
}

/// An open request.
pub(super) struct Call {
    pub(super) id: Option<Id>,
    /// What progress is told under, where the client asks for it.
    progress_token: Option<Value>,
    last_progress: Mutex<Option<f64>>,
    cancel: Mutex<Cancel>,
    /// Set by `serve` before the answer is sent: no progress comes behind it.
    is_over: AtomicBool,
}

#[derive(Default)]
struct Cancel {
    is_cancelled: bool,
    /// Of the task that waits for it.
    wakers: Vec<Waker>,
}

impl Call {
    pub(super) fn new(request: &Request) -> Self {
        let token = &request.params["_meta"]["progressToken"];
        Self {
            id: request.id.clone(),
            progress_token: (token.is_string() || token.is_i64() || token.is_u64()).then(|| token.clone()),
            last_progress: Mutex::default(),
            cancel: Mutex::default(),
            is_over: AtomicBool::new(false),
        }
    }

    pub(super) fn cancel(&self) {
        let wakers = {
            let mut cancel = lock(&self.cancel);
            cancel.is_cancelled = true;
            std::mem::take(&mut cancel.wakers)
        };
        wakers.into_iter().for_each(Waker::wake);
    }

    pub(super) fn is_cancelled(&self) -> bool {
        lock(&self.cancel).is_cancelled
    }

    pub(super) fn end(&self) {
        self.is_over.store(true, Ordering::Release);
    }

    fn poll_cancelled(&self, cx: &mut Context<'_>) -> Poll<()> {
        let mut cancel = lock(&self.cancel);
        if cancel.is_cancelled {
            return Poll::Ready(());
        }
        if !cancel.wakers.iter().any(|waker| waker.will_wake(cx.waker())) {
            cancel.wakers.push(cx.waker().clone());
        }
        Poll::Pending
    }
}

/// Progress on its way from the calls to `serve`, which alone takes it.
#[derive(Default)]
pub(super) struct Messages {
    waiting: Mutex<VecDeque<(Arc<Call>, Value)>>,
    /// Wakes `serve`.
    sent: AtomicWaker,
}

impl Messages {
    fn send(&self, call: &Arc<Call>, params: Value) {
        let mut waiting = lock(&self.waiting);
        if waiting.len() < WAITING {
            waiting.push_back((Arc::clone(call), params));
            drop(waiting);
            self.sent.wake();
        }
    }

    /// The oldest one that is still wanted.
    pub(super) fn take(&self) -> Option<Value> {
        let mut waiting = lock(&self.waiting);
        loop {
            let (call, params) = waiting.pop_front()?;
            if !call.is_over.load(Ordering::Acquire) && !call.is_cancelled() {
                return Some(params);
            }
        }
    }

    pub(super) fn poll_take(&self, cx: &mut Context<'_>) -> Poll<Value> {
        // Registered before the look, so that one in between is not missed.
        self.sent.register(cx.waker());
        self.take().map_or(Poll::Pending, Poll::Ready)
    }
}
