"""Holds each conversation of `scenarios.py` with Codex and with ours, and judges what differs by `differences.md`.

usage: golden.py OPENOXIDE CODEX [SCENARIO]...     with scenarios, only those are held and unused entries are no error
       golden.py --keep DIRECTORY ...              also writes all messages there, as they were
"""

import argparse
import json
import os
import pathlib
import re
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor

from compare import Conversation, differences
from model import Model
from scenarios import SCENARIOS
from talk import Talk

# How often Codex is asked again where something differs: it is not always like itself, and loses what a command said that
# was over at once.
AGAIN = 2
LIST = pathlib.Path(__file__).with_name("differences.md")
SETTINGS = """model = "gpt-5.4"
model_provider = "scripted"
[model_providers.scripted]
name = "scripted"
base_url = "{base_url}"
wire_api = "responses"
request_max_retries = 0
stream_max_retries = 0
[sandbox_workspace_write]
exclude_slash_tmp = true
exclude_tmpdir_env_var = true
"""
# Nothing leaves the machine, and no shell of the user is looked at.
CODEX_SETTINGS = """[analytics]
enabled = false
[features]
shell_snapshot = false
"""


class Side:
    """One of the two programs."""

    def __init__(self, name, program, arguments, home, settings, answers_all):
        self.name, self.command, self.home, self.settings = name, [str(pathlib.Path(program).resolve()), *arguments], home, settings
        self.answers_all = answers_all

    def hold(self, script, files, speak, keep):
        """One conversation, in a place of its own."""
        with tempfile.TemporaryDirectory(prefix="golden-", ignore_cleanup_errors=True) as made:
            place = pathlib.Path(made).resolve()
            for part in ("home", "work", "tmp"):
                (place / part).mkdir()
            for file, text in files.items():
                (place / "work" / file).parent.mkdir(parents=True, exist_ok=True)
                (place / "work" / file).write_text(text)
            with Model(script, place) as model, open(place / "errors", "wb") as errors:
                (place / "home/config.toml").write_text(SETTINGS.format(base_url=model.base_url) + self.settings)
                environment = {"PATH": os.environ["PATH"], "HOME": made, "TMPDIR": str(place / "tmp"), "LANG": "C.UTF-8",
                               self.home: str(place / "home")}
                talk = Talk(self.command, environment, place / "work", errors, self.answers_all)
                try:
                    speak(talk)
                    talk.end()
                except (TimeoutError, EOFError, ConnectionError) as error:
                    said = (place / "errors").read_text(errors="replace")[-4000:]
                    raise RuntimeError(f"{self.name}, {speak.__name__}: {error}\n{said}") from error
                finally:
                    talk.program.kill()
                    if keep:
                        lines = [f"{way} {json.dumps(message)}\n" for way, message in talk.messages]
                        lines += [f"model {json.dumps(request)}\n" for request in model.requests]
                        (keep / f"{speak.__name__}.{self.name}").write_text("".join(lines))
            left = {str(file.relative_to(place)): file.read_text()
                    for file in sorted([*(place / "work").rglob("*"), *place.glob("*.txt")]) if file.is_file()}
            return Conversation(talk.messages, model.requests, left, place)


class Entry:
    """A row of the list: a difference that may be, and why. `*` stands for anything in each field."""

    def __init__(self, number, cells):
        self.number, self.used = number, 0
        *self.cells, self.reason = [cell.strip().replace("\\|", "|") for cell in cells]
        self.patterns = [re.compile(".*".join(map(re.escape, cell.strip("`").split("*"))), re.DOTALL) for cell in self.cells]

    def allows(self, difference):
        return all(pattern.fullmatch(cell) for pattern, cell in zip(self.patterns, difference))


def entries():
    rows = []
    for number, line in enumerate(LIST.read_text().splitlines(), 1):
        if line.startswith("|") and not line.startswith(("| Scenario", "|--", "|:-")):
            cells = re.split(r"(?<!\\)\|", line)[1:-1]
            if len(cells) != 6:
                sys.exit(f"{LIST.name}:{number}: {len(cells)} cells, not 6")
            rows.append(Entry(number, cells))
    return rows


def judged(name, found, listed):
    """The entries that allow what was found, and what none allows."""
    used, left = [], []
    for difference in ((name, *difference) for difference in found):
        allowing = next((entry for entry in listed if entry.allows(difference)), None)
        if allowing:
            used.append(allowing)
        else:
            left.append(difference)
    return used, left


def row(difference):
    cells = [cell if len(cell) <= 160 else cell[:150] + "*" for cell in difference]
    return "| " + " | ".join(f"`{cell}`" if cell else "" for cell in (cell.replace("|", "\\|") for cell in cells)) + " |  |"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--keep", type=pathlib.Path)
    parser.add_argument("openoxide")
    parser.add_argument("codex")
    parser.add_argument("scenario", nargs="*")
    options = parser.parse_args()
    sides = [Side("codex", options.codex, ["mcp-server"], "CODEX_HOME", CODEX_SETTINGS, False),
             Side("openoxide", options.openoxide, ["mcp-server", "--compat", "codex"], "OPENOXIDE_HOME", "", True)]
    chosen = [scenario for scenario in SCENARIOS if not options.scenario or scenario[0] in options.scenario]
    if not chosen:
        sys.exit(f"no such scenario; there are {', '.join(name for name, *_ in SCENARIOS)}")

    with ThreadPoolExecutor(4) as pool:
        def hold(side, scenario):
            _, script, files, speak = scenario
            return pool.submit(side.hold, script, files, speak, options.keep)

        held = [(scenario, [hold(side, scenario) for side in sides]) for scenario in chosen]
        listed, unlisted = entries(), []
        for scenario, (theirs, ours) in held:
            used, left = judged(scenario[0], differences(theirs.result(), ours.result()), listed)
            for _ in range(AGAIN):
                if left:
                    again = judged(scenario[0], differences(hold(sides[0], scenario).result(), ours.result()), listed)
                    used, left = min((used, left), again, key=lambda judgement: len(judgement[1]))
            for entry in used:
                entry.used += 1
            unlisted += left
    for difference in unlisted:
        print(row(difference))
    unused = [entry for entry in listed if not entry.used] if not options.scenario else []
    for entry in unused:
        print(f"{LIST.name}:{entry.number}: there is no such difference any more: {' | '.join(entry.cells)}")
    bare = [entry for entry in listed if not entry.reason]
    for entry in bare:
        print(f"{LIST.name}:{entry.number}: the reason is missing")
    if unlisted:
        print(f"{len(unlisted)} differences that {LIST.name} does not list")
    if unlisted or unused or bare:
        sys.exit(1)
    print(f"{len(chosen)} conversations are as Codex has them, but for {len(listed)} listed differences", file=sys.stderr)


if __name__ == "__main__":
    main()
