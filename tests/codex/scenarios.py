"""What is said to both programs, and what their model says to them: conversations by name, in order.

A conversation has a script for the model (`model.py` has its steps), the files of its directory, and a function that speaks
as the client (`talk.py`).
"""

OUTSIDE = {"sandbox_permissions": "require_escalated", "justification": "it writes outside"}
ASKING = {"approval-policy": "on-request", "sandbox": "read-only"}
FREE = {"approval-policy": "never", "sandbox": "danger-full-access"}
NOBODY = "01a1fc7a-8d1f-75f7-89b7-18c906dd0c5b"

SCENARIOS = []


def scenario(script=None, files=None):
    def keep(function):
        SCENARIOS.append((function.__name__.replace("_", "-"), script or {}, files or {}, function))
        return function
    return keep


def thread_of(answer):
    return answer["result"]["structuredContent"]["threadId"]


@scenario()
def handshake(talk):
    talk.initialize()
    talk.ask("tools/list", {})
    talk.ask("ping")


@scenario({"say": [{"reasoning": "Thinking of words.", "text": "two words"}], "again": [{"text": "once more"}],
           "by the old name": [{"text": "and again"}]})
def a_turn_and_replies(talk):
    talk.initialize()
    thread = thread_of(talk.tool("codex", {"prompt": "say", **FREE}))
    talk.tool("codex-reply", {"prompt": "again", "threadId": thread})
    talk.tool("codex-reply", {"prompt": "by the old name", "conversationId": thread})


@scenario({"plain": [{"text": "done"}]})
def defaults(talk):
    talk.initialize()
    talk.tool("codex", {"prompt": "plain"})


COMMANDS = ["cat notes.txt", "ls", "ls src", "printf out", "false", "cd src && cat main.rs",
            "sed -n 1,2p notes.txt", "head -n 1 notes.txt", "grep -rn one src", "find . -name '*.rs'", "echo a | wc -l",
            "git --version >/dev/null"]


@scenario({"run": [*({"commands": [{"cmd": command, "login": False}]} for command in COMMANDS), {"text": "ran them"}]},
          {"notes.txt": "one\ntwo\n", "src/main.rs": "fn main() {} // one\n"})
def commands(talk):
    talk.initialize()
    talk.tool("codex", {"prompt": "run", **FREE})


@scenario({"run": [{"commands": [{"cmd": "sleep 0.5; echo begin; sleep 0.5; echo end", "login": False}]}, {"text": "ran it"}]})
def a_slow_command(talk):
    talk.initialize()
    talk.tool("codex", {"prompt": "run", **FREE})


def writes(name):
    return {"cmd": f"echo one > {name}", "login": False, **OUTSIDE}


@scenario({"write": [{"commands": [writes("a.txt")]}, {"text": "written"}]})
def an_approved_command(talk):
    talk.initialize()
    talk.tool("codex", {"prompt": "write", **ASKING}, [{"decision": "approved"}])


@scenario({"write": [{"commands": [writes("a.txt")]}, {"text": "written"}]})
def a_command_approved_by_both_conventions(talk):
    talk.initialize()
    talk.tool("codex", {"prompt": "write", **ASKING}, [{"action": "accept", "content": {}, "decision": "approved"}])


@scenario({"write": [{"commands": [writes("a.txt")]}, {"commands": [writes("a.txt")]}, {"text": "written twice"}]})
def a_command_approved_for_the_session(talk):
    talk.initialize()
    talk.tool("codex", {"prompt": "write", **ASKING}, [{"decision": "approved_for_session"}])


@scenario({"write": [{"commands": [writes("a.txt")]}, {"text": "left it"}]})
def a_denied_command(talk):
    talk.initialize()
    talk.tool("codex", {"prompt": "write", **ASKING}, [{"decision": "denied"}])


@scenario({"write": [{"commands": [writes("a.txt")]}, {"text": "left it"}]})
def a_command_accepted_as_mcp_has_it(talk):
    talk.initialize()
    talk.tool("codex", {"prompt": "write", **ASKING}, [{"action": "accept", "content": {}}])


@scenario({"write": [{"commands": [writes("a.txt")]}, {"commands": [writes("a.txt")]}, {"text": "written twice"}]})
def a_command_approved_with_a_rule(talk):
    talk.initialize()
    argv = ["/bin/bash", "-c", "echo one > a.txt"]
    talk.tool("codex", {"prompt": "write", **ASKING},
              [{"decision": {"approved_execpolicy_amendment": {"proposed_execpolicy_amendment": argv}}}])


@scenario({"write": [{"commands": [writes("a.txt")]}, {"text": "left it"}]})
def a_command_denied_with_a_reason(talk):
    talk.initialize()
    talk.tool("codex", {"prompt": "write", **ASKING}, [{"decision": {"denied": {"rejection": "not today"}}}])


@scenario({"write": [{"commands": [writes("a.txt")]}, {"text": "left it"}]})
def an_aborted_command(talk):
    talk.initialize()
    call = talk.call("codex", {"prompt": "write", **ASKING})
    talk.question({"decision": "abort"})
    talk.aborted(call)


