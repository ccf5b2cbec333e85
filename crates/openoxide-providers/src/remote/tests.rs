//! The adapter against a scripted server: events, retries, failures, and what dropping a stream does.

use std::{sync::Arc, time::Duration};

use futures_util::StreamExt;
use serde_json::{Value, json};

use super::{
    HttpProvider,
    test_server::{After, Reply, Server},
};
use crate::{
    Cause, HistoryItem, HttpClient, ItemKind, ModelError, ModelEvent, ModelRequest, Provider, ProviderConfig, Role,
    Secret, Usage, WireApi,
};

fn provider(base_url: &str, change: impl FnOnce(&mut ProviderConfig)) -> HttpProvider {
    let mut config = ProviderConfig::new("test", base_url);
    change(&mut config);
    HttpProvider::new(config, HttpClient::new())
}

/// The events of one response, and how it ended.
async fn run(provider: &HttpProvider) -> (Vec<ModelEvent>, Option<ModelError>) {
    let input = [Arc::new(HistoryItem::Message { role: Role::User, text: "hi".into(), carried: None })];
    let request = ModelRequest {
        model: "m",
        instructions: "",
        input: &input,
        tools: &[],
        cache_key: "k",
        reasoning: Default::default(),
    };
    let mut stream = provider.stream(request);
    let mut events = Vec::new();
    while let Some(item) = stream.next().await {
        match item {
            Ok(event) => events.push(event),
            Err(error) => {
                assert!(stream.next().await.is_none(), "an error is the last item");
                return (events, Some(error));
            }
        }
    }
    (events, None)
}

fn started() -> Value {
    json!({"type": "response.output_item.added", "item": {"type": "message"}})
}

fn delta(text: &str) -> Value {
    json!({"type": "response.output_text.delta", "delta": text})
}

fn done(text: &str) -> Value {
    json!({"type": "response.output_item.done", "item":
        {"type": "message", "content": [{"type": "output_text", "text": text}]}})
}

fn completed() -> Value {
    json!({"type": "response.completed", "response": {"usage": {"input_tokens": 3, "output_tokens": 1}}})
}

fn whole(text: &str) -> Vec<Value> {
    vec![started(), delta(text), done(text), completed()]
}

fn good_end(text: &str) -> Vec<ModelEvent> {
    vec![
        ModelEvent::ItemDone(HistoryItem::Message { role: Role::Assistant, text: text.into(), carried: None }),
        ModelEvent::Completed { usage: Usage { input_tokens: 3, output_tokens: 1, ..Usage::default() } },
    ]
}

fn retries(events: &[ModelEvent]) -> usize {
    events.iter().filter(|event| matches!(event, ModelEvent::Retrying { .. })).count()
}

#[tokio::test]
async fn a_response_comes_through_with_key_headers_and_query() {
    let server = Server::start([Reply::events(&whole("hello"))]).await;
    let provider = provider(&server.base_url, |config| {
        config.api_key = Some(Secret::new("sk-1"));
        config.http_headers.insert("X-Extra".into(), "e".into());
        config.query_params.insert("api-version".into(), "2 3".into());
    });
    let (events, error) = run(&provider).await;
    assert!(error.is_none(), "{error:?}");
    assert_eq!(events[0], ModelEvent::ItemStarted(ItemKind::Message));
    assert_eq!(events[events.len() - 2..], good_end("hello"));
    let request = &server.requests()[0];
    for expected in ["post /v1/responses?api-version=2+3 http/1.1", "authorization: bearer sk-1", "x-extra: e"] {
        assert!(request.head.contains(expected), "{}", request.head);
    }
    assert_eq!(request.body["prompt_cache_key"], "k");
}

#[tokio::test]
async fn one_connection_serves_many_responses() {
    let server = Server::start((0..5).map(|_| Reply::events(&whole("x")))).await;
    let provider = provider(&server.base_url, |_| {});
    for _ in 0..5 {
        assert!(run(&provider).await.1.is_none());
    }
    // Not one, strictly: on a machine under load the end of a body may come too late for the next request.
    let last = server.requests().iter().map(|request| request.connection).max();
    assert!(last < Some(4), "{last:?}");
}

