"""What every Python client must see, whichever SDK and era it speaks: the steps of one conversation and their checks.

A client module gives `converse` a way to list the tools and a way to call one; questions are answered by `Person`.
"""

import asyncio
import os
import re
import select
import sys
import tempfile

TOOLS = ["openoxide", "openoxide-reply", "openoxide-query"]
UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


class Person:
    """Answers the server's questions as told, and remembers them."""

    def __init__(self):
        self.questions = []
        self.answer = {"action": "accept", "content": {"decision": "approve"}}

    def ask(self, message, schema):
        assert "decision" in schema["properties"], schema
        self.questions.append(message)
        return self.answer


class SlowCommand:
    """A command that would run for half a minute, and whose life shows: it and its children hold a pipe open.

    The pipe tells of every process that has it, in whatever namespace, and ends when the last of them does.
    """

    def __init__(self, directory):
        self.path = os.path.join(directory, "alive")
        os.mkfifo(self.path)
        self.pipe = os.open(self.path, os.O_RDONLY | os.O_NONBLOCK)
        self.prompt = "run `(echo started; sleep 30) > alive`"

    def read(self, seconds, what):
        ready, _, _ = select.select([self.pipe], [], [], seconds)
        check(ready, what)
        return os.read(self.pipe, 100)

    def wait_until_started(self):
        check(self.read(60, "the slow command started") == b"started\n", "the slow command said that it runs")

    def wait_until_dead(self):
        """Well before the command would have ended by itself."""
        check(self.read(15, "the slow command was killed") == b"", "the slow command only ends")
        os.close(self.pipe)
        os.remove(self.path)


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


async def converse(list_tools, call, person, label, give_up=cancel_task):
    """`list_tools()` gives names; `call(tool, arguments)` gives (structured, text, is_error, progress count).

    `give_up(task)` ends the task of a call before its result, in the client's own way.
    """
    check(await list_tools() == TOOLS, "the three tools in their order")
    with tempfile.TemporaryDirectory(prefix="openoxide-client-") as directory:

        def path(name):
            return os.path.join(directory, name)

        structured, text, is_error, progress = await call(
            "openoxide", {"prompt": "run `touch approved.txt`", "cwd": directory, "approval_policy": "untrusted"})
        check(not is_error, text)
        check(structured["status"] == "completed", structured)
        check(len(person.questions) == 1, person.questions)
        check("touch approved.txt" in person.questions[0], person.questions)
        check(os.path.exists(path("approved.txt")), "the approved command ran")
        thread = structured["threadId"]
        check(UUID.fullmatch(thread), thread)
        check(thread in text, "the text names the thread as well")
        check(progress > 0, "progress was sent")

        structured, text, is_error, _ = await call(
            "openoxide-reply", {"thread_id": thread, "prompt": "run `touch second.txt`"})
        check(not is_error and structured["threadId"] == thread, structured)
        check(len(person.questions) == 2, person.questions)
        check(os.path.exists(path("second.txt")), "the reply's command ran")

        person.answer = {"action": "decline"}
        structured, text, is_error, _ = await call(
            "openoxide-reply", {"thread_id": thread, "prompt": "run `touch declined.txt`"})
        check(not is_error and structured["status"] == "completed", structured)
        check(len(person.questions) == 3, person.questions)
        check(not os.path.exists(path("declined.txt")), "the declined command did not run")
        check([denial["reason"] for denial in structured["denials"]] == ["declined"], structured)

        person.answer = {"action": "accept", "content": {"decision": "approve"}}
        slow = SlowCommand(directory)
        task = asyncio.create_task(call("openoxide-reply", {"thread_id": thread, "prompt": slow.prompt}))
        await asyncio.to_thread(slow.wait_until_started)
        await give_up(task)
        await asyncio.to_thread(slow.wait_until_dead)
        structured, text, is_error, _ = await call(
            "openoxide-reply", {"thread_id": thread, "prompt": "run `touch after.txt`"})
        check(not is_error and structured["status"] == "completed", text)
        check(os.path.exists(path("after.txt")), "the thread goes on after a cancelled call")

        structured, text, is_error, _ = await call("openoxide", wrong_argument(directory))
        check_wrong_argument(structured, text, is_error, directory)
    print(f"ok: {label}: tools, a turn with an approval, a reply, a denial, a cancel, an error", file=sys.stderr)
