"""A driver of ours over WebSocket and a unix socket: who is let in, what is told, two clients on one thread, and every method
that the Python SDK does not call.

usage: sockets.py PROGRAM TRACES
"""

import contextlib
import json
import pathlib
import re
import signal
import stat
import subprocess
import sys
import urllib.error
import urllib.request

from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect, unix_connect

from place import expect, place

PATIENCE_SECONDS = 60
TOKENS = {"ada": "ada-0123456789-abcdefghijklmnop", "bob": "bob-0123456789-abcdefghijklmnop"}


@contextlib.contextmanager
def served(program, work, environment, *arguments):
    """The server, and where it listens."""
    server = subprocess.Popen([program, "app-server", *arguments], cwd=work, env=environment, stdin=subprocess.DEVNULL,
                              stderr=subprocess.PIPE, text=True)
    try:
        line = server.stderr.readline()
        found = re.search(r"listening on (\S+)", line)
        expect(found, f"it does not say where it listens: {line}{server.stderr.read() if not found else ''}")
        yield found.group(1), server
    finally:
        server.send_signal(signal.SIGTERM)
        try:
            expect(server.wait(PATIENCE_SECONDS) == 0, f"it ended with {server.returncode}")
        finally:
            server.kill()


class Client:
    """One connection, whose messages are written down."""

    def __init__(self, socket, trace):
        self.socket, self.trace, self.last, self.held = socket, trace, 0, []

    def send(self, message):
        self.write("client", message)
        self.socket.send(json.dumps(message))

    def write(self, way, message):
        with open(self.trace, "a") as trace:
            trace.write(f"{way} {json.dumps(message)}\n")

    def read(self):
        message = json.loads(self.socket.recv(timeout=PATIENCE_SECONDS))
        self.write("server", message)
        expect("jsonrpc" not in message, message)
        return message

    def next(self):
        return self.held.pop(0) if self.held else self.read()

    def answer(self, method, params=None):
        self.last += 1
        self.send({"id": self.last, "method": method, **({} if params is None else {"params": params})})
        while True:
            message = self.read()
            if message.get("id") == self.last and "method" not in message:
                return message
            self.held.append(message)

    def request(self, method, params=None):
        answer = self.answer(method, params)
        expect("result" in answer, f"{method}: {answer}")
        return answer["result"]

    def until(self, method):
        messages = []
        while not messages or messages[-1].get("method") != method:
            messages.append(self.next())
        return messages

    def initialize(self):
        self.request("initialize", {"clientInfo": {"name": "driver", "title": None, "version": "1"},
                                    "capabilities": {"experimentalApi": True}})
        self.send({"method": "initialized"})
        return self

    def turn(self, thread, text):
        return self.request("turn/start", {"threadId": thread, "input": [{"type": "text", "text": text}]})["turn"]["id"]


def status_of(url, **headers):
    try:
        return urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=PATIENCE_SECONDS).status
    except urllib.error.HTTPError as error:
        return error.code


def refused(make):
    try:
        with make():
            return None
    except InvalidStatus as error:
        return error.response.status_code


def websocket(program, traces):
    with place() as (work, environment, _):
        with served(program, work, environment, "--listen", "ws://127.0.0.1:0") as (url, _):
            http = url.replace("ws://", "http://")
            for path in ("/healthz", "/readyz"):
                expect(status_of(http + path) == 200, path)
                expect(status_of(http + path, Origin="http://localhost") == 403, f"{path} of a page")
            expect(refused(lambda: connect(url, origin="http://localhost")) == 403, "a page is let in")
            with connect(url) as one, connect(url) as two:
                one = Client(one, traces / "websocket-1").initialize()
                two = Client(two, traces / "websocket-2").initialize()
                everything(one)
                two_clients(one, two, work)
                questions(one, work)
                refusals(two)


