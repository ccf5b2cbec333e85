"""Gemini CLI, `gemini -p --yolo`: Gemini's API, results as text only."""

from scripts import NOBODY

TITLE = "Gemini CLI"
PROGRAM = "@google/gemini-cli/bundle/gemini.js"
UNASKED = NOBODY
NO_APPROVALS = "it declares no elicitation"
LONG = "one call"


def start(run, prompt):
    run.write(".gemini/settings.json", {
        "security": {"auth": {"selectedType": "gemini-api-key"}, "folderTrust": {"enabled": False}},
        "general": {"disableAutoUpdate": True, "enableAutoUpdate": False}, "privacy": {"usageStatisticsEnabled": False},
        "telemetry": {"enabled": False}, "model": {"name": "gemini-2.5-flash"}})
    env = {"GEMINI_API_KEY": run.key, "GOOGLE_GEMINI_BASE_URL": run.origin, "GEMINI_CLI_TRUST_WORKSPACE": "true",
           "GEMINI_CLI_NO_RELAUNCH": "true"}
    run.type_block("gemini", env)
    return [*run.program(PROGRAM), "-p", prompt, "--yolo"], env
