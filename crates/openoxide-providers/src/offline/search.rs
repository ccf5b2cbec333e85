//! What to search for when a question is asked, and which of the places found are worth showing.

use super::outputs::Match;

/// Words searched for at most.
const WORDS: usize = 4;
/// Words that questions are made of and answers are not.
const STOP_WORDS: [&str; 114] = [
    "a",
    "about",
    "after",
    "all",
    "also",
    "an",
    "and",
    "any",
    "anything",
    "are",
    "as",
    "at",
    "be",
    "been",
    "before",
    "by",
    "can",
    "code",
    "could",
    "defined",
    "definition",
    "describe",
    "did",
    "do",
    "does",
    "done",
    "each",
    "every",
    "explain",
    "file",
    "files",
    "find",
    "for",
    "from",
    "function",
    "get",
    "gets",
    "give",
    "go",
    "grep",
    "happen",
    "happens",
    "has",
    "have",
    "here",
    "how",
    "i",
    "if",
    "implemented",
    "in",
    "inside",
    "into",
    "is",
    "it",
    "its",
    "let",
    "like",
    "locate",
    "look",
    "made",
    "make",
    "makes",
    "me",
    "method",
    "my",
    "no",
    "not",
    "of",
    "on",
    "or",
    "our",
    "place",
    "places",
    "please",
    "project",
    "repo",
    "repository",
    "search",
    "see",
    "should",
    "show",
    "so",
    "some",
    "tell",
    "than",
    "that",
    "the",
    "their",
    "them",
    "then",
    "there",
    "these",
    "they",
    "thing",
    "this",
    "those",
    "to",
    "us",
    "use",
    "used",
    "uses",
    "was",
    "we",
    "what",
    "when",
    "where",
    "which",
    "who",
    "why",
    "will",
    "with",
    "work",
    "works",
    "you",
];

/// The words of a question that are worth searching for, the most telling first.
pub(super) fn words(question: &str) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    for word in question.split(|c: char| !c.is_alphanumeric() && c != '_') {
        let lower = word.to_lowercase();
        if lower.chars().count() < 2 || STOP_WORDS.contains(&lower.as_str()) {
            continue;
        }
        let word = if is_identifier(word) { word.to_owned() } else { stem(&lower).to_owned() };
        if !words.iter().any(|known| known.eq_ignore_ascii_case(&word)) {
            words.push(word);
        }
    }
    // Names from code tell most, then long words; the order of the question decides the rest.
    words.sort_by_key(|word| (!is_identifier(word), std::cmp::Reverse(word.chars().count().min(12))));
    words.truncate(WORDS);
    words
}

/// The pattern that finds a text as it is, whatever its case.
pub(super) fn pattern(text: &str) -> String {
    let mut pattern = String::from("(?i)");
    for c in text.chars() {
        if "\\.+*?()|[]{}^$#&-~".contains(c) {
            pattern.push('\\');
        }
        pattern.push(c);
    }
    pattern
}

/// The best places, given what each word's search found. A word counts the more the rarer it is; a line that holds
/// several words, or that defines something of that name, comes first.
pub(super) fn rank<'a>(found: &[(String, Vec<Match<'a>>)], most: usize) -> Vec<Match<'a>> {
    let mut scored: Vec<(f64, Match<'a>)> = Vec::new();
    for (word, matches) in found {
        #[allow(clippy::cast_precision_loss)]
        let weight = 1.0 / (1.0 + matches.len() as f64).ln_1p();
        for one in matches {
            let bonus = if defines(one.text, word) { weight } else { 0.0 };
            match scored.iter_mut().find(|(_, known)| known.path == one.path && known.line == one.line) {
                Some((score, _)) => *score += weight + bonus,
                None => scored.push((weight + bonus, one.clone())),
            }
        }
    }
    // Other words in the same file say that the file is about the question.
    let files: Vec<(f64, &str)> = scored.iter().map(|(score, one)| (*score, one.path)).collect();
    for (score, one) in &mut scored {
        let best = files.iter().filter(|(_, path)| *path == one.path).map(|(score, _)| *score).fold(0.0, f64::max);
        *score += 0.1 * best;
    }
    scored.sort_by(|(a, x), (b, y)| b.total_cmp(a).then_with(|| (x.path, x.line).cmp(&(y.path, y.line))));
    scored.into_iter().map(|(_, one)| one).take(most).collect()
}

/// Whether a line of code looks like the definition of something named like `word`.
pub(super) fn defines(line: &str, word: &str) -> bool {
    const DEFINERS: [&str; 15] = [
        "fn",
        "def",
        "class",
        "struct",
        "enum",
        "trait",
        "interface",
        "func",
        "function",
        "type",
        "const",
        "static",
        "mod",
        "impl",
        "module",
    ];
    let mut words = line.split(|c: char| !c.is_alphanumeric() && c != '_').filter(|word| !word.is_empty());
    let definer = words.by_ref().take(5).any(|word| DEFINERS.contains(&word));
    definer && words.next().is_some_and(|name| name.to_lowercase().contains(&word.to_lowercase()))
}

fn is_identifier(word: &str) -> bool {
    word.contains('_') || word.chars().skip(1).any(char::is_uppercase)
}

/// A word without the ending that grammar gave it, so that `retries` finds `retry`.
fn stem(word: &str) -> &str {
    for (ending, least) in [("ies", 6), ("ing", 7), ("ed", 6), ("es", 6), ("s", 5)] {
        if let Some(stem) = word.strip_suffix(ending)
            && word.len() >= least
            && !stem.ends_with('s')
        {
            return stem;
        }
    }
    word
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_telling_words_of_a_question() {
        assert_eq!(
            words("Where is the retry delay computed, and what does parse_line do?"),
            ["parse_line", "comput", "retry", "delay"]
        );
        assert_eq!(words("what does this do"), Vec::<String>::new());
        assert_eq!(words("How are the retries handled in HttpClient?"), ["HttpClient", "handl", "retr"]);
    }

    #[test]
    fn patterns_are_taken_literally() {
        assert_eq!(pattern("a.b(c)"), "(?i)a\\.b\\(c\\)");
    }

    #[test]
    fn rare_words_and_definitions_come_first() {
        let common: Vec<Match<'_>> = (1..30).map(|line| Match { path: "z.rs", line, text: "let delay = 1;" }).collect();
        let rare = vec![
            Match { path: "a.rs", line: 9, text: "retry();" },
            Match { path: "b.rs", line: 4, text: "pub fn retry(n: u32) {" },
        ];
        let ranked = rank(&[("delay".into(), common), ("retry".into(), rare)], 3);
        let places: Vec<(&str, usize)> = ranked.iter().map(|one| (one.path, one.line)).collect();
        assert_eq!(places, [("b.rs", 4), ("a.rs", 9), ("z.rs", 1)]);
    }
}
