"""Codex's own Python SDK, as published, drives ours: turns, approvals both ways, an interrupt, a resume after a restart.

usage: python_sdk.py PROGRAM TRACE
"""

import os
import pathlib
import sys
import time

from openai_codex import Codex
from openai_codex.client import CodexClient, CodexConfig
from openai_codex.errors import CodexError

from place import expect, place

RECORD = str(pathlib.Path(__file__).with_name("record.py"))
PATIENCE_SECONDS = 60


def config(program, trace, work, environment):
    """The recorder in the place of the program; the SDK starts it as it starts Codex."""
    wrapper = work.parent / "codex"
    wrapper.write_text(f"#!/bin/sh\nexec {sys.executable} {RECORD} \"$@\"\n")
    wrapper.chmod(0o755)
    env = {**environment, "APPSERVER_PROGRAM": program, "APPSERVER_TRACE": trace}
    for name in list(os.environ):
        if name.startswith(("OPENOXIDE", "CODEX", "OPENAI")):
            env[name] = ""
    return CodexConfig(codex_bin=str(wrapper), cwd=str(work), env=env)


def kinds(result):
    return [item.root.type for item in result.items]


def turns_and_resume(program, trace):
    with place() as (work, environment, model):
        settings = config(program, trace, work, environment)
        with Codex(settings) as codex:
            expect(codex.metadata.serverInfo.version.startswith("0.169.0"), codex.metadata)
            expect(codex.account().account is None, "nobody is logged in")
            models = codex.models()
            expect([entry.id for entry in models.data] == ["gpt-5.4"], models)
            thread = codex.thread_start(cwd=str(work))
            result = thread.run("say hello")
            expect(result.final_response == "hello there", result)
            expect(kinds(result) == ["userMessage", "reasoning", "agentMessage"], kinds(result))
            expect(result.usage.total.total_tokens == 120 and result.usage.last.total_tokens == 120, result.usage)
            expect(result.status.value == "completed" and result.duration_ms is not None, result)
            kept = thread.id
        # Another process, as after a restart.
        with Codex(settings) as codex:
            listed = codex.thread_list()
            expect([entry.id for entry in listed.data] == [kept] and listed.data[0].preview == "say hello", listed)
            thread = codex.thread_resume(kept)
            again = thread.run("say it again")
            expect(again.final_response == "hello again", again)
            expect(again.usage.total.total_tokens == 240, again.usage)
            turns = thread.read(include_turns=True).thread.turns
            expect(len(turns) == 2, turns)
            said = [[item.root.type for item in turn.items] for turn in turns]
            expect(said == [["userMessage", "agentMessage"]] * 2, said)
            fork = codex.thread_fork(kept)
            expect(fork.id != kept and fork.run("say it again").final_response == "hello again", fork)
            codex.thread_archive(fork.id)
            expect(fork.id not in [entry.id for entry in codex.thread_list().data], "it was put aside")
            codex.thread_unarchive(fork.id)
            expect(fork.id in [entry.id for entry in codex.thread_list().data], "it was taken back")
            for refused in (lambda: thread.set_name("x"), thread.compact):
                try:
                    refused()
                except CodexError as error:
                    expect("not supported by OpenOxide" in str(error), error)
                else:
                    raise AssertionError("what is not there is refused by name")
        expect(any("hello there" in str(body) for _, _, body in model.requests[1:]), "the model is told what was said")


def approvals(program, trace):
    for prompt, method, path in [("make a file", "item/commandExecution/requestApproval", "made.txt"),
                                 ("patch a file", "item/fileChange/requestApproval", "note.txt")]:
        for decision in ("accept", "acceptForSession", "decline", "cancel"):
            with place() as (work, environment, model):
                asked = []

                def answer(method, params):
                    asked.append((method, params, (work / path).exists()))
                    return {"decision": decision}

                with CodexClient(config(program, trace, work, environment), approval_handler=answer) as client:
                    client.initialize()
                    thread = client.thread_start({"cwd": str(work), "approvalPolicy": "untrusted"}).thread.id
                    turn = client.turn_start(thread, prompt).turn.id
                    events = []
                    while not events or events[-1].method != "turn/completed":
                        events.append(client.next_turn_notification(turn))
                what = f"{prompt}, {decision}: {asked} {[event.method for event in events]}"
                expect(len(asked) == 1 and asked[0][0] == method and not asked[0][2], what)
                items = [event.payload.item.root for event in events if event.method == "item/completed"]
                item = next(item for item in items if item.type in ("commandExecution", "fileChange"))
                expect(item.id == asked[0][1]["itemId"], what)
                expect((work / path).exists() == decision.startswith("accept"), what)
                status = {"accept": "completed", "acceptForSession": "completed"}.get(decision, "declined")
                expect(item.status.value == status, f"{what}: {item}")
                ended = "interrupted" if decision == "cancel" else "completed"
                expect(events[-1].payload.turn.status.value == ended, what)
                if prompt == "make a file" and status == "completed":
                    expect(item.exit_code == 0 and item.aggregated_output.strip().endswith("made"), item)


def interrupts(program, trace):
    for prompt, begun in [("wait for me", "item/agentMessage/delta"),
                          ("run long", "item/commandExecution/outputDelta")]:
        with place() as (work, environment, model):
            with Codex(config(program, trace, work, environment)) as codex:
                from openai_codex import ApprovalMode
                thread = codex.thread_start(cwd=str(work), approval_mode=ApprovalMode.deny_all)
                handle = thread.turn(prompt)
                events = []
                for event in handle.stream():
                    events.append(event)
                    if event.method == begun and "interrupted" not in events:
                        events.append("interrupted")
                        handle.interrupt()
                last = events[-1].payload.turn
                expect(last.status.value == "interrupted" and last.id == handle.id, last)
                completed = [event.payload.item.root for event in events
                             if event != "interrupted" and event.method == "item/completed"]
                cut = completed[-1]
                if prompt == "run long":
                    expect((cut.type, cut.status.value, cut.exit_code) == ("commandExecution", "failed", -1), cut)
                else:
                    expect((cut.type, cut.text) == ("agentMessage", "I am wai"), cut)
                try:
                    handle.steer("more")
                except CodexError as error:
                    expect("does not run any more" in str(error), error)
                else:
                    raise AssertionError("a turn that is over takes nothing")


def failures(program, trace):
    with place() as (work, environment, model):
        with Codex(config(program, trace, work, environment)) as codex:
            thread = codex.thread_start(cwd=str(work))
            try:
                thread.run("fail")
            except RuntimeError as error:
                expect("no such thing" in str(error), error)
            else:
                raise AssertionError("a turn that failed says so")
            expect(thread.run("say hello").final_response == "hello there", "the thread goes on")


def main(program, trace):
    for scenario in (turns_and_resume, approvals, interrupts, failures):
        began = time.monotonic()
        scenario(program, trace)
        print(f"python sdk: {scenario.__name__} ({time.monotonic() - began:.1f} s)")


if __name__ == "__main__":
    main(*sys.argv[1:])
