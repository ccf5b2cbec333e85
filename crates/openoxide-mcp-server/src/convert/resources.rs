//! Threads as resources: `openoxide://threads` lists them, `openoxide://threads/{id}` is what was said and done on one, and
//! `openoxide://threads/{id}/diff` what its turns changed. They are read from the disk, so none of it is for the processor's
//! own task.

use openoxide_core::{
    CoreError, ErrorKind, PageCursor, ThreadChange, ThreadId, ThreadManager, ThreadSummary, quote_path,
};
use openoxide_mcp_protocol::apps::{REVIEW_URI, review_resource};
use openoxide_mcp_protocol::{WireError, code};
use serde_json::{Value, json};

use crate::principal::Principal;

/// Threads on one page of the list.
const PAGE: usize = 100;
/// The page that shows a turn in hosts with MCP Apps; `tests/apps/run` tests it in a browser.
const REVIEW: &str = include_str!("review/page.html");

const ALL: &str = "openoxide://threads";
const BELOW: &str = "openoxide://threads/";
const TEXT: &str = "text/plain";
const DIFF: &str = "text/x-diff";
const JSON: &str = "application/json";

/// Whether a URI may name a resource of ours.
pub(crate) fn exists(uri: &str) -> bool {
    uri == ALL || named(uri).is_some()
}

/// The resources that a change of a thread touches; none where that may be any.
pub(crate) fn touched_by(change: &ThreadChange) -> Option<[String; 3]> {
    let id = change.id?;
    Some([ALL.to_owned(), format!("{BELOW}{id}"), format!("{BELOW}{id}/diff")])
}

/// The templates, which never change.
pub(crate) fn templates() -> Value {
    json!([
        {
            "uriTemplate": format!("{BELOW}{{id}}"),
            "name": "thread",
            "title": "A thread",
            "description": "What was said and done on a thread: messages, commands with their output, approvals",
            "mimeType": TEXT,
        },
        {
            "uriTemplate": format!("{BELOW}{{id}}/diff"),
            "name": "thread-diff",
            "title": "The changes of a thread",
            "description": "What the patches of a thread's turns changed, one turn after the other",
            "mimeType": DIFF,
        },
    ])
}

/// A page of the list from `cursor` on. Blocks on the disk.
///
/// # Errors
/// -32602 where the cursor is none of ours, -32603 where the threads cannot be listed.
pub(crate) fn list(manager: &ThreadManager, principal: &Principal, cursor: Option<&str>) -> Result<Value, WireError> {
    let from: Option<PageCursor> = match cursor {
        None => None,
        Some(text) => Some(text.parse().map_err(|()| {
            WireError::invalid_params(format!("unknown cursor {text:?}; use the nextCursor of an earlier page"))
        })?),
    };
    let (threads, next) = manager.page(from, PAGE, theirs(principal)).map_err(|error| internal(&error))?;
    let mut resources = Vec::new();
    if from.is_none() {
        resources.push(json!({
            "uri": ALL,
            "name": "threads",
            "title": "All threads",
            "description": "The threads that are kept, the one used last first",
            "mimeType": JSON,
        }));
    }
    resources.extend(threads.iter().map(|thread| {
        let title = if thread.prompt.is_empty() { "(no prompt yet)" } else { &thread.prompt };
        json!({
            "uri": format!("{BELOW}{}", thread.id),
            "name": thread.id.to_string(),
            "title": title,
            "description": format!("A thread in {}", quote_path(&thread.cwd)),
            "mimeType": TEXT,
        })
    }));
    let mut result = json!({ "resources": resources });
    if let Some(next) = next {
        result["nextCursor"] = json!(next.to_string());
    }
    Ok(result)
}

/// What a resource holds. Blocks on the disk.
///
/// # Errors
/// The era's own where there is no such resource, or none that `principal` may see.
pub(crate) fn read(
    manager: &ThreadManager,
    principal: &Principal,
    uri: &str,
    modern: bool,
) -> Result<Value, WireError> {
    if uri == REVIEW_URI {
        return Ok(review_resource(REVIEW));
    }
    let (text, kind) = if uri == ALL {
        (all(manager, principal)?, JSON)
    } else {
        let (id, is_diff) = named(uri).ok_or_else(|| not_found(uri, modern, "no such resource"))?;
        let refused = |error: CoreError| match error.kind() {
            ErrorKind::Input | ErrorKind::Denied => not_found(uri, modern, &error.to_string()),
            ErrorKind::Unavailable | ErrorKind::Internal => internal(&error),
        };
        // Who may not see it is told what is said of one that does not exist, before anything else is found out.
        if !principal.may_use(manager.owner_of(id).map_err(refused)?.as_deref()) {
            return Err(refused(CoreError::ThreadNotFound { id }));
        }
        let transcript = manager.transcript(id).map_err(refused)?;
        if is_diff { (transcript.diffs(), DIFF) } else { (transcript.text(), TEXT) }
    };
    Ok(json!({ "contents": [{ "uri": uri, "mimeType": kind, "text": text }] }))
}

/// Which threads somebody sees.
fn theirs(principal: &Principal) -> impl Fn(&ThreadSummary) -> bool {
    |thread| principal.may_use(thread.owner.as_deref())
}

/// The list as a document.
fn all(manager: &ThreadManager, principal: &Principal) -> Result<String, WireError> {
    let threads = manager.summaries(PAGE, theirs(principal)).map_err(|error| internal(&error))?;
    let list: Vec<Value> = threads
        .iter()
        .map(|thread| {
            let mut one = json!({
                "threadId": thread.id.to_string(), "cwd": quote_path(&thread.cwd), "prompt": thread.prompt, "bytes": thread.bytes,
            });
            if let Some(owner) = &thread.owner {
                one["owner"] = json!(owner);
            }
            one
        })
        .collect();
    Ok(json!({ "threads": list }).to_string())
}

/// The thread that a URI names, and whether its changes are meant.
fn named(uri: &str) -> Option<(ThreadId, bool)> {
    let rest = uri.strip_prefix(BELOW)?;
    let (id, is_diff) = rest.strip_suffix("/diff").map_or((rest, false), |id| (id, true));
    Some((id.parse().ok()?, is_diff))
}

/// The error for a resource that does not exist, in the words of its era.
pub(crate) fn not_found(uri: &str, modern: bool, why: &str) -> WireError {
    WireError {
        code: if modern { code::INVALID_PARAMS } else { code::RESOURCE_NOT_FOUND },
        message: format!("resource {uri:?} not found: {why}; resources/list has those there are"),
        data: Some(Box::new(json!({ "uri": uri }))),
    }
}

fn internal(error: &CoreError) -> WireError {
    WireError { code: code::INTERNAL_ERROR, message: error.to_string(), data: None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uris_name_a_thread_or_its_changes() {
        let id = "01a1fc7a-8d1f-75f7-89b7-18c906dd0c5b";
        assert!(matches!(named(&format!("openoxide://threads/{id}")), Some((found, false)) if found.to_string() == id));
        assert!(matches!(named(&format!("openoxide://threads/{id}/diff")), Some((_, true))));
        for other in ["openoxide://threads/", "openoxide://threads/x", "file:///etc/passwd", "openoxide://threads/../x"]
        {
            assert!(named(other).is_none(), "{other}");
        }
    }
}
