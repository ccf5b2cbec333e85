"""Claude Code, `claude -p`: Anthropic Messages, the modern era, results as structured content only."""

from model import Call

PROGRAM = "@anthropic-ai/claude-code-linux-x64/claude"
DISCOVER = Call("ToolSearch", {"query": "openoxide", "max_results": 5})
# Nobody is there to be asked: headless it answers `cancel` at once.
APPROVALS = {"approves": ("cancelled", False), "denies": ("cancelled", False)}
LONG = "one call"


def start(run, prompt):
    config = run.write("mcp.json", {"mcpServers": {"openoxide": {
        "command": run.command, "args": run.arguments, "env": run.server_env}}})
    argv = [run.program(PROGRAM), "-p", prompt, "--model", "scripted", "--mcp-config", config, "--strict-mcp-config",
            "--allowedTools", "mcp__openoxide"]
    return argv, {"ANTHROPIC_BASE_URL": run.origin, "ANTHROPIC_API_KEY": run.key, "DISABLE_AUTOUPDATER": "1",
                  "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1"}
