"""Copilot CLI, `copilot -p` with a provider of one's own: Chat Completions, the modern era."""

TITLE = "Copilot CLI"
PROGRAM = "@github/copilot-linux-x64/copilot"
# `-p` answers `decline` at once.
UNASKED = "declined"
NO_APPROVALS = "`-p` declares elicitation and answers `decline` at once; only its terminal asks a person"
LONG = "one call"


def start(run, prompt):
    env = {"COPILOT_PROVIDER_TYPE": "openai", "COPILOT_PROVIDER_BASE_URL": run.origin + "/v1", "COPILOT_PROVIDER_API_KEY": run.key,
           "COPILOT_MODEL": "scripted", "COPILOT_OFFLINE": "true"}
    run.type_block("copilot", env)
    return [*run.program(PROGRAM), "-p", prompt, "--allow-all-tools", "--no-auto-update"], env
