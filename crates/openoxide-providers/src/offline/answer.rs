//! The words of the stand-in. Every last message says what it is.

use super::{
    clause::Step,
    steps::{Report, describe},
};

/// Ends every answer, so that nobody takes it for a model's.
const SIGNATURE: &str = "(offline stand-in, not a language model)";

const HELP: &str = "\
I follow plain instructions, one per line or joined by \", then\":

- run `cargo test`
- create notes.txt with: some text
- replace `old text` by `new text` in src/main.rs
- append \"a last line\" to notes.txt
- delete old.txt
- rename a.txt to b.txt
- read README.md, list src
- find \"some text\"
- where is the configuration read?

For anything else, set up a model provider (`model` and `model_provider` in the configuration).";

/// Said before the first call of a step.
pub(super) fn announce(index: usize, count: usize, what: &str) -> String {
    if count == 1 { format!("I will {what}.") } else { format!("Step {} of {count}: {what}.", index + 1) }
}

/// An answer with the signature below.
pub(super) fn sign(text: &str) -> String {
    format!("{text}\n\n{SIGNATURE}")
}

/// What the stand-in understands, after what a search found for a prompt it does not.
pub(super) fn help(found: &str) -> String {
    let before = if found.is_empty() { String::new() } else { format!("{found}\n\n") };
    sign(&format!(
        "{before}I am the offline stand-in, not a language model, and did not understand this as an instruction. {HELP}"
    ))
}

/// What each step came to, and which were not begun.
pub(super) fn summary(reports: &[Report], left_out: &[Step]) -> String {
    let is_list = reports.len() + left_out.len() > 1;
    let mut text = String::new();
    for (index, report) in reports.iter().enumerate() {
        if index > 0 {
            text.push_str("\n\n");
        }
        if is_list {
            text.push_str(&format!("{}. ", index + 1));
        }
        text.push_str(&report.text);
        if !report.detail.is_empty() {
            text.push_str(&format!("\n\n```\n{}\n```", report.detail.join("\n")));
        }
    }
    if !left_out.is_empty() {
        let names: Vec<String> = left_out.iter().map(describe).collect();
        text.push_str(&format!("\n\nI stopped there, and did not: {}.", names.join("; ")));
    }
    let failed = reports.iter().filter(|report| !report.is_done).count();
    if is_list && failed == 0 {
        text.push_str("\n\nAll steps are done.");
    }
    sign(&text)
}
