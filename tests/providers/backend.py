"""A scripted model on loopback that speaks OpenAI Chat Completions, OpenAI Responses and Anthropic Messages, streaming.

Asked by a person it reasons and calls three tools at once: two commands and a patch. Given what they came to, it answers with
a text that quotes them. Whatever it is sent is checked against the types that the providers' own client libraries publish
(`published.py`), and a body that does not fit is answered with 400 and the reason.

Words in the prompt ask for trouble: `fail-401`, `fail-429-once`, `fail-context`.
"""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import published

PATCH = "*** Begin Patch\n*** Add File: patched.txt\n+by a patch\n*** End Patch\n"
CALLS = [
    ("call_1", "exec_command", {"cmd": "echo one > one.txt && echo said-one"}),
    ("call_2", "exec_command", {"cmd": "echo said-two"}),
    ("call_3", "apply_patch", {"input": PATCH}),
]


def text_of(content):
    """The text of a message's content in any of the dialects."""
    if isinstance(content, str):
        return content
    return " ".join(part.get("text") or "" for part in content if isinstance(part, dict))


class Conversation:
    """What the last prompt was, and what the tools called since then came to."""

    def __init__(self, body):
        self.prompt, self.outputs = "", []
        for item in body.get("messages") or body["input"]:
            kind, role, content = item.get("type"), item.get("role"), item.get("content")
            if role == "tool":
                self.outputs.append(text_of(content))
            elif kind in ("function_call_output", "custom_tool_call_output"):
                self.outputs.append(text_of(item["output"]))
            elif role == "user":
                results = [part for part in content if isinstance(part, dict) and part.get("type") == "tool_result"] \
                    if isinstance(content, list) else []
                self.outputs += [text_of(part["content"]) for part in results]
                if text_of(content).strip():
                    self.prompt, self.outputs = text_of(content), self.outputs if results else []

    @property
    def final_text(self):
        return f"the tools said {len(self.outputs)} things: " + " | ".join(self.outputs)


