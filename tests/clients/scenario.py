"""What every Python client must see, whichever SDK and era it speaks: the steps of one conversation and their checks.

A client module gives `converse` a way to list the tools and a way to call one; questions are answered by `Person`.
"""

import os
import re
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


def check(condition, what):
    if not condition:
        raise AssertionError(what)


async def converse(list_tools, call, person, label):
    """`list_tools()` gives names; `call(tool, arguments)` gives (structured, text, is_error, progress count)."""
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
    print(f"ok: {label}: tools, a turn with an approval, a reply, a denial", file=sys.stderr)
