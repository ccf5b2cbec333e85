//! Says what one clause asks for. Knows English and quotes, and nothing of tools or files.

use super::{
    instructions::Clause,
    words::{
        find_outside, first_word, strip_articles, strip_fillers, strip_prefix_word, strip_suffix_word, strip_words,
        take_path, take_quoted, trim_end, unquote,
    },
};

/// One thing to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Step {
    /// Run a shell command.
    Run(String),
    /// Run the tests, by whatever command the project's files suggest.
    RunTests,
    /// Create a file.
    Create { path: String, content: String },
    /// Replace text in a file, at the first place or all of them.
    Replace { from: String, to: String, path: String, first_only: bool },
    /// Delete a file.
    Delete(String),
    /// Rename a file.
    Rename { from: String, to: String },
    /// Add lines at the end of a file.
    Append { text: String, path: String },
    /// Show a file.
    Read(String),
    /// Show a directory.
    List(String),
    /// Find a text as it is written.
    Search(String),
    /// Find the places that a question is about.
    Explain(String),
    /// Not understood.
    Unclear(String),
}

/// Reads a clause. `before` are the steps so far, which "run it again" speaks of. `None` asks for nothing of its own.
pub(super) fn parse(clause: &Clause, before: &[Step]) -> Option<Step> {
    let text = strip_fillers(clause.text.trim());
    // "in FILE, replace A by B" says the file first.
    let place = strip_prefix_word(text, "in").and_then(|rest| take_path(strip_articles(rest), false));
    let step = match place {
        Some((path, rest)) => {
            let rest = strip_fillers(rest);
            parse_verb(&format!("{} in `{path}`", trim_end(rest)), clause.block.as_deref(), before)
        }
        None => parse_verb(text, clause.block.as_deref(), before),
    };
    step.map(|step| if matches!(step, Step::Unclear(_)) { Step::Unclear(text.into()) } else { step })
}

/// Reads a clause that begins with its verb.
fn parse_verb(text: &str, block: Option<&str>, before: &[Step]) -> Option<Step> {
    let verb = first_word(text);
    let rest = text.get(verb_len(text)..).unwrap_or_default().trim_start();
    let step = match verb.as_str() {
        "run" | "rerun" | "execute" => parse_run(rest, block, before),
        "create" | "make" => parse_create(rest, block),
        "write" | "put" => parse_write(rest, block).or_else(|| parse_create(rest, block)),
        "replace" | "substitute" => parse_replace(rest, &[" by ", " with "]),
        "change" => parse_replace(rest, &[" to ", " into ", " by ", " with "]),
        "delete" | "remove" => parse_delete(rest),
        "rename" | "move" => parse_rename(rest),
        "append" | "add" => parse_append(rest, block),
        "read" | "show" | "open" | "print" | "cat" | "display" if speaks_of_output(rest) => return None,
        "show" | "print" | "display" if strip_words(rest, &["me", "all", "the"]).starts_with("files") => {
            parse_list(rest)
        }
        "read" | "show" | "open" | "print" | "cat" | "display" => parse_read(rest),
        "list" | "ls" => parse_list(rest),
        "find" | "search" | "grep" | "locate" | "look" | "where" => Some(parse_search(text, rest)),
        "explain" | "describe" | "what" | "how" | "why" | "which" | "who" | "tell" | "summarize" | "summarise" => {
            Some(Step::Explain(text.into()))
        }
        _ if text.ends_with('?') => Some(Step::Explain(text.into())),
        _ => None,
    };
    Some(step.unwrap_or_else(|| Step::Unclear(text.into())))
}

fn verb_len(text: &str) -> usize {
    text.find(|c: char| c.is_whitespace() || c == ':').unwrap_or(text.len())
}

