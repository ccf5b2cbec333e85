//! From a message to the method that serves it.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use openoxide_rpc::{Envelope, Handler, Responder, Responders, RpcError};
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::connection::{Client, Connection};
use crate::errors::OVERLOADED;
use crate::methods::{self, Answer, Method};
use crate::types::params::{self, InitializeParams};

/// Requests of one client that may wait for the disk at once.
const MOST_OPEN: usize = 256;

/// Serves the messages of one client.
pub(crate) struct Processor {
    connection: Arc<Connection>,
    /// Requests that wait for the disk.
    open: Arc<AtomicUsize>,
}

impl Processor {
    pub(crate) fn new(connection: Arc<Connection>) -> Self {
        Self { connection, open: Arc::default() }
    }

    fn request(&self, method: &str, params: Option<Box<RawValue>>, responder: Responder) {
        let connection = &self.connection;
        let is_known = connection.client.get().is_some();
        let found = match (method, is_known) {
            ("initialize", false) => return answer(responder, initialize(connection, params.as_deref())),
            ("initialize", true) => Err(RpcError::invalid_request("Already initialized")),
            (_, false) => Err(RpcError::invalid_request("Not initialized")),
            (method, true) => methods::find(method),
        };
        match found {
            Err(error) => answer(responder, Err(error)),
            Ok(Method::Now(serve)) => answer(responder, serve(connection, params.as_deref())),
            Ok(Method::InOrder(serve)) => serve(connection, params.as_deref(), responder),
            Ok(Method::Disk(serve)) => self.on_disk(responder, params, move |connection, params, responder| {
                answer(responder, serve(connection, params));
            }),
            Ok(Method::Opens(serve)) => self.on_disk(responder, params, serve),
        }
    }

    /// Serves on a thread that may wait, once there is room for the answer.
    fn on_disk(
        &self,
        responder: Responder,
        params: Option<Box<RawValue>>,
        serve: impl FnOnce(&Arc<Connection>, Option<&RawValue>, Responder) + Send + 'static,
    ) {
        let open = Open::new(&self.open);
        if open.0.load(Ordering::Relaxed) > MOST_OPEN {
            let message = format!("Server overloaded; retry later. {MOST_OPEN} requests wait for the disk already");
            return answer(responder, Err(RpcError::new(OVERLOADED, message)));
        }
        let connection = Arc::clone(&self.connection);
        tokio::spawn(async move {
            let out = Arc::clone(responder.out());
            let _room = out.room_to_answer().await;
            let served = tokio::task::spawn_blocking(move || serve(&connection, params.as_deref(), responder));
            if let Err(error) = served.await {
                tracing::error!(%error, "a request was not served");
            }
            drop(open);
        });
    }
}

/// A request that waits for the disk, until this is dropped.
struct Open(Arc<AtomicUsize>);

impl Open {
    fn new(count: &Arc<AtomicUsize>) -> Self {
        count.fetch_add(1, Ordering::Relaxed);
        Self(Arc::clone(count))
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

fn answer(responder: Responder, answer: Answer) {
    match answer {
        Ok(result) => responder.answer(Ok(&result)),
        Err(error) => responder.answer::<Value>(Err(&error)),
    }
}

fn initialize(connection: &Connection, params: Option<&RawValue>) -> Answer {
    let InitializeParams { client_info, capabilities } = params::read(params)?;
    // A name is the first word of what is announced, up to a slash.
    let is_word = |c: &char| c.is_ascii_alphanumeric() || "-_.".contains(*c);
    let word: String = client_info.name.chars().filter(is_word).take(64).collect();
    let word = if word.is_empty() { "client" } else { &word };
    let unwanted = capabilities.and_then(|wants| wants.opt_out_notification_methods).unwrap_or_default();
    let client = Client { name: client_info.name, unwanted: unwanted.into_iter().collect() };
    tracing::info!(client = client.name, version = client_info.version, "a client of the app-server");
    // Only this task sets it, and has looked before.
    drop(connection.client.set(client));
    let config = &connection.server.config;
    Ok(json!({
        "userAgent": format!(
            "{word}/{} ({}; {}) openoxide/{}",
            config.codex_version, std::env::consts::OS, std::env::consts::ARCH, env!("CARGO_PKG_VERSION")
        ),
        "codexHome": openoxide_core::quote_path(&config.home),
        "platformFamily": std::env::consts::FAMILY,
        "platformOs": std::env::consts::OS,
    }))
}

impl Handler for Processor {
    fn handle(&mut self, message: Envelope, responders: &Responders) {
        match message {
            Envelope::Request { id, method, params } => {
                self.request(&method, params, Responder::new(id, responders.clone()));
            }
            Envelope::Response { id, outcome } => self.connection.answered(&id, &outcome),
            // There is one, `initialized`, which asks for nothing.
            Envelope::Notification { method, .. } => tracing::debug!(method, "a notification"),
            Envelope::Batch(_) => {
                responders.refuse(None, &RpcError::invalid_request("batches are not served; send each message alone"));
            }
        }
    }

    fn input_ended(&mut self) {
        self.connection.end();
    }
}

impl Drop for Processor {
    /// The client is gone, whichever way.
    fn drop(&mut self) {
        self.connection.end();
    }
}
