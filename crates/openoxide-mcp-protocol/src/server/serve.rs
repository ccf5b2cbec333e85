//! The loop of a tool server: reads requests, lets their calls run beside each other, and sends each answer once.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use serde_json::Value;

use super::McpHandler;
use super::context::{Call, Messages};
use super::dispatch::answer;
use crate::protocol::{Id, Request, Response};
use crate::transport::Transport;

/// Requests that are open at once. A client that sends more waits: no more is read until one is answered.
pub const MAX_OPEN: usize = 256;

/// Serves one client until its input ends and every open request is answered.
///
/// Requests are answered in the order in which they are done. Notifications are not answered, and neither is a call that its
/// client has cancelled.
///
/// # Errors
/// Where the transport can neither read nor write any more. Calls that are open then are dropped.
pub async fn serve<T: Transport, H: McpHandler>(mut transport: T, handler: &H) -> anyhow::Result<()> {
    let messages = Arc::new(Messages::default());
    let mut calls = FuturesUnordered::new();
    let mut open: Vec<Arc<Call>> = Vec::new();
    let mut has_ended = false;
    while !has_ended || !calls.is_empty() {
        let event = {
            let mut reading = pin!(transport.read_request());
            let may_read = !has_ended && calls.len() < MAX_OPEN;
            // Calls come first: they come from what was read, so that they cannot keep the reading waiting for good.
            poll_fn(|cx| {
                if let Poll::Ready(params) = messages.poll_take(cx) {
                    return Poll::Ready(Event::Progress(params));
                }
                if let Poll::Ready(Some(done)) = calls.poll_next_unpin(cx) {
                    return Poll::Ready(done);
                }
                if may_read { reading.as_mut().poll(cx).map(Event::Read) } else { Poll::Pending }
            })
            .await
        };
        match event {
            Event::Progress(params) => tell(&mut transport, &params).await?,
            Event::Done(call, response) => {
                while let Some(params) = messages.take() {
                    tell(&mut transport, &params).await?;
                }
                call.end();
                open.retain(|other| !Arc::ptr_eq(other, &call));
                if let Some(response) = response.filter(|_| !call.is_cancelled()) {
                    transport.write_response(&response).await?;
                }
            }
            Event::Read(request) => match request? {
                None => has_ended = true,
                Some(request) if request.id.is_none() && request.method == "notifications/cancelled" => {
                    cancel(&open, &request);
                }
                Some(request) => {
                    let call = Arc::new(Call::new(&request));
                    // The specification lets nobody cancel the handshake.
                    if request.method != "initialize" {
                        open.push(Arc::clone(&call));
                    }
                    let messages = Arc::clone(&messages);
                    calls.push(async move {
                        let response = answer(handler, request, &call, &messages).await;
                        Event::Done(call, response)
                    });
                }
            },
        }
    }
    transport.close().await
}

enum Event {
    /// A call has come further.
    Progress(Value),
    /// A call has ended, with its answer where it gets one.
    Done(Arc<Call>, Option<Response>),
    /// What came in.
    Read(anyhow::Result<Option<Request>>),
}

async fn tell(transport: &mut impl Transport, progress: &Value) -> anyhow::Result<()> {
    transport.write_notification("notifications/progress", progress).await
}

fn cancel(open: &[Arc<Call>], request: &Request) {
    let Ok(id) = serde_json::from_value::<Id>(request.params["requestId"].clone()) else { return };
    for call in open.iter().filter(|call| call.id.as_ref() == Some(&id)) {
        call.cancel();
    }
}