def everything(client):
    """Every method that is asked at the start."""
    for method, params in [("account/read", {}), ("getAuthStatus", {}), ("model/list", {"includeHidden": True}),
                           ("config/read", {"includeLayers": False}), ("configRequirements/read", None),
                           ("permissionProfile/list", {}), ("skills/list", {}), ("mcpServerStatus/list", {}),
                           ("thread/list", {"limit": 5, "sortKey": "updated_at"})]:
        client.request(method, params)
    # Over a listener the most is workspace-write.
    modes = client.request("configRequirements/read")["requirements"]["allowedSandboxModes"]
    expect(modes == ["read-only", "workspace-write"], modes)


def two_clients(one, two, work):
    """One thread, both asked, one decision."""
    opened = one.request("thread/start", {"cwd": str(work), "approvalPolicy": "untrusted", "sandbox": "workspace-write"})
    thread = opened["thread"]["id"]
    two.request("thread/resume", {"threadId": thread})
    turn = one.turn(thread, "patch a file")
    method = "item/fileChange/requestApproval"
    first, second = one.until(method)[-1], two.until(method)[-1]
    expect(first["params"]["itemId"] == second["params"]["itemId"], (first, second))
    two.send({"id": second["id"], "result": {"decision": "accept"}})
    for client, asked in ((one, first), (two, second)):
        told = client.until("turn/completed")
        resolved = [message["params"]["requestId"] for message in told if message["method"] == "serverRequest/resolved"]
        expect(resolved == [asked["id"]], told)
        expect(told[-1]["params"]["turn"]["id"] == turn, told[-1])
        expect("turn/diff/updated" in [message["method"] for message in told], told)
    expect((work / "note.txt").read_text() == "one\ntwo\n", "the patch was done")
    one.send({"id": first["id"], "result": {"decision": "decline"}})
    # Joined, steered and interrupted.
    turn = one.turn(thread, "wait for me")
    one.until("item/agentMessage/delta")
    expect(two.turn(thread, "and this too") == turn, "it joins the turn")
    wrong = two.answer("turn/steer", {"threadId": thread, "expectedTurnId": "x", "input": [{"type": "text", "text": "y"}]})
    expect(wrong["error"]["message"] == f"expected active turn id `x` but found `{turn}`", wrong)
    two.request("turn/interrupt", {"threadId": thread, "turnId": turn})
    expect(one.until("turn/completed")[-1]["params"]["turn"]["status"] == "interrupted", "it is interrupted")
    two.until("turn/completed")
    one.request("thread/read", {"threadId": thread, "includeTurns": True})
    expect(two.request("thread/unsubscribe", {"threadId": thread}) == {"status": "unsubscribed"}, "it was followed")


def questions(client, work):
    """What the model asks, and its plan."""
    thread = client.request("thread/start", {"cwd": str(work)})["thread"]["id"]
    client.turn(thread, "ask me")
    asked = client.until("item/tool/requestUserInput")[-1]
    first, second = asked["params"]["questions"]
    expect((first["id"], first["isOther"], second["options"]) == ("db", True, None), asked)
    client.send({"id": asked["id"], "result": {"answers": {"db": {"answers": ["two"]}, "name": {"answers": ["ann"]}}}})
    told = client.until("turn/completed")
    expect(told[-1]["params"]["turn"]["items"][0]["text"] == "noted", told[-1])
    client.turn(thread, "ask me")
    asked = client.until("item/tool/requestUserInput")[-1]
    client.send({"id": asked["id"], "error": {"code": -32000, "message": "User cancelled input"}})
    client.until("turn/completed")
    client.turn(thread, "plan it")
    plan = client.until("turn/plan/updated")[-1]["params"]["plan"]
    expect(plan == [{"step": "one", "status": "inProgress"}, {"step": "two", "status": "pending"}], plan)
    client.until("turn/completed")


def refusals(client):
    for line, code in [("nonsense", -32700), ("[]", -32600), ("7", -32600)]:
        client.socket.send(line)
        answer = client.next()
        expect(answer["id"] is None and answer["error"]["code"] == code, (line, answer))
    for method, params, code, part in [
            ("thread/name/set", {"threadId": "x", "name": "y"}, -32601, "thread/name/set is not supported by OpenOxide"),
            ("thread/compact/start", {"threadId": "x"}, -32601, "not supported"),
            ("thread/start", {"sandbox": "danger-full-access"}, -32600, "workspace-write"),
            ("turn/start", {"threadId": "x", "input": []}, -32600, "thread not found: x"),
            ("initialize", {"clientInfo": {"name": "x", "version": "1"}}, -32600, "Already initialized")]:
        error = client.answer(method, params)["error"]
        expect(error["code"] == code and part in error["message"], (method, error))