fn parse_run(rest: &str, block: Option<&str>, before: &[Step]) -> Option<Step> {
    let is_verbatim = rest.starts_with(':');
    let rest = rest.trim_start_matches([':', ' ']);
    let rest = if is_verbatim {
        rest
    } else {
        strip_words(rest, &["the following command", "the command", "command", "following"])
    };
    let rest = rest.trim_start_matches([':', ' ']);
    if let Some(block) = block.map(str::trim).filter(|block| !block.is_empty()) {
        return Some(Step::Run(block.into()));
    }
    if let Some((command, after)) = take_quoted(rest)
        && (!is_verbatim || trim_end(after).is_empty())
    {
        return Some(Step::Run(command));
    }
    if let Some(at) = rest.find('`').filter(|_| !is_verbatim)
        && let Some((command, _)) = take_quoted(&rest[at..])
    {
        return Some(Step::Run(command));
    }
    let mut plain = trim_end(rest);
    while let Some(shorter) =
        ["again", "once more", "please", "now"].iter().find_map(|word| strip_suffix_word(plain, word))
    {
        plain = trim_end(shorter);
    }
    let lower = plain.to_lowercase();
    let runs = || before.iter().rev().filter(|step| matches!(step, Step::Run(_) | Step::RunTests));
    let article =
        ["the", "a", "an", "my", "all", "some", "your", "our"].iter().find_map(|word| strip_prefix_word(plain, word));
    let is_prose =
        article.is_some() || matches!(lower.as_str(), "" | "them" | "it" | "that" | "this" | "tests" | "those");
    if !is_prose {
        return Some(Step::Run(plain.into()));
    }
    if lower.contains("test") {
        let tests = runs().find(|step| matches!(step, Step::Run(command) if command.contains("test")));
        return Some(tests.cloned().unwrap_or(Step::RunTests));
    }
    if article.is_none() || ["the command", "the same command", "the program"].contains(&lower.as_str()) {
        return runs().next().cloned();
    }
    None
}

fn parse_create(rest: &str, block: Option<&str>) -> Option<Step> {
    let named = strip_words(rest, &["a", "an", "the", "new", "empty", "text", "file", "called", "named"]);
    let says_file = rest[..rest.len() - named.len()].to_lowercase().contains("file");
    let (path, after) = take_path(named, says_file)?;
    let content = strip_words(
        after.trim_start_matches([':', ',', ' ']),
        &[
            "with",
            "containing",
            "that",
            "contains",
            "which",
            "has",
            "holding",
            "and",
            "the",
            "content",
            "contents",
            "following",
            "text",
            "lines",
            "line",
            "of",
            ":",
        ],
    );
    Some(Step::Create { path, content: content_of(content.trim_start_matches([':', ' ']), block) })
}

/// `write "TEXT" to FILE`, `put this into FILE:` with a block.
fn parse_write(rest: &str, block: Option<&str>) -> Option<Step> {
    let (text, path) = text_to_path(rest, block)?;
    Some(Step::Create { path, content: with_newline(text) })
}

fn parse_append(rest: &str, block: Option<&str>) -> Option<Step> {
    let (text, path) = text_to_path(rest, block)?;
    Some(Step::Append { text: with_newline(text), path })
}

/// A quoted text, or the block, and the file it goes to.
fn text_to_path(rest: &str, block: Option<&str>) -> Option<(String, String)> {
    let rest =
        strip_words(rest, &["the", "a", "line", "lines", "text", "following", "this", "block", "content", "word", ":"]);
    let (text, after) = match (take_quoted(rest), block) {
        (Some((text, after)), _) => (text, after),
        (None, Some(block)) => (block.to_owned(), rest),
        (None, None) => return None,
    };
    let after = after.trim_start();
    let to = ["to", "into", "in", "at", "on"].iter().find_map(|word| strip_prefix_word(after, word))?;
    let to = strip_words(to, &["the", "a", "new", "end", "bottom", "of", "file", "called", "named"]);
    Some((text, take_path(to, true)?.0))
}

