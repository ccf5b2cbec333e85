//! What the model says: each line `model: ...` of a prompt is one response, in order; past the last one it says that it is done.
//! The parts of a line are set off by ` | `:
//!
//! | part | |
//! |---|---|
//! | `think` | a thought, sealed |
//! | `comment TEXT` | a message; in Responses in the phase `commentary` |
//! | `say TEXT` | a message; in Responses in the phase `final_answer` |
//! | `call NAME JSON` | a call |
//! | `goon` | `end_turn: false`, where the dialect has it |
//! | `cut` | the response stops at its length limit |
//! | `pad N` | N bytes more of text |

/// One response.
#[derive(Debug, Clone, Default)]
pub(super) struct Step {
    pub(super) thinks: bool,
    pub(super) says: Vec<Message>,
    pub(super) calls: Vec<(String, String)>,
    pub(super) goes_on: bool,
    pub(super) is_cut: bool,
}

/// A message.
#[derive(Debug, Clone)]
pub(super) struct Message {
    pub(super) text: String,
    pub(super) is_commentary: bool,
}

impl Step {
    pub(super) fn say(text: &str) -> Self {
        Self { says: vec![Message { text: text.to_owned(), is_commentary: false }], ..Self::default() }
    }
}

const LINE: &str = "model:";

/// Whether a prompt has a script.
pub(super) fn is_scripted(prompt: &str) -> bool {
    prompt.lines().any(|line| line.starts_with(LINE))
}

/// Whether a message asks for a summary of the conversation.
pub(super) fn asks_for_a_summary(text: &str) -> bool {
    text.starts_with("The conversation is about to be shortened")
}

/// The response number `at`, from 0.
pub(super) fn step(prompt: &str, at: usize) -> Step {
    let Some(line) = prompt.lines().filter_map(|line| line.strip_prefix(LINE)).nth(at) else {
        return Step::say("done");
    };
    let mut step = Step::default();
    for part in line.split(" | ") {
        let (word, rest) = part.trim().split_once(' ').unwrap_or((part.trim(), ""));
        match word {
            "think" => step.thinks = true,
            "say" | "comment" => {
                step.says.push(Message { text: rest.to_owned(), is_commentary: word == "comment" });
            }
            "call" => {
                let (name, arguments) = rest.split_once(' ').unwrap_or((rest, "{}"));
                step.calls.push((name.to_owned(), arguments.to_owned()));
            }
            "goon" => step.goes_on = true,
            "cut" => step.is_cut = true,
            "pad" => {
                let text = "x".repeat(rest.parse().unwrap_or_default());
                step.says.push(Message { text, is_commentary: true });
            }
            _ => {}
        }
    }
    step
}
