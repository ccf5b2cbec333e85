//! A worker in the sandbox that changes files for one operation, or for one handle that is written.

use std::collections::BTreeMap;

use openoxide_rpc::RpcError;

use super::link::{RelayReader, RelaySpec, RelayWriter, start_relay};
use super::policy::{Authority, Reach};
use crate::relay::frames::{FromRelay, ToRelay};
use crate::relay::{Answer, Order, role};

/// A worker. Dropped, it ends and takes away what it has not put in place.
pub(super) struct Worker {
    reader: RelayReader,
    writer: RelayWriter,
}

impl Worker {
    /// # Errors
    /// It cannot be started under this policy.
    pub(super) async fn start(authority: &Authority, reach: &Reach) -> Result<Self, RpcError> {
        let cwd = reach.policy.workspace.clone();
        let spec = RelaySpec { reach, authority, role: role::FILES, arguments: Vec::new(), cwd, env: BTreeMap::new() };
        let (mut reader, writer) = start_relay(spec).await?;
        match reader.next().await {
            Some(FromRelay::Ready) => Ok(Self { reader, writer }),
            _ => Err(RpcError::internal("the worker for files ended before it began")),
        }
    }

    /// Has it do one thing.
    ///
    /// # Errors
    /// It is gone.
    pub(super) async fn obey(&mut self, order: &Order) -> Result<Answer, RpcError> {
        let gone = |_| RpcError::internal("the worker for files is gone; nothing was put in place");
        let json = serde_json::to_string(order).map_err(|error| RpcError::internal(error.to_string()))?;
        self.writer.send(&ToRelay::Order(json)).await.map_err(gone)?;
        while let Some(frame) = self.reader.next().await {
            if let FromRelay::Answer(json) = frame {
                return serde_json::from_str(&json).map_err(|error| RpcError::internal(error.to_string()));
            }
        }
        Err(gone(std::io::ErrorKind::BrokenPipe.into()))
    }
}
