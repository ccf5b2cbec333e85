"""Codex, `codex exec`: OpenAI Responses, 2025-06-18, results as structured content only."""

import json

PROGRAM = "@openai/codex-linux-x64/vendor/x86_64-unknown-linux-musl/bin/codex"
# `exec` has nobody to ask: it answers `decline` at once.
APPROVALS = {"approves": ("declined", False), "denies": ("declined", False)}
LONG = "one call"


def start(run, prompt):
    def text(value):
        return json.dumps(value)
    environment = ", ".join(f"{name} = {text(value)}" for name, value in run.server_env.items())
    run.write(".codex/config.toml", f"""\
model = "scripted"
model_provider = "scripted"

[model_providers.scripted]
name = "scripted"
base_url = {text(run.origin + "/v1")}
wire_api = "responses"
env_key = "SCRIPTED_KEY"

[mcp_servers.openoxide]
command = {text(run.command)}
args = {text(run.arguments)}
env = {{ {environment} }}
default_tools_approval_mode = "approve"
""")
    return [run.program(PROGRAM), "exec", "--skip-git-repo-check", prompt], {"SCRIPTED_KEY": run.key}
