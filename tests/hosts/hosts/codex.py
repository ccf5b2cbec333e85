"""Codex, `codex exec`: OpenAI Responses, 2025-06-18, results as structured content only.

`exec` answers questions with `decline` at once. Its app-server, which its terminal and the IDE extensions talk to, hands
them on to a person, whom `codex_front_end.py` stands for.
"""

import json
import pathlib
import sys

TITLE = "Codex"
PROGRAM = "@openai/codex-linux-x64/vendor/x86_64-unknown-linux-musl/bin/codex"
FRONT_END = pathlib.Path(__file__).resolve().parent.parent / "codex_front_end.py"
UNASKED = "declined"
NO_APPROVALS = None
LONG = "one call"


def configure(run):
    def text(value):
        return json.dumps(value)
    run.write(".codex/config.toml", f"""\
model = "scripted"
model_provider = "scripted"

[model_providers.scripted]
name = "scripted"
base_url = {text(run.origin + "/v1")}
wire_api = "responses"
env_key = "SCRIPTED_KEY"

{run.block()}""")


def start(run, prompt):
    configure(run)
    return [*run.program(PROGRAM), "exec", "--skip-git-repo-check", prompt], {"SCRIPTED_KEY": run.key}


def ask(run, prompt):
    configure(run)
    return [sys.executable, str(FRONT_END), *run.program(PROGRAM), prompt], {"SCRIPTED_KEY": run.key}