PATCH = """*** Begin Patch
*** Add File: new.txt
+one
+two
*** Update File: old.txt
@@
-three
+four
*** Update File: here.txt
*** Move to: there.txt
@@
-five
+six
*** Delete File: gone.txt
*** End Patch
"""
TREE = {"old.txt": "three\nend\n", "here.txt": "five\nend\n", "gone.txt": "seven\neight\n"}


@scenario({"patch": [{"patch": PATCH}, {"text": "patched"}]}, TREE)
def an_approved_patch(talk):
    talk.initialize()
    talk.tool("codex", {"prompt": "patch", **ASKING}, [{"decision": "approved"}])


@scenario({"patch": [{"patch": PATCH}, {"text": "left it"}]}, TREE)
def a_denied_patch(talk):
    talk.initialize()
    talk.tool("codex", {"prompt": "patch", **ASKING}, [{"decision": "denied"}])


@scenario({"patch": [{"patch": PATCH}, {"text": "left it"}]}, TREE)
def an_aborted_patch(talk):
    talk.initialize()
    call = talk.call("codex", {"prompt": "patch", **ASKING})
    talk.question({"decision": "abort"})
    talk.aborted(call)


def changes(old, new):
    return f"*** Begin Patch\n*** Update File: old.txt\n@@\n-{old}\n+{new}\n*** End Patch\n"


@scenario({"patch": [{"patch": changes("three", "four")}, {"patch": changes("four", "five")}, {"text": "patched"}]}, TREE)
def a_patch_approved_for_the_session(talk):
    talk.initialize()
    talk.tool("codex", {"prompt": "patch", **ASKING}, [{"decision": "approved_for_session"}])


@scenario({"patch": [{"patch": PATCH}, {"text": "patched"}]}, TREE)
def a_patch_that_nobody_is_asked_about(talk):
    talk.initialize()
    talk.tool("codex", {"prompt": "patch", **FREE})


@scenario({"patch": [{"patch": changes("nothing of it", "four")}, {"text": "it did not fit"}]}, TREE)
def a_patch_that_does_not_fit(talk):
    talk.initialize()
    talk.tool("codex", {"prompt": "patch", **FREE})


OUTWARD = "*** Begin Patch\n*** Add File: {place}/outside.txt\n+one\n*** End Patch\n"


@scenario({"patch": [{"patch": OUTWARD}, {"text": "patched"}]}, TREE)
def a_patch_outside_the_workspace(talk):
    talk.initialize()
    talk.tool("codex", {"prompt": "patch", "approval-policy": "on-request", "sandbox": "workspace-write"},
              [{"decision": "approved"}])


@scenario({"first": [{"text": "of the first"}], "second": [{"text": "of the second"}],
           "first again": [{"text": "the first again"}], "second again": [{"text": "the second again"}]})
def two_threads(talk):
    talk.initialize()
    first = thread_of(talk.tool("codex", {"prompt": "first", **FREE}))
    second = thread_of(talk.tool("codex", {"prompt": "second", **FREE}))
    talk.tool("codex-reply", {"prompt": "second again", "threadId": second})
    talk.tool("codex-reply", {"prompt": "first again", "threadId": first})


@scenario({"wait": [{"hold": "beginning"}]})
def a_cancelled_call(talk):
    talk.initialize()
    call = talk.call("codex", {"prompt": "wait", **FREE})
    talk.event("agent_message_content_delta")
    talk.cancel(call)


@scenario()
def unknown_threads(talk):
    talk.initialize()
    talk.tool("codex-reply", {"prompt": "go on", "threadId": NOBODY})
    talk.tool("codex-reply", {"prompt": "go on", "threadId": "seven"})
    talk.tool("codex-reply", {"prompt": "go on"})


@scenario()
def wrong_arguments(talk):
    talk.initialize()
    talk.tool("codex")
    talk.tool("codex", {})
    talk.tool("codex", {"prompt": 7})
    talk.tool("codex", {"prompt": "go", "approval-policy": "sometimes"})
    talk.tool("codex", {"prompt": "go", "sandbox": "sand"})
    talk.tool("codex", {"prompt": "go", "colour": "red"})
    talk.tool("codex-reply")
    talk.tool("codex-reply", {"threadId": NOBODY})
    talk.tool("codecs", {"prompt": "go"})
    talk.ask("tools/call", {})
    talk.ask("tools/no-such-method", {})


@scenario({"go": [{"status": 400, "body": {"error": {"message": "the model does not like it", "type": "invalid_request_error"}}}],
           "again": [{"text": "better"}]})
def a_refusing_model(talk):
    talk.initialize()
    thread = thread_of(talk.tool("codex", {"prompt": "go", **FREE}))
    talk.tool("codex-reply", {"prompt": "again", "threadId": thread})


@scenario({"go": [{"text": "begin", "failed": {"code": "context_length_exceeded", "message": "too long"}}]})
def a_failing_model(talk):
    talk.initialize()
    talk.tool("codex", {"prompt": "go", **FREE})


CONFIG = {"model_reasoning_effort": "high", "model_reasoning_summary": "detailed", "no_such_key": 1}


@scenario({"go": [{"text": "done"}]})
def keys_of_config(talk):
    talk.initialize()
    talk.tool("codex", {"prompt": "go", "config": CONFIG, "model": "gpt-5.4", "base-instructions": "Be brief.",
                        "developer-instructions": "Be kind.", **FREE})
