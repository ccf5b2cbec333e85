"""A scripted model on loopback that speaks OpenAI Responses.

What it says is chosen by the last prompt that it has a script for: the first step answers the prompt, the next one answers
what the first step's calls came to, and so on. The same script serves both programs, so ids of calls are equal in both.

A step is a dict of what the model does, in this order: `reasoning` (a summary, in pieces), `text` (in pieces), `commands`
(arguments of `exec_command`), `patch`. Or `status` and `body`: it answers with that instead; or `failed`: it ends the stream
with that error; or `hold`: it begins with that text and says no
more until it is let go. `{place}` in any of them is the conversation's own directory.
"""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

USAGE = {"input_tokens": 100, "output_tokens": 20, "total_tokens": 120,
         "input_tokens_details": {"cached_tokens": 40}, "output_tokens_details": {"reasoning_tokens": 5}}


def texts(item):
    content = item.get("content")
    if isinstance(content, str):
        return [content]
    return [part.get("text", "") for part in content or []]


def position(body, script):
    """The prompt that is being answered, and how many responses it has had."""
    prompt, place = None, 0
    for item in body["input"]:
        if item.get("role") == "user":
            known = [text for text in texts(item) if text in script]
            if known:
                prompt, place = known[-1], 0
        elif item.get("type") in ("function_call", "custom_tool_call"):
            place = max(place, int(item["call_id"].rsplit("_", 2)[1]) + 1)
    return prompt, place


def pieces(text):
    return [text[: len(text) // 2], text[len(text) // 2:]]


class Stream:
    """The events of one response."""

    def __init__(self, name, model, step, tools):
        self.events, self.items = [], []
        whole = {"id": f"resp_{name}", "object": "response", "created_at": 1, "model": model, "status": "in_progress",
                 "output": [], "usage": None}
        self.tell("response.created", response=whole)
        if "reasoning" in step:
            self.reason(f"rs_{name}", step["reasoning"])
        if "text" in step:
            self.say(f"msg_{name}", step["text"])
        if "hold" in step:
            self.begin_to_say(f"msg_{name}", step["hold"])
        for number, arguments in enumerate(step.get("commands", [])):
            self.call(f"fc_{name}_{number}", "function_call", f"call_{name}_{number}", "exec_command", "arguments",
                      json.dumps(arguments))
        if "patch" in step:
            name_and_call = f"ctc_{name}_9", f"call_{name}_9"
            if "apply_patch" in tools["custom"]:
                self.call(name_and_call[0], "custom_tool_call", name_and_call[1], "apply_patch", "input", step["patch"])
            else:
                self.call(name_and_call[0], "function_call", name_and_call[1], "apply_patch", "arguments",
                          json.dumps({"input": step["patch"]}))
        if "failed" in step:
            self.tell("response.failed", response={**whole, "status": "failed", "error": step["failed"]})
        elif "hold" not in step:
            self.tell("response.completed", response={**whole, "status": "completed", "output": self.items, "usage": USAGE})

    def tell(self, kind, **more):
        self.events.append({"type": kind, "sequence_number": len(self.events), **more})

    def item(self, begun, deltas, done):
        index = len(self.items)
        self.tell("response.output_item.added", output_index=index, item=begun)
        for kind, more in deltas:
            self.tell(kind, item_id=begun["id"], output_index=index, **more)
        self.items.append(done)
        self.tell("response.output_item.done", output_index=index, item=done)

    def reason(self, name, summary):
        part = {"type": "summary_text", "text": summary}
        begun = {"id": name, "type": "reasoning", "summary": [], "encrypted_content": None}
        deltas = [("response.reasoning_summary_part.added", {"summary_index": 0, "part": {**part, "text": ""}})]
        deltas += [("response.reasoning_summary_text.delta", {"summary_index": 0, "delta": piece})
                   for piece in pieces(summary)]
        deltas += [("response.reasoning_summary_text.done", {"summary_index": 0, "text": summary}),
                   ("response.reasoning_summary_part.done", {"summary_index": 0, "part": part})]
        self.item(begun, deltas, {**begun, "summary": [part], "encrypted_content": "c2VhbGVk"})

    def say(self, name, text):
        part = {"type": "output_text", "text": text, "annotations": []}
        begun = {"id": name, "type": "message", "status": "in_progress", "role": "assistant", "content": []}
        deltas = [("response.content_part.added", {"content_index": 0, "part": {**part, "text": ""}})]
        deltas += [("response.output_text.delta", {"content_index": 0, "delta": piece}) for piece in pieces(text)]
        deltas += [("response.output_text.done", {"content_index": 0, "text": text}),
                   ("response.content_part.done", {"content_index": 0, "part": part})]
        self.item(begun, deltas, {**begun, "status": "completed", "content": [part]})

    def begin_to_say(self, name, text):
        begun = {"id": name, "type": "message", "status": "in_progress", "role": "assistant", "content": []}
        self.tell("response.output_item.added", output_index=0, item=begun)
        part = {"type": "output_text", "text": "", "annotations": []}
        self.tell("response.content_part.added", item_id=name, output_index=0, content_index=0, part=part)
        self.tell("response.output_text.delta", item_id=name, output_index=0, content_index=0, delta=text)

    def call(self, name, kind, call, tool, field, given):
        begun = {"id": name, "type": kind, "status": "in_progress", "call_id": call, "name": tool, field: ""}
        said = {"function_call": "response.function_call_arguments", "custom_tool_call": "response.custom_tool_call_input"}
        deltas = [(f"{said[kind]}.delta", {"delta": given}), (f"{said[kind]}.done", {field: given})]
        self.item(begun, deltas, {**begun, "status": "completed", field: given})


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        self.answer(404, b"{}")

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        if self.path != "/v1/responses":
            self.answer(404, b"{}")
            return
        prompt, place = position(body, self.server.script)
        steps = self.server.script.get(prompt, [])
        step = steps[place] if place < len(steps) else {"text": f"no step {place} for {prompt!r}"}
        self.server.asked(prompt, place, body)
        if "status" in step:
            self.answer(step["status"], json.dumps(step["body"]).encode())
            return
        tools = {"custom": {tool.get("name") for tool in body.get("tools", []) if tool.get("type") == "custom"}}
        name = f"{sorted(self.server.script).index(prompt) if prompt in self.server.script else 'x'}_{place}"
        stream = Stream(name, body["model"], step, tools)
        told = "".join(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in stream.events).encode()
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("connection", "close")
        self.end_headers()
        try:
            self.wfile.write(told)
            self.wfile.flush()
            if "hold" in step:
                self.server.let_go.wait()
        except ConnectionError:
            # Whoever asked is gone.
            pass
        self.close_connection = True

    def answer(self, status, body):
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        """Nothing: every request would be a line."""


class Model(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, script, place):
        super().__init__(("127.0.0.1", 0), Handler)
        self.script = json.loads(json.dumps(script).replace("{place}", str(place)))
        self.requests, self.let_go = [], threading.Event()
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def asked(self, prompt, place, body):
        self.requests.append((prompt, place, body))

    @property
    def base_url(self):
        return f"http://127.0.0.1:{self.server_port}/v1"

    def __exit__(self, *_):
        self.let_go.set()
        self.shutdown()
        self.server_close()
