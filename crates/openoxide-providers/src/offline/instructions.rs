//! Cuts a prompt into clauses, one instruction each: lines, list items, sentences, and `;`, `, then`, `and` where an
//! instruction follows. Quotes and fenced blocks stay whole. What a clause asks for is `clause`'s business.

use super::{
    clause::{self, Step},
    words::{first_word, is_path_like, quoted_len, strip_fillers},
};

/// One instruction in words, with the block of text that follows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Clause {
    pub(super) text: String,
    pub(super) block: Option<String>,
}

/// Verbs that begin an instruction whatever follows.
const ACTIONS: [&str; 11] =
    ["run", "rerun", "execute", "replace", "change", "substitute", "delete", "remove", "rename", "append", "create"];
/// Verbs that begin an instruction only when a file or a quoted text follows; else they are plain prose.
const ACTIONS_ON_FILES: [&str; 13] =
    ["write", "read", "show", "open", "list", "print", "cat", "move", "add", "make", "put", "ls", "display"];
/// Words that begin a question.
const QUESTIONS: [&str; 16] = [
    "find",
    "search",
    "grep",
    "where",
    "locate",
    "explain",
    "describe",
    "what",
    "how",
    "why",
    "which",
    "who",
    "tell",
    "look",
    "summarize",
    "summarise",
];

/// The steps a prompt asks for, in order.
pub(super) fn parse(prompt: &str) -> Vec<Step> {
    let mut steps = Vec::new();
    for clause in split(prompt) {
        if let Some(step) = clause::parse(&clause, &steps) {
            steps.push(step);
        }
    }
    steps
}

/// The clauses of a prompt.
pub(super) fn split(prompt: &str) -> Vec<Clause> {
    let mut clauses: Vec<Clause> = Vec::new();
    let mut lines = prompt.lines();
    // The last clause ends in a colon: plain lines up to an empty one are its text.
    let mut is_open = false;
    while let Some(line) = lines.next() {
        let trimmed = line.trim();
        if let Some(info) = trimmed.strip_prefix("```") {
            let block: Vec<&str> = lines.by_ref().take_while(|line| line.trim_end() != "```").collect();
            let block = block.join("\n");
            is_open = false;
            match clauses.last_mut() {
                Some(last) if last.block.is_none() => last.block = Some(block),
                _ => {
                    let is_shell = matches!(info.trim(), "sh" | "bash" | "shell" | "console");
                    let text = if is_shell { "run" } else { "" };
                    clauses.push(Clause { text: text.into(), block: Some(block) });
                }
            }
            continue;
        }
        if trimmed.is_empty() {
            is_open = false;
            continue;
        }
        let (item, is_item) = strip_bullet(trimmed);
        if is_open && !is_item {
            let block = clauses.last_mut().and_then(|last| last.block.as_mut());
            if let Some(block) = block {
                if !block.is_empty() {
                    block.push('\n');
                }
                block.push_str(line);
                continue;
            }
        }
        for text in split_line(item) {
            clauses.push(Clause { text, block: None });
        }
        is_open = clauses.last_mut().is_some_and(|last| {
            let takes_text = last.text.ends_with(':')
                && ["create", "write", "append", "add", "put", "make"].contains(&first_word(&last.text).as_str());
            let fence_follows =
                lines.clone().find(|line| !line.trim().is_empty()).is_none_or(|line| line.trim().starts_with("```"));
            if takes_text && !fence_follows {
                last.block = Some(String::new());
            }
            takes_text && !fence_follows
        });
    }
    clauses.retain(|clause| !clause.text.is_empty() || clause.block.is_some());
    clauses
}

/// Takes `1.`, `2)`, `-` or `*` off the front of a list item.
fn strip_bullet(line: &str) -> (&str, bool) {
    let digits = line.len() - line.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let rest =
        if digits > 0 { line[digits..].strip_prefix(['.', ')']) } else { line.strip_prefix(['-', '*', '\u{2022}']) };
    match rest {
        Some(rest) if rest.starts_with(' ') => (rest.trim_start(), true),
        _ => (line, false),
    }
}

fn split_line(line: &str) -> Vec<String> {
    let mut pieces = Vec::new();
    let mut from = 0;
    let mut at = 0;
    while at < line.len() {
        if let Some(length) = quoted_len(line, at) {
            at += length;
            continue;
        }
        if let Some(next) = cut_at(&line[from..at], &line[at..]) {
            pieces.push(line[from..at].trim());
            at += next;
            from = at;
            continue;
        }
        at += line[at..].chars().next().map_or(1, char::len_utf8);
    }
    pieces.push(line[from..].trim());
    pieces.into_iter().map(|piece| strip_fillers(piece).to_owned()).filter(|piece| !piece.is_empty()).collect()
}

/// Whether the clause `before` ends here; then the length of what separates it from the next.
fn cut_at(before: &str, rest: &str) -> Option<usize> {
    let before = strip_fillers(before.trim());
    if before.is_empty() {
        return None;
    }
    let is_question = QUESTIONS.contains(&first_word(before).as_str());
    let is_bare_run = ["run", "execute"].contains(&first_word(before).as_str()) && !before.contains('`');
    let is_end = rest.starts_with(['.', '!', '?']) && rest[1..].starts_with(char::is_whitespace);
    let (length, is_sentence) = if is_end || rest.starts_with(';') {
        (1, true)
    } else if rest.starts_with(", ") {
        (1, false)
    } else if rest.starts_with(" and ") {
        (4, false)
    } else if rest.starts_with(" then ") {
        (0, false)
    } else {
        return None;
    };
    // "in FILE, replace A by B" is one instruction.
    if first_word(before) == "in" && before.split_whitespace().count() <= 4 && !is_sentence {
        return None;
    }
    let after = rest[length..].trim_start();
    let tail = strip_fillers(after);
    let says_then = after[..after.len() - tail.len()].to_lowercase().contains("then");
    let follows = if is_sentence || says_then {
        starts_action(tail) || QUESTIONS.contains(&first_word(tail).as_str())
    } else {
        !is_question && starts_action(tail)
    };
    // A shell line may hold `; then` of its own, so a bare command ends only where an instruction begins.
    let follows = follows || (!is_bare_run && !tail.is_empty() && (says_then || (is_sentence && tail.len() > 1)));
    follows.then_some(length)
}

fn starts_action(text: &str) -> bool {
    let verb = first_word(text);
    if ACTIONS.contains(&verb.as_str()) {
        return true;
    }
    ACTIONS_ON_FILES.contains(&verb.as_str())
        && text.split_whitespace().skip(1).take(5).any(|word| {
            word.starts_with(['`', '"', '\'']) || is_path_like(word) || ["file", "files", "directory"].contains(&word)
        })
}

#[cfg(test)]
#[path = "instructions_tests.rs"]
mod tests;
