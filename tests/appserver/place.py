"""A place for one scenario: a home, a directory to work in, and a scripted model."""

import contextlib
import json
import os
import pathlib
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "codex"))

import model  # noqa: E402
from model import Model, Stream  # noqa: E402


class AnyCall(Stream):
    """Calls the tool that the arguments name, where they name one."""

    def call(self, name, kind, call, tool, field, given):
        arguments = json.loads(given) if field == "arguments" else {}
        tool = arguments.pop("_tool", tool)
        super().call(name, kind, call, tool, field, json.dumps(arguments) if arguments else given)


model.Stream = AnyCall

SETTINGS = """model = "gpt-5.4"
model_provider = "scripted"
[model_providers.scripted]
name = "scripted"
base_url = "{base_url}"
wire_api = "responses"
request_max_retries = 0
stream_max_retries = 0
"""

PATCH = "*** Begin Patch\n*** Add File: note.txt\n+one\n+two\n*** End Patch\n"

SCRIPT = {
    "say hello": [{"reasoning": "Greeting.", "text": "hello there"}],
    "say it again": [{"text": "hello again"}],
    "make a file": [{"commands": [{"cmd": "touch made.txt && echo made"}]}, {"text": "made it"}],
    "patch a file": [{"patch": PATCH}, {"text": "patched it"}],
    "plan it": [{"commands": [{"_tool": "update_plan", "plan": [{"step": "one", "status": "in_progress"},
                                                                {"step": "two", "status": "pending"}]}]},
                {"text": "planned"}],
    "ask me": [{"commands": [{"_tool": "request_user_input", "questions": [
        {"id": "db", "question": "Which database?", "options": [{"label": "one", "description": "small"}, {"label": "two"}]},
        {"id": "name", "question": "What name?"}]}]}, {"text": "noted"}],
    "wait for me": [{"hold": "I am wai"}],
    "run long": [{"commands": [{"cmd": "echo begun; sleep 600"}]}, {"text": "never said"}],
    "fail": [{"status": 400, "body": {"error": {"message": "no such thing", "type": "invalid_request_error"}}}],
    "and this too": [],
}


@contextlib.contextmanager
def place():
    """Gives the directory, the environment of the program, and the model."""
    with tempfile.TemporaryDirectory(prefix="appserver-", ignore_cleanup_errors=True) as made:
        root = pathlib.Path(made).resolve()
        for part in ("home", "work", "tmp"):
            (root / part).mkdir()
        with Model(SCRIPT, root) as served:
            (root / "home/config.toml").write_text(SETTINGS.format(base_url=served.base_url))
            environment = {"PATH": os.environ["PATH"], "HOME": made, "TMPDIR": str(root / "tmp"), "LANG": "C.UTF-8",
                           "OPENOXIDE_HOME": str(root / "home")}
            yield root / "work", environment, served


def expect(holds, what):
    if not holds:
        raise AssertionError(what)
