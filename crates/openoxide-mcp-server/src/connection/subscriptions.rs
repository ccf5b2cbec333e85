//! Who is told of changes: legacy clients that read a list or subscribed to a resource, and the open `subscriptions/listen`
//! requests of modern ones (MCP 2026-07-28, basic/patterns/subscriptions). One task per connection, started by the first
//! that asks, turns the backend's word into notifications.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard};

use futures_util::stream::{BoxStream, StreamExt as _};
use openoxide_mcp_protocol::meta_keys::SUBSCRIPTION_ID;
use openoxide_mcp_protocol::tasks::tasks_not_declared;
use openoxide_mcp_protocol::{ClientFacts, Era, RequestId, WireError, complete, notification, resource_not_found};
use serde_json::{Value, json};
use tokio::task::AbortHandle;

use crate::Server;
use crate::backend::{Backend, Change, Changed, List};
use crate::principal::Principal;
use crate::server::tasks::Task;
use openoxide_rpc::Outgoing;
use openoxide_rpc::Responder;
use openoxide_rpc::lock;

/// Requests that may listen at once.
const MAX_LISTENERS: usize = 64;

/// Resources that one client may watch, over all its subscriptions.
const MAX_WATCHED: usize = 1024;

const UPDATED: &str = "notifications/resources/updated";

/// What a `subscriptions/listen` wants to be told.
#[derive(serde::Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Filter {
    #[serde(default)]
    tools_list_changed: bool,
    #[serde(default)]
    prompts_list_changed: bool,
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
    /// The lists that a legacy client has read, so that it is told when they change.
    listed: HashSet<List>,
    listeners: Vec<Listener>,
    /// Turns the backend's word into notifications.
    telling: Option<AbortHandle>,
}

/// An open `subscriptions/listen`.
struct Listener {
    responder: Responder,
    lists: HashSet<List>,
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
    pub(crate) fn subscribe(&self, backend: &dyn Backend, uri: String) -> Result<(), WireError> {
        if !backend.has_resource(&uri) {
            return Err(resource_not_found(&uri, Era::Legacy, "no such resource"));
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

    /// A legacy client has read a list.
    pub(crate) fn listed(&self, list: List) {
        self.lock().listed.insert(list);
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
            filter.resource_subscriptions.into_iter().filter(|uri| server.backend.has_resource(uri)).collect();
        let (mut agreed, mut lists) = (json!({}), HashSet::new());
        for (wanted, list, field) in [
            (filter.tools_list_changed, List::Tools, "toolsListChanged"),
            (filter.prompts_list_changed, List::Prompts, "promptsListChanged"),
            (filter.resources_list_changed, List::Resources, "resourcesListChanged"),
        ] {
            if wanted && server.tells_changes_of(list) {
                agreed[field] = json!(true);
                lists.insert(list);
            }
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
        inner.listeners.push(Listener { responder, lists, uris, tasks });
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
    pub(crate) fn run(self: &Arc<Self>, out: &Arc<Outgoing>, changes: impl FnOnce() -> BoxStream<'static, Change>) {
        let mut inner = self.lock();
        if inner.telling.is_some() {
            return;
        }
        let (this, out, mut changes) = (Arc::downgrade(self), Arc::clone(out), changes());
        let telling = tokio::spawn(async move {
            while let Some(change) = changes.next().await {
                out.room().await;
                let Some(subscriptions) = this.upgrade() else { return };
                subscriptions.tell(&out, &change);
            }
        });
        inner.telling = Some(telling.abort_handle());
    }

    fn tell(&self, out: &Outgoing, change: &Change) {
        let inner = self.lock();
        let updated = |watched: &HashSet<String>| -> Vec<String> {
            match &change.resources {
                Changed::Some(uris) => uris.iter().filter(|uri| watched.contains(*uri)).cloned().collect(),
                Changed::Any => watched.iter().cloned().collect(),
            }
        };
        if let Some(list) = change.list.filter(|list| inner.listed.contains(list)) {
            out.push(notification(changed(list), &json!({})));
        }
        for uri in updated(&inner.legacy) {
            out.push(notification(UPDATED, &json!({ "uri": uri })));
        }
        for listener in &inner.listeners {
            let meta = json!({ SUBSCRIPTION_ID: listener.responder.id() });
            let out = listener.responder.out();
            if let Some(list) = change.list.filter(|list| listener.lists.contains(list)) {
                out.push(notification(changed(list), &json!({ "_meta": meta })));
            }
            for uri in updated(&listener.uris) {
                out.push(notification(UPDATED, &json!({ "_meta": meta, "uri": uri })));
            }
        }
    }
}

/// The notification of another list.
fn changed(list: List) -> &'static str {
    match list {
        List::Tools => "notifications/tools/list_changed",
        List::Prompts => "notifications/prompts/list_changed",
        List::Resources => "notifications/resources/list_changed",
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
