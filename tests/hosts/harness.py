"""Starts the hosts side by side against the real binary and judges each step of each.

usage: harness.py NODE PACKAGES PROGRAM [HOST...]
"""

import concurrent.futures
import contextlib
import importlib
import json
import os
import pathlib
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time

import scripts
from expected_failures import EXPECTED_FAILURES
from model import ModelServer

HERE = pathlib.Path(__file__).resolve().parent
PAGE = HERE.parent.parent / "docs/hosts.md"
HOSTS = ("claude_code", "codex", "opencode", "gemini", "qwen", "copilot", "cline", "continue_cli")
APPROVALS = ("approves", "denies")
STEPS = ("lists", "task", "reply", "unasked", "long", "ends", "leaves nothing", *APPROVALS, "killed")
SECONDS = float(os.environ.get("OPENOXIDE_HOST_SECONDS") or 90)
# A host starts, goes through its steps, and ends; on a busy machine it takes its time.
PATIENCE = 120
# Callers that are not known to be patient are answered by then.
ANSWERED_AFTER = 50
# Nothing of a server is left 2.5 s after its end; three times that, and what a host itself takes to go.
GONE_WITHIN = 10


class Run:
    """One host: its directories, and what its configuration needs to know."""

    def __init__(self, name, host, root, node, packages, program, origin):
        self.name, self.host, self.node, self.packages, self.origin = name, host, node, packages, origin
        self.base = root / name
        self.home, self.work = self.base / "home", self.base / "work"
        for directory in (self.home, self.work):
            directory.mkdir(parents=True)
        subprocess.run(["git", "init", "--quiet", str(self.work)], check=True)
        self.key, self.took = f"scripted-{name}", 0.0
        # Found by name, as the page for people has it, and with no variable: many hosts hand on only a few of theirs.
        self.bin = self.base / "bin"
        self.bin.mkdir()
        (self.bin / "openoxide").symlink_to(program)
        config = {"model": "scripted", "model_provider": "scripted", "model_providers.scripted.base_url": origin + "/v1",
                  "model_providers.scripted.wire_api": "chat"}
        self.write(".openoxide/config.toml", "".join(f"{key} = {json.dumps(value)}\n" for key, value in config.items()))
        (self.home / ".openoxide").chmod(0o700)
        self.seconds = min(SECONDS, getattr(host, "LONGEST", (SECONDS,))[0])
        self.script = scripts.HostScript(self.seconds, getattr(host, "DISCOVER", None), getattr(host, "THROUGH", None))

    def write(self, path, value):
        """A file of the host's configuration below its home, the same for all its runs: what the host adds to it stays."""
        file = self.home / path
        if not file.exists():
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(value if isinstance(value, str) else json.dumps(value, indent=2))
        return str(file)

    def program(self, path):
        """What starts a program of the packages: Node itself for a script."""
        path = str(self.packages / "node_modules" / path)
        return [self.node, path] if path.endswith(".js") else [path]

    def block(self):
        """What the page for people says: the first block below the host's heading."""
        section = re.search(rf"^## {re.escape(self.host.TITLE)}\n(.*?)(?=^## |\Z)", PAGE.read_text(), re.DOTALL | re.MULTILINE)[1]
        return re.search(r"^```\w+\n(.*?)^```", section, re.DOTALL | re.MULTILINE)[1]

    def type_block(self, name, env):
        """Types the block into a shell that finds the host by this name; once for all runs of the host."""
        if (self.bin / name).exists():
            return
        (self.bin / name).write_text(f"#!/bin/sh\nexec {shlex.join(self.program(self.host.PROGRAM))} \"$@\"\n")
        (self.bin / name).chmod(0o755)
        done = subprocess.run(["sh", "-ec", self.block()], cwd=self.work, env=self.environment(env), stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, timeout=PATIENCE)
        if done.returncode:
            raise RuntimeError(f"the block of docs/hosts.md ended with {done.returncode}: {done.stdout[-400:]}{done.stderr[-400:]}")

    def environment(self, more):
        """Nothing of the caller's but where programs are; every request that is not for this machine is refused."""
        proxy = {name: self.origin for name in ("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy")}
        own = {"HOME": str(self.home), "TMPDIR": str(self.base), "LANG": "C.UTF-8", "NO_PROXY": "127.0.0.1,localhost",
               "no_proxy": "127.0.0.1,localhost", "PATH": f"{self.bin}:{os.path.dirname(self.node)}:{os.environ['PATH']}",
               "XDG_CONFIG_HOME": str(self.home / ".config"), "XDG_DATA_HOME": str(self.home / ".local/share"),
               "XDG_CACHE_HOME": str(self.home / ".cache"), "XDG_STATE_HOME": str(self.home / ".local/state")}
        return {**own, **proxy, **more}

    def start(self, how, prompt, log):
        argv, env = how(self, prompt)
        return subprocess.Popen(argv, cwd=self.work, env=self.environment(env), stdin=subprocess.DEVNULL, stdout=log,
                                stderr=subprocess.STDOUT, start_new_session=True)

    def marked(self):
        """The processes with our mark, which is the directory of this run: in the environment, the words, or the place."""
        mark, found = os.fsencode(self.base), {}
        for process in pathlib.Path("/proc").iterdir():
            if not process.name.isdigit():
                continue
            try:
                words = (process / "cmdline").read_bytes()
                if not words:
                    continue
                if mark in words + (process / "environ").read_bytes() or os.fsencode(os.readlink(process / "cwd")).startswith(mark):
                    found[int(process.name)] = words.replace(b"\0", b" ").decode(errors="replace")[:160]
            except OSError:
                # It ended while it was looked at.
                continue
        return found

    def until_gone(self, which):
        """What is left of the marked processes of that kind when their time is over."""
        end = time.monotonic() + GONE_WITHIN
        while (left := {pid: words for pid, words in self.marked().items() if which(words)}) and time.monotonic() < end:
            time.sleep(0.05)
        return left

    def clear(self):
        kill(self.marked())

    def finish(self, how, what):
        """A run of the host to its end: its status, and what it said."""
        with open(self.base / f"output-{what}", "w+") as log:
            process = self.start(how, scripts.prompt(what), log)
            try:
                status = process.wait(PATIENCE + SECONDS)
            except subprocess.TimeoutExpired:
                status = f"still running after {PATIENCE + SECONDS:g} s"
                process.kill()
                process.wait()
            log.seek(0)
            return status, log.read()

    def steps(self):
        """(step, what went wrong or None) of each step."""
        began = time.monotonic()
        status, output = self.finish(self.host.start, "steps")
        self.took = time.monotonic() - began
        left = self.until_gone(self.of_product)
        yield from self.judge()
        ended = status == 0 and scripts.DONE in output
        yield "ends", None if ended else f"status {status}; it said {output[-1500:]!r}"
        yield "leaves nothing", f"left {left}" if left else None
        self.clear()
        yield from self.approvals()
        self.clear()
        yield "killed", self.killed()
        self.clear()

    def approvals(self):
        """A person, or what stands for one, approves the one question and denies the other."""
        if self.host.NO_APPROVALS:
            # That it cannot be asked is what the server says of it; a version that can is driven to answer.
            told = scripts.NOBODY in self.script.seen.get("unasked", "")
            for step in APPROVALS:
                yield step, None if told else "the server did not say that nobody can be asked: write how this host answers"
            return
        status, output = self.finish(self.host.ask, "asks")
        for step, words, happens in (("approves", "exit code: 0", True), ("denies", "declined", False)):
            said, happened = self.script.seen.get(step, ""), (self.work / step).exists()
            good = words in said and happened == happens
            yield step, None if good else (f"expected {words!r}, done: {happens}; done: {happened}, the model was given {said[:800]!r}; "
                                           f"status {status}, it said {output[-800:]!r}")

    def of_product(self, words):
        """A host's own helpers that stay on are not ours: the server and its commands are."""
        return scripts.SLEEP in words or "openoxide" in words.partition(" ")[0].rpartition("/")[2]

    def judge(self):
        seen = self.script.seen
        lacking = [tool for tool in scripts.TOOLS if tool not in self.script.tools]
        yield "lists", f"not listed: {lacking}" if lacking else None
        said = seen.get("task", "")
        made = self.work / scripts.TASK_FILE
        good = "the task is done" in said and scripts.thread_of(said) and made.is_file()
        yield "task", None if good else f"the model was given {said[:800]!r}; the file is there: {made.is_file()}"
        said = seen.get("reply", "")
        good = "before this I was asked: task" in said and scripts.thread_of(said) == scripts.thread_of(seen.get("task", ""))
        yield "reply", None if good else f"the model was given {said[:800]!r}"
        said, happened = seen.get("unasked", ""), (self.work / "unasked").exists()
        good = self.host.UNASKED in said and not happened
        yield "unasked", None if good else f"expected {self.host.UNASKED!r}; the model was given {said[:800]!r}; done: {happened}"
        calls = seen.get("long") or [""]
        in_time = len(calls) == 1 if self.host.LONG == "one call" or SECONDS < ANSWERED_AFTER else (
            len(calls) > 1 and re.search("running|not finished", calls[0]))
        good = scripts.LONG_OVER in calls[-1] and in_time
        yield "long", None if good else (
            f"expected {self.host.LONG!r}; {len(calls)} calls, which gave {[said[:200] + ' ... ' + said[-600:] for said in calls]}")

    def killed(self):
        """The host ends by SIGKILL in the middle of a turn that runs a command: no time to tell anybody."""
        with open(self.base / "output-killed", "w+") as log:
            process = self.start(self.host.start, scripts.prompt("killed"), log)
            end = time.monotonic() + PATIENCE
            while not any(scripts.SLEEP in words for words in self.marked().values()):
                if process.poll() is not None or time.monotonic() > end:
                    process.kill()
                    process.wait()
                    log.seek(0)
                    return f"the command never ran; the host ended with {process.returncode} and said {log.read()[-1500:]!r}"
                time.sleep(0.1)
            # A host may be several processes; those above the server are what a person kills.
            server = min(pid for pid, words in self.marked().items() if words.split(" ")[1:2] == ["mcp-server"])
            kill(parents(server, process.pid))
            process.wait()
        left = self.until_gone(self.of_product)
        return f"left {left}" if left else None


