"""Continue CLI, `cn -p`: Chat Completions, no progress token, gives a call up after 60 s."""

import json

from scripts import NOBODY

TITLE = "Continue CLI"
PROGRAM = "@continuedev/cli/dist/cn.js"
UNASKED = NOBODY
NO_APPROVALS = "it declares no elicitation"
LONG = "running"


def start(run, prompt):
    # A value of YAML may be written as JSON.
    models = [{"name": "scripted", "provider": "openai", "model": "scripted", "apiBase": run.origin + "/v1", "apiKey": run.key,
               "roles": ["chat"], "capabilities": ["tool_use"]}]
    config = run.write("config.yaml", f"name: test\nversion: 1.0.0\nschema: v1\nmodels: {json.dumps(models)}\n{run.block()}")
    return [*run.program(PROGRAM), "-p", prompt, "--config", config, "--auto"], {
        "CONTINUE_TELEMETRY_ENABLED": "0", "CONTINUE_CLI_ENABLE_TELEMETRY": "0", "DO_NOT_TRACK": "1"}
