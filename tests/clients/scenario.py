"""What every Python client must see, whichever SDK and era it speaks: the steps of one conversation and their checks.

A client module gives `converse` a way to list the tools and a way to call one; questions are answered by `Person`. The server
is a command line, or the one address of a server that listens, whose token is in OPENOXIDE_TOKEN.
"""

import asyncio
import os
import re
import select
import sys
import tempfile
import time

TOOLS = ["openoxide", "openoxide-reply", "openoxide-query"]
UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
APPROVE = {"action": "accept", "content": {"decision": "approve"}}

AUTHORIZATION = {"Authorization": "Bearer " + os.environ.get("OPENOXIDE_TOKEN", "")}


def is_address(server):
    return server[0].startswith("http://")


def transport_of(server):
    return "http" if is_address(server) else "stdio"


class Person:
    """Answers the server's questions as told, and remembers them."""

    def __init__(self):
        self.questions = []
        self.answer = APPROVE

    def ask(self, message, schema):
        assert "decision" in schema["properties"], schema
        self.questions.append(message)
        return self.answer


class SlowCommand:
    """A command that would run for half a minute, and whose life shows: it and its children hold a pipe open.

    The pipe tells of every process that has it, in whatever namespace, and ends when the last of them does.
    """

    def __init__(self, directory):
        self.directory, self.path = directory, os.path.join(directory, "alive")
        os.mkfifo(self.path)
        self.pipe = os.open(self.path, os.O_RDONLY | os.O_NONBLOCK)
        self.prompt = "run `(echo started; sleep 30) > alive`"

    def read(self, seconds, what):
        ready, _, _ = select.select([self.pipe], [], [], seconds)
        check(ready, what)
        return os.read(self.pipe, 100)

    def wait_until_started(self):
        check(self.read(60, "the slow command started") == b"started\n", "the slow command said that it runs")

    def check_alive(self):
        check(not select.select([self.pipe], [], [], 1)[0], "the slow command goes on")

    def wait_until_dead(self):
        """Well before the command would have ended by itself."""
        check(self.read(15, "the slow command was killed") == b"", "the slow command only ends")
        os.close(self.pipe)
        os.remove(self.path)
        # What the sandbox lays over protected names goes a little after the command.
        deadline = time.monotonic() + 15
        while any(name.startswith(".") for name in os.listdir(self.directory)):
            check(time.monotonic() < deadline, os.listdir(self.directory))
            time.sleep(0.01)


def check(condition, what):
    if not condition:
        raise AssertionError(what)


def wrong_argument(directory):
    """What `openoxide` refuses, so that it names the field and what it allows."""
    return {"prompt": "run `touch wrong.txt`", "cwd": directory, "sandbox": "everything"}


def check_wrong_argument(structured, text, is_error, directory):
    check(is_error and not structured, structured)
    check("sandbox" in text and "workspace-write" in text, text)
    check(not os.path.exists(os.path.join(directory, "wrong.txt")), "a call with a wrong argument does nothing")


async def cancel_task(task):
    """Ends a call as asyncio does, for clients that tell the server of it by themselves."""
    task.cancel()
    await asyncio.wait([task])
    check(task.cancelled(), task)


async def time_out(task):
    """Lets a call end by the client's own time-out, which is a few seconds."""
    await asyncio.wait([task])
    check(task.exception(), "the call timed out")


async def converse(list_tools, call, person, label, *, give_up=cancel_task, progress=True, lasting=True):
    """`list_tools()` gives names; `call(tool, arguments)` gives (structured, text, is_error, progress count).

    `person` is None for a client that cannot ask anybody, `progress` false for one that asks for none, `lasting` false
    for one that starts a server for each call. `give_up(task)` ends the task of a call before its result, in the
    client's own way.
    """
    check(await list_tools() == TOOLS, "the three tools in their order")
    with tempfile.TemporaryDirectory(prefix="openoxide-client-") as directory:
        conversation = Conversation(call, person, directory)
        if person:
            await conversation.begin_asked(progress)
            await conversation.decline()
        else:
            await conversation.begin_unasked(progress)
        await conversation.cancel(give_up)
        if lasting:
            await conversation.wait_briefly()
        structured, text, is_error, _ = await call("openoxide", wrong_argument(directory))
        check_wrong_argument(structured, text, is_error, directory)
    steps = ["tools", "a turn with an approval" if person else "a turn with nobody to ask", "a reply"]
    steps += ["a denial"] * bool(person) + ["a time-out" if give_up is time_out else "a cancel"]
    steps += ["a short wait"] * lasting + ["an error"]
    print(f"ok: {label}: {', '.join(steps)}", file=sys.stderr)


