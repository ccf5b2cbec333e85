//! Who is told when threads change: legacy clients that subscribed to a resource, and the open `subscriptions/listen`
//! requests of modern ones (MCP 2026-07-28, basic/patterns/subscriptions). One task per connection, started by the first
//! that asks, turns core's word into notifications.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard};

use openoxide_core::{ThreadChange, ThreadChanges};
use openoxide_mcp_protocol::meta_keys::SUBSCRIPTION_ID;
use openoxide_mcp_protocol::tasks::tasks_not_declared;
use openoxide_mcp_protocol::{ClientFacts, Era, RequestId, WireError, complete, notification};
use serde_json::{Value, json};
use tokio::task::AbortHandle;

use crate::Server;
use crate::convert::resources;
use crate::principal::Principal;
use crate::server::tasks::Task;
use openoxide_rpc::Outgoing;
use openoxide_rpc::Responder;
use openoxide_rpc::lock;

/// Requests that may listen at once.
const MAX_LISTENERS: usize = 64;

/// Resources that one client may watch, over all its subscriptions.
const MAX_WATCHED: usize = 1024;

const LIST_CHANGED: &str = "notifications/resources/list_changed";
const UPDATED: &str = "notifications/resources/updated";

/// What a `subscriptions/listen` wants to be told.
#[derive(serde::Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Filter {
    #[serde(default)]
    resources_list_changed: bool,
    #[serde(default)]
    resource_subscriptions: Vec<String>,
    #[serde(default)]
    task_ids: Vec<String>,
}

/// The subscriptions of one connection.
#[derive(Default)]
pub(crate) struct Subscriptions {
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    /// Resources that a legacy client watches.
    legacy: HashSet<String>,
    /// Whether a legacy client has read the list, so that it is told when the list changes.
    has_listed: bool,
    listeners: Vec<Listener>,
    /// Turns core's word into notifications.
    telling: Option<AbortHandle>,
}

/// An open `subscriptions/listen`.
struct Listener {
    responder: Responder,
    list: bool,
    uris: HashSet<String>,
    tasks: Vec<Arc<Task>>,
}

impl Drop for Listener {
    fn drop(&mut self) {
        for task in &self.tasks {
            task.unwatch(self.responder.id(), self.responder.out());
        }
    }
}

