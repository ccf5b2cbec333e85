"""The MCP Inspector from its command line, and `mcpdo`, the scriptable client that comes with it.

The Inspector's own command line declares no elicitation, so what it shows is a turn that stays in the sandbox and a
result that says nobody could be asked about the rest. It starts a server for each call, so that a reply finds its
thread on disk, and a call is given up by interrupting the program: the server ends with it. `mcpdo` keeps a connection
and lets a script answer, so it approves and replies, in both eras; it cancels a call when it is interrupted. In the modern
era its calls are tasks, which go on without their caller. It shows no task's id, so that a second call ends the turn.

usage: inspector.py NODE INSPECTOR_PACKAGE PROGRAM [ARGUMENT]...   (the server's command line last)
"""

import json
import os
import pty
import signal
import subprocess
import sys
import tempfile

from scenario import TOOLS, SlowCommand, check, check_wrong_argument, wrong_argument

TIMEOUT_SECONDS = 120
TOOL_IS_ERROR = 5


class Tool:
    """One of the package's programs, run with a home of its own."""

    def __init__(self, node, script, home):
        self.command = [node, script]
        self.environment = {**os.environ, "HOME": home, "MCP_INSPECTOR_SECRET_STORE": "memory"}

    def __call__(self, *arguments, status=0):
        done = subprocess.run(
            [*self.command, *arguments], env=self.environment, stdin=subprocess.DEVNULL, capture_output=True,
            text=True, timeout=TIMEOUT_SECONDS)
        check(done.returncode == status, f"{arguments} ended with {done.returncode}: {done.stdout}{done.stderr}")
        return json.loads(done.stdout) if done.stdout.strip() else None

    def interrupt(self, slow, *arguments):
        """Runs until the slow command does, then interrupts the program as a terminal does, and waits for its end."""
        here, there = pty.openpty()
        program = subprocess.Popen(
            [*self.command, *arguments], env=self.environment, stdin=there, stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL)
        try:
            slow.wait_until_started()
            program.send_signal(signal.SIGINT)
            program.wait(TIMEOUT_SECONDS)
        finally:
            program.kill()
            os.close(here)
            os.close(there)


def call_arguments(**arguments):
    return ["--tool-args-json", json.dumps(arguments)]


def command_line(inspector, server, era, directory):
    common = ["--cli", "--quiet", "--format", "json", "--protocol-era", era]
    listed = inspector(*common, "--method", "tools/list", "--", *server)
    check([tool["name"] for tool in listed["result"]["tools"]] == TOOLS, listed)

    def call(tool, status=0, **arguments):
        return inspector(
            *common, "--method", "tools/call", "--tool-name", tool, *call_arguments(**arguments), "--", *server,
            status=status)["result"]

    # With a modern server it does not answer input_required, so there it is given nothing to ask about; mcpdo is.
    unaskable = "; create `.git/unasked` with `x`" if era == "legacy" else ""
    first = call("openoxide", prompt=f"run `touch {era}.txt`{unaskable}", cwd=directory)["structuredContent"]
    check(first["status"] == "completed", first)
    check([denial["reason"] for denial in first["denials"]] == ["not_askable"] * bool(unaskable), first)
    check(os.path.exists(os.path.join(directory, f"{era}.txt")), "what stays in the sandbox ran")
    check(not os.path.exists(os.path.join(directory, ".git/unasked")), "what leaves it was not done unasked")
    thread = first["threadId"]
    slow = SlowCommand(directory)
    inspector.interrupt(
        slow, *common, "--method", "tools/call", "--tool-name", "openoxide-reply",
        *call_arguments(prompt=slow.prompt, thread_id=thread), "--", *server)
    slow.wait_until_dead()
    second = call("openoxide-reply", prompt=f"run `touch {era}-after.txt`", thread_id=thread)["structuredContent"]
    check(second["status"] == "completed" and second["threadId"] == thread, second)
    check(os.path.exists(os.path.join(directory, f"{era}-after.txt")), "the thread goes on after a server that ended")
    wrong = call("openoxide", status=TOOL_IS_ERROR, **wrong_argument(directory))
    check_wrong_argument(wrong.get("structuredContent"), wrong["content"][0]["text"], wrong["isError"], directory)


def mcpdo_conversation(mcpdo, server, era, directory):
    name = mcpdo("--format", "json", "connect", "--era", era, "--", *server)["name"]

    def do(*arguments, status=0):
        return mcpdo("--format", "json", "--connection", name, *arguments, status=status)

    def approved(tool, **arguments):
        asked = do("tools/call", tool, *call_arguments(**arguments))["elicitationPending"]
        check("decision" in asked["requestedSchema"]["properties"], asked)
        return do("elicitation/respond", asked["elicitationId"], "decision:=approve")["structuredContent"]

    def unasked(tool, **arguments):
        done = do("tools/call", tool, *call_arguments(**arguments))["structuredContent"]
        check(done["status"] == "completed", done)
        return done["threadId"]

    def cancelled(directory):
        # Only at a terminal and with text does it cancel what it is interrupted in, and there it answers no questions.
        thread = unasked("openoxide", prompt="run `true`", cwd=directory)
        slow = SlowCommand(directory)
        mcpdo.interrupt(
            slow, "--format", "text", "--connection", name, "tools/call", "openoxide-reply",
            *call_arguments(prompt=slow.prompt, thread_id=thread))
        if era == "modern":
            slow.check_alive()
            given = call_arguments(interrupt=True, thread_id=thread)
            check(do("tools/call", "openoxide-reply", *given)["structuredContent"]["status"] == "interrupted", thread)
        slow.wait_until_dead()
        check(unasked("openoxide-reply", prompt=f"run `touch {era}-3.txt`", thread_id=thread) == thread, thread)
        check(os.path.exists(os.path.join(directory, f"{era}-3.txt")), "the thread goes on after a cancelled call")

    try:
        listed = do("tools/list")["tools"]
        check([tool["name"] for tool in listed] == TOOLS, listed)
        first = approved("openoxide", prompt=f"run `touch {era}-1.txt`", cwd=directory, approval_policy="untrusted")
        check(first["status"] == "completed", first)
        check(os.path.exists(os.path.join(directory, f"{era}-1.txt")), "the approved command ran")
        second = approved("openoxide-reply", prompt=f"run `touch {era}-2.txt`", thread_id=first["threadId"])
        check(second["threadId"] == first["threadId"], second)
        check(os.path.exists(os.path.join(directory, f"{era}-2.txt")), "the reply's command ran")
        cancelled(directory)
        wrong = do("tools/call", "openoxide", *call_arguments(**wrong_argument(directory)), status=TOOL_IS_ERROR)
        check_wrong_argument(wrong.get("structuredContent"), wrong["content"][0]["text"], wrong["isError"], directory)
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
            asked = " without a command it may not run" if era == "legacy" else ""
            print(f"ok: inspector --cli, {era}: tools, a turn{asked}, a reply, a cancel, an error", file=sys.stderr)
        try:
            for era in ("legacy", "modern"):
                mcpdo_conversation(mcpdo, server, era, directory)
                ended = "a cancel" if era == "legacy" else "a task left alone and interrupted"
                print(f"ok: mcpdo, {era}: tools, a turn with an approval, a reply, {ended}, an error", file=sys.stderr)
        finally:
            mcpdo("--format", "json", "daemon", "stop")


main(sys.argv[1], sys.argv[2], sys.argv[3:])
