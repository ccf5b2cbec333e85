//! The one table of methods, and how an entry is served: parameters are parsed here, once.

use std::pin::Pin;
use std::sync::Arc;

use openoxide_rpc::{Outgoing, RpcError};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::value::{RawValue, to_raw_value};
use tokio::sync::watch;

use super::Shared;
use super::error::refused;
use super::session::Session;
use super::{files, handles, process_methods as process};
use crate::protocol::{Done, EnvironmentInfo, EnvironmentStatus};

/// What a method is given beside its parameters.
pub(super) struct Call {
    pub(super) shared: Arc<Shared>,
    pub(super) session: Arc<Session>,
    pub(super) out: Arc<Outgoing>,
    /// Whether the client is gone.
    pub(super) is_ended: watch::Receiver<bool>,
}

/// A request that is being served.
pub(super) type Serving = Pin<Box<dyn Future<Output = Result<Box<RawValue>, RpcError>> + Send>>;

type Params = Option<Box<RawValue>>;
type Serve = fn(Call, Params) -> Serving;

/// Every method but `initialize`, which begins a session. What a method does before its first wait is done in the order of
/// the requests.
const METHODS: &[(&str, Serve)] = &[
    ("environment/info", |call, params| serve(call, params, environment_info)),
    ("environment/status", |call, params| serve(call, params, environment_status)),
    ("process/start", |call, params| serve(call, params, process::start)),
    ("process/read", |call, params| serve(call, params, process::read)),
    ("process/write", |call, params| serve(call, params, process::write)),
    ("process/signal", |call, params| serve(call, params, process::signal)),
    ("process/terminate", |call, params| serve(call, params, process::terminate)),
    ("fs/readFile", |call, params| serve(call, params, files::read_file)),
    ("fs/writeFile", |call, params| serve(call, params, files::write_file)),
    ("fs/createDirectory", |call, params| serve(call, params, files::create_directory)),
    ("fs/getMetadata", |call, params| serve(call, params, files::get_metadata)),
    ("fs/canonicalize", |call, params| serve(call, params, files::canonicalize)),
    ("fs/readDirectory", |call, params| serve(call, params, files::read_directory)),
    ("fs/walk", |call, params| serve(call, params, files::walk)),
    ("fs/remove", |call, params| serve(call, params, files::remove)),
    ("fs/copy", |call, params| serve(call, params, files::copy)),
    ("fs/open", |call, params| serve(call, params, handles::open)),
    ("fs/readBlock", |call, params| serve(call, params, handles::read_block)),
    ("fs/writeBlock", |call, params| serve(call, params, handles::write_block)),
    ("fs/close", |call, params| serve(call, params, handles::close)),
    ("http/request", |call, params| serve(call, params, http_request)),
];

/// How a method is served.
pub(super) fn find(method: &str) -> Option<Serve> {
    METHODS.iter().find(|(name, _)| *name == method).map(|(_, serve)| *serve)
}

/// Parameters as a type.
///
/// # Errors
/// -32602 that says what is wrong.
pub(super) fn parse<P: DeserializeOwned>(params: Params) -> Result<P, RpcError> {
    let text = params.as_ref().map_or("{}", |params| params.get());
    serde_json::from_str(text).map_err(|error| RpcError::invalid_params(format!("params: {error}")))
}

fn serve<P, R, F>(call: Call, params: Params, method: impl FnOnce(Call, P) -> F) -> Serving
where
    P: DeserializeOwned,
    R: Serialize,
    F: Future<Output = Result<R, RpcError>> + Send + 'static,
{
    let serving = match parse(params) {
        Ok(params) => method(call, params),
        Err(error) => return Box::pin(std::future::ready(Err(error))),
    };
    Box::pin(async move {
        let result = serving.await?;
        to_raw_value(&result).map_err(|error| RpcError::internal(error.to_string()))
    })
}

async fn environment_info(call: Call, _: Done) -> Result<EnvironmentInfo, RpcError> {
    Ok(call.shared.environment.clone())
}

async fn environment_status(_: Call, _: Done) -> Result<EnvironmentStatus, RpcError> {
    Ok(EnvironmentStatus { status: "ready".to_owned() })
}

/// Whoever reaches this machine's own network through it could reach what only this machine may.
async fn http_request(_: Call, _: serde_json::Value) -> Result<Done, RpcError> {
    Err(refused(
        "http/request is off: it would reach whatever this machine reaches, its own services and its network included; \
         send the request from the client",
    ))
}
