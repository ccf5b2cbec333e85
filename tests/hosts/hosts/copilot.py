"""Copilot CLI, `copilot -p` with a provider of one's own: Chat Completions, the modern era.

`-p` answers questions with `decline` at once. Its SDK, which programs embed it with, hands them on to a person, whom
`copilot_front_end.mjs` stands for.
"""

TITLE = "Copilot CLI"
PROGRAM = "@github/copilot-linux-x64/copilot"
UNASKED = "declined"
NO_APPROVALS = None
LONG = "one call"


def environment(run):
    env = {"COPILOT_PROVIDER_TYPE": "openai", "COPILOT_PROVIDER_BASE_URL": run.origin + "/v1", "COPILOT_PROVIDER_API_KEY": run.key,
           "COPILOT_MODEL": "scripted", "COPILOT_OFFLINE": "true"}
    run.type_block("copilot", env)
    return env


def start(run, prompt):
    return [*run.program(PROGRAM), "-p", prompt, "--allow-all-tools", "--no-auto-update"], environment(run)


def ask(run, prompt):
    front_end = run.packages / "copilot_front_end.mjs"
    return [run.node, str(front_end), *run.program(PROGRAM), prompt], environment(run)
