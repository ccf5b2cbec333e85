//! A WebSocket from its opening to its end: messages, what may not come, clients that do not read, and the stop.

use std::time::Duration;

use futures_util::{SinkExt as _, StreamExt as _};
use openoxide_rpc::lines::MAX_LINE;
use openoxide_rpc::listeners::ListenConfig;
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::Message;

use crate::support::{
    Client, Event, ask, close_code, config, connect, connect_at, next, request, websocket_server, websocket_server_at,
    within,
};

/// The head of a masked frame from a client, with a mask of zeros: the payload follows as it is.
fn frame_head(first: u8, length: u64) -> Vec<u8> {
    let mut head = vec![first, 0x80 | 127];
    head.extend(length.to_be_bytes());
    head.extend([0; 4]);
    head
}

const TEXT: u8 = 0x81;

async fn write_raw(client: &mut Client<TcpStream>, bytes: &[u8]) {
    client.get_mut().write_all(bytes).await.unwrap();
}

#[tokio::test]
async fn each_text_message_is_one_envelope() {
    let (_server, address) = websocket_server(config()).await;
    let mut client = connect(address).await;
    assert_eq!(ask(&mut client, 1, "echo", json!({ "a": "\n" })).await, json!({ "id": 1, "result": { "a": "\n" } }));
    client.send(Message::text("{\n \"id\": 2,\n \"method\": \"echo\"\n}")).await.unwrap();
    assert_eq!(next(&mut client).await, json!({ "id": 2, "result": null }), "line breaks end no message");
    client.send(Message::text("nonsense")).await.unwrap();
    assert_eq!(next(&mut client).await["error"]["code"], -32700);
    let two = format!("{}\n{}", request(3, "echo", &json!(1)), request(4, "echo", &json!(2)));
    client.send(Message::text(two)).await.unwrap();
    assert_eq!(next(&mut client).await["error"]["code"], -32700, "two are no message");
    client.send(Message::text(request(5, "what", &json!([])))).await.unwrap();
    assert_eq!(next(&mut client).await["error"]["code"], -32601, "and it goes on");
}

#[tokio::test]
async fn the_same_is_served_over_a_unix_socket() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("s");
    let mut server = websocket_server_at(&path, config()).await;
    let mut client = connect_at(&path).await;
    assert_eq!(ask(&mut client, 1, "big", json!([300_000])).await["result"].as_str().unwrap().len(), 300_000);
    client.close(None).await.unwrap();
    server.until(&Event::Closed).await;
}

#[tokio::test]
async fn a_message_of_the_longest_line_passes_and_a_longer_one_closes_only_its_connection() {
    let (mut server, address) = websocket_server(config()).await;
    let (mut client, mut other) = (connect(address).await, connect(address).await);
    let around = request(1, "echo", &json!("")).len();
    let answer = ask(&mut client, 1, "echo", json!("x".repeat(MAX_LINE - around))).await;
    assert_eq!(answer["result"].as_str().unwrap().len(), MAX_LINE - around);
    // More than is announced is never read as a message, and all of it is sent before the reason is read.
    let too_long = request(2, "echo", &json!("x".repeat(MAX_LINE + 1)));
    client.send(Message::text(too_long)).await.unwrap();
    assert_eq!(close_code(&mut client).await, 1009);
    server.until(&Event::Closed).await;
    assert_eq!(ask(&mut other, 3, "echo", json!([])).await["id"], 3);
}

#[tokio::test]
async fn what_may_not_come_closes_with_its_code() {
    let (mut server, address) = websocket_server(config()).await;
    let mut not_text = frame_head(TEXT, 2);
    not_text.extend(b"\xff\xfe");
    let mut binary = frame_head(0x82, 2);
    binary.extend(b"{}");
    let unmasked = b"\x81\x02{}".to_vec();
    for (bytes, code) in [(binary, 1003), (not_text, 1007), (unmasked, 1002), (vec![0xf1, 0x80, 0, 0, 0, 0], 1002)] {
        let mut client = connect(address).await;
        write_raw(&mut client, &bytes).await;
        assert_eq!(close_code(&mut client).await, code, "{bytes:?}");
        server.until(&Event::Closed).await;
    }
}

#[tokio::test]
async fn fragments_count_together() {
    let (_server, address) = websocket_server(config()).await;
    let mut client = connect(address).await;
    let mut half = frame_head(0x01, (MAX_LINE / 2 + 1) as u64);
    half.extend(vec![b'x'; MAX_LINE / 2 + 1]);
    write_raw(&mut client, &half).await;
    half[0] = 0x80;
    write_raw(&mut client, &half).await;
    assert_eq!(close_code(&mut client).await, 1009);
}

#[tokio::test]
async fn a_client_that_never_reads_is_lost_and_others_are_served() {
    let (mut server, address) = websocket_server(config()).await;
    let (mut deaf, mut other) = (connect(address).await, connect(address).await);
    // 40 MiB of answers: more than the bound of the queue and what the system takes.
    for id in 0..10 {
        // It may be lost already.
        let _ = deaf.send(Message::text(request(id, "big", &json!([4 << 20])))).await;
        assert_eq!(ask(&mut other, id, "echo", json!([])).await["id"], id);
    }
    server.until(&Event::Closed).await;
    assert_eq!(ask(&mut other, 99, "echo", json!([])).await["id"], 99);
}