fn parse_replace(rest: &str, connectors: &[&str]) -> Option<Step> {
    let what = strip_words(
        rest,
        &["all", "every", "each", "occurrences", "occurrence", "of", "the", "first", "text", "line", "word", "string"],
    );
    let first_only = rest[..rest.len() - what.len()].to_lowercase().contains("first");
    let (at, connector) =
        connectors.iter().filter_map(|connector| Some((find_outside(what, connector)?, *connector))).min()?;
    let from = unquote(what[..at].trim());
    let tail = what[at + connector.len()..].trim_start();
    let (to, after) = match take_quoted(tail) {
        Some((to, after)) => (to, after.to_owned()),
        None => {
            let at = [" in ", " inside "].iter().filter_map(|word| tail.rfind(word)).max()?;
            (tail[..at].trim().to_owned(), tail[at..].to_owned())
        }
    };
    let place = ["in", "inside", "within", "of"].iter().find_map(|word| strip_prefix_word(after.trim_start(), word))?;
    let (path, _) = take_path(strip_articles(place), true)?;
    (!from.is_empty()).then_some(Step::Replace { from, to, path, first_only })
}

fn parse_delete(rest: &str) -> Option<Step> {
    let named = strip_articles(rest);
    let says_file = rest[..rest.len() - named.len()].to_lowercase().contains("file");
    let unlabelled = strip_words(named, &["text", "line", "word", "string", "all", "of"]);
    if let Some((text, after)) = take_quoted(unlabelled)
        && let Some(place) = ["from", "in"].iter().find_map(|word| strip_prefix_word(after.trim_start(), word))
    {
        let (path, _) = take_path(strip_articles(place), true)?;
        return Some(Step::Replace { from: text, to: String::new(), path, first_only: false });
    }
    Some(Step::Delete(take_path(named, says_file)?.0))
}

fn parse_rename(rest: &str) -> Option<Step> {
    let (from, after) = take_path(strip_articles(rest), true)?;
    let to = ["to", "into", "as"].iter().find_map(|word| strip_prefix_word(after.trim_start(), word))?;
    let (mut to, _) = take_path(strip_articles(to), true)?;
    if to.ends_with('/') {
        to.push_str(from.rsplit('/').next().unwrap_or(&from));
    }
    Some(Step::Rename { from, to })
}

fn parse_read(rest: &str) -> Option<Step> {
    let named = strip_words(rest, &["me", "the", "whole", "content", "contents", "of", "file"]);
    let says_file = rest[..rest.len() - named.len()].to_lowercase().contains("file");
    Some(Step::Read(take_path(named, says_file)?.0))
}

fn parse_list(rest: &str) -> Option<Step> {
    let named = strip_words(
        rest,
        &[
            "me",
            "all",
            "the",
            "files",
            "file",
            "contents",
            "content",
            "directory",
            "folder",
            "in",
            "of",
            "under",
            "inside",
            "this",
            "current",
            "here",
        ],
    );
    let named = trim_end(named);
    let is_here = named.is_empty() || ["directory", "folder", "repository", "project"].contains(&named);
    Some(Step::List(if is_here { ".".into() } else { take_path(named, true)?.0 }))
}

fn parse_search(text: &str, rest: &str) -> Step {
    let what = strip_words(
        rest,
        &[
            "for",
            "all",
            "me",
            "the",
            "text",
            "word",
            "string",
            "uses",
            "occurrences",
            "places",
            "of",
            "where",
            "is",
            "are",
        ],
    );
    match take_quoted(what) {
        Some((pattern, after)) if trim_end(after).split_whitespace().count() <= 3 => Step::Search(pattern),
        _ => Step::Explain(text.into()),
    }
}

fn speaks_of_output(rest: &str) -> bool {
    let named = trim_end(strip_words(rest, &["me", "the", "its", "full"])).to_lowercase();
    ["output", "result", "results", "outcome", "what it prints"].contains(&named.as_str())
}

fn content_of(text: &str, block: Option<&str>) -> String {
    match block {
        Some(block) => with_newline(block.to_owned()),
        None => with_newline(take_quoted(text).map_or_else(|| text.to_owned(), |(content, _)| content)),
    }
}

fn with_newline(mut text: String) -> String {
    if !text.ends_with('\n') {
        text.push('\n');
    }
    text
}
