//! The strict model server on its own, for whatever else is to be measured with it: prints its address, and at the end of its
//! input what its requests would have cost and which broke a rule.
//!
//! usage: strict_model responses|messages|chat [lenient]

#![allow(clippy::print_stdout, reason = "an example")]

use std::io::Read as _;

use openoxide_test_support::strict::{Dialect, StrictModel, table};

fn main() {
    let word = std::env::args().nth(1).unwrap_or_else(|| "responses".to_owned());
    let Some(dialect) = Dialect::ALL.into_iter().find(|dialect| dialect.word() == word) else {
        println!("no dialect {word}; there are responses, messages and chat");
        return;
    };
    let model = StrictModel::start(dialect);
    if std::env::args().any(|argument| argument == "lenient") {
        model.be_lenient();
    }
    println!("{}", model.url());
    let mut rest = String::new();
    // Whatever it says, its end is what counts.
    drop(std::io::stdin().read_to_string(&mut rest));
    print!("{}", table(dialect.word(), &model.rows()));
    for refusal in model.refusals() {
        println!("refused: {}", refusal.chars().take(200).collect::<String>());
    }
}
