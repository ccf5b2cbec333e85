//! A small MCP client for one server on a byte stream: plain JSON envelopes, one tool call at a time, both eras.
//!
//! It knows the protocol and nothing of terminals or processes: what the server says comes out of [`Client::handle`]
//! as an [`Incoming`], and the session decides what to show and what to answer. In the legacy era each question is a
//! request of the server and is answered by its id; in the modern era the questions of an `input_required` result are
//! collected, and the call is sent again with all the answers.

use std::collections::VecDeque;

use anyhow::{Context, bail};
use serde_json::{Map, Value, json};
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncWrite, AsyncWriteExt, BufReader};

/// The revision asked for by `initialize`.
const LEGACY_VERSION: &str = "2025-11-25";
/// The revision that every modern request names.
const MODERN_VERSION: &str = "2026-07-28";
/// JSON-RPC: no such method.
const METHOD_NOT_FOUND: i64 = -32601;

/// Which way of the protocol to speak.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum)]
pub(crate) enum Era {
    /// `initialize` first; the server asks by `elicitation/create`.
    #[default]
    Legacy,
    /// 2026-07-28: each request carries its `_meta`; the server asks by `input_required`.
    Modern,
}

impl Era {
    /// The word used on the command line.
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Legacy => "legacy",
            Self::Modern => "modern",
        }
    }
}

/// Ties an answer to its question.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum QuestionKey {
    /// The id of a legacy request of the server.
    Request(Value),
    /// A key of modern `inputRequests`.
    Input(String),
}

/// Something the server wants a person to decide.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Question {
    /// Goes back with the answer.
    pub(super) key: QuestionKey,
    /// What to show.
    pub(super) message: String,
    /// What is asked in words: the name of each answer and how to ask for it. Empty where a decision is wanted.
    pub(super) fields: VecDeque<(String, String)>,
    /// The answers so far.
    pub(super) said: Map<String, Value>,
}

impl Question {
    /// The question that parameters of `elicitation/create` put.
    pub(super) fn of(key: QuestionKey, params: &Value) -> Self {
        let properties = params["requestedSchema"]["properties"].as_object();
        let is_decision = properties.is_none_or(|properties| properties.contains_key("decision"));
        let asked = properties.filter(|_| !is_decision).into_iter().flatten();
        let fields = asked
            .map(|(name, schema)| {
                let choices = schema["enum"].as_array().into_iter().flatten().filter_map(Value::as_str);
                let choices: Vec<&str> = choices.collect();
                let title = schema["title"].as_str().unwrap_or(name);
                match choices.is_empty() {
                    true => (name.clone(), title.to_owned()),
                    false => (name.clone(), format!("{title} ({})", choices.join(", "))),
                }
            })
            .collect();
        Self { key, message: text(&params["message"]), fields, said: Map::new() }
    }
}

/// What the server said.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Incoming {
    /// A sentence on how the open call stands.
    Progress(String),
    /// The `data` of a log message: an event of the turn.
    Event(Value),
    /// Questions to be answered with [`Client::answer`], each once.
    Questions(Vec<Question>),
    /// A legacy question is not asked any more.
    Withdrawn(QuestionKey),
    /// The result of the open call.
    Result(Value),
    /// The open call was answered by an error.
    Error(String),
}

/// Who the server says it is.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ServerInfo {
    /// Name and version.
    pub(super) name: String,
    /// The protocol revision in use.
    pub(super) protocol: String,
}

/// The call under way.
struct OpenCall {
    id: u64,
    params: Map<String, Value>,
    /// Modern: what has to come back with the answers, and the answers so far.
    parked: Option<Parked>,
}

struct Parked {
    state: Option<Value>,
    open: Vec<String>,
    answers: Map<String, Value>,
}

/// The client. `R` reads from the server, `W` writes to it.
pub(super) struct Client<R, W> {
    reader: BufReader<R>,
    writer: W,
    /// The line being read; kept here so that [`Client::read`] loses nothing when it is dropped half-way.
    line: Vec<u8>,
    era: Era,
    trace: bool,
    last_id: u64,
    call: Option<OpenCall>,
}

impl<R: AsyncRead + Unpin, W: AsyncWrite + Unpin> Client<R, W> {
    /// A client that has said nothing yet. `trace` shows each line of the wire on stderr.
    pub(super) fn new(reader: R, writer: W, era: Era, trace: bool) -> Self {
        Self { reader: BufReader::new(reader), writer, line: Vec::new(), era, trace, last_id: 0, call: None }
    }

    /// The era it speaks.
    pub(super) fn era(&self) -> Era {
        self.era
    }

