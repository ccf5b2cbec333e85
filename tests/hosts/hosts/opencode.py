"""OpenCode, `opencode run`: Chat Completions, 2025-11-25, results as text only."""

import json

from scripts import NOBODY

TITLE = "OpenCode"
PROGRAM = "opencode-linux-x64-baseline/bin/opencode"
UNASKED = NOBODY
NO_APPROVALS = "it declares no elicitation"
LONG = "one call"


def start(run, prompt):
    run.write(".config/opencode/opencode.json", {
        "autoupdate": False, "share": "disabled", "model": "scripted/scripted", "small_model": "scripted/scripted",
        "permission": {"*": "allow"},
        "provider": {"scripted": {"npm": "@ai-sdk/openai-compatible", "name": "scripted", "models": {"scripted": {"name": "scripted"}},
                                  "options": {"baseURL": run.origin + "/v1", "apiKey": run.key}}},
        **json.loads(run.block())})
    return [*run.program(PROGRAM), "run", prompt], {"OPENCODE_DISABLE_MODELS_FETCH": "1", "OPENCODE_DISABLE_AUTOUPDATE": "1"}
