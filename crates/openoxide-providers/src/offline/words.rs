//! Words, quotes and file names at the front of a text. Knows nothing of what they ask for.

/// Words that begin a clause and say nothing.
const FILLERS: [&str; 27] = [
    "please",
    "then",
    "and",
    "now",
    "first",
    "firstly",
    "secondly",
    "thirdly",
    "next",
    "finally",
    "lastly",
    "also",
    "after that",
    "afterwards",
    "can you",
    "could you",
    "would you",
    "will you",
    "i want you to",
    "i would like you to",
    "i'd like you to",
    "you should",
    "let's",
    "just",
    "kindly",
    "go ahead and",
    "once that is done",
];

/// The first word in lower case, without the punctuation behind it.
pub(super) fn first_word(text: &str) -> String {
    let word = text.split_whitespace().next().unwrap_or_default();
    word.trim_end_matches([':', ',', '.', '!', '?']).to_lowercase().replace("re-run", "rerun")
}

/// Without the politeness and order words at the front.
pub(super) fn strip_fillers(mut text: &str) -> &str {
    'again: loop {
        text = text.trim_start_matches([',', ' ', '\t']);
        for filler in FILLERS {
            if let Some(rest) = strip_prefix_word(text, filler) {
                text = rest;
                continue 'again;
            }
        }
        return text;
    }
}

/// Takes a word or phrase off the front, whatever its case, if it ends there.
pub(super) fn strip_prefix_word<'a>(text: &'a str, word: &str) -> Option<&'a str> {
    let head = text.get(..word.len())?;
    let rest = &text[word.len()..];
    let ends = rest.is_empty() || rest.starts_with([' ', '\t', ',', ':']);
    (head.eq_ignore_ascii_case(word) && ends).then(|| rest.trim_start_matches([' ', '\t', ',']))
}

/// The length of the quoted text that begins at `at`, quotes included. An apostrophe within a word opens nothing.
pub(super) fn quoted_len(line: &str, at: usize) -> Option<usize> {
    let rest = &line[at..];
    let quote = rest.chars().next().filter(|c| matches!(c, '`' | '"' | '\'' | '\u{201c}'))?;
    let close = if quote == '\u{201c}' { '\u{201d}' } else { quote };
    let before = line[..at].chars().next_back();
    if quote == '\'' && before.is_some_and(char::is_alphanumeric) {
        return None;
    }
    let inside = &rest[quote.len_utf8()..];
    let mut escaped = false;
    for (index, c) in inside.char_indices() {
        if c == close && !escaped {
            let after = inside[index + c.len_utf8()..].chars().next();
            if quote != '\'' || !after.is_some_and(char::is_alphanumeric) {
                return Some(quote.len_utf8() + index + c.len_utf8());
            }
        }
        escaped = c == '\\' && !escaped && quote == '"';
    }
    None
}

pub(super) fn strip_articles(text: &str) -> &str {
    strip_words(text, &["the", "a", "file", "named", "called"])
}

/// Takes these words off the front, as many as there are.
pub(super) fn strip_words<'a>(mut text: &'a str, words: &[&str]) -> &'a str {
    'again: loop {
        for word in words {
            if let Some(rest) = strip_prefix_word(text, word) {
                text = rest.trim_start();
                continue 'again;
            }
        }
        return text;
    }
}

pub(super) fn strip_suffix_word<'a>(text: &'a str, word: &str) -> Option<&'a str> {
    let at = text.len().checked_sub(word.len())?;
    let tail = text.get(at..)?;
    let head = &text[..at];
    (tail.eq_ignore_ascii_case(word) && (head.is_empty() || head.ends_with(' '))).then_some(head)
}

/// Without the punctuation that ends a sentence.
pub(super) fn trim_end(text: &str) -> &str {
    text.trim_end_matches(|c: char| c.is_whitespace() || matches!(c, '.' | ',' | ';' | '!' | '?')).trim_start()
}

/// A quoted text at the front, its escapes read where the quotes are double, and what follows.
pub(super) fn take_quoted(text: &str) -> Option<(String, &str)> {
    let length = quoted_len(text, 0)?;
    Some((unquote(&text[..length]), &text[length..]))
}

/// Where `needle` begins outside quotes.
pub(super) fn find_outside(text: &str, needle: &str) -> Option<usize> {
    let mut at = 0;
    while at < text.len() {
        if let Some(length) = quoted_len(text, at) {
            at += length;
        } else if text[at..].starts_with(needle) {
            return Some(at);
        } else {
            at += text[at..].chars().next().map_or(1, char::len_utf8);
        }
    }
    None
}

/// A text without its quotes; in double quotes `\n`, `\t`, `\"` and `\\` are read as escapes.
pub(super) fn unquote(text: &str) -> String {
    if quoted_len(text, 0) != Some(text.len()) {
        return text.to_owned();
    }
    let mut inside = text.chars();
    let quote = inside.next();
    inside.next_back();
    if quote != Some('"') {
        return inside.collect();
    }
    let mut plain = String::new();
    while let Some(c) = inside.next() {
        if c != '\\' {
            plain.push(c);
            continue;
        }
        match inside.next() {
            Some('n') => plain.push('\n'),
            Some('t') => plain.push('\t'),
            Some(other @ ('"' | '\\')) => plain.push(other),
            Some(other) => plain.extend(['\\', other]),
            None => plain.push('\\'),
        }
    }
    plain
}

/// A file name at the front and what follows it. Unquoted words count only when they look like one or `is_sure`.
pub(super) fn take_path(text: &str, is_sure: bool) -> Option<(String, &str)> {
    if let Some((path, after)) = take_quoted(text) {
        return (!path.is_empty()).then_some((path, after));
    }
    let end = text.find(char::is_whitespace).unwrap_or(text.len());
    let word = match text[..end].trim_end_matches([',', ';', ':', '!', '?']) {
        word @ ("." | "..") => word,
        word => word.trim_end_matches('.'),
    };
    (!word.is_empty() && (is_sure || is_path_like(word))).then(|| (word.to_owned(), &text[word.len()..]))
}

/// Whether an unquoted word looks like a file: it has a slash, an extension, or is a name files commonly have.
pub(super) fn is_path_like(word: &str) -> bool {
    let word = word.trim_end_matches([',', ';', ':', '!', '?', '.']);
    let has_extension = word.rsplit_once('.').is_some_and(|(stem, extension)| {
        !extension.is_empty()
            && extension.len() <= 8
            && extension.chars().all(char::is_alphanumeric)
            && !stem.ends_with('.')
            && !extension.chars().all(|c| c.is_ascii_digit())
    });
    let is_well_known = ["Makefile", "Dockerfile", "README", "LICENSE", "Justfile", "Procfile"].contains(&word);
    !word.contains('(') && (has_extension || is_well_known || (word.contains('/') && word.len() > 1))
}
