//! Threads that are kept: read, listed, taken up again by another server, copied and put aside.
#![allow(clippy::unwrap_used, reason = "what cannot be unwrapped has failed the test")]

mod support;

use openoxide_core::Config;
use openoxide_test_support::{Say, ScriptedModel};
use serde_json::json;
use support::{Client, Shared};

async fn talk(client: &mut Client, text: &str) -> String {
    let thread = client.thread().await;
    client.turn(&thread, text).await;
    client.until("turn/completed").await;
    thread
}

#[tokio::test]
async fn a_thread_goes_on_in_another_server_and_knows_what_was_said() {
    let home = tempfile::tempdir().unwrap();
    let kept = |config: &mut Config| config.home = Some(home.path().to_owned());
    let first = Shared::with(ScriptedModel::new([Say::Text("hello")]), kept);
    let mut client = first.client().await;
    let thread = talk(&mut client, "hi").await;
    client.end().await;
    let second = Shared::with(ScriptedModel::new([Say::Text("again")]), |config| {
        kept(config);
        config.cwd = first.cwd.path().canonicalize().unwrap();
    });
    let mut client = second.client().await;
    let resumed = client.request("thread/resume", json!({ "threadId": thread })).await;
    let turns = resumed["thread"]["turns"].as_array().unwrap();
    assert_eq!((turns.len(), &turns[0]["items"][1]["text"]), (1, &json!("hello")));
    assert_eq!(resumed["thread"]["preview"], "hi");
    client.turn(&thread, "more").await;
    client.until("turn/completed").await;
    let read = client.request("thread/read", json!({ "threadId": thread, "includeTurns": true })).await;
    assert_eq!(read["thread"]["turns"].as_array().unwrap().len(), 2);
    // A change of what it runs with is refused, and the same again is not.
    let other = json!({ "threadId": thread, "sandbox": "read-only" });
    assert!(client.error("thread/resume", other).await.1.contains("does not change"));
    let same = json!({ "threadId": thread, "sandbox": "danger-full-access", "approvalPolicy": "untrusted" });
    client.request("thread/resume", same).await;
}

#[tokio::test]
async fn threads_elsewhere_than_allowed_are_neither_listed_nor_moved() {
    let (home, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let first = Shared::with(ScriptedModel::new([]), |config| config.home = Some(home.path().to_owned()));
    let mut client = first.client().await;
    let (one, two) = (talk(&mut client, "first").await, talk(&mut client, "second").await);
    client.request("thread/archive", json!({ "threadId": two })).await;
    client.end().await;
    let second = Shared::with(ScriptedModel::new([]), |config| {
        config.home = Some(home.path().to_owned());
        config.ceiling.limit_roots(&[other.path().to_owned()], "--allow-root").unwrap();
    });
    let mut client = second.client().await;
    for archived in [false, true] {
        assert_eq!(client.request("thread/list", json!({ "archived": archived })).await["data"], json!([]));
    }
    for (method, thread) in [
        ("thread/read", &one),
        ("thread/resume", &one),
        ("thread/fork", &one),
        ("thread/archive", &one),
        ("thread/unarchive", &two),
    ] {
        let (code, message) = client.error(method, json!({ "threadId": thread })).await;
        assert!(code == -32600 && message.contains("--allow-root"), "{method}: {message}");
    }
}

#[tokio::test]
async fn threads_are_listed_copied_put_aside_and_taken_back() {
    let home = tempfile::tempdir().unwrap();
    let shared = Shared::with(ScriptedModel::new([]), |config| config.home = Some(home.path().to_owned()));
    let mut client = shared.client().await;
    let (one, two) = (talk(&mut client, "first").await, talk(&mut client, "second").await);
    let ids = |list: &serde_json::Value| -> Vec<String> {
        list["data"].as_array().unwrap().iter().map(|thread| thread["id"].as_str().unwrap().to_owned()).collect()
    };
    let page = client.request("thread/list", json!({ "limit": 1 })).await;
    assert_eq!((ids(&page), &page["data"][0]["preview"]), (vec![two.clone()], &json!("second")));
    let next = client.request("thread/list", json!({ "limit": 1, "cursor": page["nextCursor"] })).await;
    assert_eq!(ids(&next), [one.as_str()]);
    assert!(client.error("thread/list", json!({ "cursor": "x" })).await.1.contains("cursor"));
    let forked = client.request("thread/fork", json!({ "threadId": one })).await;
    assert_eq!(forked["thread"]["forkedFromId"], one.as_str());
    assert_ne!(forked["thread"]["id"], one.as_str());
    client.request("thread/archive", json!({ "threadId": two })).await;
    assert!(!ids(&client.request("thread/list", json!({})).await).contains(&two));
    assert_eq!(ids(&client.request("thread/list", json!({ "archived": true })).await), [two.as_str()]);
    let refused =
        client.error("turn/start", json!({ "threadId": two, "input": [{ "type": "text", "text": "x" }] })).await;
    assert!(refused.1.contains("thread/unarchive"), "{refused:?}");
    let back = client.request("thread/unarchive", json!({ "threadId": two })).await;
    assert_eq!(back["thread"]["preview"], "second");
    client.turn(&two, "on").await;
    client.until("turn/completed").await;
}
