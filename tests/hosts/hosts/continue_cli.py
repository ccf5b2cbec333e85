"""Continue CLI, `cn -p`: Chat Completions, no progress token, gives a call up after 60 s."""

PROGRAM = "@continuedev/cli/dist/cn.js"
UNASKED = "nobody who can be asked"
NO_APPROVALS = "it declares no elicitation"
LONG = "running"


def start(run, prompt):
    # YAML takes JSON as it is.
    config = run.write("config.yaml", {
        "name": "test", "version": "1.0.0", "schema": "v1",
        "models": [{"name": "scripted", "provider": "openai", "model": "scripted", "apiBase": run.origin + "/v1",
                    "apiKey": run.key, "roles": ["chat"], "capabilities": ["tool_use"]}],
        "mcpServers": [{"name": "openoxide", "command": run.command, "args": run.arguments, "env": run.server_env}]})
    return [run.node, run.program(PROGRAM), "-p", prompt, "--config", config, "--auto"], {
        "CONTINUE_TELEMETRY_ENABLED": "0", "CONTINUE_CLI_ENABLE_TELEMETRY": "0", "DO_NOT_TRACK": "1"}
