//! The open `subscriptions/listen` requests. Two tools change the lists, as far as listeners can tell.

use std::sync::{Mutex, MutexGuard, PoisonError};

use openoxide_mcp_protocol::meta_keys::SUBSCRIPTION_ID;
use openoxide_mcp_protocol::{Era, RequestId, complete, notification, parse_params};
use openoxide_rpc::Responder;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use uuid::Uuid;

/// A list that changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum List {
    Tools,
    Prompts,
}

/// Everybody who listens, on whatever connection.
#[derive(Default)]
pub(crate) struct Listeners(Mutex<Vec<Listener>>);

struct Listener {
    connection: Uuid,
    responder: Responder,
    lists: Vec<List>,
}

impl Listeners {
    fn lock(&self) -> MutexGuard<'_, Vec<Listener>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Acknowledges what is served of what was asked for, and keeps the request open.
    pub(crate) fn listen(&self, connection: Uuid, responder: Responder, params: Option<&RawValue>) {
        #[derive(Deserialize)]
        struct Params {
            notifications: Filter,
        }
        #[derive(Default, Deserialize)]
        #[serde(rename_all = "camelCase", default)]
        struct Filter {
            tools_list_changed: bool,
            prompts_list_changed: bool,
        }
        let Filter { tools_list_changed, prompts_list_changed } =
            match parse_params::<Params>("subscriptions/listen", params) {
                Ok(params) => params.notifications,
                Err(error) => return responder.answer::<Value>(Err(&error)),
            };
        let (mut agreed, mut lists) = (json!({}), Vec::new());
        for (wanted, list, field) in [
            (tools_list_changed, List::Tools, "toolsListChanged"),
            (prompts_list_changed, List::Prompts, "promptsListChanged"),
        ] {
            if wanted {
                agreed[field] = json!(true);
                lists.push(list);
            }
        }
        let params = json!({ "_meta": { SUBSCRIPTION_ID: responder.id() }, "notifications": agreed });
        // Under the lock, so that no news comes before.
        let mut listeners = self.lock();
        responder.out().push(notification("notifications/subscriptions/acknowledged", &params));
        listeners.push(Listener { connection, responder, lists });
    }

    /// Tells those who want to know that a list has changed.
    pub(crate) fn tell(&self, list: List) {
        let method = match list {
            List::Tools => "notifications/tools/list_changed",
            List::Prompts => "notifications/prompts/list_changed",
        };
        for listener in self.lock().iter().filter(|listener| listener.lists.contains(&list)) {
            let params = json!({ "_meta": { SUBSCRIPTION_ID: listener.responder.id() } });
            listener.responder.out().push(notification(method, &params));
        }
    }

    /// The request of a connection listens no more.
    pub(crate) fn cancel(&self, connection: Uuid, id: &RequestId) {
        self.lock().retain(|listener| listener.connection != connection || listener.responder.id() != id);
    }

    /// Answers those of a connection.
    pub(crate) fn end(&self, connection: Uuid) {
        for Listener { responder, .. } in self.lock().extract_if(.., |listener| listener.connection == connection) {
            let meta = json!({ "_meta": { SUBSCRIPTION_ID: responder.id() } });
            responder.answer(Ok(&complete(Era::Modern, meta)));
        }
    }
}
