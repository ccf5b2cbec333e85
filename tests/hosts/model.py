"""One scripted model server on loopback for the hosts and for OpenOxide.

It speaks Anthropic Messages, OpenAI Responses, OpenAI Chat Completions and Gemini. Who asks is told by the key that the request
carries; what is answered comes from a script of that name: a generator that yields what the model says or calls and is sent
the output of each call. It is replayed from the conversation of every request, so that a request which is sent twice, or a side
question of the host, changes nothing.
"""

import dataclasses
import json
import threading
import time
import urllib.parse
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

# A prompt that is meant for a script begins with this, and what stands before it is the host's.
MARK = "[[scripted"
WORD_SECONDS = 3


@dataclasses.dataclass
class Say:
    """Text, spread over so many seconds."""
    text: str
    seconds: float = 0


@dataclasses.dataclass
class Call:
    tool: str
    arguments: dict


@dataclasses.dataclass
class Asked:
    """What all four APIs tell: the tools by name, the prompts with the mark, the outputs of calls after the last of them."""
    tools: dict
    prompts: list
    outputs: list


def text_of(content):
    """The text of a message, or of a tool's output, in any of the four APIs."""
    if content is None:
        return ""
    if isinstance(content, str):
        return content
    if isinstance(content, dict):
        return content["text"] if isinstance(content.get("text"), str) else json.dumps(content)
    return "\n".join(text_of(part) for part in content)


class Conversation:
    """Collects the last prompt and the outputs behind it."""

    def __init__(self):
        self.prompts, self.outputs = [], []

    def user(self, text):
        if MARK in text:
            self.prompts.append(text)
            self.outputs = []

    def output(self, content):
        self.outputs.append(text_of(content))

    def asked(self, tools):
        return Asked(tools, self.prompts, self.outputs)


# --- Anthropic Messages

def read_messages(body):
    seen = Conversation()
    for message in body.get("messages") or []:
        content = message.get("content")
        for part in [{"type": "text", "text": content}] if isinstance(content, str) else content or []:
            if part.get("type") == "tool_result":
                seen.output(part.get("content"))
            elif message.get("role") == "user" and part.get("type") == "text":
                seen.user(part["text"])
    return seen.asked({tool["name"]: tool.get("input_schema") for tool in body.get("tools") or [] if "name" in tool})


def write_messages(body, action, number):
    whole = {"id": f"msg_{number}", "type": "message", "role": "assistant", "model": body.get("model"), "content": [],
             "stop_reason": None, "stop_sequence": None, "usage": {"input_tokens": 20, "output_tokens": 1}}

    def event(kind, **data):
        return kind, {"type": kind, **data}

    yield event("message_start", message=whole)
    if isinstance(action, Call):
        block = {"type": "tool_use", "id": f"toolu_{number}", "name": action.tool, "input": {}}
        deltas = [{"type": "input_json_delta", "partial_json": json.dumps(action.arguments)}]
    else:
        block = {"type": "text", "text": ""}
        deltas = ({"type": "text_delta", "text": word} for word in words(action))
    yield event("content_block_start", index=0, content_block=block)
    for delta in deltas:
        yield event("content_block_delta", index=0, delta=delta)
    yield event("content_block_stop", index=0)
    stop = "tool_use" if isinstance(action, Call) else "end_turn"
    yield event("message_delta", delta={"stop_reason": stop, "stop_sequence": None}, usage={"output_tokens": 9})
    yield event("message_stop")


def whole_messages(body, action, number):
    block = {"type": "text", "text": action.text} if isinstance(action, Say) else {
        "type": "tool_use", "id": f"toolu_{number}", "name": action.tool, "input": action.arguments}
    return {"id": f"msg_{number}", "type": "message", "role": "assistant", "model": body.get("model"), "content": [block],
            "stop_reason": "end_turn" if isinstance(action, Say) else "tool_use", "stop_sequence": None,
            "usage": {"input_tokens": 20, "output_tokens": 9}}


# --- OpenAI Responses

def read_responses(body):
    seen, tools = Conversation(), {}
    for item in body.get("input") or []:
        if item.get("type", "message") == "message" and item.get("role") == "user":
            seen.user(text_of(item.get("content")))
        elif item.get("type", "").endswith("_output"):
            seen.output(item.get("output"))
    for tool in body.get("tools") or []:
        # A namespace holds the tools of one MCP server; a call names both.
        for inner in tool.get("tools") or [tool]:
            space = tool["name"] + "/" if inner is not tool else ""
            tools[space + (inner.get("name") or inner["type"])] = inner.get("parameters")
    return seen.asked(tools)


