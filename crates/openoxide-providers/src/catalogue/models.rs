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

/// The day on which the rows were last held against the makers' pages.
pub const MODELS_CHECKED: &str = "2026-11-22";

/// A beginning of a name, or with `$` at the end the whole of it, and facts; marks: `F` freeform tools, `I` images.
///
/// The shortest row of a family is its newest generation, which a name that came later most likely belongs to; what is
/// older has rows of its own.
const MODELS: [(&str, ModelFacts); 75] = [
    // OpenAI: the window is shared; what a request may fill is the window less the largest response. From GPT-5.4 on it is
    // 922,000, of which what is above 272,000 doubles the price of all.
    ("gpt-", row(272_000, 128_000, Effort, "FI")),
    ("gpt-5.3-codex-spark", row(96_000, 32_000, Effort, "F")),
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
    ("codex-auto-review", row(272_000, 128_000, Effort, "FI")),
    ("o1", row(100_000, 100_000, Effort, "I")),
    ("o3", row(100_000, 100_000, Effort, "I")),
    ("o3-mini", row(100_000, 100_000, Effort, "")),
    ("o4-mini", row(100_000, 100_000, Effort, "I")),
    // Anthropic.
    ("claude-", row(1_000_000, 128_000, Effort, "I")),
    ("claude-sonnet-4-6", row(1_000_000, 64_000, Effort, "I")),
    ("claude-opus-4-5", row(200_000, 64_000, Budget, "I")),
    ("claude-sonnet-4-5", row(200_000, 64_000, Budget, "I")),
    ("claude-haiku-4-5", row(200_000, 64_000, Budget, "I")),
    ("claude-opus-4-1", row(200_000, 32_000, Budget, "I")),
    ("claude-opus-4-0", row(200_000, 32_000, Budget, "I")),
    ("claude-opus-4-2", row(200_000, 32_000, Budget, "I")),
    ("claude-opus-4$", row(200_000, 32_000, Budget, "I")),
    ("claude-sonnet-4-0", row(200_000, 64_000, Budget, "I")),
    ("claude-sonnet-4-2", row(200_000, 64_000, Budget, "I")),
    ("claude-sonnet-4$", row(200_000, 64_000, Budget, "I")),
    ("claude-3-7", row(200_000, 64_000, Budget, "I")),
    ("claude-3-5", row(200_000, 8_192, No, "I")),
    ("claude-3", row(200_000, 4_096, No, "I")),
    // Google.
    ("gemini-", row(1_000_000, 65_536, Effort, "I")),
    ("gemini-2.0", row(1_000_000, 8_192, Unknown, "I")),
    ("gemini-1", row(1_000_000, 8_192, Unknown, "I")),
    ("gemma", row(100_000, 8_192, Unknown, "I")),
    ("gemma2", row(6_144, 2_048, No, "")),
    ("gemma-2", row(6_144, 2_048, No, "")),
    // xAI.
    ("grok-", row(229_376, 16_384, Unknown, "I")),
    ("grok-code", row(229_376, 16_384, Unknown, "")),
    ("grok-3", row(114_688, 16_384, Unknown, "")),
    // DeepSeek: V4 holds a million tokens, and so do the two names without a number.
    ("deepseek-", row(900_000, 65_536, Unknown, "")),
    ("deepseek-v3", row(100_000, 8_192, Unknown, "")),
    ("deepseek-r1", row(100_000, 8_192, Unknown, "")),
    ("deepseek-coder", row(100_000, 8_192, No, "")),
    // Moonshot: images from K2.5 on.
    ("kimi-", row(229_376, 32_768, Unknown, "I")),
    ("kimi-k2$", row(114_688, 16_384, Unknown, "")),
    ("kimi-k2-", row(114_688, 16_384, Unknown, "")),
    // Z.ai.
    ("glm-", row(900_000, 65_536, Unknown, "")),
    ("glm-5$", row(170_000, 32_768, Unknown, "")),
    ("glm-5.1", row(170_000, 32_768, Unknown, "")),
    ("glm-4", row(100_000, 16_384, Unknown, "")),
    ("minimax-", row(180_000, 16_384, Unknown, "")),
    // Alibaba.
    ("qwen", row(229_376, 32_768, Unknown, "")),
    ("qwen3$", row(32_768, 8_192, Unknown, "")),
    ("qwen3:", row(32_768, 8_192, Unknown, "")),
    ("qwen3-", row(32_768, 8_192, Unknown, "")),
    ("qwen3-coder", row(229_376, 32_768, No, "")),
    ("qwen-", row(100_000, 8_192, Unknown, "")),
    ("qwen2", row(32_768, 8_192, Unknown, "")),
    ("qwen1", row(32_768, 8_192, Unknown, "")),
    // Mistral.
    ("mistral-", row(100_000, 16_384, No, "")),
    ("mistral-large-25", row(229_376, 16_384, No, "I")),
    ("mistral-large-3", row(229_376, 16_384, No, "I")),
    ("devstral", row(229_376, 16_384, No, "")),
    ("devstral:", row(100_000, 16_384, No, "")),
    ("devstral-small-25", row(100_000, 16_384, No, "")),
    ("devstral-medium-25", row(100_000, 16_384, No, "")),
    ("codestral", row(32_768, 8_192, No, "")),
    // Meta.
    ("llama", row(100_000, 4_096, No, "I")),
    ("llama-3", row(100_000, 4_096, No, "")),
    ("llama3", row(32_768, 4_096, No, "")),
];