def pieces(text):
    """A text in two parts, as streams have it."""
    return [text[: len(text) // 2], text[len(text) // 2:]]


def chat(body, talk):
    def chunk(delta, finish=None, **more):
        choices = [{"index": 0, "delta": delta, "finish_reason": finish}]
        return {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": body["model"],
                "choices": choices, **more}

    yield chunk({"role": "assistant", "content": ""})
    if talk.outputs:
        for piece in pieces(talk.final_text):
            yield chunk({"content": piece})
        yield chunk({}, "stop")
    else:
        yield chunk({"reasoning_content": "Three things at once."})
        for index, (call, name, arguments) in enumerate(CALLS):
            function = {"name": name, "arguments": ""}
            yield chunk({"tool_calls": [{"index": index, "id": call, "type": "function", "function": function}]})
            for piece in pieces(json.dumps(arguments)):
                yield chunk({"tool_calls": [{"index": index, "function": {"arguments": piece}}]})
        yield chunk({}, "tool_calls")
    usage = {"prompt_tokens": 20, "completion_tokens": 10, "total_tokens": 30}
    yield {**chunk({}), "choices": [], "usage": usage}


def responses(body, talk):
    items = []
    if talk.outputs:
        content = [{"type": "output_text", "text": talk.final_text, "annotations": []}]
        items.append({"type": "message", "id": "msg_1", "status": "completed", "role": "assistant", "content": content})
    else:
        summary = [{"type": "summary_text", "text": "Three things at once."}]
        items.append({"type": "reasoning", "id": "rs_1", "summary": summary, "encrypted_content": "sealed"})
        custom = {tool.get("name") for tool in body.get("tools", []) if tool["type"] == "custom"}
        for call, name, arguments in CALLS:
            common = {"id": f"item_{call}", "call_id": call, "name": name, "status": "completed"}
            if name in custom:
                items.append({"type": "custom_tool_call", "input": arguments["input"], **common})
            else:
                items.append({"type": "function_call", "arguments": json.dumps(arguments), **common})

    usage = {"input_tokens": 20, "output_tokens": 10, "total_tokens": 30,
             "input_tokens_details": {"cached_tokens": 0}, "output_tokens_details": {"reasoning_tokens": 3}}
    whole = {"id": "resp_1", "object": "response", "created_at": 1, "model": body["model"], "status": "completed",
             "output": items, "usage": usage, "parallel_tool_calls": True, "tool_choice": "auto", "tools": []}
    number = 0

    def event(kind, **more):
        nonlocal number
        number += 1
        return {"type": kind, "sequence_number": number, **more}

    yield event("response.created", response={**whole, "status": "in_progress", "output": [], "usage": None})
    for index, item in enumerate(items):
        empty = {"function_call": {"arguments": ""}, "custom_tool_call": {"input": ""}, "message": {"content": []}}
        begun = {**item, "status": "in_progress", **empty.get(item["type"], {})}
        yield event("response.output_item.added", output_index=index, item=begun)
        place = {"output_index": index, "item_id": item["id"]}
        if item["type"] == "message":
            part = item["content"][0]
            yield event("response.content_part.added", content_index=0, part={**part, "text": ""}, **place)
            for piece in pieces(part["text"]):
                yield event("response.output_text.delta", content_index=0, delta=piece, logprobs=[], **place)
            yield event("response.output_text.done", content_index=0, text=part["text"], logprobs=[], **place)
            yield event("response.content_part.done", content_index=0, part=part, **place)
        elif item["type"] == "function_call":
            for piece in pieces(item["arguments"]):
                yield event("response.function_call_arguments.delta", delta=piece, **place)
            yield event("response.function_call_arguments.done", arguments=item["arguments"], name=item["name"], **place)
        elif item["type"] == "custom_tool_call":
            for piece in pieces(item["input"]):
                yield event("response.custom_tool_call_input.delta", delta=piece, **place)
            yield event("response.custom_tool_call_input.done", input=item["input"], **place)
        yield event("response.output_item.done", output_index=index, item=item)
    yield event("response.completed", response=whole)


def messages(body, talk):
    message = {"id": "msg_1", "type": "message", "role": "assistant", "model": body["model"], "content": [],
               "stop_reason": None, "stop_sequence": None, "usage": {"input_tokens": 20, "output_tokens": 1}}
    yield {"type": "message_start", "message": message}
    blocks = []
    if talk.outputs:
        deltas = [{"type": "text_delta", "text": piece} for piece in pieces(talk.final_text)]
        blocks.append(({"type": "text", "text": ""}, deltas))
    else:
        thinking = [{"type": "thinking_delta", "thinking": "Three things at once."},
                    {"type": "signature_delta", "signature": "c2lnbmVk"}]
        blocks.append(({"type": "thinking", "thinking": "", "signature": ""}, thinking))
        for call, name, arguments in CALLS:
            deltas = [{"type": "input_json_delta", "partial_json": piece} for piece in pieces(json.dumps(arguments))]
            blocks.append(({"type": "tool_use", "id": call, "name": name, "input": {}}, deltas))
    for index, (block, deltas) in enumerate(blocks):
        yield {"type": "content_block_start", "index": index, "content_block": block}
        for delta in deltas:
            yield {"type": "content_block_delta", "index": index, "delta": delta}
        yield {"type": "content_block_stop", "index": index}
    stop = {"stop_reason": "end_turn" if talk.outputs else "tool_use", "stop_sequence": None}
    yield {"type": "message_delta", "delta": stop, "usage": {"output_tokens": 10}}
    yield {"type": "message_stop"}


DIALECTS = {"/v1/chat/completions": ("chat", chat), "/v1/responses": ("responses", responses),
            "/v1/messages": ("messages", messages)}


class Backend(ThreadingHTTPServer):
    """Serves on a port of the system's choice, in a thread of its own."""

    daemon_threads = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.bodies, self.misfits, self.seen = [], [], set()
        self.check_bodies = True
        threading.Thread(target=self.serve_forever, daemon=True).start()

    @property
    def port(self):
        return self.server_address[1]


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        dialect, speak = DIALECTS.get(self.path.split("?")[0], (None, None))
        if speak is None:
            return self.refuse(404, "not_found_error", f"nothing is at {self.path}")
        self.server.bodies.append((dialect, body))
        if self.server.check_bodies:
            misfit = published.misfit(dialect, body)
            if misfit:
                self.server.misfits.append((dialect, misfit))
                return self.refuse(400, "invalid_request_error", misfit)
        talk = Conversation(body)
        if "fail-401" in talk.prompt:
            return self.refuse(401, "invalid_api_key", "Incorrect API key provided: it is the scripted one")
        if "fail-context" in talk.prompt:
            return self.refuse(400, "context_length_exceeded", "This model's maximum context length is 10 tokens.")
        if "fail-429-once" in talk.prompt and talk.prompt not in self.server.seen:
            self.server.seen.add(talk.prompt)
            return self.refuse(429, "rate_limit_exceeded", "slow down")
        self.stream(dialect, speak(body, talk))

    def stream(self, dialect, events):
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("connection", "close")
        self.end_headers()
        for event in events:
            name = f"event: {event['type']}\n" if dialect != "chat" else ""
            self.wfile.write(f"{name}data: {json.dumps(event)}\n\n".encode())
        if dialect == "chat":
            self.wfile.write(b"data: [DONE]\n\n")
        self.close_connection = True

    def refuse(self, status, code, message):
        error = {"type": "error", "error": {"type": code, "code": code, "message": message, "param": None}}
        text = json.dumps(error).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)