def kill(pids):
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def parents(pid, last):
    """The processes above one, the nearest first, as far as the last."""
    found = []
    while pid != last:
        status = pathlib.Path(f"/proc/{pid}/status").read_text()
        pid = int(re.search(r"^PPid:\s*(\d+)", status, re.MULTILINE)[1])
        found.append(pid)
    return found


def judged(run):
    """Each step of the host once, also where the harness itself fails on it."""
    found = {}
    try:
        for step, wrong in run.steps():
            found[step] = wrong
    except Exception as error:
        # Every step that was not reached is told as one, with the reason.
        found = {**{step: f"not reached: {error!r}" for step in STEPS}, **found}
        run.clear()
    return {step: found.get(step, "not reached") for step in STEPS} | {step: "no such step" for step in found if step not in STEPS}


def verdict(run, step, wrong):
    """(whether it is as it should be, the line to print)."""
    expected = EXPECTED_FAILURES.get((run.name, step))
    if expected and SECONDS >= expected.seconds:
        if wrong and expected.words in wrong:
            return True, f"{step} fails as expected: {expected.reason}: {wrong[:300]}"
        return False, f"{step}: EXPECTED_FAILURES says {expected.reason!r}, but it says {wrong or 'passed'!r}. Remove the entry"
    if wrong:
        return False, f"{step}: {wrong}"
    if step == "long" and run.seconds < SECONDS:
        return True, f"{step}, of {run.seconds:g} s only: {run.host.LONGEST[1]}"
    return True, f"{step} not possible: {run.host.NO_APPROVALS}" if run.host.NO_APPROVALS and step in APPROVALS else step


