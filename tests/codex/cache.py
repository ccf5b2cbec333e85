"""Cached and uncached tokens of each request of the same thread, of OpenOxide and of Codex, as the strict model server counts them.

usage: cache.py OPENOXIDE CODEX STRICT_MODEL      (the last: cargo build --package openoxide-test-support --example strict_model)
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from talk import Talk

SETTINGS = """model = "my-deployment"
model_provider = "strict"
[model_providers.strict]
name = "strict"
base_url = "{url}"
wire_api = "responses"
"""

RUN = 'call exec_command {"cmd":"true"}'
TURNS = [
    f"Look around.\nmodel: think | comment I look. | {RUN}\nmodel: {RUN}\nmodel: think | {RUN}\nmodel: think | say Done.",
    "Say something.\nmodel: say Words alone.",
    f"Go on.\nmodel: {RUN}\nmodel: think | say Here.",
    f"And on.\nmodel: think | {RUN}\nmodel: think | say There.",
]


def measure(name, command, strict, *manner):
    with tempfile.TemporaryDirectory() as place:
        home, work = Path(place) / "home", Path(place) / "work"
        home.mkdir()
        work.mkdir()
        model = subprocess.Popen([strict, "responses", *manner], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        url = model.stdout.readline().strip()
        (home / "config.toml").write_text(SETTINGS.format(url=url))
        environment = {"PATH": os.environ["PATH"], "HOME": place, "CODEX_HOME": str(home), "OPENOXIDE_HOME": str(home)}
        talk = Talk(command, environment, work, subprocess.DEVNULL, True)
        talk.ask("initialize", {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}})
        talk.send({"method": "notifications/initialized"})
        arguments = {"prompt": TURNS[0], "cwd": str(work), "approval-policy": "never", "sandbox": "workspace-write"}
        answer = talk.tool("codex", arguments)
        thread = answer["result"]["structuredContent"]["threadId"]
        for prompt in TURNS[1:]:
            talk.tool("codex-reply", {"threadId": thread, "prompt": prompt})
        talk.program.kill()
        talk.program.wait()
        table, _ = model.communicate()
        print(f"{name}, {table}")


def main():
    openoxide, codex, strict = sys.argv[1:4]
    measure("OpenOxide", [openoxide, "mcp-server", "--compat", "codex"], strict)
    # It sends reasoning with a member of its own and messages without their ids.
    measure("Codex", [codex, "mcp-server"], strict, "lenient")


main()
