"""Whole turns of the real binary against model servers, two of which nobody here wrote.

Directly against `backend.py`, which checks each body against the published types; through LiteLLM's proxy before the same
backend; and against aimock. Each in every dialect: a turn with reasoning, three tool calls at once and a patch, then a second
turn on the same thread, which replays all of it.

usage: providers.py PROGRAM LITELLM NODE AIMOCK
"""

import json
import os
import secrets
import subprocess
import sys
import tempfile
import time
import urllib.request

from backend import Backend, CALLS, PATCH

PATIENCE_SECONDS = 120
# The same for every server; LiteLLM does not start without one that nobody could guess.
KEY = "sk-" + secrets.token_hex(32)


def check(condition, what):
    if not condition:
        raise AssertionError(what)


class Server:
    """`openoxide mcp-server`, spoken to over its standard streams."""

    def __init__(self, program, directory, settings):
        arguments = [program, "mcp-server"]
        for key, value in settings.items():
            arguments += ["-c", f"{key}={json.dumps(value)}"]
        environment = {**os.environ, "OPENOXIDE_HOME": os.path.join(directory, "home"), "SCRIPTED_KEY": KEY}
        self.process = subprocess.Popen(
            arguments, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.last_id = 0
        self.warnings = []
        info = {"name": "providers", "version": "1"}
        self.request("initialize", {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": info})

    def request(self, method, params):
        self.last_id += 1
        message = {"jsonrpc": "2.0", "id": self.last_id, "method": method, "params": params}
        self.process.stdin.write(json.dumps(message) + "\n")
        self.process.stdin.flush()
        for line in self.process.stdout:
            answer = json.loads(line)
            data = answer.get("params", {}).get("data", {})
            if data.get("type") == "warning":
                self.warnings.append(data["message"])
            if answer.get("id") == self.last_id:
                return answer["result"]
        raise AssertionError(f"the server went away before it answered {method}")

    def call(self, tool, **arguments):
        result = self.request("tools/call", {"name": tool, "arguments": arguments})
        return {**result["structuredContent"], **result["_meta"]["openoxide/turn"]}

    def end(self):
        self.process.stdin.close()
        check(self.process.wait(PATIENCE_SECONDS) == 0, "the server ends well")


def settings(dialect, base_url, model):
    return {"model": model, "model_provider": "scripted", "model_providers.scripted.base_url": base_url,
            "model_providers.scripted.wire_api": dialect, "model_providers.scripted.env_key": "SCRIPTED_KEY",
            "model_reasoning_effort": "low"}


def converse(program, label, config, prompts=("do the three things", "do them again"), counts_tokens=True):
    """Two turns on one thread; the files and the words show that every call ran and was told of."""
    with tempfile.TemporaryDirectory(prefix="openoxide-providers-") as directory:
        work = os.path.join(directory, "work")
        os.mkdir(work)
        server = Server(program, directory, config)
        first = server.call("openoxide", prompt=prompts[0], cwd=work)
        check(first["status"] == "completed", (label, first))
        for word in ("said-one", "said-two"):
            check(word in first["content"], (label, word, first))
        check(os.path.exists(os.path.join(work, "one.txt")), (label, "the command ran"))
        check(os.path.exists(os.path.join(work, "patched.txt")), (label, "the patch was applied"))
        check(sorted(first["filesChanged"]) == ["one.txt", "patched.txt"], (label, first))
        check(first["usage"]["inputTokens"] > 0 or not counts_tokens, (label, first["usage"]))
        os.remove(os.path.join(work, "patched.txt"))
        second = server.call("openoxide-reply", thread_id=first["threadId"], prompt=prompts[1])
        check(second["status"] == "completed" and "said-two" in second["content"], (label, second))
        check(os.path.exists(os.path.join(work, "patched.txt")), (label, "the second patch was applied"))
        server.end()
    print(f"ok: {label}: reasoning, three calls at once, a patch, and all of it replayed", file=sys.stderr)


def fail(program, label, config, prompt, words):
    with tempfile.TemporaryDirectory(prefix="openoxide-providers-") as directory:
        server = Server(program, directory, config)
        result = server.call("openoxide", prompt=prompt, cwd=directory)
        check(result["status"] == "failed", (label, result))
        for word in words:
            check(word in result["content"], (label, word, result))
        server.end()
    print(f"ok: {label}: fails with the provider's words", file=sys.stderr)


def retry(program, label, config):
    with tempfile.TemporaryDirectory(prefix="openoxide-providers-") as directory:
        server = Server(program, directory, config)
        result = server.call("openoxide", prompt=f"fail-429-once {directory}", cwd=directory)
        check(result["status"] == "completed", (label, result))
        server.end()
        return server.warnings


def directly(program, backend):
    base = f"http://127.0.0.1:{backend.port}/v1"
    for dialect, models in (("responses", ("gpt-5.2-codex", "unheard-of")), ("chat", ("deepseek-chat", "unheard-of")),
                            ("messages", ("claude-sonnet-4-5", "claude-opus-4-6"))):
        for model in models:
            converse(program, f"{dialect}, {model}", settings(dialect, base, model))
        fail(program, f"{dialect}, 401", settings(dialect, base, model), "fail-401", ["Incorrect API key", "env_key"])
        fail(program, f"{dialect}, too long", settings(dialect, base, model), "fail-context", ["maximum context length"])
        warnings = retry(program, f"{dialect}, 429", settings(dialect, base, model))
        check(any("slow down" in warning for warning in warnings), (dialect, warnings))
    check(not backend.misfits, backend.misfits)
    check(len(backend.bodies) > 30, len(backend.bodies))
    print(f"ok: {len(backend.bodies)} bodies fit the published types", file=sys.stderr)


def wait_for(url, process):
    deadline = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < deadline:
        check(process.poll() is None, f"{process.args} ended with {process.returncode}")
        try:
            urllib.request.urlopen(url, timeout=5).read()
            return
        except urllib.error.HTTPError:
            return
        except OSError:
            time.sleep(0.2)
    raise AssertionError(f"{url} does not answer")


def free_port():
    import socket
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def through_litellm(program, litellm, backend):
    # What reaches the backend now is LiteLLM's writing, which is not ours to judge.
    backend.check_bodies = False
    with tempfile.TemporaryDirectory(prefix="openoxide-litellm-") as directory:
        port = free_port()
        origin = f"http://127.0.0.1:{backend.port}"
        models = [
            {"model_name": "by-openai", "litellm_params": {
                "model": "openai/gpt-5.2", "api_base": f"{origin}/v1", "api_key": "k"}},
            {"model_name": "by-anthropic", "litellm_params": {
                "model": "anthropic/claude-sonnet-4-5", "api_base": origin, "api_key": "k"}},
        ]
        path = os.path.join(directory, "config.yaml")
        with open(path, "w", encoding="utf-8") as file:
            # JSON is YAML.
            json.dump({"model_list": models, "litellm_settings": {"num_retries": 0, "drop_params": True}}, file)
        environment = {**os.environ, "LITELLM_LOCAL_MODEL_COST_MAP": "True", "LITELLM_TELEMETRY": "False",
                       "HOME": directory, "LITELLM_MASTER_KEY": KEY, "NO_PROXY": "127.0.0.1"}
        with open(os.path.join(directory, "log"), "wb") as log:
            proxy = subprocess.Popen(
                [litellm, "--config", path, "--host", "127.0.0.1", "--port", str(port), "--telemetry", "False"],
                env=environment, cwd=directory, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        try:
            wait_for(f"http://127.0.0.1:{port}/health/liveliness", proxy)
            base = f"http://127.0.0.1:{port}/v1"
            for dialect in ("responses", "chat", "messages"):
                for model in ("by-openai", "by-anthropic"):
                    converse(program, f"LiteLLM, {dialect}, {model}", settings(dialect, base, model))
            fail(program, "LiteLLM, 401", settings("chat", base, "by-openai"), "fail-401", ["Incorrect API key"])
            fail(program, "LiteLLM, too long", settings("chat", base, "by-openai"), "fail-context",
                 ["maximum context length"])
            retry(program, "LiteLLM, 429", settings("chat", base, "by-openai"))
        except BaseException:
            with open(os.path.join(directory, "log"), encoding="utf-8", errors="replace") as log:
                sys.stderr.write(log.read()[-6000:])
            raise
        finally:
            proxy.terminate()
            proxy.wait(PATIENCE_SECONDS)


def against_aimock(program, node, aimock):
    calls = [{"id": call, "name": name, "arguments": json.dumps(arguments)} for call, name, arguments in CALLS]
    fixtures = []
    for number, prompt in enumerate(("first prompt", "second prompt")):
        own = [{**call, "id": f"{call['id']}_{number}"} for call in calls]
        last = own[-1]["id"]
        fixtures.append({"match": {"userMessage": prompt, "toolCallId": last},
                         "response": {"content": "it said said-one and said-two"}})
        fixtures.append({"match": {"userMessage": prompt, "hasToolResult": False} if number == 0 else {"userMessage": prompt},
                         "response": {"toolCalls": own, "reasoning": "Three things at once."}})
    with tempfile.TemporaryDirectory(prefix="openoxide-aimock-") as directory:
        with open(os.path.join(directory, "fixtures.json"), "w", encoding="utf-8") as file:
            json.dump({"fixtures": fixtures}, file)
        port = free_port()
        with open(os.path.join(directory, "log"), "wb") as log:
            mock = subprocess.Popen(
                [node, aimock, "--fixtures", os.path.join(directory, "fixtures.json"), "--port", str(port),
                 "--host", "127.0.0.1"],
                cwd=directory, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        try:
            wait_for(f"http://127.0.0.1:{port}/health", mock)
            for dialect, model in (("responses", "gpt-5.2"), ("chat", "gpt-4.1"), ("messages", "claude-sonnet-4-5")):
                converse(program, f"aimock, {dialect}", settings(dialect, f"http://127.0.0.1:{port}/v1", model),
                         ("first prompt", "second prompt"), counts_tokens=False)
        except BaseException:
            with open(os.path.join(directory, "log"), encoding="utf-8", errors="replace") as log:
                sys.stderr.write(log.read()[-6000:])
            raise
        finally:
            mock.terminate()
            mock.wait(PATIENCE_SECONDS)


def main(program, litellm, node, aimock):
    check("by a patch" in PATCH, "the script")
    backend = Backend()
    directly(program, backend)
    through_litellm(program, litellm, backend)
    against_aimock(program, node, aimock)


if __name__ == "__main__":
    main(*sys.argv[1:])
