//! How requests come and answers go: [`StdioTransport`] for a program that a host starts, [`LineTransport`] for any other
//! pair of byte streams, and the trait for all else.

use std::time::Duration;

use openoxide_rpc::{AsyncRead, AsyncWrite, Connection, Envelope, Header, RequestId, RpcError, code, stdio};
use serde_json::Value;
use serde_json::value::RawValue;

use crate::protocol::{Request, Response};

/// How long a client may take nothing while 8 MiB of answers wait for it.
const PATIENCE: Duration = Duration::from_secs(60);

/// Moves the messages of one client. For WebSocket or HTTP, implement this and keep [`crate::server::serve`].
///
/// An implementation may write the methods as `async fn`.
pub trait Transport: Send {
    /// The next request or notification; `None` at the end of input.
    ///
    /// Has to be cancel-safe: the future is dropped whenever an answer is ready first, and what was read by then must be
    /// there for the next call. `next` of a stream and `recv` of a channel are; `read_line` is not.
    ///
    /// # Errors
    /// Where nothing can be read or answered any more. A message that is none is answered here and is no error.
    fn read_request(&mut self) -> impl Future<Output = anyhow::Result<Option<Request>>> + Send;

    /// Sends an answer, whole and at once.
    ///
    /// # Errors
    /// Where the client is gone.
    fn write_response(&mut self, response: &Response) -> impl Future<Output = anyhow::Result<()>> + Send;

    /// Sends a notification of ours, which is progress of a call. By default it is dropped, as it may be.
    ///
    /// # Errors
    /// Where the client is gone.
    fn write_notification(&mut self, method: &str, params: &Value) -> impl Future<Output = anyhow::Result<()>> + Send {
        let _ = (method, params);
        std::future::ready(Ok(()))
    }

    /// Waits until all is sent. Called once, behind the last answer.
    ///
    /// # Errors
    /// Where the client is gone.
    fn close(&mut self) -> impl Future<Output = anyhow::Result<()>> + Send {
        std::future::ready(Ok(()))
    }
}

/// One message a line over a pair of byte streams: a socket, the pipes of a child, a duplex in memory.
///
/// A line that is no message is answered with an error and never fatal. Blank lines are skipped. Lines are bounded (16
/// MiB), and so is what waits to be written: a client that does not read is not served until it does.
pub struct LineTransport(Connection);

impl LineTransport {
    /// Begins to read and to write.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub fn new<R, W>(reader: R, writer: W) -> Self
    where
        R: AsyncRead + Unpin + Send + 'static,
        W: AsyncWrite + Unpin + Send + 'static,
    {
        Self(Connection::open(reader, writer, Header::Present, PATIENCE))
    }

    fn refuse(&self, id: Option<&RequestId>, error: &RpcError) {
        self.0.responders().refuse(id, error);
    }

    fn still_open(&self) -> anyhow::Result<()> {
        if self.0.out().is_closed() { Err(anyhow::anyhow!("the output takes no more")) } else { Ok(()) }
    }
}

impl Transport for LineTransport {
    async fn read_request(&mut self) -> anyhow::Result<Option<Request>> {
        loop {
            // The only await, and cancel-safe.
            let Some(message) = self.0.next().await? else { return Ok(None) };
            match message {
                Envelope::Request { id, method, params } => match to_value(params) {
                    Ok(params) => return Ok(Some(Request::new(id, method, params))),
                    Err(error) => self.refuse(Some(&id), &error),
                },
                Envelope::Notification { method, params } => {
                    // A notification is not answered, whatever it holds.
                    if let Ok(params) = to_value(params) {
                        return Ok(Some(Request::notification(method, params)));
                    }
                }
                Envelope::Batch(_) => {
                    let message = "batches are not served; send each message on a line of its own";
                    self.refuse(None, &RpcError::invalid_request(message));
                }
                // Nothing is ever asked of the client.
                Envelope::Response { .. } => {}
            }
        }
    }

    async fn write_response(&mut self, response: &Response) -> anyhow::Result<()> {
        self.still_open()?;
        let out = self.0.out();
        out.answer(out.header().response(response.id.as_ref(), response.outcome()), None);
        Ok(())
    }

    async fn write_notification(&mut self, method: &str, params: &Value) -> anyhow::Result<()> {
        self.still_open()?;
        // The next progress says more than this one, so that it may be dropped where there is no room.
        let out = self.0.out();
        out.offer(out.header().notification(method, params));
        Ok(())
    }

    async fn close(&mut self) -> anyhow::Result<()> {
        self.0.close().await;
        Ok(())
    }
}

/// What JSON allows and no number of ours holds, such as 1e999, is refused.
fn to_value(params: Option<Box<RawValue>>) -> Result<Value, RpcError> {
    let text = params.as_deref().map_or("null", RawValue::get);
    serde_json::from_str(text)
        .map_err(|error| RpcError::new(code::INVALID_REQUEST, format!("params cannot be read: {error}")))
}

/// One message a line over standard input and output. Both belong to the protocol alone: log to standard error.
#[derive(Default)]
pub struct StdioTransport(Option<LineTransport>);

impl StdioTransport {
    /// Takes the standard streams with the first message, so that it may be made before a runtime is.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    fn lines(&mut self) -> &mut LineTransport {
        self.0.get_or_insert_with(|| LineTransport::new(stdio::input(), stdio::output()))
    }
}

impl Transport for StdioTransport {
    async fn read_request(&mut self) -> anyhow::Result<Option<Request>> {
        self.lines().read_request().await
    }

    async fn write_response(&mut self, response: &Response) -> anyhow::Result<()> {
        self.lines().write_response(response).await
    }

    async fn write_notification(&mut self, method: &str, params: &Value) -> anyhow::Result<()> {
        self.lines().write_notification(method, params).await
    }

    async fn close(&mut self) -> anyhow::Result<()> {
        self.lines().close().await
    }
}