    /// Makes the server's acquaintance: `initialize` or `server/discover`.
    ///
    /// # Errors
    /// Where the server goes away, refuses, or does not speak the era.
    pub(super) async fn connect(&mut self) -> anyhow::Result<ServerInfo> {
        let (method, params) = match self.era {
            Era::Legacy => (
                "initialize",
                json!({ "protocolVersion": LEGACY_VERSION, "capabilities": capabilities(), "clientInfo": client_info() }),
            ),
            Era::Modern => ("server/discover", json!({ "_meta": modern_meta() })),
        };
        let id = self.request(method, params).await?;
        let result = loop {
            let Some(message) = self.read().await? else {
                bail!("the server went away before it answered {method}");
            };
            if message.get("id") == Some(&json!(id)) && message.get("method").is_none() {
                match message.get("error") {
                    Some(error) => bail!("the server refused {method}: {}", error_text(error)),
                    None => break message["result"].clone(),
                }
            }
            self.handle_other(&message).await?;
        };
        match self.era {
            Era::Legacy => {
                self.notify("notifications/initialized").await?;
                Ok(ServerInfo { name: name_of(&result["serverInfo"]), protocol: text(&result["protocolVersion"]) })
            }
            Era::Modern => {
                let versions = &result["supportedVersions"];
                if !versions.as_array().is_some_and(|all| all.contains(&json!(MODERN_VERSION))) {
                    bail!("the server speaks {versions}, not {MODERN_VERSION}; use --era legacy");
                }
                let server = &result["_meta"]["io.modelcontextprotocol/serverInfo"];
                Ok(ServerInfo { name: name_of(server), protocol: MODERN_VERSION.to_owned() })
            }
        }
    }

    /// Opens a call of a tool; what comes of it comes out of [`Client::handle`].
    ///
    /// # Errors
    /// Where the server does not read any more.
    pub(super) async fn call(&mut self, tool: &str, arguments: Value) -> anyhow::Result<()> {
        let mut params = Map::new();
        params.insert("name".to_owned(), json!(tool));
        params.insert("arguments".to_owned(), arguments);
        self.send_call(params, Map::new()).await
    }

    /// The server's next message, to be given to [`Client::handle`]; `None` once it closed its side.
    ///
    /// Cancel-safe: a line read in part stays in the client.
    ///
    /// # Errors
    /// Where the server writes what is not JSON, or reading fails.
    pub(super) async fn read(&mut self) -> anyhow::Result<Option<Value>> {
        self.reader.read_until(b'\n', &mut self.line).await.context("cannot read from the server")?;
        if self.line.is_empty() {
            return Ok(None);
        }
        let line = std::mem::take(&mut self.line);
        let shown = String::from_utf8_lossy(&line);
        let shown = shown.trim_end();
        if self.trace {
            eprintln!("<- {shown}");
        }
        let message = serde_json::from_slice(&line)
            .with_context(|| format!("the server wrote a line that is not JSON: {shown}"))?;
        Ok(Some(message))
    }

    /// What a message of the server means for the open call, if anything. Requests of the server that are no questions
    /// are answered here. Not cancel-safe: it may write.
    ///
    /// # Errors
    /// Where the server does not read any more.
    pub(super) async fn handle(&mut self, message: &Value) -> anyhow::Result<Option<Incoming>> {
        let params = &message["params"];
        match (message.get("method").and_then(Value::as_str), message.get("id")) {
            (Some("notifications/progress"), None) => Ok(Some(Incoming::Progress(text(&params["message"])))),
            (Some("notifications/message"), None) => Ok(Some(Incoming::Event(params["data"].clone()))),
            (Some("notifications/cancelled"), None) => {
                Ok(Some(Incoming::Withdrawn(QuestionKey::Request(params["requestId"].clone()))))
            }
            (Some("elicitation/create"), Some(id)) => {
                let key = QuestionKey::Request(id.clone());
                Ok(Some(Incoming::Questions(vec![Question::of(key, params)])))
            }
            (None, Some(id)) if self.call.as_ref().is_some_and(|call| *id == json!(call.id)) => {
                self.handle_answer(message).await
            }
            _ => self.handle_other(message).await.map(|()| None),
        }
    }

    /// Answers a question with an `ElicitResult`. A modern call goes on once each of its questions is answered.
    ///
    /// # Errors
    /// Where the server does not read any more.
    pub(super) async fn answer(&mut self, key: &QuestionKey, result: Value) -> anyhow::Result<()> {
        match key {
            QuestionKey::Request(id) => self.send(&json!({ "jsonrpc": "2.0", "id": id, "result": result })).await,
            QuestionKey::Input(key) => {
                let Some(call) = &mut self.call else { return Ok(()) };
                let Some(parked) = &mut call.parked else { return Ok(()) };
                parked.open.retain(|open| open != key);
                parked.answers.insert(key.clone(), result);
                if !parked.open.is_empty() {
                    return Ok(());
                }
                let mut extra = Map::new();
                extra.insert("inputResponses".to_owned(), Value::Object(std::mem::take(&mut parked.answers)));
                if let Some(state) = parked.state.take() {
                    extra.insert("requestState".to_owned(), state);
                }
                let params = call.params.clone();
                self.send_call(params, extra).await
            }
        }
    }

