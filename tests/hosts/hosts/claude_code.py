"""Claude Code, `claude -p`: Anthropic Messages, the modern era, results as structured content only.

Nobody is there to be asked: without the hook it answers every question with `cancel` within 30 ms. An `Elicitation` hook
answers in the person's place, and is what approves and denies here.
"""

from model import Call

TITLE = "Claude Code"
PROGRAM = "@anthropic-ai/claude-code-linux-x64/claude"
DISCOVER = Call("ToolSearch", {"query": "openoxide", "max_results": 5})
UNASKED = "cancelled"
NO_APPROVALS = None
LONG = "one call"

# Given the question on standard input.
HOOK = """\
#!/bin/sh
question=$(cat)
case $question in
  *"touch approves"*) answer='"action": "accept", "content": {"decision": "approve"}' ;;
  *) answer='"action": "decline"' ;;
esac
printf '{"hookSpecificOutput": {"hookEventName": "Elicitation", %s}}' "$answer"
"""


def start(run, prompt, *more):
    env = {"ANTHROPIC_BASE_URL": run.origin, "ANTHROPIC_API_KEY": run.key, "DISABLE_AUTOUPDATER": "1",
           "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1"}
    run.type_block("claude", env)
    return [*run.program(PROGRAM), "-p", prompt, "--model", "scripted", "--allowedTools", "mcp__openoxide", *more], env


def ask(run, prompt):
    hook = run.write("answer", HOOK)
    settings = {"hooks": {"Elicitation": [{"matcher": "openoxide", "hooks": [{"type": "command", "command": f"sh {hook}"}]}]}}
    return start(run, prompt, "--settings", run.write("settings.json", settings))
