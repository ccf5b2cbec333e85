//! Files that a client has open: to read blocks of, or to write by blocks and put in place at once.

use std::collections::HashMap;
use std::os::unix::fs::FileExt as _;
use std::sync::{Arc, Mutex};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use openoxide_rpc::{RpcError, lock};
use openoxide_sandbox::OpenedFile;

use super::error::{not_found, of_answer, of_io, refused};
use super::files::{changing, open_file, reading};
use super::methods::Call;
use super::path::Given;
use super::process_methods::decode;
use super::worker::Worker;
use crate::protocol::{Done, Handle, OpenMode, OpenParams, ReadBlockParams, ReadBlockResult, WriteBlockParams};
use crate::relay::Order;

/// Handles of a session at the same time.
const MOST: usize = 128;
/// Bytes of one block that is read.
const MOST_BLOCK: u64 = 4 << 20;

/// The handles of a session.
#[derive(Default)]
pub(super) struct Handles {
    open: Mutex<Open>,
}

#[derive(Default)]
struct Open {
    is_ended: bool,
    handles: HashMap<String, Arc<Opened>>,
}

/// What is behind a handle.
enum Opened {
    /// It is being opened.
    Opening,
    Reading {
        file: OpenedFile,
        shown: String,
    },
    Writing {
        /// One block after the other; none when it was put in place.
        worker: tokio::sync::Mutex<Option<Worker>>,
        shown: String,
    },
}

impl Handles {
    /// Lets go of all; what was not put in place goes.
    pub(super) fn end(&self) {
        let mut open = lock(&self.open);
        open.is_ended = true;
        open.handles.clear();
    }

    fn reserve(&self, id: &str) -> Result<(), RpcError> {
        let mut open = lock(&self.open);
        if open.handles.contains_key(id) {
            return Err(refused(format!("handle {id:?} is open already; choose another")));
        }
        if open.is_ended || open.handles.len() >= MOST {
            return Err(refused(format!("{MOST} handles are open; close some first")));
        }
        open.handles.insert(id.to_owned(), Arc::new(Opened::Opening));
        Ok(())
    }

    fn put(&self, id: &str, opened: Opened) {
        let mut open = lock(&self.open);
        if !open.is_ended {
            open.handles.insert(id.to_owned(), Arc::new(opened));
        }
    }

    fn get(&self, id: &str) -> Result<Arc<Opened>, RpcError> {
        lock(&self.open).handles.get(id).cloned().ok_or_else(|| not_found(format!("unknown file handle {id}")))
    }

    fn remove(&self, id: &str) -> Option<Arc<Opened>> {
        lock(&self.open).handles.remove(id)
    }
}

pub(super) async fn open(call: Call, params: OpenParams) -> Result<Handle, RpcError> {
    let given = Given::parse("path", &params.path)?;
    let handles = &call.session.handles;
    handles.reserve(&params.handle_id)?;
    let shown = given.shown();
    let opened = match params.mode {
        OpenMode::Read => reading(&call, params.sandbox, move |view| open_file(view, &given))
            .await
            .map(|file| Opened::Reading { file, shown }),
        OpenMode::Replace => begin(&call, &given, params.sandbox.as_ref()).await.map(|worker| {
            let worker = tokio::sync::Mutex::new(Some(worker));
            Opened::Writing { worker, shown }
        }),
    };
    match opened {
        Ok(opened) => handles.put(&params.handle_id, opened),
        Err(error) => {
            handles.remove(&params.handle_id);
            return Err(error);
        }
    }
    Ok(Handle { handle_id: params.handle_id })
}

async fn begin(call: &Call, given: &Given, sandbox: Option<&serde_json::Value>) -> Result<Worker, RpcError> {
    let authority = &call.shared.authority;
    let reach = changing(authority, given, sandbox)?;
    let mut worker = Worker::start(authority, &reach).await?;
    let answer = worker.obey(&Order::Begin { path: given.path.clone() }).await?;
    of_answer(&given.shown(), answer).map(|()| worker)
}

pub(super) async fn read_block(call: Call, params: ReadBlockParams) -> Result<ReadBlockResult, RpcError> {
    let opened = call.session.handles.get(&params.handle_id)?;
    if !matches!(*opened, Opened::Reading { .. }) {
        return Err(refused(format!("handle {} is not open for reading", params.handle_id)));
    }
    let room = call.out.room_to_answer().await;
    let read = tokio::task::spawn_blocking(move || {
        let Opened::Reading { file, shown } = &*opened else { return Ok(Vec::new()) };
        let length = usize::try_from(params.len.min(MOST_BLOCK)).unwrap_or(0);
        let mut bytes = vec![0; length];
        let mut read = 0;
        while read < length {
            match file.file().read_at(&mut bytes[read..], params.offset.saturating_add(read as u64)) {
                Ok(0) => break,
                Ok(more) => read += more,
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(error) => return Err(of_io(shown, &error)),
            }
        }
        bytes.truncate(read);
        Ok(bytes)
    });
    let bytes = read.await.map_err(|error| RpcError::internal(error.to_string()))??;
    drop(room);
    let eof = (bytes.len() as u64) < params.len.min(MOST_BLOCK);
    Ok(ReadBlockResult { chunk: STANDARD.encode(bytes), eof })
}

pub(super) async fn write_block(call: Call, params: WriteBlockParams) -> Result<Done, RpcError> {
    decode("chunk", &params.chunk)?;
    let opened = call.session.handles.get(&params.handle_id)?;
    let Opened::Writing { worker, shown } = &*opened else {
        return Err(refused(format!("handle {} is not open for writing", params.handle_id)));
    };
    let mut worker = worker.lock().await;
    let worker = worker.as_mut().ok_or_else(|| not_found(format!("unknown file handle {}", params.handle_id)))?;
    let answer = worker.obey(&Order::Block { offset: params.offset, data: params.chunk }).await?;
    of_answer(shown, answer).map(|()| Done {})
}

/// Puts in place what was written. A handle that is not open is none to close.
pub(super) async fn close(call: Call, params: Handle) -> Result<Done, RpcError> {
    let Some(opened) = call.session.handles.remove(&params.handle_id) else { return Ok(Done {}) };
    if let Opened::Writing { worker, shown } = &*opened
        && let Some(mut worker) = worker.lock().await.take()
    {
        let answer = worker.obey(&Order::Commit).await?;
        of_answer(shown, answer)?;
    }
    Ok(Done {})
}