def tokens(program, traces):
    """Each sees what it began."""
    with place() as (work, environment, _):
        file = work.parent / "tokens"
        file.write_text("".join(f"{name} {token}\n" for name, token in TOKENS.items()))
        file.chmod(0o600)
        with served(program, work, environment, "--listen", "ws://127.0.0.1:0", "--token-file", str(file)) as (url, _):
            expect(refused(lambda: connect(url)) == 401, "without a token")
            wrong = {"Authorization": "Bearer wrong-0123456789-abcdefghijklmnop"}
            expect(refused(lambda: connect(url, additional_headers=wrong)) == 401, "with a wrong one")
            bearer = {name: {"Authorization": f"Bearer {token}"} for name, token in TOKENS.items()}
            with (connect(url, additional_headers=bearer["ada"]) as ada,
                  connect(url, additional_headers=bearer["bob"]) as bob):
                each_its_own(Client(ada, traces / "token-ada").initialize(), Client(bob, traces / "token-bob").initialize(),
                             work)


def each_its_own(ada, bob, work):
    """Two callers who do not see each other's threads."""
    thread = ada.request("thread/start", {"cwd": str(work)})["thread"]["id"]
    ada.turn(thread, "say hello")
    ada.until("turn/completed")
    expect(len(ada.request("thread/list", {})["data"]) == 1, "her own")
    expect(bob.request("thread/list", {})["data"] == [], "not his")
    for method in ("thread/read", "thread/resume", "thread/archive", "thread/fork"):
        error = bob.answer(method, {"threadId": thread})["error"]
        expect(error["message"] == f"thread not found: {thread}", (method, error))
    error = bob.answer("turn/start", {"threadId": thread, "input": [{"type": "text", "text": "say hello"}]})["error"]
    expect(error["message"] == f"thread not found: {thread}", error)


def unix(program, traces):
    with place() as (work, environment, _):
        path = work.parent / "run" / "app.sock"
        with served(program, work, environment, "--listen", f"unix://{path}"):
            expect(stat.S_IMODE(path.stat().st_mode) == 0o600, oct(path.stat().st_mode))
            with unix_connect(str(path), uri="ws://localhost/") as socket:
                client = Client(socket, traces / "unix").initialize()
                thread = client.request("thread/start", {})["thread"]["id"]
                client.turn(thread, "say hello")
                ended = client.until("turn/completed")[-1]
                expect(ended["params"]["turn"]["items"][0]["text"] == "hello there", ended)
        expect(not path.exists(), "the socket goes with its server")


def stopped(program, traces):
    """A server that is told to end ends the turn and says so."""
    with place() as (work, environment, _):
        with served(program, work, environment, "--listen", "ws://127.0.0.1:0") as (url, server):
            with connect(url) as socket:
                client = Client(socket, traces / "stopped").initialize()
                thread = client.request("thread/start", {})["thread"]["id"]
                client.turn(thread, "wait for me")
                client.until("item/agentMessage/delta")
                server.send_signal(signal.SIGTERM)
                ended = client.until("turn/completed")[-1]
                expect(ended["params"]["turn"]["status"] == "interrupted", ended)


def gone(program, traces):
    """A client that dies while it is asked: the question is settled, and the turn goes on for whoever comes next."""
    with place() as (work, environment, model):
        with served(program, work, environment, "--listen", "ws://127.0.0.1:0") as (url, _):
            with connect(url) as first:
                one = Client(first, traces / "gone-1").initialize()
                opened = one.request("thread/start", {"cwd": str(work), "approvalPolicy": "untrusted"})
                thread = opened["thread"]["id"]
                one.turn(thread, "patch a file")
                one.until("item/fileChange/requestApproval")
                # Without a word.
                first.socket.close()
            with connect(url) as second:
                two = Client(second, traces / "gone-2").initialize()
                resumed = two.request("thread/resume", {"threadId": thread})
                if resumed["thread"]["status"]["type"] == "active":
                    two.until("turn/completed")
                turns = two.request("thread/read", {"threadId": thread, "includeTurns": True})["thread"]["turns"]
                expect([turn["status"] for turn in turns] == ["completed"], turns)
                expect(turns[0]["items"][-1]["text"] == "patched it", turns)
                expect(not (work / "note.txt").exists(), "nothing was approved")


