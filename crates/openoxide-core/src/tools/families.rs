//! Which model changes files by patches and which by edits: a fact of the model's family, read from its name, whatever
//! protocol it is reached by.

/// How a model changes files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EditStyle {
    /// By `apply_patch`: the GPT families, which were trained on its language, and names that say no family, which are
    /// deployments of those as a rule.
    Patch,
    /// By `edit` and `write_file`.
    Edit,
}

/// Words that begin the names of models which were trained on edits.
const EDITING: [&str; 34] = [
    "claude",
    "gemini",
    "gemma",
    "grok",
    "deepseek",
    "kimi",
    "glm",
    "minimax",
    "qwen",
    "qwq",
    "devstral",
    "codestral",
    "mistral",
    "mixtral",
    "ministral",
    "magistral",
    "llama",
    "codellama",
    "phi",
    "nemotron",
    "granite",
    "command",
    "yi",
    "starcoder",
    "hunyuan",
    "ernie",
    "seed",
    "mimo",
    "longcat",
    "olmo",
    "exaone",
    "jamba",
    "nova",
    "step",
];

impl EditStyle {
    /// The style of a model, whatever stands before its family in the name: `us.anthropic.claude-x`, `models/gemini-x`.
    pub(crate) fn of(model: &str) -> Self {
        let name = model.to_ascii_lowercase();
        let name = name.rsplit('/').next().unwrap_or_default();
        let mut words = name.split(['.', ':', '-', '_']).filter(|word| !word.is_empty());
        let is_family = |word: &str| EDITING.contains(&word.trim_end_matches(|c: char| c.is_ascii_digit()));
        // A family that was trained on another's answers names that one later: `deepseek-r1-distill-llama`.
        match words.find(|word| is_family(word) || ["gpt", "chatgpt", "codex", "o1", "o3", "o4"].contains(word)) {
            Some(word) if is_family(word) => Self::Edit,
            Some(_) | None => Self::Patch,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_family_in_the_name_decides() {
        for name in [
            "claude-opus-4-7",
            "anthropic/claude-sonnet-4.5",
            "us.anthropic.claude-opus-4-6-v1:0",
            "models/gemini-3-pro",
            "qwen3-coder:30b",
            "Qwen/Qwen3-Coder-480B",
            "deepseek-r1-distill-llama-70b",
            "meta-llama/Llama-4-Scout",
            "GLM-5",
            "accounts/fireworks/models/kimi-k2",
        ] {
            assert_eq!(EditStyle::of(name), EditStyle::Edit, "{name}");
        }
        for name in
            ["gpt-5.2-codex", "openai/gpt-oss-120b", "o3", "codex-mini", "my-deployment", "offline", "", "gpt-6-claude"]
        {
            assert_eq!(EditStyle::of(name), EditStyle::Patch, "{name}");
        }
    }
}
