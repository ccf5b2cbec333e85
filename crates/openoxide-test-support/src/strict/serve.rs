//! Listens, reads a request, has it judged and answered by its dialect, and writes the answer as one event stream.

use std::collections::HashMap;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::{Value, json};

use super::{Dialect, Refusal, Row, State, chat, messages, responses};

/// A request as it came.
pub(super) struct Request {
    pub(super) headers: HashMap<String, String>,
    pub(super) body: Value,
    pub(super) bytes: usize,
}

/// What a request is answered with.
pub(super) struct Answer {
    /// The events of the stream.
    pub(super) events: Vec<Value>,
    pub(super) label: String,
    pub(super) tokens: u64,
    pub(super) cached: u64,
}

pub(super) fn listen(dialect: Dialect, state: Arc<Mutex<State>>) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a loopback address");
    let address = listener.local_addr().expect("an address");
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let state = Arc::clone(&state);
            // A client that goes away in the middle is the test's business.
            std::thread::spawn(move || drop(serve(stream, dialect, &state)));
        }
    });
    address
}

fn serve(mut stream: TcpStream, dialect: Dialect, state: &Mutex<State>) -> std::io::Result<()> {
    let request = read(&stream)?;
    let answer = {
        let mut state = state.lock().unwrap_or_else(PoisonError::into_inner);
        let answer = match dialect {
            Dialect::Responses => responses::answer(&mut state, &request),
            Dialect::Messages => messages::answer(&mut state, &request),
            Dialect::Chat => chat::answer(&mut state, &request),
        };
        match &answer {
            Ok(Answer { label, tokens, cached, .. }) => {
                let (label, bytes) = (label.clone(), request.bytes);
                state.rows.push(Row { label, bytes, tokens: *tokens, cached: *cached });
                state.requests.push(request.body);
            }
            Err(refusal) => state.refusals.push(refusal.clone()),
        }
        answer
    };
    match answer {
        Ok(Answer { events, .. }) => {
            write!(stream, "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n")?;
            for event in events {
                write!(stream, "data: {event}\n\n")?;
            }
            Ok(())
        }
        Err(refusal) => refuse(&mut stream, &refusal),
    }
}

fn refuse(stream: &mut TcpStream, refusal: &Refusal) -> std::io::Result<()> {
    let error =
        json!({ "type": "error", "error": { "type": "invalid_request_error", "message": refusal } }).to_string();
    let length = error.len();
    write!(
        stream,
        "HTTP/1.1 400 Bad Request\r\nContent-Type: application/json\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{error}"
    )
}

fn read(stream: &TcpStream) -> std::io::Result<Request> {
    let mut reader = BufReader::new(stream.try_clone()?);
    let (mut line, mut headers) = (String::new(), HashMap::new());
    while reader.read_line(&mut line)? > 0 && line != "\r\n" {
        if let Some((name, value)) = line.split_once(':') {
            headers.insert(name.to_ascii_lowercase(), value.trim().to_owned());
        }
        line.clear();
    }
    let bytes = headers.get("content-length").and_then(|length| length.parse().ok()).unwrap_or_default();
    let mut body = vec![0; bytes];
    reader.read_exact(&mut body)?;
    Ok(Request { headers, body: serde_json::from_slice(&body)?, bytes })
}