def both(program, traces):
    """A thread that was begun over MCP is watched and approved over the app-server, and read again over MCP."""
    with place() as (work, environment, _):
        path = work.parent / "app.sock"
        command = [program, "mcp-server", "--app-server", f"unix://{path}"]
        server = subprocess.Popen(command, cwd=work, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                  stderr=subprocess.PIPE, text=True)
        try:
            expect("unix://" in server.stderr.readline(), "it says where it listens")
            mcp = Mcp(server)
            mcp.request(1, "initialize", {"protocolVersion": "2025-06-18", "capabilities": {"elicitation": {}},
                                          "clientInfo": {"name": "mcp", "version": "1"}})
            mcp.send({"method": "notifications/initialized"})
            mcp.send({"id": 2, "method": "tools/call", "params": {"name": "openoxide", "arguments": {
                "prompt": "patch a file", "cwd": str(work), "approval_policy": "untrusted"}}})
            asked = mcp.until(lambda message: message.get("method") == "elicitation/create")
            with unix_connect(str(path), uri="ws://localhost/") as socket:
                client = Client(socket, traces / "both").initialize()
                thread = client.request("thread/list", {})["data"][0]
                expect(thread["status"] == {"type": "active", "activeFlags": ["waitingOnApproval"]}, thread)
                client.request("thread/resume", {"threadId": thread["id"]})
                question = client.until("item/fileChange/requestApproval")[-1]
                client.send({"id": question["id"], "result": {"decision": "accept"}})
                told = client.until("turn/completed")
            result = mcp.until(lambda message: message.get("id") == 2)["result"]
            # The answer that comes too late changes nothing.
            mcp.send({"id": asked["id"], "result": {"action": "decline"}})
            expect(result["structuredContent"]["status"] == "completed", result)
            expect((work / "note.txt").read_text() == "one\ntwo\n", "the patch was done once")
            patches = [message["params"]["item"]["id"] for message in told
                       if message["method"] == "item/completed" and message["params"]["item"]["type"] == "fileChange"]
            items = [message["params"]["data"]["item"] for message in mcp.seen
                     if message.get("method") == "notifications/message" and "item" in message["params"]["data"]]
            of_mcp = [str(item["id"]) for item in items if item["type"] == "patch"]
            expect(patches == [question["params"]["itemId"]] and set(of_mcp) == set(patches), (patches, of_mcp))
            again = mcp.request(3, "tools/call", {"name": "openoxide-reply", "arguments": {
                "thread_id": thread["id"], "prompt": "say hello"}})
            expect(again["structuredContent"]["content"] == "hello there", again)
            server.stdin.close()
            expect(server.wait(PATIENCE_SECONDS) == 0, "it ends with its input")
            expect(not path.exists(), "the socket goes with its server")
        finally:
            server.kill()


class Mcp:
    """An MCP client on the streams of a process."""

    def __init__(self, server):
        self.server, self.seen = server, []

    def send(self, message):
        self.server.stdin.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
        self.server.stdin.flush()

    def until(self, wanted):
        while True:
            line = self.server.stdout.readline()
            expect(line, f"the server ended: {self.seen[-3:]}")
            self.seen.append(json.loads(line))
            if wanted(self.seen[-1]):
                return self.seen[-1]

    def request(self, name, method, params):
        self.send({"id": name, "method": method, "params": params})
        answer = self.until(lambda message: message.get("id") == name and "method" not in message)
        expect("result" in answer, answer)
        return answer["result"]


def main(program, traces):
    for scenario in (websocket, tokens, unix, stopped, gone, both):
        scenario(program, pathlib.Path(traces))
        print(f"sockets: {scenario.__name__}")


if __name__ == "__main__":
    main(*sys.argv[1:])
