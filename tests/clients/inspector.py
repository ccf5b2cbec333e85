"""The MCP Inspector from its command line, and `mcpdo`, the scriptable client that comes with it.

The Inspector's own command line declares no elicitation, so what it shows is a turn that stays in the sandbox and a
result that says nobody could be asked about the rest. It starts a server for each call. `mcpdo` keeps a connection and
lets a script answer, so it approves and replies, in both eras.

usage: inspector.py NODE INSPECTOR_PACKAGE PROGRAM [ARGUMENT]...   (the server's command line last)
"""

import json
import os
import subprocess
import sys
import tempfile

from scenario import TOOLS, check

TIMEOUT_SECONDS = 120


class Tool:
    """One of the package's programs, run with a home of its own."""

    def __init__(self, node, script, home):
        self.command = [node, script]
        self.environment = {**os.environ, "HOME": home, "MCP_INSPECTOR_SECRET_STORE": "memory"}

    def __call__(self, *arguments):
        done = subprocess.run(
            [*self.command, *arguments], env=self.environment, stdin=subprocess.DEVNULL, capture_output=True,
            text=True, timeout=TIMEOUT_SECONDS)
        check(done.returncode == 0, f"{arguments} ended with {done.returncode}: {done.stdout}{done.stderr}")
        return json.loads(done.stdout) if done.stdout.strip() else None


def call_arguments(**arguments):
    return ["--tool-args-json", json.dumps(arguments)]


def command_line(inspector, server, era, directory):
    common = ["--cli", "--quiet", "--format", "json", "--protocol-era", era]
    listed = inspector(*common, "--method", "tools/list", "--", *server)
    check([tool["name"] for tool in listed["result"]["tools"]] == TOOLS, listed)
    if era != "legacy":
        # With a modern server this command line does not answer input_required; mcpdo does.
        return
    called = inspector(
        *common, "--method", "tools/call", "--tool-name", "openoxide",
        *call_arguments(prompt="run `touch inside.txt`; create `.git/unasked` with `x`", cwd=directory), "--", *server)
    structured = called["result"]["structuredContent"]
    check(structured["status"] == "completed", structured)
    check([denial["reason"] for denial in structured["denials"]] == ["not_askable"], structured)
    check(os.path.exists(os.path.join(directory, "inside.txt")), "what stays in the sandbox ran")
    check(not os.path.exists(os.path.join(directory, ".git/unasked")), "what leaves it was not done unasked")


def mcpdo_conversation(mcpdo, server, era, directory):
    name = mcpdo("--format", "json", "connect", "--era", era, "--", *server)["name"]

    def do(*arguments):
        return mcpdo("--format", "json", "--connection", name, *arguments)

    def approved(tool, **arguments):
        asked = do("tools/call", tool, *call_arguments(**arguments))["elicitationPending"]
        check("decision" in asked["requestedSchema"]["properties"], asked)
        return do("elicitation/respond", asked["elicitationId"], "decision:=approve")["structuredContent"]

    try:
        listed = do("tools/list")["tools"]
        check([tool["name"] for tool in listed] == TOOLS, listed)
        first = approved("openoxide", prompt=f"run `touch {era}-1.txt`", cwd=directory, approval_policy="untrusted")
        check(first["status"] == "completed", first)
        check(os.path.exists(os.path.join(directory, f"{era}-1.txt")), "the approved command ran")
        second = approved("openoxide-reply", prompt=f"run `touch {era}-2.txt`", thread_id=first["threadId"])
        check(second["threadId"] == first["threadId"], second)
        check(os.path.exists(os.path.join(directory, f"{era}-2.txt")), "the reply's command ran")
    finally:
        do("disconnect", name)


def main(node, package, server):
    with tempfile.TemporaryDirectory(prefix="openoxide-client-") as directory:
        home = os.path.join(directory, "home")
        os.mkdir(home)
        inspector = Tool(node, os.path.join(package, "clients/launcher/build/index.js"), home)
        mcpdo = Tool(node, os.path.join(package, "clients/mcpdo/build/mcp-bin.js"), home)
        for era in ("legacy", "auto"):
            command_line(inspector, server, era, directory)
            print(f"ok: inspector --cli, {era}: tools{', a turn without a command it may not run' * (era == 'legacy')}", file=sys.stderr)
        try:
            for era in ("legacy", "modern"):
                mcpdo_conversation(mcpdo, server, era, directory)
                print(f"ok: mcpdo, {era}: tools, a turn with an approval, a reply", file=sys.stderr)
        finally:
            mcpdo("--format", "json", "daemon", "stop")


main(sys.argv[1], sys.argv[2], sys.argv[3:])
