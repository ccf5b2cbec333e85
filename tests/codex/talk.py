"""One conversation with a server over its standard streams: what is sent and what comes back is kept as it was."""

import json
import queue
import subprocess
import threading
import time

PATIENCE_SECONDS = 60
# Codex does not end by itself after an abort, so it is killed then.
HANG_SECONDS = 3


class Talk:
    """`answers_all` tells whether the program answers calls also after their turn was aborted."""

    def __init__(self, command, environment, directory, errors, answers_all):
        self.messages, self.lines, self.next, self.answers_all = [], queue.Queue(), 1, answers_all
        self.program = subprocess.Popen(
            command, env=environment, cwd=directory, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors)
        threading.Thread(target=self.read, daemon=True).start()
        self.seen = 0

    def read(self):
        for line in self.program.stdout:
            self.lines.put(line)
        self.lines.put(None)

    def send(self, message):
        message = {"jsonrpc": "2.0", **message}
        self.messages.append(("client", message))
        self.program.stdin.write(json.dumps(message).encode() + b"\n")
        self.program.stdin.flush()

    def request(self, method, params=None):
        name = self.next
        self.next += 1
        self.send({"id": name, "method": method, **({} if params is None else {"params": params})})
        return name

    def call(self, tool, arguments=None):
        params = {"name": tool} if arguments is None else {"name": tool, "arguments": arguments}
        return self.request("tools/call", params)

    def until(self, wanted, what):
        """The next message that is wanted, of those that no earlier wait has passed."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while True:
            while self.seen < len(self.messages):
                way, message = self.messages[self.seen]
                self.seen += 1
                if way == "server" and wanted(message):
                    return message
            self.next_line(deadline, what)

    def next_line(self, deadline, what):
        try:
            line = self.lines.get(timeout=max(0, deadline - time.monotonic()))
        except queue.Empty:
            raise TimeoutError(f"{what} did not come in {PATIENCE_SECONDS} s; last: {self.messages[-3:]}") from None
        if line is None:
            raise EOFError(f"the output ended before {what}")
        self.messages.append(("server", json.loads(line)))

    def answer(self, name):
        """The answer to a request, also one that came while something else was waited for."""
        for way, message in self.messages:
            if way == "server" and message.get("id") == name and "method" not in message:
                return message
        return self.until(lambda message: message.get("id") == name and "method" not in message, f"the answer to {name}")

    def event(self, kind):
        return self.until(
            lambda message: message.get("method") == "codex/event" and message["params"]["msg"]["type"] == kind, kind)

    def question(self, answer):
        """Answers the next question."""
        asked = self.until(lambda message: message.get("method") == "elicitation/create", "a question")
        self.send({"id": asked["id"], "result": answer})
        return asked

    def ask(self, method, params=None):
        return self.answer(self.request(method, params))

    def tool(self, tool, arguments=None, answers=()):
        """A whole call. Its questions get the answers in order; the last one is for all that come after it too."""
        name, left = self.call(tool, arguments), list(answers)
        while True:
            told = self.until(lambda message: message.get("id") == name or message.get("method") == "elicitation/create",
                              f"the answer to {name}")
            if "method" not in told:
                return told
            if not left:
                raise EOFError(f"an unforeseen question: {told}")
            self.send({"id": told["id"], "result": left.pop(0) if len(left) > 1 else left[0]})

    def aborted(self, name):
        """Waits until the turn of a call was aborted."""
        self.event("turn_aborted")
        if self.answers_all:
            self.answer(name)

    def cancel(self, name):
        """Gives a call up, and waits for what is said of it: Codex tells that the turn was aborted."""
        self.send({"method": "notifications/cancelled", "params": {"requestId": name, "reason": "changed my mind"}})
        if not self.answers_all:
            self.event("turn_aborted")

    def initialize(self):
        told = self.ask("initialize", {
            "protocolVersion": "2025-06-18", "capabilities": {"elicitation": {}},
            "clientInfo": {"name": "golden", "title": "Golden", "version": "1"}})
        self.send({"method": "notifications/initialized"})
        return told

    def end(self):
        """Closes the input and reads what is still said."""
        self.ask("ping")
        self.program.stdin.close()
        try:
            self.program.wait(PATIENCE_SECONDS if self.answers_all else HANG_SECONDS)
        except subprocess.TimeoutExpired:
            if self.answers_all:
                raise
            self.program.kill()
            self.program.wait()
        while (line := self.lines.get(timeout=PATIENCE_SECONDS)) is not None:
            self.messages.append(("server", json.loads(line)))