#[tokio::test]
async fn server_errors_are_tried_again_and_told() {
    let busy = Reply::status("503 Service Unavailable", "retry-after-ms: 1\r\n", r#"{"error":{"message":"busy"}}"#);
    let server = Server::start([busy.clone(), busy, Reply::events(&whole("late"))]).await;
    let (events, error) = run(&provider(&server.base_url, |_| {})).await;
    assert!(error.is_none(), "{error:?}");
    assert_eq!(
        events[..2],
        [2, 3].map(|attempt| ModelEvent::Retrying {
            attempt,
            max_attempts: 5,
            delay_ms: 1,
            reason: "test answered 503: busy".into()
        })
    );
    assert_eq!(events[events.len() - 2..], good_end("late"));
}

#[tokio::test]
async fn the_retry_count_is_a_bound() {
    let limited = Reply::status("429 Too Many Requests", "retry-after: 0\r\n", "slow down");
    let server = Server::start(vec![limited; 9]).await;
    let (events, error) = run(&provider(&server.base_url, |config| config.request_max_retries = 2)).await;
    let error = error.unwrap();
    assert_eq!((retries(&events), server.requests().len()), (2, 3));
    assert_eq!(error.to_string(), "test answered 429: slow down");
    assert_eq!(error.cause(), Cause::RateLimited);
    assert!(error.hint().is_some());
}

#[tokio::test]
async fn what_cannot_get_better_fails_at_once_with_the_providers_words() {
    for (status, body, cause) in [
        ("400 Bad Request", r#"{"error":{"message":"bad","code":"context_length_exceeded"}}"#, Cause::ContextLength),
        ("400 Bad Request", r#"{"error":{"message":"bad"}}"#, Cause::BadRequest),
        ("401 Unauthorized", r#"{"error":{"message":"bad"}}"#, Cause::Auth),
        ("403 Forbidden", r#"{"error":{"message":"bad"}}"#, Cause::Forbidden),
        ("404 Not Found", r#"{"error":{"message":"bad"}}"#, Cause::NotFound),
        ("429 Too Many Requests", r#"{"error":{"message":"bad","type":"insufficient_quota"}}"#, Cause::Quota),
        ("200 OK\r\ncontent-type: application/json", r#"{"error":{"message":"bad","code":401}}"#, Cause::Auth),
    ] {
        let server = Server::start([Reply::status(status, "", body)]).await;
        let (events, error) = run(&provider(&server.base_url, |_| {})).await;
        let error = error.unwrap();
        assert!(events.is_empty() && server.requests().len() == 1, "{status}: {events:?}");
        assert!(error.to_string().ends_with(": bad"), "{error}");
        assert_eq!(error.cause(), cause, "{status}");
        assert!(error.hint().is_some(), "{status}");
    }
}

#[tokio::test]
async fn a_stream_that_breaks_before_an_item_is_done_starts_again() {
    let unfinished = [started(), delta("half")];
    let unchunked = Reply(
        format!("HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\ndata: {}\n\n", delta("half")),
        After::Close,
    );
    let failed = json!({"type": "response.failed", "response": {"error": {"code": "server_error", "message": "oops"}}});
    let reasoned = json!({"type": "response.output_item.done", "item": {"type": "reasoning", "summary": []}});
    let after_reasoning = Reply::cut(&[reasoned, started()], After::Close);
    for first in
        [Reply::cut(&unfinished, After::Close), after_reasoning, unchunked, Reply::events(&[started(), failed])]
    {
        let server = Server::start([first.clone(), Reply::events(&whole("again"))]).await;
        let (events, error) = run(&provider(&server.base_url, |_| {})).await;
        assert!(error.is_none(), "{first:?}: {error:?}");
        assert_eq!(retries(&events), 1, "{first:?}");
        assert_eq!(events[events.len() - 2..], good_end("again"));
    }
}

#[tokio::test]
async fn an_item_that_nothing_was_shown_after_starts_again_and_says_so() {
    let server = Server::start([
        Reply::cut(&[started(), delta("whole"), done("whole")], After::Close),
        Reply::events(&whole("again")),
    ])
    .await;
    let (events, error) = run(&provider(&server.base_url, |_| {})).await;
    assert!(error.is_none(), "{error:?}");
    assert_eq!(events[..2], [ModelEvent::ItemStarted(ItemKind::Message), ModelEvent::TextDelta("whole".into())]);
    assert_eq!(events[2], ModelEvent::Restarted { kind: ItemKind::Message, shown_bytes: 5 });
    assert!(matches!(events[3], ModelEvent::Retrying { attempt: 2, max_attempts: 6, .. }), "{:?}", events[3]);
    assert_eq!(events[events.len() - 2..], good_end("again"));
}

#[tokio::test]
async fn what_was_said_is_kept_when_no_attempt_is_left() {
    let server = Server::start([Reply::cut(&[started(), done("kept")], After::Close)]).await;
    let (events, error) = run(&provider(&server.base_url, |config| config.stream_max_retries = 0)).await;
    assert!(matches!(error, Some(ModelError::Dropped { .. })), "{error:?}");
    assert_eq!(events[1..], good_end("kept")[..1]);
    assert_eq!(server.requests().len(), 1);
}

#[tokio::test]
async fn a_stream_that_breaks_after_items_were_handed_out_is_not_repeated() {
    let called = json!({"type": "response.output_item.done", "item":
        {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"}});
    let server = Server::start([
        Reply::cut(&[done("a"), called, started(), delta("b")], After::Close),
        Reply::cut(&[done("a"), started(), delta("b")], After::Close),
    ])
    .await;
    let provider = provider(&server.base_url, |_| {});
    // Its calls can be answered, so the response counts as ended there.
    let (events, error) = run(&provider).await;
    assert!(error.is_none(), "{error:?}");
    assert!(events.contains(&ModelEvent::ItemDone(HistoryItem::FunctionCall {
        call_id: "c".into(),
        name: "f".into(),
        arguments: "{}".into(),
        carried: None
    })));
    assert_eq!(events.last(), Some(&ModelEvent::Completed { usage: Usage::default() }));
    // Words alone cannot.
    let (events, error) = run(&provider).await;
    assert!(matches!(error, Some(ModelError::Dropped { .. })), "{error:?}");
    assert_eq!((retries(&events), server.requests().len()), (0, 2));
}

#[tokio::test]
async fn an_answer_that_is_no_stream_says_so_at_once() {
    let server = Server::start([Reply::status("200 OK", "content-type: text/html; charset=utf-8\r\n", "<html>")]).await;
    let (events, error) = run(&provider(&server.base_url, |_| {})).await;
    let error = error.unwrap();
    assert!(events.is_empty() && error.to_string().contains("text/html"), "{error}");
    assert_eq!(error.cause(), Cause::WrongServer);
}

#[tokio::test]
async fn reasoning_says_who_made_it() {
    let reasoned = json!({"type": "response.output_item.done", "item": {"type": "reasoning", "summary": []}});
    let server = Server::start([Reply::events(&[reasoned, completed()])]).await;
    let (events, _) = run(&provider(&server.base_url, |_| {})).await;
    let ModelEvent::ItemDone(HistoryItem::Reasoning { raw, .. }) = &events[0] else { panic!("{events:?}") };
    assert_eq!(raw["_provider"], "test");
}

#[tokio::test]
async fn a_response_stopped_on_purpose_fails_with_the_reason() {
    let event =
        json!({"type": "response.incomplete", "response": {"incomplete_details": {"reason": "content_filter"}}});
    let server = Server::start([Reply::events(&[event])]).await;
    let (_, error) = run(&provider(&server.base_url, |_| {})).await;
    let error = error.unwrap();
    assert_eq!(error.to_string(), "test stopped the response early: content_filter");
    assert!(error.hint().is_some());
}

#[tokio::test]
async fn silence_ends_in_a_time_out() {
    let server = Server::start([Reply::cut(&[started()], After::Hold), Reply(String::new(), After::Hold)]).await;
    let provider = provider(&server.base_url, |config| {
        config.stream_max_retries = 0;
        config.stream_idle_timeout = Duration::from_millis(30);
        config.header_timeout = Duration::from_millis(200);
    });
    assert!(matches!(run(&provider).await.1, Some(ModelError::IdleTimeout { .. })));
    assert!(matches!(run(&provider).await.1, Some(ModelError::HeaderTimeout { .. })));
}

#[tokio::test]
async fn comments_do_not_keep_a_stream_alive() {
    let mut server = Server::start([Reply::cut(&[started()], After::Comments)]).await;
    let provider = provider(&server.base_url, |config| {
        config.stream_max_retries = 0;
        config.stream_idle_timeout = Duration::from_millis(200);
    });
    let ended = tokio::time::timeout(Duration::from_secs(20), run(&provider)).await;
    let (_, error) = ended.expect("the stream of comments is given up");
    assert!(matches!(error, Some(ModelError::IdleTimeout { .. })), "{error:?}");
    server.closed.recv().await.unwrap();
}

#[tokio::test]
async fn a_refused_connection_ends_within_its_retries_and_names_the_address() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let base_url = format!("http://{}/v1", listener.local_addr().unwrap());
    drop(listener);
    let (events, error) = run(&provider(&base_url, |config| {
        config.request_max_retries = 1;
        config.query_params.insert("sig".into(), "secret-value".into());
    }))
    .await;
    let error = error.unwrap();
    assert_eq!((retries(&events), error.cause()), (1, Cause::Refused));
    assert!(error.to_string().contains(&format!("{base_url}/responses")), "{error}");
    assert!(!format!("{error} {error:?}").contains("secret-value"), "{error:?}");
}

#[tokio::test]
async fn dropping_the_stream_closes_its_connection() {
    let mut server = Server::start([Reply::cut(&[started(), delta("a")], After::Hold)]).await;
    let provider = provider(&server.base_url, |_| {});
    let request = ModelRequest {
        model: "m",
        instructions: "",
        input: &[],
        tools: &[],
        cache_key: "",
        reasoning: Default::default(),
    };
    let mut stream = provider.stream(request);
    assert!(stream.next().await.unwrap().is_ok());
    drop(stream);
    server.closed.recv().await.unwrap();
}

#[tokio::test]
async fn a_call_that_cannot_be_made_says_what_to_set() {
    let missing = provider("http://127.0.0.1:9/v1", |config| config.missing_key = Some("THE_KEY".into()));
    assert_eq!(run(&missing).await.1.unwrap().to_string(), "no API key: set THE_KEY");
    for (base_url, expected) in [("not a url", "`not a url`"), ("ftp://x/v1", "http://")] {
        let error = run(&provider(base_url, |_| {})).await.1.unwrap();
        assert!(error.to_string().contains(expected), "{error}");
        assert_eq!(error.cause(), Cause::Config);
    }
}

/// A whole stream of each dialect that says `hello`, and its path.
fn streams() -> [(WireApi, &'static str, Vec<Value>); 3] {
    [
        (WireApi::Responses, "/v1/responses", whole("hello")),
        (
            WireApi::Chat,
            "/v1/chat/completions",
            vec![
                json!({"choices": [{"delta": {"content": "hello"}}]}),
                json!({"choices": [{"delta": {}, "finish_reason": "stop"}]}),
                json!({"choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 1}}),
            ],
        ),
        (
            WireApi::Messages,
            "/v1/messages",
            vec![
                json!({"type": "message_start", "message": {"usage": {"input_tokens": 3}}}),
                json!({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}),
                json!({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "hello"}}),
                json!({"type": "content_block_stop", "index": 0}),
                json!({"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 1}}),
                json!({"type": "message_stop"}),
            ],
        ),
    ]
}

#[tokio::test]
async fn every_dialect_is_sent_read_and_started_again() {
    for (wire_api, path, stream) in streams() {
        // All but the events that say that the response is over.
        let is_last = |event: &Value| {
            let finish = event["choices"][0]["finish_reason"].as_str();
            matches!(event["type"].as_str(), Some("response.completed" | "message_delta" | "message_stop"))
                || finish.is_some()
        };
        let cut: Vec<Value> = stream.iter().take_while(|event| !is_last(event)).cloned().collect();
        let mut failed = cut.clone();
        failed.push(match wire_api {
            WireApi::Responses => {
                json!({"type": "response.failed", "response": {"error": {"code": "server_error", "message": "try again in 1ms"}}})
            }
            WireApi::Chat => json!({"error": {"code": 503, "message": "try again in 1ms"}}),
            WireApi::Messages => {
                json!({"type": "error", "error": {"type": "overloaded_error", "message": "try again in 1ms"}})
            }
        });
        let server =
            Server::start([Reply::events(&failed), Reply::cut(&cut, After::Close), Reply::events(&stream)]).await;
        let provider = provider(&server.base_url, |config| {
            config.wire_api = wire_api;
            config.api_key = Some(Secret::new("sk-1"));
        });
        let (events, error) = run(&provider).await;
        assert!(error.is_none(), "{wire_api:?}: {error:?}");
        let restarted = events.iter().filter(|event| matches!(event, ModelEvent::Restarted { shown_bytes: 5, .. }));
        assert_eq!((restarted.count(), retries(&events)), (2, 2), "{wire_api:?}: {events:?}");
        assert_eq!(events[events.len() - 2..], good_end("hello"), "{wire_api:?}");
        let head = &server.requests()[0].head;
        assert!(head.starts_with(&format!("post {path} http/1.1")), "{head}");
        let key = if wire_api == WireApi::Messages { "x-api-key: sk-1" } else { "authorization: bearer sk-1" };
        assert!(head.contains(key), "{head}");
    }
}

#[tokio::test]
async fn a_response_that_said_it_is_over_is_whatever_follows() {
    for (wire_api, _, mut stream) in streams().into_iter().skip(1) {
        // Neither the last word nor the end of the body comes.
        stream.pop();
        for after in [After::Hold, After::Close] {
            let server = Server::start([Reply::cut(&stream, after)]).await;
            let provider = provider(&server.base_url, |config| {
                config.wire_api = wire_api;
                config.stream_idle_timeout = Duration::from_millis(30);
            });
            let (events, error) = run(&provider).await;
            assert!(error.is_none(), "{wire_api:?}: {error:?}");
            assert_eq!((retries(&events), server.requests().len()), (0, 1), "{wire_api:?}");
            assert!(matches!(events.last(), Some(ModelEvent::Completed { .. })), "{events:?}");
        }
    }
}

#[tokio::test]
async fn a_models_window_is_learned_once_from_the_providers_own_list() {
    let answer = |text| Reply::events(&[done(text), json!({"type": "response.completed", "response": {}})]);
    let chat = || Reply::events(&[json!({"choices": [{"delta": {"content": "hi"}, "finish_reason": "stop"}]})]);
    let list = Reply::status("200 OK", "", r#"{"models": [{"name": "m:latest", "context_length": 65536}]}"#);
    let server = Server::start([chat(), list, chat()]).await;
    let provider = provider(&server.base_url, |config| {
        config.wire_api = WireApi::Chat;
        config.model_list = Some(crate::ModelList::Ollama);
    });
    assert_eq!(provider.facts("m").context_window, 32_768);
    run(&provider).await;
    while provider.facts("m").context_window == 32_768 {
        tokio::task::yield_now().await;
    }
    assert_eq!(provider.facts("m").context_window, 65_536 - 8_192);
    run(&provider).await;
    let asked: Vec<String> =
        server.requests().iter().map(|request| request.head.lines().next().unwrap().to_owned()).collect();
    assert_eq!(
        asked,
        ["post /v1/chat/completions http/1.1", "get /api/ps http/1.1", "post /v1/chat/completions http/1.1"]
    );
    // One without a list is asked for nothing else.
    let server = Server::start([answer("hi"), answer("hi")]).await;
    let provider = self::provider(&server.base_url, |_| {});
    run(&provider).await;
    run(&provider).await;
    assert_eq!(server.requests().len(), 2);
}

#[tokio::test]
async fn thinking_that_is_refused_is_left_out_once() {
    let refusal = json!({"error": {"type": "invalid_request_error", "message":
        "messages.1.content.0: Invalid `signature` in `thinking` block. The block is bound to a different conversation."}});
    let refused = || Reply::status("400 Bad Request", "", &refusal.to_string());
    let answer = [
        json!({"type": "content_block_start", "content_block": {"type": "text", "text": "hi"}}),
        json!({"type": "content_block_stop"}),
        json!({"type": "message_delta", "delta": {"stop_reason": "end_turn"}}),
        json!({"type": "message_stop"}),
    ];
    let server = Server::start([refused(), Reply::events(&answer), refused(), refused()]).await;
    let provider = provider(&server.base_url, |config| config.wire_api = WireApi::Messages);
    let raw = json!({"type": "thinking", "thinking": "", "signature": "s", "_provider": "test"});
    let input = [
        HistoryItem::Message { role: Role::User, text: "u".into(), carried: None },
        HistoryItem::Reasoning { summary: String::new(), raw },
        HistoryItem::Message { role: Role::Assistant, text: "a".into(), carried: None },
        HistoryItem::Message { role: Role::User, text: "v".into(), carried: None },
    ]
    .map(Arc::new);
    let ask = || provider.stream(super::fixtures::request("claude-opus-4-7", &input, &[])).collect::<Vec<_>>();
    let events = ask().await;
    assert!(matches!(events[0], Ok(ModelEvent::Unbound)), "{events:?}");
    assert!(matches!(events.last(), Some(Ok(ModelEvent::Completed { .. }))), "{events:?}");
    let sent: Vec<bool> = server.requests().iter().map(|r| r.body.to_string().contains("signature")).collect();
    assert_eq!(sent, [true, false]);
    // Where that does not help, it is told.
    assert!(matches!(ask().await.last(), Some(Err(ModelError::Status { status: 400, .. }))));
}
