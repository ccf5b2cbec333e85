//! Where connections come from: the standard streams, or a WebSocket listener.

use std::io;
use std::net::SocketAddr;

use openoxide_rpc::listeners::{Caller, GuardConfig, ListenConfig, serve_websockets};
use openoxide_rpc::{AsyncRead, AsyncWrite, Header, Transport};
use tokio::net::TcpListener;

use super::ExecServer;
use crate::ExecServerListenUrlParseError;

/// Where a server listens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ListenUrl {
    /// On the standard streams, one message a line.
    Stdio,
    /// By WebSocket, one message a text frame.
    WebSocket(SocketAddr),
}

impl std::str::FromStr for ListenUrl {
    type Err = ExecServerListenUrlParseError;

    fn from_str(given: &str) -> Result<Self, Self::Err> {
        if given == "stdio" || given == "stdio://" {
            return Ok(Self::Stdio);
        }
        let rest =
            given.strip_prefix("ws://").map(|rest| rest.trim_end_matches('/').replace("localhost:", "127.0.0.1:"));
        let address = rest.and_then(|rest| rest.parse().ok());
        address.map(Self::WebSocket).ok_or_else(|| ExecServerListenUrlParseError { given: given.to_owned() })
    }
}

impl ExecServer {
    /// Serves one client on a pair of byte streams until its input ends.
    pub async fn serve_streams<R, W>(&self, reader: R, writer: W)
    where
        R: AsyncRead + Unpin + Send + 'static,
        W: AsyncWrite + Unpin + Send + 'static,
    {
        let transport: Box<dyn Transport> = openoxide_rpc::Streams::new(reader, writer);
        self.serve(Caller::Local, transport).await;
    }

    /// Serves whoever the guard lets in, until `stop` is ready.
    ///
    /// # Errors
    /// The address can be reached by others and there is no token.
    pub async fn serve_listener(
        &self,
        listener: TcpListener,
        guard: GuardConfig,
        stop: impl Future<Output = ()>,
    ) -> io::Result<()> {
        let config = ListenConfig { header: Header::Absent, guard, ..ListenConfig::default() };
        let server = self.clone();
        let serve = move |caller, transport| {
            let server = server.clone();
            async move { server.serve(caller, transport).await }
        };
        serve_websockets(listener, config, serve, stop).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_a_websocket_or_the_standard_streams() {
        for stdio in ["stdio", "stdio://"] {
            assert_eq!(stdio.parse(), Ok(ListenUrl::Stdio));
        }
        for (given, address) in [
            (crate::DEFAULT_LISTEN_URL, "127.0.0.1:0"),
            ("ws://localhost:80/", "127.0.0.1:80"),
            ("ws://[::1]:9", "[::1]:9"),
        ] {
            assert_eq!(given.parse(), Ok(ListenUrl::WebSocket(address.parse().unwrap())), "{given}");
        }
        for wrong in ["", "wss://127.0.0.1:1", "http://127.0.0.1:1", "ws://example.com:80", "ws://127.0.0.1", "8080"] {
            let error = wrong.parse::<ListenUrl>().unwrap_err().to_string();
            assert!(error.contains("ws://IP:PORT") && error.contains(&format!("{wrong:?}")), "{error}");
        }
    }
}