def write_responses(body, action, number):
    whole = {"id": f"resp_{number}", "object": "response", "created_at": 1, "model": body.get("model"), "output": []}
    order = iter(range(1 << 20))

    def event(kind, **data):
        return kind, {"type": kind, "sequence_number": next(order), **data}

    yield event("response.created", response={**whole, "status": "in_progress"})
    if isinstance(action, Call):
        space, _, name = action.tool.rpartition("/")
        item = {"id": f"fc_{number}", "type": "function_call", "call_id": f"call_{number}", "name": name,
                "arguments": json.dumps(action.arguments), **({"namespace": space} if space else {})}
        yield event("response.output_item.added", output_index=0, item={**item, "arguments": ""})
    else:
        item = {"id": f"msg_{number}", "type": "message", "role": "assistant", "status": "completed",
                "content": [{"type": "output_text", "text": action.text, "annotations": []}]}
        yield event("response.output_item.added", output_index=0, item={**item, "content": [], "status": "in_progress"})
        for word in words(action):
            yield event("response.output_text.delta", item_id=item["id"], output_index=0, content_index=0, delta=word)
    yield event("response.output_item.done", output_index=0, item=item)
    usage = {"input_tokens": 20, "input_tokens_details": {"cached_tokens": 0}, "output_tokens": 9,
             "output_tokens_details": {"reasoning_tokens": 0}, "total_tokens": 29}
    yield event("response.completed", response={**whole, "status": "completed", "output": [item], "usage": usage})


def whole_responses(body, action, number):
    return [data for _, data in write_responses(body, action, number)][-1]["response"]


# --- OpenAI Chat Completions

def read_chat(body):
    seen = Conversation()
    for message in body.get("messages") or []:
        if message.get("role") == "user":
            seen.user(text_of(message.get("content")))
        elif message.get("role") == "tool":
            seen.output(message.get("content"))
    return seen.asked({tool["function"]["name"]: tool["function"].get("parameters") for tool in body.get("tools") or []})


def chat_call(action, number):
    return {"id": f"call_{number}", "type": "function",
            "function": {"name": action.tool, "arguments": json.dumps(action.arguments)}}


def write_chat(body, action, number):
    def event(delta, finish=None, **more):
        choices = [{"index": 0, "delta": delta, "finish_reason": finish}]
        return None, {"id": f"chatcmpl-{number}", "object": "chat.completion.chunk", "created": 1, "model": body.get("model"),
                      "choices": choices, **more}

    if isinstance(action, Call):
        yield event({"role": "assistant", "content": None, "tool_calls": [{"index": 0, **chat_call(action, number)}]})
        yield event({}, "tool_calls")
    else:
        yield event({"role": "assistant", "content": ""})
        for word in words(action):
            yield event({"content": word})
        yield event({}, "stop")
    yield event({}, choices=[], usage={"prompt_tokens": 20, "completion_tokens": 9, "total_tokens": 29})
    yield None, "[DONE]"


def whole_chat(body, action, number):
    message = {"role": "assistant", "content": action.text if isinstance(action, Say) else None}
    if isinstance(action, Call):
        message["tool_calls"] = [chat_call(action, number)]
    return {"id": f"chatcmpl-{number}", "object": "chat.completion", "created": 1, "model": body.get("model"),
            "choices": [{"index": 0, "message": message, "finish_reason": "stop" if isinstance(action, Say) else "tool_calls"}],
            "usage": {"prompt_tokens": 20, "completion_tokens": 9, "total_tokens": 29}}


# --- Gemini

def read_gemini(body):
    seen = Conversation()
    for message in body.get("contents") or []:
        for part in message.get("parts") or []:
            if "functionResponse" in part:
                seen.output(part["functionResponse"].get("response"))
            elif message.get("role") == "user" and "text" in part:
                seen.user(part["text"])
    return seen.asked({function["name"]: function.get("parametersJsonSchema") or function.get("parameters")
                       for tool in body.get("tools") or [] for function in tool.get("functionDeclarations") or []})


