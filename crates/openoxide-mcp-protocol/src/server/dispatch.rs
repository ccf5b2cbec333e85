//! One request to its answer: which method it is, what it is given, and what an error or a panic becomes.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures_util::FutureExt;
use openoxide_rpc::RpcError;
use serde::Serialize;
use serde_json::{Value, json};

use super::context::{Call, Messages};
use super::{CallContext, Eras, McpHandler};
use crate::protocol::{ArgumentsError, Request, Response, ToolCallParams, ToolCallResult};
use crate::revision::complete_modern;
use crate::{Cacheable, Era, SUPPORTED_VERSIONS, code, meta_keys};

/// The code of a handler's failure: the first of those that JSON-RPC leaves to servers.
const HANDLER_FAILED: i32 = -32000;

/// What modern results of a server that may change its mind carry: fetch it anew each time, and for yourself.
const UNCACHED: Cacheable = Cacheable { ttl_ms: 0, cache_scope: "private" };

/// The answer to a request; none to a notification, whose method was called all the same.
pub(super) async fn answer<H: McpHandler>(
    handler: &H,
    request: Request,
    call: &Arc<Call>,
    messages: &Arc<Messages>,
) -> Option<Response> {
    let method = request.method.clone();
    // Nothing of ours is looked at again that a panic could have left half done; the handler's own is its author's.
    let routed = AssertUnwindSafe(async { route(handler, request, call, messages).await });
    let outcome = routed.catch_unwind().await.unwrap_or_else(|_| {
        Err(RpcError::internal(format!("the handler of {method} panicked; its standard error says where and why")))
    });
    let id = Some(call.id.clone()?);
    Some(match outcome {
        Ok(result) => Response::ok(id, result),
        Err(error) => Response { error: Some(error), result: None, ..Response::ok(id, Value::Null) },
    })
}

async fn route<H: McpHandler>(
    handler: &H,
    request: Request,
    call: &Arc<Call>,
    messages: &Arc<Messages>,
) -> Result<Value, RpcError> {
    let Request { method, params, .. } = request;
    let era = era_of(handler.eras(), &params)?;
    let failed = |error: anyhow::Error| failure(&method, &error);
    let mut result = match (method.as_str(), era) {
        ("initialize", Era::Legacy) => handler.initialize(params).await.map_err(failed)?,
        ("ping", Era::Legacy) => json!({}),
        ("server/discover", Era::Modern) => {
            cacheable(handler.info().add_to(json!({ "supportedVersions": SUPPORTED_VERSIONS })))
        }
        ("tools/list", Era::Legacy) => wire(&handler.tools_list().await.map_err(failed)?),
        ("tools/list", Era::Modern) => cacheable(wire(&handler.tools_list().await.map_err(failed)?)),
        ("tools/call", _) => {
            let params: ToolCallParams =
                serde_json::from_value(params).map_err(|error| failed(anyhow::Error::new(error)))?;
            let context = CallContext::new(Arc::clone(call), Arc::clone(messages));
            match handler.tools_call_with_context(params, context).await {
                Ok(result) => wire(&result),
                Err(error) => match error.downcast_ref::<ArgumentsError>() {
                    Some(wrong) => wire(&ToolCallResult::error(wrong.to_string())),
                    None => return Err(failed(error)),
                },
            }
        }
        (other, _) => {
            let error = RpcError::new(code::METHOD_NOT_FOUND, "Method not found");
            return Err(error.with_data(json!({ "method": other })));
        }
    };
    if era == Era::Modern {
        complete_modern(&mut result, handler.info().implementation());
    }
    Ok(result)
}

/// The message is fixed, so that a client can tell by it; the data has the reason, with all that led to it.
fn failure(method: &str, error: &anyhow::Error) -> RpcError {
    RpcError::new(HANDLER_FAILED, format!("{method} failed")).with_data(json!({ "error": format!("{error:#}") }))
}

/// A server of the legacy era alone looks at no `_meta`: a client that would speak the modern one learns from
/// `server/discover`, which is not there, to begin with `initialize`.
fn era_of(eras: Eras, params: &Value) -> Result<Era, RpcError> {
    match eras {
        Eras::Legacy => Ok(Era::Legacy),
        Eras::All => {
            let meta = &params["_meta"];
            let version = &meta[meta_keys::PROTOCOL_VERSION];
            if !version.is_null() && !version.is_string() {
                let message = format!("params._meta[\"{}\"] must be a string", meta_keys::PROTOCOL_VERSION);
                return Err(RpcError::invalid_params(message));
            }
            Era::named(version.as_str(), !meta[meta_keys::CLIENT_CAPABILITIES].is_null())
        }
    }
}

fn cacheable(mut result: Value) -> Value {
    if let (Some(fields), Value::Object(cache)) = (result.as_object_mut(), wire(&UNCACHED)) {
        fields.extend(cache);
    }
    result
}

fn wire<T: Serialize>(value: &T) -> Value {
    // These types hold string keys and JSON alone, which always serialize.
    serde_json::to_value(value).expect("wire types serialize")
}
