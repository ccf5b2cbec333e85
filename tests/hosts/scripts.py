"""What the models say: the hosts' model, which goes through the steps, and OpenOxide's, which does what its prompt names."""

import re

from model import MARK, Call, Say

TOOLS = ("openoxide", "openoxide-reply", "openoxide-query")
TASK_FILE, DONE, LONG_OVER = "made-by-the-task", "all steps are done", "the long turn is over"
# What the server says to its agent where a host declares no elicitation.
NOBODY = "there is nobody who can be asked"
# A command that outlives any test, and that no other program runs.
SLEEP = "sleep 86399"


def prompt(what):
    return f"{MARK} {what}]]"


def asked_for(text):
    return text[text.rindex(MARK) + len(MARK):].partition("]]")[0].split()


class HostScript:
    """The host's model. Keeps the output of each step; what it means is judged when the host has ended."""

    def __init__(self, seconds, discover=None, through=None):
        """`seconds`: how long the long turn takes. `discover`: of a host that hides tools until its model looks for them, the call that does. `through`: the tool that calls
        them, where they stay hidden."""
        self.seconds, self.discover, self.through, self.seen, self.tools = seconds, discover, through, {}, {}

    def __call__(self, asked):
        return {"steps": self.all_steps, "asks": self.asked_steps, "killed": self.killed_steps}[asked_for(asked.prompts[-1])[0]](asked)

    def names(self, offered):
        """The tools of OpenOxide as this host names them."""
        found = {}
        for name in offered:
            plain = name.lower().replace("_", "-")
            for tool in sorted(TOOLS, key=len, reverse=True):
                if plain.endswith(tool):
                    found.setdefault(tool, name)
                    break
        return found

    def find_tools(self, asked):
        offered = asked.tools
        if self.discover:
            said = yield self.discover
            if self.through:
                offered = re.findall(r'"name": ?"([^"]+)"', said)
        self.tools.update(self.names(offered))

    def call(self, tool, **arguments):
        name = self.tools.get(tool, tool)
        return Call(self.through, {"name": name, "arguments": arguments}) if self.through else Call(name, arguments)

    def all_steps(self, asked):
        yield from self.find_tools(asked)
        if len(self.tools) < len(TOOLS):
            yield Say(f"not all tools are there: {sorted(asked.tools)}")
            return
        said = self.seen["task"] = yield self.call("openoxide", prompt=prompt("task"))
        thread = thread_of(said)
        self.seen["reply"] = yield self.call("openoxide-reply", thread_id=thread, prompt=prompt("recall"))
        self.seen["unasked"] = yield self.call("openoxide", prompt=prompt("leave unasked"))
        calls = []
        self.seen["long"] = calls
        calls.append((yield self.call("openoxide", prompt=prompt(f"long {self.seconds}"))))
        # What any model does that reads the answer: it waits for a turn that is not over.
        while LONG_OVER not in calls[-1] and thread_of(calls[-1]) and len(calls) < 10:
            calls.append((yield self.call("openoxide-reply", thread_id=thread_of(calls[-1]))))
        yield Say(DONE)

    def asked_steps(self, asked):
        yield from self.find_tools(asked)
        for step in ("approves", "denies"):
            self.seen[step] = yield self.call("openoxide", prompt=prompt(f"leave {step}"))
        yield Say(DONE)

    def killed_steps(self, asked):
        yield from self.find_tools(asked)
        yield self.call("openoxide", prompt=prompt("sleep"))
        yield Say(DONE)


def agent(asked):
    """OpenOxide's model."""
    what, *names = asked_for(asked.prompts[-1])
    if what == "task":
        said = yield run(f"echo of the task > {TASK_FILE} && cat {TASK_FILE}")
        yield Say(f"the task is done: {said}")
    elif what == "leave":
        said = yield run(f"touch {names[0]}", sandbox_permissions="require_escalated", justification="The test asks for it.")
        yield Say(f"the command was answered: {said}")
    elif what == "long":
        yield Say(LONG_OVER, float(names[0]))
    elif what == "sleep":
        yield run(SLEEP, yield_time_ms=3600_000)
        yield Say("slept")
    elif what == "recall":
        yield Say("before this I was asked: " + ", ".join(asked_for(earlier)[0] for earlier in asked.prompts[:-1]))
    else:
        yield Say(f"unknown prompt {asked.prompts[-1]!r}")


def run(command, **more):
    return Call("exec_command", {"cmd": command, **more})


def thread_of(text):
    """The thread id in a tool's output, whichever of its two forms the host passes on."""
    found = re.search(r"thread_?id\W{1,6}([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})", text, re.IGNORECASE)
    return found and found[1]

