//! A unix socket, one message a line: the same rules, and the path after a server that was killed.

use std::path::Path;
use std::time::Duration;

use openoxide_rpc::lines::MAX_LINE;
use openoxide_rpc::listeners::{Caller, ListenConfig, UnixSocket};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::UnixStream;

use crate::support::{Event, config, request, unix_server, within};

struct Client(BufReader<UnixStream>);

impl Client {
    async fn connect(path: &Path) -> Self {
        Self(BufReader::new(UnixStream::connect(path).await.unwrap()))
    }

    async fn send(&mut self, line: &str) {
        self.0.get_mut().write_all(format!("{line}\n").as_bytes()).await.unwrap();
    }

    /// The next line; null at the end.
    async fn next(&mut self) -> Value {
        let mut line = String::new();
        within("a line", self.0.read_line(&mut line)).await.unwrap();
        if line.is_empty() { Value::Null } else { serde_json::from_str(&line).unwrap() }
    }

    async fn ask(&mut self, id: u64, method: &str, params: Value) -> Value {
        self.send(&request(id, method, &params)).await;
        self.next().await
    }
}

fn place() -> (tempfile::TempDir, std::path::PathBuf) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("s");
    (directory, path)
}

#[tokio::test]
async fn lines_are_served_and_half_a_connection_still_gets_its_answers() {
    let (_directory, path) = place();
    let mut server = unix_server(&path, config()).await;
    let mut client = Client::connect(&path).await;
    assert_eq!(client.ask(1, "echo", json!([1])).await, json!({ "id": 1, "result": [1] }));
    assert_eq!(server.event().await, Event::Opened(Caller::Local));
    client.send(&request(2, "hold", &json!([]))).await;
    client.0.get_mut().shutdown().await.unwrap();
    assert_eq!(client.next().await, json!({ "id": 2, "result": "over" }));
    assert_eq!(client.next().await, Value::Null);
    server.until(&Event::Closed).await;
}

#[tokio::test]
async fn a_line_over_the_bound_is_answered_and_the_next_is_served() {
    let (_directory, path) = place();
    let _server = unix_server(&path, config()).await;
    let mut client = Client::connect(&path).await;
    let answer = client.ask(7, "echo", json!("x".repeat(MAX_LINE))).await;
    assert_eq!((answer["id"].as_u64(), answer["error"]["code"].as_i64()), (Some(7), Some(-32600)));
    assert_eq!(client.ask(8, "echo", json!([])).await["id"], 8);
}

#[tokio::test]
async fn a_client_that_vanishes_or_never_reads_ends_its_connection_alone() {
    let (_directory, path) = place();
    let mut server = unix_server(&path, config()).await;
    let (mut gone, mut deaf, mut other) =
        (Client::connect(&path).await, Client::connect(&path).await, Client::connect(&path).await);
    gone.0.get_mut().write_all(b"{\"id\":1,\"meth").await.unwrap();
    drop(gone);
    server.until(&Event::Closed).await;
    for id in 0..10 {
        let asked = format!("{}\n", request(id, "big", &json!([4 << 20])));
        // It may be lost already.
        let _ = deaf.0.get_mut().write_all(asked.as_bytes()).await;
        assert_eq!(other.ask(id, "echo", json!([])).await["id"], id);
    }
    server.until(&Event::Closed).await;
    assert_eq!(other.ask(99, "echo", json!([])).await["id"], 99);
}

#[tokio::test]
async fn over_the_number_of_connections_a_new_one_is_told_so() {
    let (_directory, path) = place();
    let _server = unix_server(&path, ListenConfig { max_connections: 2, ..config() }).await;
    let (mut first, mut second) = (Client::connect(&path).await, Client::connect(&path).await);
    for client in [&mut first, &mut second] {
        assert_eq!(client.ask(1, "echo", json!([])).await["id"], 1);
    }
    let mut third = Client::connect(&path).await;
    let refused = third.next().await;
    let message = refused["error"]["message"].as_str().unwrap();
    assert!(message.contains("as many connections as one caller may have (2)"), "{message}");
    assert_eq!(third.next().await, Value::Null);
    drop(first);
    let again = async {
        loop {
            let mut client = Client::connect(&path).await;
            // One that is refused may be closed before it has written.
            let _ = client.0.get_mut().write_all(format!("{}\n", request(1, "echo", &json!([]))).as_bytes()).await;
            if client.next().await["id"] == 1 {
                break;
            }
        }
    };
    within("room for another", again).await;
}

#[tokio::test]
async fn at_the_stop_what_is_open_is_answered_and_the_path_is_free() {
    let (_directory, path) = place();
    let mut server = unix_server(&path, ListenConfig { grace: Duration::from_secs(30), ..config() }).await;
    let mut client = Client::connect(&path).await;
    client.send(&request(1, "hold", &json!([]))).await;
    assert_eq!(client.ask(2, "echo", json!([])).await["id"], 2);
    server.tell_to_stop();
    assert_eq!(client.next().await, json!({ "id": 1, "result": "over" }));
    assert_eq!(client.next().await, Value::Null);
    server.ended().await;
    assert!(!path.exists());
}

#[tokio::test]
async fn two_servers_do_not_share_a_path() {
    let (_directory, path) = place();
    let _server = unix_server(&path, config()).await;
    let refused = UnixSocket::bind(&path).await.err().unwrap().to_string();
    assert!(refused.contains(&format!("process {}", std::process::id())), "{refused}");
    assert_eq!(Client::connect(&path).await.ask(1, "echo", json!([])).await["id"], 1);
}

/// Where the process of the next test listens.
const PATH: &str = "OPENOXIDE_RPC_TEST_SOCKET";

#[tokio::test]
async fn after_a_kill_the_next_server_takes_the_path() {
    let (_directory, path) = place();
    #[allow(clippy::disallowed_methods, reason = "this test's own process, to be killed")]
    let mut killed = tokio::process::Command::new(std::env::current_exe().unwrap())
        .args(["unix::serves_until_it_is_killed", "--exact", "--ignored"])
        .env(PATH, &path)
        .kill_on_drop(true)
        .stdout(std::process::Stdio::null())
        .spawn()
        .unwrap();
    let connected = async {
        while UnixStream::connect(&path).await.is_err() {
            assert!(killed.try_wait().unwrap().is_none(), "it listens before it ends");
            tokio::task::yield_now().await;
        }
    };
    within("the other process", connected).await;
    assert_eq!(Client::connect(&path).await.ask(1, "echo", json!([])).await["id"], 1);
    let refused = UnixSocket::bind(&path).await.err().unwrap().to_string();
    assert!(refused.contains(&format!("process {} serves", killed.id().unwrap())), "{refused}");
    let mut client = Client::connect(&path).await;
    assert_eq!(client.ask(1, "echo", json!([])).await["id"], 1);
    within("its end", killed.kill()).await.unwrap();
    let mut rest = Vec::new();
    // An error is an end as well.
    let _ = within("the end of the connection", client.0.read_to_end(&mut rest)).await;
    assert!(path.exists(), "a kill leaves the file");
    let _server = unix_server(&path, config()).await;
    assert_eq!(Client::connect(&path).await.ask(1, "echo", json!([])).await["id"], 1);
}

#[tokio::test]
#[ignore = "a process of its own, which another test starts and kills"]
async fn serves_until_it_is_killed() {
    #[allow(clippy::disallowed_methods, reason = "the test that starts it says where")]
    let path = std::env::var_os(PATH).expect("started by its test alone");
    let _server = unix_server(Path::new(&path), config()).await;
    std::future::pending::<()>().await;
}