    /// Takes the client apart, so that dropping the writer ends the server's input.
    pub(super) fn into_parts(self) -> (BufReader<R>, W) {
        (self.reader, self.writer)
    }

    async fn send_call(&mut self, params: Map<String, Value>, extra: Map<String, Value>) -> anyhow::Result<()> {
        let mut meta = match self.era {
            Era::Legacy => json!({}),
            Era::Modern => modern_meta(),
        };
        meta["progressToken"] = json!(self.last_id + 1);
        if self.era == Era::Modern {
            meta["io.modelcontextprotocol/logLevel"] = json!("info");
        }
        let mut sent = params.clone();
        sent.extend(extra);
        sent.insert("_meta".to_owned(), meta);
        let id = self.request("tools/call", Value::Object(sent)).await?;
        self.call = Some(OpenCall { id, params, parked: None });
        Ok(())
    }

    async fn request(&mut self, method: &str, params: Value) -> anyhow::Result<u64> {
        self.last_id += 1;
        let id = self.last_id;
        self.send(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params })).await?;
        Ok(id)
    }

    async fn notify(&mut self, method: &str) -> anyhow::Result<()> {
        self.send(&json!({ "jsonrpc": "2.0", "method": method })).await
    }

    async fn send(&mut self, message: &Value) -> anyhow::Result<()> {
        let mut line = message.to_string();
        if self.trace {
            eprintln!("-> {line}");
        }
        line.push('\n');
        self.writer.write_all(line.as_bytes()).await.context("the server does not read any more")?;
        self.writer.flush().await.context("the server does not read any more")
    }

    async fn handle_answer(&mut self, message: &Value) -> anyhow::Result<Option<Incoming>> {
        if let Some(error) = message.get("error") {
            self.call = None;
            return Ok(Some(Incoming::Error(error_text(error))));
        }
        let result = &message["result"];
        if result["resultType"] != "input_required" {
            self.call = None;
            return Ok(Some(Incoming::Result(result.clone())));
        }
        let Some(call) = &mut self.call else { return Ok(None) };
        let asked = result["inputRequests"].as_object().cloned().unwrap_or_default();
        let questions: Vec<Question> = asked
            .iter()
            .map(|(key, request)| Question::of(QuestionKey::Input(key.clone()), &request["params"]))
            .collect();
        let state = result.get("requestState").cloned();
        if questions.is_empty() {
            // Nothing to ask: the state alone goes back.
            let params = call.params.clone();
            let extra = state.into_iter().map(|state| ("requestState".to_owned(), state)).collect();
            self.send_call(params, extra).await?;
            return Ok(None);
        }
        call.parked = Some(Parked { state, open: asked.keys().cloned().collect(), answers: Map::new() });
        Ok(Some(Incoming::Questions(questions)))
    }

    /// Answers what a client of this size does not offer; a notification needs no answer.
    async fn handle_other(&mut self, message: &Value) -> anyhow::Result<()> {
        let (Some(method), Some(id)) = (message.get("method").and_then(Value::as_str), message.get("id")) else {
            return Ok(());
        };
        let answer = match method {
            "ping" => json!({ "jsonrpc": "2.0", "id": id, "result": {} }),
            _ => json!({ "jsonrpc": "2.0", "id": id,
                "error": { "code": METHOD_NOT_FOUND, "message": format!("{method} is not offered by openoxide try") } }),
        };
        self.send(&answer).await
    }
}

fn capabilities() -> Value {
    json!({ "elicitation": { "form": {} } })
}

fn client_info() -> Value {
    json!({ "name": "openoxide-try", "title": "openoxide try", "version": env!("CARGO_PKG_VERSION") })
}

fn modern_meta() -> Value {
    json!({
        "io.modelcontextprotocol/protocolVersion": MODERN_VERSION,
        "io.modelcontextprotocol/clientInfo": client_info(),
        "io.modelcontextprotocol/clientCapabilities": capabilities(),
    })
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

fn name_of(server: &Value) -> String {
    format!("{} {}", server["name"].as_str().unwrap_or("?"), server["version"].as_str().unwrap_or("?"))
}

fn error_text(error: &Value) -> String {
    format!("{} ({})", error["message"].as_str().unwrap_or("no message"), error["code"])
}
