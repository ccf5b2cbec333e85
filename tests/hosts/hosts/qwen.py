"""Qwen Code, `qwen -p --yolo`: Chat Completions; its model finds the tools by a search."""

from model import Call
from scripts import NOBODY

TITLE = "Qwen Code"
PROGRAM = "@qwen-code/qwen-code/cli-entry.js"
DISCOVER = Call("tool_search", {"query": "openoxide"})
THROUGH = "tool_call"
UNASKED = NOBODY
NO_APPROVALS = "it declares no elicitation"
LONG = "one call"
# Its check of servers (every 30 s, three times, then 5 s) takes a connected one for lost, ends it and starts another.
LONGEST = 75, "it ends and restarts each server 95 s after its start, and the turn ends with it"


def start(run, prompt):
    run.write(".qwen/settings.json", {
        "security": {"auth": {"selectedType": "openai"}}, "general": {"disableAutoUpdate": True, "enableAutoUpdate": False},
        "privacy": {"usageStatisticsEnabled": False}, "telemetry": {"enabled": False}, "model": {"name": "scripted"}})
    env = {"OPENAI_API_KEY": run.key, "OPENAI_BASE_URL": run.origin + "/v1", "OPENAI_MODEL": "scripted"}
    run.type_block("qwen", env)
    return [*run.program(PROGRAM), "-p", prompt, "--yolo"], env