impl Subscriptions {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        lock(&self.inner)
    }

    /// Whether an open request of this id listens.
    pub(crate) fn contains(&self, id: &RequestId) -> bool {
        self.lock().listeners.iter().any(|listener| listener.responder.id() == id)
    }

    /// Whether any request listens.
    pub(crate) fn is_listened_to(&self) -> bool {
        !self.lock().listeners.is_empty()
    }

    /// `resources/subscribe`.
    pub(crate) fn subscribe(&self, uri: String) -> Result<(), WireError> {
        if !resources::exists(&uri) {
            return Err(resources::not_found(&uri, false, "no such resource"));
        }
        let mut inner = self.lock();
        if inner.legacy.len() >= MAX_WATCHED {
            let message =
                format!("{MAX_WATCHED} resources are watched, which is the most; unsubscribe from others first");
            return Err(WireError::invalid_params(message));
        }
        inner.legacy.insert(uri);
        Ok(())
    }

    /// `resources/unsubscribe`.
    pub(crate) fn unsubscribe(&self, uri: &str) {
        self.lock().legacy.remove(uri);
    }

    /// A legacy client has read the list.
    pub(crate) fn listed(&self) {
        self.lock().has_listed = true;
    }

    /// `subscriptions/listen`: acknowledges what is served of what was asked for, and keeps the request open.
    pub(crate) fn listen(
        &self,
        server: &Server,
        principal: &Principal,
        client: &ClientFacts,
        responder: Responder,
        filter: Filter,
    ) {
        if !filter.task_ids.is_empty() && !client.takes_tasks {
            return responder.answer::<Value>(Err(&tasks_not_declared()));
        }
        let mut inner = self.lock();
        let watched: usize = inner.listeners.iter().map(|listener| listener.uris.len() + listener.tasks.len()).sum();
        let wanted = filter.resource_subscriptions.len() + filter.task_ids.len();
        if inner.listeners.len() >= MAX_LISTENERS || watched + wanted > MAX_WATCHED {
            let message = format!(
                "at most {MAX_LISTENERS} requests may listen, to {MAX_WATCHED} resources and tasks together; cancel others first"
            );
            return responder.answer::<Value>(Err(&WireError::invalid_params(message)));
        }
        let uris: HashSet<String> =
            filter.resource_subscriptions.into_iter().filter(|uri| resources::exists(uri)).collect();
        let mut agreed = json!({});
        if filter.resources_list_changed {
            agreed["resourcesListChanged"] = json!(true);
        }
        if !uris.is_empty() {
            let mut sorted: Vec<_> = uris.iter().collect();
            sorted.sort();
            agreed["resourceSubscriptions"] = json!(sorted);
        }
        let mut tasks = Vec::new();
        for id in &filter.task_ids {
            tasks.extend(server.tasks.find(id, principal).ok());
        }
        if !tasks.is_empty() {
            agreed["taskIds"] = tasks.iter().map(|task| Value::from(task.id())).collect();
        }
        let params = json!({ "_meta": { SUBSCRIPTION_ID: responder.id() }, "notifications": agreed });
        // Under the lock, so that no change is told before it.
        responder.out().push(notification("notifications/subscriptions/acknowledged", &params));
        for task in &tasks {
            task.watch(&server.tasks, responder.id(), responder.out());
        }
        inner.listeners.push(Listener { responder, list: filter.resources_list_changed, uris, tasks });
    }

    /// The client does not listen any more; it gets no answer.
    pub(crate) fn cancel(&self, id: &RequestId) {
        self.lock().listeners.retain(|listener| listener.responder.id() != id);
    }

    /// Tells every listener that the server ends its subscription.
    pub(crate) fn close(&self) {
        for mut listener in std::mem::take(&mut self.lock().listeners) {
            let meta = json!({ "_meta": { SUBSCRIPTION_ID: listener.responder.id() } });
            listener.responder.answer_once(Ok(&complete(Era::Modern, meta)));
        }
    }

    /// Starts the task that tells, once. Within a tokio runtime.
    pub(crate) fn run(
        self: &Arc<Self>,
        out: &Arc<Outgoing>,
        principal: &Principal,
        changes: impl FnOnce() -> ThreadChanges,
    ) {
        let mut inner = self.lock();
        if inner.telling.is_some() {
            return;
        }
        let (this, out, mut changes) = (Arc::downgrade(self), Arc::clone(out), changes());
        let principal = principal.clone();
        let telling = tokio::spawn(async move {
            while let Some(change) = changes.next().await {
                if change.id.is_some() && !principal.may_use(change.owner.as_deref()) {
                    continue;
                }
                out.room().await;
                let Some(subscriptions) = this.upgrade() else { return };
                subscriptions.tell(&out, &change);
            }
        });
        inner.telling = Some(telling.abort_handle());
    }

    fn tell(&self, out: &Outgoing, change: &ThreadChange) {
        let inner = self.lock();
        let uris = resources::touched_by(change);
        let updated = |watched: &HashSet<String>| -> Vec<String> {
            match &uris {
                Some(uris) => uris.iter().filter(|uri| watched.contains(*uri)).cloned().collect(),
                None => watched.iter().cloned().collect(),
            }
        };
        if inner.has_listed && change.is_new {
            out.push(notification(LIST_CHANGED, &json!({})));
        }
        for uri in updated(&inner.legacy) {
            out.push(notification(UPDATED, &json!({ "uri": uri })));
        }
        for listener in &inner.listeners {
            let meta = json!({ SUBSCRIPTION_ID: listener.responder.id() });
            let out = listener.responder.out();
            if listener.list && change.is_new {
                out.push(notification(LIST_CHANGED, &json!({ "_meta": meta })));
            }
            for uri in updated(&listener.uris) {
                out.push(notification(UPDATED, &json!({ "_meta": meta, "uri": uri })));
            }
        }
    }
}

/// A connection that is gone, such as an HTTP request, waits for no more changes.
impl Drop for Subscriptions {
    fn drop(&mut self) {
        if let Some(telling) = self.lock().telling.take() {
            telling.abort();
        }
    }
}
