//! Words as lines, and what commands hand to each other. Pure.

use super::reader::Raw;
use super::word::Word;
use crate::rules::command::program::base_name;

/// The words as a line. What only the shell knows is written so that it is not known there either.
pub(super) fn joined(words: &[Word]) -> String {
    let mut texts: Vec<&str> = words.iter().map(|word| word.text.as_str()).collect();
    if words.iter().any(|word| word.is_open() && !word.text.contains('$')) {
        // A value that the line itself names may be another one by then.
        texts.push("\n$()");
    }
    texts.join(" ")
}

/// `-c`, alone or in a bundle, and its long form.
pub(super) fn is_command_option(text: &str) -> bool {
    if let Some(long) = text.strip_prefix("--") {
        return long == "command" || long.starts_with("command=") || long == "session-command";
    }
    text.strip_prefix('-').is_some_and(|letters| letters.contains('c') && letters.len() <= 8)
}

/// Whether a file is what comes in by a pipe or a substitution.
pub(super) fn is_stream(word: &Word) -> bool {
    let text = word.text.as_str();
    text == "-"
        || text.contains("<()")
        || ["/dev/stdin", "/dev/fd", "/proc/self/fd"].iter().any(|start| text.starts_with(start))
}

/// The words with what is filled in from elsewhere.
pub(super) fn opened(words: &[Word], options: &[Word]) -> Vec<Word> {
    let mut marks = vec!["{".to_owned()];
    for (at, option) in options.iter().enumerate() {
        match option.text.strip_prefix("-I").or_else(|| option.text.strip_prefix("-J")) {
            Some("") => marks.extend(options.get(at + 1).map(|next| next.text.clone())),
            Some(mark) => marks.push(mark.to_owned()),
            None => {}
        }
    }
    let is_filled = |word: &&Word| marks.iter().any(|mark| word.text.contains(mark.as_str()));
    words.iter().map(|word| if is_filled(&word) { word.opened() } else { word.clone() }).collect()
}

/// What a command prints to the next one, where its words say it; none where only running it tells.
pub(super) fn printed(commands: &[Raw], at: usize) -> Option<Vec<Word>> {
    let raw = commands.get(at)?;
    let (program, rest) = raw.words.split_first()?;
    let is_known = |words: &[Word]| words.iter().all(|word| !word.is_open() && !word.text.contains('\\'));
    match base_name(&program.text) {
        "echo" => {
            let words: Vec<Word> = rest
                .iter()
                .skip_while(|word| matches!(word.text.as_str(), "-n" | "-e" | "-E" | "-ne"))
                .cloned()
                .collect();
            is_known(&words).then_some(words)
        }
        "printf" => {
            let words: Vec<Word> = rest
                .iter()
                .filter(|word| !matches!(word.text.as_str(), "%s" | "%s\\n" | "%s\n"))
                .map(|word| if word.is_open() { word.clone() } else { Word::plain(word.text.replace("\\n", "\n")) })
                .collect();
            (is_known(&words) && words.iter().all(|word| !word.text.contains('%'))).then_some(words)
        }
        "cat" | "tee" if rest.is_empty() && !raw.inputs.is_empty() => {
            Some(raw.inputs.iter().map(Word::plain).collect())
        }
        "cat" if rest.is_empty() => printed(commands, raw.fed_by?),
        _ => None,
    }
}

/// What `find` runs for each place it looks at, with that place filled in.
pub(super) fn find_runs(words: &[Word]) -> Vec<Vec<Word>> {
    let starts: Vec<&Word> = words.iter().take_while(|word| !word.text.starts_with(['-', '(', '!'])).collect();
    let mut runs = Vec::new();
    for (at, word) in words.iter().enumerate() {
        let runs_it = ["-exec", "-execdir", "-ok", "-okdir", "-x", "-X", "--exec", "--exec-batch"];
        if runs_it.contains(&word.text.as_str()) {
            let command = words[at + 1..].iter().take_while(|word| !matches!(word.text.as_str(), ";" | "+"));
            let filled = command.flat_map(|word| {
                if word.text == "{}" {
                    starts.iter().map(|start| (*start).clone()).collect()
                } else {
                    vec![word.clone()]
                }
            });
            runs.push(filled.collect());
        }
    }
    runs
}