def gemini_part(part, finish=None):
    candidate = {"index": 0, "content": {"role": "model", "parts": [part]}}
    if finish:
        candidate["finishReason"] = finish
    return {"candidates": [candidate], "modelVersion": "scripted",
            "usageMetadata": {"promptTokenCount": 20, "candidatesTokenCount": 9, "totalTokenCount": 29}}


def write_gemini(body, action, number):
    yield None, whole_gemini(body, action, number)


def whole_gemini(_body, action, number):
    if isinstance(action, Call):
        return gemini_part({"functionCall": {"id": f"call_{number}", "name": action.tool, "args": action.arguments}}, "STOP")
    return gemini_part({"text": action.text}, "STOP")


def words(action):
    """The text in pieces; one every few seconds where it takes long."""
    begun = time.monotonic()
    while (left := begun + action.seconds - time.monotonic()) > 0:
        time.sleep(min(WORD_SECONDS, left))
        yield "working "
    yield action.text


APIS = {
    "/messages": (read_messages, write_messages, whole_messages),
    "/responses": (read_responses, write_responses, whole_responses),
    "/chat/completions": (read_chat, write_chat, whole_chat),
    ":generateContent": (read_gemini, None, whole_gemini),
    ":streamGenerateContent": (read_gemini, write_gemini, None),
}


class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        self.server.note(self, "")
        path = urllib.parse.urlsplit(self.path).path
        if path.endswith("/models"):
            self.give(200, {"object": "list", "data": [{"id": "scripted", "object": "model", "created": 1, "owned_by": "test"}],
                            "models": []})
        else:
            self.give(404, {"error": {"message": f"no such path: GET {path}"}})

    def do_CONNECT(self):
        # Hosts have this server for a proxy, so that what they would fetch from elsewhere is refused here.
        self.server.note(self, "")
        self.give(403, {"error": {"message": "this test is offline"}})

    def do_POST(self):
        raw = self.rfile.read(int(self.headers.get("content-length") or 0))
        self.server.note(self, raw.decode(errors="replace"))
        path = urllib.parse.urlsplit(self.path).path
        api = next((api for end, api in APIS.items() if path.endswith(end)), None)
        if api is None:
            tokens = {"input_tokens": len(raw) // 4, "totalTokens": len(raw) // 4}
            known = path.endswith(("/count_tokens", ":countTokens"))
            self.give(200 if known else 404, tokens if known else {"error": {"message": f"no such path: POST {path}"}})
            return
        read, write, whole = api
        body = json.loads(raw)
        action = self.server.next_action(self.key(), read(body))
        number = self.server.number()
        if whole and (write is None or not body.get("stream")):
            self.give(200, whole(body, action, number))
            return
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.end_headers()
        try:
            for kind, data in write(body, action, number):
                head = f"event: {kind}\n" if kind else ""
                text = data if isinstance(data, str) else json.dumps(data)
                self.wfile.write(f"{head}data: {text}\n\n".encode())
                self.wfile.flush()
        except ConnectionError:
            # The caller is gone; its own results tell of it.
            pass

    def key(self):
        bearer = self.headers.get("authorization", "").removeprefix("Bearer ")
        return self.headers.get("x-api-key") or self.headers.get("x-goog-api-key") or bearer

    def give(self, status, value):
        body = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        """Nothing: every request would be a line."""


class ModelServer(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 64

    def __init__(self, scripts, log=None):
        """`scripts`: by key, a function of what was asked that returns the generator. `log`: a file for every request."""
        super().__init__(("127.0.0.1", 0), Handler)
        self.scripts, self.log, self.lock, self.count = scripts, log, threading.Lock(), 0
        threading.Thread(target=self.serve_forever, daemon=True).start()

    @property
    def origin(self):
        return f"http://127.0.0.1:{self.server_port}"

    def number(self):
        with self.lock:
            self.count += 1
            return self.count

    def note(self, request, text):
        if self.log:
            with self.lock:
                self.log.write(json.dumps([request.key(), request.command, request.path, text]) + "\n")
                self.log.flush()

    def next_action(self, key, asked):
        """What the script says to the conversation so far."""
        if key not in self.scripts or not asked.tools or not asked.prompts:
            # A side question: a title, a summary, which model to take.
            return Say("scripted")
        script = self.scripts[key](asked)
        action = next(script)
        for output in asked.outputs:
            try:
                action = script.send(output)
            except StopIteration:
                return Say("the script is over")
        return action