class Conversation:
    """The steps on one thread, in one directory."""

    def __init__(self, call, person, directory):
        self.call, self.person, self.directory = call, person, directory
        self.thread = None

    def exists(self, name):
        return os.path.exists(os.path.join(self.directory, name))

    async def begin(self, prompt, progress):
        structured, text, is_error, told = await self.call(
            "openoxide", {"prompt": prompt, "cwd": self.directory, "approval_policy": "untrusted"})
        check(not is_error and structured["status"] == "completed", text)
        self.thread = structured["threadId"]
        check(UUID.fullmatch(self.thread), self.thread)
        check(self.thread in text, "the text names the thread as well")
        check((told > 0) == progress, f"progress was sent {told} times")
        return structured

    async def reply(self, **arguments):
        structured, text, is_error, _ = await self.call("openoxide-reply", {"thread_id": self.thread, **arguments})
        check(not is_error and structured["threadId"] == self.thread, text)
        return structured

    async def begin_asked(self, progress):
        await self.begin("run `touch approved.txt`", progress)
        check(len(self.person.questions) == 1, self.person.questions)
        check("touch approved.txt" in self.person.questions[0], self.person.questions)
        check(self.exists("approved.txt"), "the approved command ran")
        await self.reply(prompt="run `touch second.txt`")
        check(len(self.person.questions) == 2, self.person.questions)
        check(self.exists("second.txt"), "the reply's command ran")

    async def begin_unasked(self, progress):
        """With nobody to ask, what stays in the sandbox runs, and what leaves it does not."""
        structured = await self.begin("run `touch inside.txt`; create `.git/unasked` with `x`", progress)
        check([denial["reason"] for denial in structured["denials"]] == ["not_askable"], structured)
        check(self.exists("inside.txt") and not self.exists(".git/unasked"), "the sandbox decided")
        await self.reply(prompt="run `touch second.txt`")
        check(self.exists("second.txt"), "the reply's command ran")

    async def decline(self):
        self.person.answer = {"action": "decline"}
        structured = await self.reply(prompt="run `touch declined.txt`")
        self.person.answer = APPROVE
        check(structured["status"] == "completed", structured)
        check(len(self.person.questions) == 3, self.person.questions)
        check(not self.exists("declined.txt"), "the declined command did not run")
        check([denial["reason"] for denial in structured["denials"]] == ["declined"], structured)

    async def cancel(self, give_up):
        slow = SlowCommand(self.directory)
        task = asyncio.create_task(self.reply(prompt=slow.prompt))
        await asyncio.to_thread(slow.wait_until_started)
        await give_up(task)
        if give_up is time_out:
            # Nobody wished the turn to end; it goes on until somebody does.
            structured = await self.reply(interrupt=True)
            check(structured["status"] == "interrupted", structured)
        await asyncio.to_thread(slow.wait_until_dead)
        structured = await self.reply(prompt="run `touch after.txt`")
        check(structured["status"] == "completed", structured)
        check(self.exists("after.txt"), "the thread goes on after a cancelled call")

    async def wait_briefly(self):
        """What a client with a wall does: the call answers before it, and the turn goes on until it is interrupted."""
        slow = SlowCommand(self.directory)
        structured = await self.reply(prompt=slow.prompt, wait_seconds=2)
        check(structured["status"] == "running", structured)
        await asyncio.to_thread(slow.wait_until_started)
        structured = await self.reply(interrupt=True)
        check(structured["status"] == "interrupted", structured)
        await asyncio.to_thread(slow.wait_until_dead)