#[tokio::test]
async fn a_client_that_reads_slowly_gets_all() {
    let (_server, address) = websocket_server(config()).await;
    let mut slow = connect(address).await;
    for id in 0..4 {
        slow.send(Message::text(request(id, "big", &json!([8 << 20])))).await.unwrap();
    }
    for id in 0..4 {
        let answer = next(&mut slow).await;
        assert_eq!((answer["id"].as_u64(), answer["result"].as_str().unwrap().len()), (Some(id), 8 << 20));
    }
}

#[tokio::test]
async fn a_client_that_vanishes_within_a_message_ends_its_connection_alone() {
    let (mut server, address) = websocket_server(config()).await;
    let (mut gone, mut other) = (connect(address).await, connect(address).await);
    gone.send(Message::text(request(1, "never", &json!([])))).await.unwrap();
    let mut part = frame_head(TEXT, 1000);
    part.extend(b"{\"id\":2,");
    write_raw(&mut gone, &part).await;
    drop(gone);
    server.until(&Event::Closed).await;
    assert_eq!(ask(&mut other, 1, "echo", json!([])).await["id"], 1);
}

#[tokio::test]
async fn a_client_that_is_silent_gets_a_ping_and_is_lost_without_an_answer() {
    let keep_alive = Duration::from_millis(100);
    let (mut server, address) = websocket_server(ListenConfig { keep_alive, ..config() }).await;
    let mut half_open = connect(address).await;
    // Read below the WebSocket, so that no pong is sent, as by a machine that is gone.
    let raw = half_open.get_mut();
    let mut ping = [0; 2];
    within("a ping", raw.read_exact(&mut ping)).await.unwrap();
    assert_eq!(ping, [0x89, 0]);
    let mut rest = Vec::new();
    // An error is an end as well.
    let _ = within("the end", raw.read_to_end(&mut rest)).await;
    server.until(&Event::Closed).await;
}

#[tokio::test]
async fn a_client_that_answers_pings_stays() {
    let keep_alive = Duration::from_millis(100);
    let (_server, address) = websocket_server(ListenConfig { keep_alive, ..config() }).await;
    let mut client = connect(address).await;
    for _ in 0..5 {
        let message = within("a ping", client.next()).await.unwrap().unwrap();
        assert!(matches!(message, Message::Ping(_)), "{message:?}");
        client.flush().await.unwrap();
    }
    assert_eq!(ask(&mut client, 1, "echo", json!([])).await["id"], 1);
}

#[tokio::test]
async fn a_client_that_is_behind_with_reading_is_not_taken_for_silent() {
    let keep_alive = Duration::from_millis(300);
    let (_server, address) = websocket_server(ListenConfig { keep_alive, ..config() }).await;
    let (mut behind, mut clock) = (connect(address).await, connect(address).await);
    // More than the system takes, and less than a full queue.
    behind.send(Message::text(request(1, "big", &json!([15 << 20])))).await.unwrap();
    for _ in 0..3 {
        let message = within("a ping", clock.next()).await.unwrap().unwrap();
        assert!(matches!(message, Message::Ping(_)), "{message:?}");
        clock.flush().await.unwrap();
    }
    assert_eq!(next(&mut behind).await["result"].as_str().unwrap().len(), 15 << 20);
    assert_eq!(ask(&mut behind, 2, "echo", json!([])).await["id"], 2);
}

#[tokio::test]
async fn a_client_that_closes_is_answered_no_more_and_nothing_stays_open() {
    let (mut server, address) = websocket_server(config()).await;
    let mut client = connect(address).await;
    client.send(Message::text(request(1, "never", &json!([])))).await.unwrap();
    client.close(None).await.unwrap();
    while within("the end", client.next()).await.is_some_and(|message| message.is_ok()) {}
    server.until(&Event::Closed).await;
}

#[tokio::test]
async fn at_the_stop_what_is_open_is_answered_and_then_it_goes_away() {
    let (mut server, address) = websocket_server(config()).await;
    let mut client = connect(address).await;
    client.send(Message::text(request(1, "hold", &json!([])))).await.unwrap();
    assert_eq!(ask(&mut client, 2, "echo", json!([])).await["id"], 2);
    server.tell_to_stop();
    assert_eq!(next(&mut client).await, json!({ "id": 1, "result": "over" }));
    assert_eq!(close_code(&mut client).await, 1001);
    server.ended().await;
    assert!(TcpStream::connect(address).await.is_err());
}

#[tokio::test]
async fn what_is_never_answered_is_cut_after_the_grace() {
    let (mut server, address) = websocket_server(ListenConfig { grace: Duration::from_millis(100), ..config() }).await;
    let mut client = connect(address).await;
    client.send(Message::text(request(1, "never", &json!([])))).await.unwrap();
    assert_eq!(ask(&mut client, 2, "echo", json!([])).await["id"], 2);
    server.tell_to_stop();
    server.ended().await;
    let last = within("the end", client.next()).await;
    assert!(matches!(last, None | Some(Err(_))), "{last:?}");
}
