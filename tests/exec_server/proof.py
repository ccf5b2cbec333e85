"""Unmodified Codex works through our exec-server: a command, a patch, a terminal, an interrupt, much output, a denial.

Each scenario is a turn of `codex exec` with a scripted model (`tests/codex/model.py`), once with CODEX_EXEC_SERVER_URL and once
with environments.toml (a program on standard streams). What counts is what Codex tells the model that came of its calls, and
what is on the disk.

usage: proof.py OPENOXIDE CODEX [SCENARIO]...
"""

import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "codex"))

import model as scripted  # noqa: E402
from model import Model  # noqa: E402

# Longer than anything takes that works, on a busy machine too.
PATIENCE = 180
SETTINGS = """model = "gpt-5.4"
model_provider = "scripted"
[model_providers.scripted]
name = "scripted"
base_url = "{base_url}"
wire_api = "responses"
request_max_retries = 0
stream_max_retries = 0
[analytics]
enabled = false
[features]
unified_exec = true
"""
PATCH = "*** Begin Patch\n*** Add File: added.txt\n+made by a patch\n*** End Patch\n"
BYTES = 100 << 20


def outputs(model):
    """What the model was told that its calls came to."""
    found = {}
    for _, _, body in model.requests:
        for item in body["input"]:
            if item.get("type") in ("function_call_output", "custom_tool_call_output"):
                said = item["output"]
                found[item["call_id"]] = said if isinstance(said, str) else json.dumps(said)
    return list(found.values())


def written(file):
    return file.read_text() if file.exists() else None


def command(place, said):
    assert any("over there" in text and "exited with code 0" in text for text in said), said
    assert written(place / "work/made.txt") == "over there\n"


def patch(place, said):
    assert written(place / "work/added.txt") == "made by a patch\n", said


def terminal(place, said):
    text = "\n".join(said)
    assert "a terminal" in text and "typed: hello" in text, said


def interrupt(place, said):
    text = "\n".join(said)
    assert "waiting" in text and "interrupted here" in text, said


def much(place, said):
    assert any("the end of it" in text and "exited with code 0" in text for text in said), [text[-500:] for text in said]


def denial(place, said):
    assert any("Read-only file system" in text or "Permission denied" in text for text in said), said
    assert not (place / "outside/made.txt").exists()


def run(cmd, **more):
    return {"commands": [{"cmd": cmd, "yield_time_ms": 20000, **more}]}


# Waits for a command that runs on.
POLL = {"stdin": ""}

# Each with what the model does and what shows that it worked. `write_stdin` goes to the session that the first answer names.
SCENARIOS = {
    "command": ([run("echo over there | tee made.txt")], command),
    # Codex takes the patch out of the command and applies it by file operations.
    "patch": ([run(f"apply_patch <<'EOF'\n{PATCH}EOF\n")], patch),
    "terminal": (
        [
            run("[ -t 0 ] && [ -t 1 ] && echo a terminal; read -r line; echo typed: $line", tty=True, yield_time_ms=2000),
            {"commands": [{"stdin": "hello\n"}]},
        ],
        terminal,
    ),
    "interrupt": (
        [
            run("trap 'echo interrupted here; exit 9' INT; echo waiting; while :; do sleep 0.1; done", tty=True,
                yield_time_ms=2000),
            {"commands": [{"stdin": "\u0003"}]},
        ],
        interrupt,
    ),
    "much": ([run(f"head -c {BYTES} /dev/zero | tr '\\0' x | fold -w 99; echo the end of it", yield_time_ms=30000),
              *[{"commands": [POLL]}] * 20], much),
    "denial": ([run("echo no > ../outside/made.txt")], denial),
}


class Stream(scripted.Stream):
    """A command that is `stdin` types into the command that runs on, by the session that Codex named."""

    session = None
    runs_on = False

    def __init__(self, name, model, step, tools):
        if step.get("commands") == [POLL] and not Stream.runs_on:
            step = {"text": "that was it"}
        super().__init__(name, model, step, tools)

    def call(self, name, kind, call, tool, field, given):
        arguments = json.loads(given) if tool == "exec_command" else {}
        if "stdin" in arguments:
            tool = "write_stdin"
            given = json.dumps({"session_id": Stream.session, "chars": arguments["stdin"], "yield_time_ms": 20000})
        super().call(name, kind, call, tool, field, given)