def report(runs):
    """Prints a line for each step of each host, in the order of the table: how many were right, and how many not."""
    counts = [0, 0]
    with concurrent.futures.ThreadPoolExecutor(len(runs)) as pool:
        try:
            for run, steps in zip(runs, pool.map(judged, runs)):
                for step, wrong in steps.items():
                    good, line = verdict(run, step, wrong)
                    counts[not good] += 1
                    print(f"{'ok' if good else 'FAILED'}: {run.name}: {line}", file=sys.stderr, flush=True)
                print(f"{run.name} took {run.took:.1f} s to its end", file=sys.stderr, flush=True)
        except BaseException:
            # The pool waits for its threads, and these for the hosts.
            for run in runs:
                run.clear()
            raise
    return counts


def check_tables(hosts, only):
    there = {file.stem for file in (HERE / "hosts").glob("*.py")} - {"__init__"}
    if there != set(hosts):
        sys.exit(f"the table has {sorted(hosts)}, the directory {sorted(there)}")
    if stale := [pair for pair in EXPECTED_FAILURES if pair[0] not in hosts or pair[1] not in STEPS]:
        sys.exit(f"EXPECTED_FAILURES names what is not tested: {stale}")
    if unknown := [name for name in only if name not in hosts]:
        sys.exit(f"no such host: {unknown}; there are {list(hosts)}")


def main(node, packages, program, *only):
    hosts = {name: importlib.import_module(f"hosts.{name}") for name in HOSTS}
    check_tables(hosts, only)
    log = open(os.environ["OPENOXIDE_HOST_LOG"], "w") if os.environ.get("OPENOXIDE_HOST_LOG") else None
    server = ModelServer({"": scripts.agent}, log)
    root = pathlib.Path(tempfile.mkdtemp(prefix="openoxide-hosts-")).resolve()
    runs = [Run(name, hosts[name], root, node, pathlib.Path(packages), program, server.origin) for name in only or HOSTS]
    server.scripts.update({run.key: run.script for run in runs})
    passed, failed = report(runs)
    if os.environ.get("OPENOXIDE_HOST_KEEP"):
        print(f"kept: {root}", file=sys.stderr)
    else:
        shutil.rmtree(root, ignore_errors=True)
    print(f"{passed} passed, {failed} failed", file=sys.stderr)
    sys.exit(bool(failed))


if __name__ == "__main__":
    main(*sys.argv[1:])