/// What is known of the model, whatever a gateway puts before its name (`anthropic/`, `us.anthropic.`, `models/`).
pub fn facts_of(model: &str) -> ModelFacts {
    let name = plain(model);
    let length = |row: &str| match row.strip_suffix('$') {
        Some(whole) => (name == whole).then_some(row.len()),
        None => name.starts_with(row).then_some(row.len()),
    };
    let rows = MODELS.iter().filter_map(|(row, facts)| Some((length(row)?, facts)));
    rows.max_by_key(|(length, _)| *length).map_or(ModelFacts::UNKNOWN, |(_, facts)| *facts)
}

/// The maker's own name: lower case, without what a gateway puts before it, with dashes in the numbers of Claude.
fn plain(model: &str) -> String {
    let name = model.to_ascii_lowercase();
    let mut name = name.rsplit('/').next().unwrap_or_default();
    if let Some((_, after)) = name.split_once("anthropic.") {
        name = after;
    }
    if name.starts_with("claude-") { name.replace('.', "-") } else { name.to_owned() }
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
            ("claude-sonnet-5", 1_000_000, Effort),
            ("anthropic/claude-opus-5.5", 1_000_000, Effort),
            ("claude-haiku-5-5", 1_000_000, Effort),
            ("claude-sonnet-4-20250514", 200_000, Budget),
            ("claude-opus-4", 200_000, Budget),
            ("claude-opus-4.8", 1_000_000, Effort),
            ("openai/gpt-6.2-sol", 272_000, Effort),
            ("gpt-5.3-codex-spark", 96_000, Effort),
            ("gemini-3.8-flash", 1_000_000, Effort),
            ("deepseek/deepseek-v4-pro", 900_000, Unknown),
            ("zai-org/glm-5.2", 900_000, Unknown),
            ("glm-5", 170_000, Unknown),
            ("qwen3.7-plus", 229_376, Unknown),
            ("qwen3:8b", 32_768, Unknown),
            ("claude-3-5-haiku-latest", 200_000, No),
        ] {
            let facts = facts_of(name);
            assert!(facts.is_known, "{name}");
            assert_eq!((facts.context_window, facts.reasoning), (window, reasoning), "{name}");
        }
    }

    #[test]
    fn what_comes_after_the_newest_that_is_known_is_taken_for_it() {
        for (later, newest) in [
            ("gpt-7-sol", "gpt-6.2-sol"),
            ("claude-opus-6", "claude-opus-5-5"),
            ("claude-saga-1", "claude-fable-5-1"),
            ("gemini-4-pro", "gemini-3.8-flash"),
            ("grok-6", "grok-4.5"),
            ("deepseek-v5", "deepseek-v4-pro"),
            ("kimi-k3", "kimi-k2.6"),
            ("glm-6", "glm-5.2"),
            ("qwen4-coder", "qwen3.7-plus"),
        ] {
            let facts = facts_of(later);
            assert!(facts.is_known, "{later}");
            assert_eq!(facts, facts_of(newest), "{later}");
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