scripted.Stream = Stream


class Following(Model):
    """A model that knows which session it may type into."""

    def asked(self, prompt, place, body):
        super().asked(prompt, place, body)
        named = re.findall(r"session ID (\d+)", json.dumps(body["input"]))
        Stream.session = int(named[-1]) if named else None
        Stream.runs_on = "running with session ID" in json.dumps(body["input"][-1])


def steps_of(script):
    return [*script, {"text": "that was it"}]


def hold(name, way, openoxide, codex):
    script, judge = SCENARIOS[name]
    with tempfile.TemporaryDirectory(prefix="exec-proof-", dir="/var/tmp", ignore_cleanup_errors=True) as made:
        place = pathlib.Path(made).resolve()
        for part in ("home", "work", "tmp", "ours", "outside"):
            (place / part).mkdir()
        with Following({name: steps_of(script)}, place) as model:
            (place / "home/config.toml").write_text(SETTINGS.format(base_url=model.base_url))
            environment = {"PATH": os.environ["PATH"], "HOME": made, "TMPDIR": str(place / "tmp"), "LANG": "C.UTF-8",
                           "CODEX_HOME": str(place / "home"), "OPENOXIDE_HOME": str(place / "ours")}
            server = None
            if way == "url":
                server = subprocess.Popen([openoxide, "exec-server"], cwd=place / "work", env=environment,
                                          stdout=subprocess.PIPE, text=True)
                environment["CODEX_EXEC_SERVER_URL"] = server.stdout.readline().strip()
            else:
                (place / "home/environments.toml").write_text(
                    'default = "ours"\ninclude_local = false\n[[environments]]\nid = "ours"\n'
                    f'program = {json.dumps(openoxide)}\nargs = ["exec-server", "--listen", "stdio"]\n'
                    f'cwd = {json.dumps(str(place / "work"))}\n'
                    f'[environments.env]\nOPENOXIDE_HOME = {json.dumps(str(place / "ours"))}\n')
            try:
                ran = subprocess.run(
                    [codex, "exec", "--skip-git-repo-check", "--sandbox", "workspace-write", "-C", str(place / "work"),
                     "-c", "sandbox_workspace_write.exclude_slash_tmp=true", name],
                    cwd=place / "work", env=environment, capture_output=True, text=True, timeout=PATIENCE, stdin=subprocess.DEVNULL)
                said = outputs(model)
                try:
                    assert ran.returncode == 0, ran.stderr[-3000:]
                    assert said, f"no call was answered\n{ran.stderr[-3000:]}"
                    judge(place, said)
                except AssertionError as error:
                    raise AssertionError(f"{name} by {way}: {error}\n{ran.stderr[-3000:]}") from error
            finally:
                if server:
                    server.terminate()
                    server.wait(PATIENCE)
        # The mark is in the environment of whatever was started for this turn.
        left = processes_of(place)
        assert not left, f"{name} by {way} left {left}"


def processes_of(place):
    found = []
    for process in pathlib.Path("/proc").iterdir():
        try:
            if process.name.isdigit() and os.readlink(process / "cwd").startswith(str(place)):
                found.append((process / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace"))
        except OSError:
            pass
    return found


def main():
    openoxide, codex, *names = sys.argv[1:]
    openoxide, codex = str(pathlib.Path(openoxide).resolve()), str(pathlib.Path(codex).resolve())
    failed = []
    for name in names or SCENARIOS:
        for way in ("url", "program"):
            try:
                hold(name, way, openoxide, codex)
                print(f"{name} by {way}: as it should be", flush=True)
            except (AssertionError, subprocess.TimeoutExpired) as error:
                failed.append(f"{name} by {way}")
                print(f"FAILED {name} by {way}: {error}", flush=True)
    if failed:
        sys.exit(f"failed: {', '.join(failed)}")


main()
