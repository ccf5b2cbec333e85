//! What is known of the models that are named: a line of JSON each, for comparing with other people's lists.

#![allow(clippy::print_stdout, reason = "its output is its purpose")]

fn main() {
    for model in std::env::args().skip(1) {
        let facts = openoxide_providers::facts_of(&model);
        let line = serde_json::json!({
            "model": model,
            "known": facts.is_known,
            "context_window": facts.context_window,
            "freeform": facts.freeform,
            "images": facts.images,
        });
        println!("{line}");
    }
}
