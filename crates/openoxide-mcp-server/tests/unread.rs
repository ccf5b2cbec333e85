//! A client that asks and never reads: what it costs has a bound, and in the end its connection counts as lost.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "what cannot be unwrapped has failed the test")]

mod support;

use std::sync::Arc;

use openoxide_test_support::{Say, ScriptedModel};
use serde_json::{Value, json};
use support::{PATIENCE, Server, call, legacy, start_patient};
use tokio::sync::Notify;

/// Bytes of the answer that is asked for again and again.
const ANSWER: usize = 1 << 20;
/// What a client may cost, with room for what a test process needs besides.
const MOST: u64 = 160 << 20;

/// The most memory that this process has used, in bytes. One test in this program, so that no other counts.
fn peak() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().strip_suffix(" kB").unwrap().trim().parse::<u64>().unwrap() * 1024
}

/// Sends all of these, as far as they are taken, and reads nothing until the server gives up.
async fn expect_given_up(mut server: Server, what: &str, requests: Vec<Value>) {
    let before = peak();
    let mut text = String::new();
    requests.iter().for_each(|request| text += &format!("{request}\n"));
    let task = server.task;
    let ended = tokio::time::timeout(PATIENCE, async {
        tokio::select! {
            ended = task => ended.unwrap(),
            () = async {
                // Blocks once nothing is taken any more; an error would be the end, which the other branch sees.
                server.client.try_send_raw(text.as_bytes()).await;
                std::future::pending::<()>().await;
            } => {}
        }
    });
    ended.await.unwrap_or_else(|_| panic!("{what}: the connection is not given up"));
    let cost = peak() - before;
    assert!(cost < MOST, "{what}: {} MB", cost >> 20);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_never_reads_costs_a_bound_and_counts_as_lost() {
    let long: &'static str = Box::leak("x".repeat(ANSWER).into_boxed_str());
    let request = |id: usize, method: &str, params: Value| json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });

    let mut server = legacy(ScriptedModel::new([Say::Text(long)]), json!({})).await;
    let first = server.client.ask(1, "tools/call", call("openoxide", json!({ "prompt": "p" }))).await;
    let arguments = json!({ "thread_id": first.output()["threadId"] });
    let replies = (2..2000).map(|id| request(id, "tools/call", call("openoxide-reply", arguments.clone())));
    expect_given_up(server, "last results", replies.collect()).await;

    let server = legacy(ScriptedModel::new([]), json!({})).await;
    let page = json!({ "uri": "ui://openoxide/review" });
    expect_given_up(server, "pages", (2..20_000).map(|id| request(id, "resources/read", page.clone())).collect()).await;

    let server = legacy(ScriptedModel::new([]), json!({})).await;
    expect_given_up(server, "lists", (2..50_000).map(|id| request(id, "tools/list", json!({}))).collect()).await;

    // The end of its input is seen all the same.
    let mut server = start_patient(ScriptedModel::new([Say::Text(long)])).await;
    server.client.initialize("2025-06-18", json!({})).await;
    let first = server.client.ask(1, "tools/call", call("openoxide", json!({ "prompt": "p" }))).await;
    let arguments = json!({ "thread_id": first.output()["threadId"] });
    for id in 2..60 {
        server.client.request(id, "tools/call", call("openoxide-reply", arguments.clone())).await;
    }
    server.client.close().await;
    let ended = tokio::time::timeout(PATIENCE, server.task).await;
    ended.expect("a client that has ended its input and reads nothing is given up").unwrap();

    // A turn that runs meanwhile ends with the connection.
    let never = Arc::new(Notify::new());
    let mut server = legacy(ScriptedModel::new([Say::Text(long), Say::Wait(never, "unreached")]), json!({})).await;
    let first = server.client.ask(1, "tools/call", call("openoxide", json!({ "prompt": "p" }))).await;
    let thread = first.output()["threadId"].clone();
    let query = json!({ "query": "q" });
    let mut requests = vec![request(2, "tools/call", call("openoxide-query", query))];
    let arguments = json!({ "thread_id": thread });
    requests.extend((3..200).map(|id| request(id, "tools/call", call("openoxide-reply", arguments.clone()))));
    expect_given_up(server, "with a turn", requests).await;
}
