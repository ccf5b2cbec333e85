//! Facts about models, by the longest known beginning of their names.
//!
//! Numbers are the providers' published ones where a request may rely on them, and lower where sources differ: a window
//! that is taken too small costs an early compaction, one that is taken too large costs a failed request.

use openoxide_llm::{ModelFacts, Reasoning};

const fn row(window: u64, output: u64, reasoning: Reasoning, marks: &str) -> ModelFacts {
    let marks = marks.as_bytes();
    let mut facts = ModelFacts {
        context_window: window,
        max_output_tokens: output,
        reasoning,
        freeform: false,
        images: false,
        is_known: true,
    };
    let mut at = 0;
    while at < marks.len() {
        match marks[at] {
            b'F' => facts.freeform = true,
            b'I' => facts.images = true,
            _ => {}
        }
        at += 1;
    }
    facts
}

use Reasoning::{Budget, Effort, None as No, Unknown};

/// Name prefix and facts; marks: `F` freeform tools, `I` images.
const MODELS: [(&str, ModelFacts); 49] = [
    // The window of this family is shared; what a request may fill is the window less the largest response.
    ("gpt-5", row(272_000, 128_000, Effort, "FI")),
    ("gpt-5-chat", row(111_616, 16_384, No, "I")),
    ("gpt-5.1-chat", row(111_616, 16_384, No, "I")),
    ("gpt-5.2-chat", row(111_616, 16_384, No, "I")),
    ("gpt-5.3-chat", row(111_616, 16_384, No, "I")),
    ("gpt-4.1", row(1_014_808, 32_768, No, "I")),
    ("gpt-4o", row(111_616, 16_384, No, "I")),
    ("chatgpt-4o", row(111_616, 16_384, No, "I")),
    ("gpt-4-turbo", row(123_904, 4_096, No, "I")),
    ("gpt-4-32k", row(28_672, 4_096, No, "")),
    ("gpt-4", row(4_096, 4_096, No, "")),
    ("gpt-3.5-turbo", row(12_288, 4_096, No, "")),
    ("gpt-oss", row(98_304, 32_768, Effort, "")),
    ("codex-mini", row(100_000, 100_000, Effort, "I")),
    ("o1", row(100_000, 100_000, Effort, "I")),
    ("o3", row(100_000, 100_000, Effort, "I")),
    ("o3-mini", row(100_000, 100_000, Effort, "")),
    ("o4-mini", row(100_000, 100_000, Effort, "I")),
    ("claude-", row(200_000, 32_000, Effort, "I")),
    ("claude-opus-4-6", row(1_000_000, 128_000, Effort, "I")),
    ("claude-opus-4-7", row(1_000_000, 128_000, Effort, "I")),
    ("claude-sonnet-4-6", row(1_000_000, 64_000, Effort, "I")),
    ("claude-opus-4-5", row(200_000, 64_000, Budget, "I")),
    ("claude-sonnet-4-5", row(200_000, 64_000, Budget, "I")),
    ("claude-haiku-4-5", row(200_000, 64_000, Budget, "I")),
    ("claude-opus-4-1", row(200_000, 32_000, Budget, "I")),
    ("claude-opus-4-0", row(200_000, 32_000, Budget, "I")),
    ("claude-opus-4-2", row(200_000, 32_000, Budget, "I")),
    ("claude-sonnet-4-0", row(200_000, 64_000, Budget, "I")),
    ("claude-sonnet-4-2", row(200_000, 64_000, Budget, "I")),
    ("claude-3-7", row(200_000, 64_000, Budget, "I")),
    ("claude-3-5", row(200_000, 8_192, No, "I")),
    ("claude-3", row(200_000, 4_096, No, "I")),
    ("gemini-2.5", row(1_000_000, 65_536, Effort, "I")),
    ("gemini-3", row(1_000_000, 65_536, Effort, "I")),
    ("gemini-", row(1_000_000, 8_192, Unknown, "I")),
    ("grok-", row(131_072, 16_384, Unknown, "")),
    ("deepseek-", row(100_000, 8_192, Unknown, "")),
    ("kimi-", row(131_072, 16_384, Unknown, "")),
    ("glm-", row(100_000, 16_384, Unknown, "")),
    ("minimax-", row(131_072, 16_384, Unknown, "")),
    ("qwen3-coder", row(131_072, 32_768, No, "")),
    ("qwen", row(32_768, 8_192, Unknown, "")),
    ("devstral", row(100_000, 16_384, No, "")),
    ("codestral", row(32_768, 8_192, No, "")),
    ("mistral-", row(100_000, 8_192, No, "")),
    ("llama-3", row(100_000, 4_096, No, "")),
    ("llama-4", row(100_000, 4_096, No, "I")),
    ("llama3", row(32_768, 4_096, No, "")),
];

/// What is known of the model, whatever a gateway puts before its name (`anthropic/`, `us.anthropic.`, `models/`).
pub fn facts_of(model: &str) -> ModelFacts {
    let name = model.to_ascii_lowercase();
    let mut name = name.rsplit('/').next().unwrap_or_default();
    if let Some((_, after)) = name.split_once("anthropic.") {
        name = after;
    }
    let name =
        name.replace("claude-4.", "claude-4-").replace("-4.5", "-4-5").replace("-4.6", "-4-6").replace("-4.7", "-4-7");
    MODELS
        .iter()
        .filter(|(prefix, _)| name.starts_with(prefix))
        .max_by_key(|(prefix, _)| prefix.len())
        .map_or(ModelFacts::UNKNOWN, |(_, facts)| *facts)
}

#[cfg(test)]
mod tests {
    use openoxide_llm::FactOverrides;

    use super::*;

    #[test]
    fn the_longest_prefix_wins_whatever_stands_before_the_name() {
        for (name, window, reasoning) in [
            ("gpt-5.2-codex", 272_000, Effort),
            ("openai/gpt-5", 272_000, Effort),
            ("gpt-5-chat-latest", 111_616, No),
            ("GPT-4.1-mini", 1_014_808, No),
            ("o3-mini-2025-01-31", 100_000, Effort),
            ("claude-sonnet-4-5-20250929", 200_000, Budget),
            ("anthropic/claude-sonnet-4.5", 200_000, Budget),
            ("us.anthropic.claude-opus-4-6-v1:0", 1_000_000, Effort),
            ("claude-sonnet-5", 200_000, Effort),
            ("claude-3-5-haiku-latest", 200_000, No),
        ] {
            let facts = facts_of(name);
            assert!(facts.is_known, "{name}");
            assert_eq!((facts.context_window, facts.reasoning), (window, reasoning), "{name}");
        }
    }

    #[test]
    fn an_unknown_name_gets_the_cautious_default_and_configuration_wins() {
        let facts = facts_of("my-deployment");
        assert_eq!(facts, ModelFacts::UNKNOWN);
        let given = FactOverrides { context_window: Some(9), freeform: Some(true), ..FactOverrides::default() };
        let facts = given.apply(facts);
        assert_eq!((facts.context_window, facts.freeform, facts.max_output_tokens), (9, true, 8_192));
    }

    #[test]
    fn no_prefix_is_listed_twice() {
        let mut names: Vec<&str> = MODELS.iter().map(|(name, _)| *name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), MODELS.len());
    }
}
