//! `request_user_input`: the model asks the person instead of guessing.

use std::collections::HashSet;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use openoxide_llm::ToolSpec;
use serde::Deserialize;
use serde_json::json;

use super::args::Args;
use super::{CallOutcome, Prepared, ToolCall};
use super::{PreparedCall, ToolAccess, ToolEnv};
use crate::rules::approvals::Question;
use crate::{ApprovalAction, ItemStatus, UserOption, UserQuestion};

/// Its name.
const NAME: &str = "request_user_input";
/// Questions of one call.
const MOST: usize = 3;
/// Options of one question.
const MOST_OPTIONS: usize = 6;
/// Characters of a question.
const LONGEST: usize = 500;

/// What is offered to the model.
fn spec() -> ToolSpec {
    ToolSpec::Function {
        name: NAME.to_owned(),
        description: "Asks the person 1 to 3 short questions and waits for the answers. For what only they can decide and what \
                      changes the work; never for permission, and not for what can be found out. It is declined where nobody \
                      can be asked: decide then, and say how."
            .to_owned(),
        parameters: json!({
            "type": "object",
            "properties": {
                "questions": {
                    "type": "array",
                    "minItems": 1,
                    "maxItems": MOST,
                    "items": {
                        "type": "object",
                        "properties": {
                            "id": {"type": "string", "description": "A word of letters, digits and _ that names the answer."},
                            "question": {"type": "string", "description": "One sentence."},
                            "options": {
                                "type": "array",
                                "description": "Answers to choose from, the one you advise first; the person may always write another. Leave out for a free answer.",
                                "items": {
                                    "type": "object",
                                    "properties": {
                                        "label": {"type": "string", "description": "A few words."},
                                        "description": {"type": "string", "description": "What it would mean, in a sentence."}
                                    },
                                    "required": ["label"],
                                    "additionalProperties": false
                                }
                            }
                        },
                        "required": ["id", "question"],
                        "additionalProperties": false
                    }
                }
            },
            "required": ["questions"],
            "additionalProperties": false
        }),
    }
}

/// A question as the model writes it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Asked {
    id: String,
    question: String,
    #[serde(default)]
    options: Vec<Choice>,
}

/// An answer to choose.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Choice {
    label: String,
    #[serde(default)]
    description: Option<String>,
}

impl From<Asked> for UserQuestion {
    fn from(Asked { id, question, options }: Asked) -> Self {
        let options = options.into_iter().map(|Choice { label, description }| UserOption { label, description });
        Self { id, question, options: options.collect() }
    }
}

/// See the module.
pub(super) struct Tool;

impl super::tool::Tool for Tool {
    fn spec(&self) -> ToolSpec {
        spec()
    }

    fn access(&self) -> ToolAccess {
        ToolAccess::Full
    }

    fn gives_pictures(&self) -> bool {
        false
    }

    fn parse(&self, _: &ToolEnv, call: &ToolCall) -> Result<Box<dyn PreparedCall>, String> {
        Ok(Box::new(RequestUserInput::new(&mut Args::parse(&call.input)?)?))
    }
}

/// A call whose arguments are understood.
#[derive(Debug, Clone)]
struct RequestUserInput {
    questions: Vec<UserQuestion>,
}

impl RequestUserInput {
    /// Understands a call.
    fn new(args: &mut Args) -> Result<Self, String> {
        let given = args.take("questions").ok_or("`questions` is missing; give a list of {id, question, options}.")?;
        let questions: Vec<Asked> = serde_json::from_value(given)
            .map_err(|error| format!("`questions` must be a list of {{id, question, options}} ({error})."))?;
        let questions: Vec<_> = questions.into_iter().map(UserQuestion::from).collect();
        if questions.is_empty() || questions.len() > MOST {
            return Err(format!("`questions` has {} of them; ask 1 to {MOST}.", questions.len()));
        }
        let mut ids = HashSet::new();
        for UserQuestion { id, question, options } in &questions {
            let is_word = !id.is_empty() && id.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
            // A field of that name holds another answer than those offered.
            if !is_word || id.ends_with("_other") || !ids.insert(id) {
                return Err(format!("The id `{id}` must be a word of letters, digits and _ that is used once."));
            }
            if question.trim().is_empty() || question.chars().count() > LONGEST {
                return Err(format!("The question `{id}` must be a sentence of at most {LONGEST} characters."));
            }
            let labels: HashSet<&str> = options.iter().map(|option| option.label.trim()).collect();
            if options.len() == 1 || options.len() > MOST_OPTIONS || labels.len() < options.len() || labels.contains("")
            {
                return Err(format!("The question `{id}` must have 2 to {MOST_OPTIONS} different options, or none."));
            }
        }
        Ok(Self { questions })
    }

    /// A short human phrase.
    fn summary(&self) -> String {
        let first = self.questions.first().map_or("", |first| first.question.as_str());
        format!("asking: {first}")
    }
}

impl PreparedCall for RequestUserInput {
    /// The question whose answer is the call's output.
    fn prepare<'a>(&'a mut self, env: &'a ToolEnv) -> BoxFuture<'a, Prepared> {
        let action = ApprovalAction::UserInput { questions: self.questions.clone() };
        std::future::ready(Prepared::Ready {
            item: env.tool_item(NAME, self.summary(), ItemStatus::InProgress),
            // Nobody's strategy answers for the person.
            question: Some(Question { leaves_sandbox: true, ..Question::new(action) }),
            exclusive: false,
        })
        .boxed()
    }

    /// Reached only where an answer was taken for a permission: it says nothing.
    fn run(self: Box<Self>, env: ToolEnv, _: u64) -> BoxFuture<'static, CallOutcome> {
        let item = env.tool_item(NAME, self.summary(), ItemStatus::Completed);
        let text = "The person sent the form back empty. Decide, and say how.".to_owned();
        std::future::ready(CallOutcome::plain(text, item)).boxed()
    }

    fn again(&self) -> Box<dyn PreparedCall> {
        Box::new(self.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(json: &str) -> String {
        RequestUserInput::new(&mut Args::parse(json).unwrap()).unwrap_err()
    }

    #[test]
    fn questions_are_few_short_and_named() {
        let good = r#"{"questions":[{"id":"db","question":"Which database?","options":[{"label":"SQLite"},{"label":"Postgres","description":"Needs a server."}]},{"id":"name","question":"What is it called?"}]}"#;
        assert_eq!(RequestUserInput::new(&mut Args::parse(good).unwrap()).unwrap().questions.len(), 2);
        for (json, part) in [
            ("{}", "missing"),
            (r#"{"questions":[]}"#, "1 to 3"),
            (r#"{"questions":[{"id":"a b","question":"?"}]}"#, "`a b`"),
            (r#"{"questions":[{"id":"a","question":"x"},{"id":"a","question":"y"}]}"#, "used once"),
            (r#"{"questions":[{"id":"a","question":" "}]}"#, "`a` must be a sentence"),
            (r#"{"questions":[{"id":"a","question":"x","options":[{"label":"one"}]}]}"#, "2 to 6"),
            (r#"{"questions":[{"id":"a","question":"x","options":[{"label":"one"},{"label":"one"}]}]}"#, "different"),
            (r#"{"questions":7}"#, "must be a list"),
        ] {
            let text = refusal(json);
            assert!(text.contains(part), "{json}: {text}");
        }
    }
}
