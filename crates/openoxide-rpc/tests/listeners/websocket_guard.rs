//! Who is let in to a WebSocket, and how many.

use openoxide_rpc::listeners::{Caller, GuardConfig, ListenConfig, Origin, Token};
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::support::{
    Event, ask, config, connect, connect_at, open, status, websocket_server, websocket_server_at, within,
};

const SECRET: &str = "abcdefghijklmnopqrstuvwxyz012345";

fn with_token() -> ListenConfig {
    let guard = GuardConfig { tokens: vec![Token::new("ada", SECRET).unwrap()], ..GuardConfig::default() };
    ListenConfig { guard, ..config() }
}

#[tokio::test]
async fn a_page_and_a_rebound_name_are_refused() {
    let (mut server, address) = websocket_server(config()).await;
    for (headers, expected) in [
        (vec![], 101),
        (vec![("host", "localhost")], 101),
        (vec![("host", "evil.example")], 403),
        (vec![("host", "localhost:1@evil.example")], 400),
        (vec![("origin", "https://evil.example")], 403),
        (vec![("origin", "http://localhost:3000")], 403),
        (vec![("origin", "null")], 403),
    ] {
        assert_eq!(status(&open(address, "/", &headers).await), expected, "{headers:?}");
    }
    assert_eq!(server.event().await, Event::Opened(Caller::Local));
}

#[tokio::test]
async fn a_page_that_is_named_is_let_in() {
    let allowed_origins = vec![Origin::parse("https://ide.example").unwrap()];
    let guard = GuardConfig { allowed_origins, ..GuardConfig::default() };
    let (_server, address) = websocket_server(ListenConfig { guard, ..config() }).await;
    assert_eq!(status(&open(address, "/", &[("origin", "https://ide.example")]).await), 101);
    assert_eq!(status(&open(address, "/", &[("origin", "https://ide.example:444")]).await), 403);
}

#[tokio::test]
async fn a_page_is_refused_on_a_unix_socket_too() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("s");
    let _server = websocket_server_at(&path, config()).await;
    let mut client = connect_at(&path).await;
    assert_eq!(ask(&mut client, 1, "echo", json!([1])).await["result"], json!([1]));
    let mut raw = tokio::net::UnixStream::connect(&path).await.unwrap();
    raw.write_all(b"GET / HTTP/1.1\r\nHost: localhost\r\nOrigin: https://evil.example\r\n\r\n").await.unwrap();
    let mut answer = String::new();
    within("an answer", raw.read_to_string(&mut answer)).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 403 "), "{answer}");
}

#[tokio::test]
async fn a_token_comes_in_its_header_alone() {
    let (mut server, address) = websocket_server(with_token()).await;
    let bearer = format!("Bearer {SECRET}");
    assert_eq!(status(&open(address, "/", &[]).await), 401);
    assert_eq!(status(&open(address, &format!("/?token={SECRET}&access_token={SECRET}"), &[]).await), 401);
    assert_eq!(status(&open(address, "/", &[("authorization", &format!("{bearer}x"))]).await), 401);
    let client = open(address, "/any/path", &[("authorization", &bearer)]).await;
    assert_eq!(status(&client), 101);
    assert_eq!(server.event().await, Event::Opened(Caller::Token("ada".into())));
}

#[tokio::test]
async fn wrong_tokens_are_held_up_and_a_right_one_is_not() {
    let mut config = with_token();
    config.guard.failures_per_second = Some(1);
    let (_server, address) = websocket_server(config).await;
    let mut refused = Vec::new();
    for _ in 0..12 {
        refused.push(status(&open(address, "/", &[("authorization", "Bearer guess")]).await));
    }
    assert!(refused.starts_with(&[401]) && refused.contains(&429), "{refused:?}");
    assert_eq!(status(&open(address, "/", &[("authorization", &format!("Bearer {SECRET}"))]).await), 101);
}

#[tokio::test]
async fn over_the_number_of_connections_a_new_one_is_refused_until_one_ends() {
    let (_server, address) = websocket_server(ListenConfig { max_connections: 2, ..config() }).await;
    let mut first = connect(address).await;
    let mut second = connect(address).await;
    assert_eq!(status(&open(address, "/", &[]).await), 503);
    assert_eq!(ask(&mut second, 1, "echo", json!([])).await["id"], 1, "those there go on");
    first.close(None).await.unwrap();
    drop(first);
    // The server notes the end in its own time.
    let again = async { while status(&open(address, "/", &[]).await) != 101 {} };
    within("room for another", again).await;
}

#[tokio::test]
async fn silent_connections_give_way_to_others() {
    let (_server, address) = websocket_server(ListenConfig { max_unauthenticated: 2, ..config() }).await;
    let mut silent = Vec::new();
    for _ in 0..5 {
        silent.push(TcpStream::connect(address).await.unwrap());
    }
    let mut client = connect(address).await;
    assert_eq!(ask(&mut client, 1, "echo", json!([])).await["id"], 1);
    let mut left = Vec::new();
    // An error is an end as well.
    let _ = within("the end of the oldest", silent[0].read_to_end(&mut left)).await;
    assert!(left.is_empty());
}

#[tokio::test]
async fn what_is_no_handshake_is_told_what_is_served() {
    let (_server, address) = websocket_server(config()).await;
    let upgrade = "Connection: keep-alive, Upgrade\r\nUpgrade: websocket\r\n";
    let key = "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n";
    let version = "Sec-WebSocket-Version: 13\r\n";
    for (head, expected) in [
        ("GET / HTTP/1.1\r\n".to_owned(), "426"),
        (format!("POST / HTTP/1.1\r\n{upgrade}{key}{version}"), "426"),
        (format!("GET / HTTP/1.1\r\n{upgrade}{key}Sec-WebSocket-Version: 8\r\n"), "426"),
        (format!("GET / HTTP/1.1\r\n{upgrade}{version}"), "400"),
        (format!("GET / HTTP/1.1\r\n{upgrade}{version}Sec-WebSocket-Key: short\r\n"), "400"),
        ("GET /healthz HTTP/1.1\r\n".to_owned(), "200"),
        ("GET /readyz HTTP/1.1\r\n".to_owned(), "200"),
        ("GET /readyz HTTP/1.1\r\nOrigin: https://evil.example\r\n".to_owned(), "403"),
    ] {
        let mut raw = TcpStream::connect(address).await.unwrap();
        raw.write_all(format!("{head}Host: localhost\r\n\r\n").as_bytes()).await.unwrap();
        let mut answer = String::new();
        within("an answer", raw.read_to_string(&mut answer)).await.unwrap();
        assert!(answer.starts_with(&format!("HTTP/1.1 {expected} ")), "{head}: {answer}");
    }
}
