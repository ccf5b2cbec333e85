"""Cline CLI: Chat Completions, no progress token, gives a call up after 60 s."""

from scripts import NOBODY

TITLE = "Cline CLI"
PROGRAM = "@cline/cli-linux-x64/bin/cline"
UNASKED = NOBODY
NO_APPROVALS = "it declares no elicitation"
LONG = "running"


def start(run, prompt):
    run.write(".cline/data/settings/providers.json", {
        "version": 1, "lastUsedProvider": "openai-compatible", "modes": {},
        "providers": {"openai-compatible": {"updatedAt": "2026-11-01T00:00:00.000Z", "tokenSource": "manual", "settings": {
            "provider": "openai-compatible", "apiKey": run.key, "model": "scripted", "baseUrl": run.origin + "/v1"}}}})
    env = {"CLINE_TELEMETRY_DISABLED": "1", "CLINE_NO_AUTO_UPDATE": "1"}
    run.type_block("cline", env)
    return [*run.program(PROGRAM), prompt], env
