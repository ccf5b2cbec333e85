//! What is secret in a text, wherever it stands: logins and queries of URLs, keys by their form, masked keys.

use crate::{REDACTED, looks_secret};

/// How keys of well-known services begin, with the characters they have at least after that.
const KEY_FORMS: [(&str, usize); 13] = [
    ("sk-", 12),
    ("gsk_", 16),
    ("xai-", 16),
    ("ghp_", 16),
    ("gho_", 16),
    ("ghs_", 16),
    ("github_pat_", 16),
    ("glpat-", 16),
    ("xoxb-", 10),
    ("xoxp-", 10),
    ("AIza", 30),
    ("AKIA", 16),
    ("eyJ", 30),
];

/// The fewest characters of a mask in a row: two are emphasis.
const MASK: usize = 3;

/// The text without what is secret in it: of each URL the login and the query, words in the form of a well-known service's key,
/// and keys that were masked in the middle (`sk-abc****wxyz`), of which the ends are still shown.
#[must_use]
pub fn redact(text: &str) -> String {
    let text = without_logins(text);
    replace_words(&text, is_word, |word| is_key(word) || is_masked(word))
}

/// Schemes whose login is an account's name as long as it has no password.
const ACCOUNTS: [&str; 3] = ["ssh", "git+ssh", "sftp"];

/// Whether a value holds a URL with a login in it (`http://user:password@host`, `https://token@host`), or with a query parameter of
/// a name that looks secret.
#[must_use]
pub fn holds_secret(value: &str) -> bool {
    urls(value).any(|url| {
        let login = login_of(url.rest).map_or("", |length| &url.rest[..length]);
        let is_account = ACCOUNTS.contains(&url.scheme) && !login.contains(':');
        let query = url.rest.split_once('?').map_or("", |(_, query)| query);
        let mut names = query.split(['&', ';']).filter_map(|pair| pair.split_once('=')).map(|(name, _)| name);
        (!login.is_empty() && !is_account) || names.any(looks_secret)
    })
}

/// Replaces each run of characters that `belongs` allows and `is_secret` finds.
pub(crate) fn replace_words(text: &str, belongs: fn(char) -> bool, is_secret: impl Fn(&str) -> bool) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(begin) = rest.find(belongs) {
        let (before, from) = rest.split_at(begin);
        let end = from.find(|c| !belongs(c)).unwrap_or(from.len());
        let (word, after) = from.split_at(end);
        // What ends a sentence does not belong to its last word.
        let bare = word.trim_end_matches(['.', '…']);
        let is_whole = is_secret(word);
        out.push_str(before);
        if is_whole || is_secret(bare) {
            out.push_str(REDACTED);
            out.push_str(if is_whole && !word.ends_with('.') { "" } else { &word[bare.len()..] });
        } else {
            out.push_str(word);
        }
        rest = after;
    }
    out + rest
}

fn is_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | '…') || is_mask(c)
}

pub(crate) fn is_mask(c: char) -> bool {
    matches!(c, '*' | '•' | '●' | '·')
}

fn is_key(word: &str) -> bool {
    let word = word.trim_start_matches(is_mask);
    KEY_FORMS.iter().any(|(begin, least)| word.strip_prefix(begin).is_some_and(|rest| rest.len() >= *least))
}

/// Whether something of a key is left on either side of a mask.
fn is_masked(word: &str) -> bool {
    let mut run = 0;
    let mut longest = 0;
    for c in word.chars() {
        run = if is_mask(c) { run + 1 } else { 0 };
        longest = longest.max(run);
    }
    longest >= MASK && word.chars().any(|c| c.is_ascii_alphanumeric())
}

/// A URL within a text: where what follows `://` begins, and that.
struct Url<'a> {
    /// What stands before the colon.
    scheme: &'a str,
    /// Its place in the text.
    at: usize,
    /// From behind the slashes to the end of the URL.
    rest: &'a str,
}

/// The URLs of a text, in order.
fn urls(text: &str) -> impl Iterator<Item = Url<'_>> {
    let mut from = 0;
    std::iter::from_fn(move || {
        loop {
            let colon = from + text[from..].find(':')?;
            let slashes = text[colon + 1..].bytes().take_while(|byte| matches!(byte, b'/' | b'\\')).count();
            let at = colon + 1 + slashes;
            let is_scheme = |c: char| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.');
            let scheme = from + text[from..colon].trim_end_matches(is_scheme).len();
            // A clock's colon and a port's have digits there.
            let has_scheme = text[scheme..colon].bytes().any(|byte| byte.is_ascii_alphabetic());
            if slashes < 2 || !has_scheme {
                from = at;
                continue;
            }
            let is_end = |c: char| c.is_whitespace() || matches!(c, '"' | '\'' | '`' | '<' | '>') || c.is_control();
            let length = text[at..].find(is_end).unwrap_or(text.len() - at);
            // In a list of URLs the next one begins where its scheme does, behind what separates the two.
            let next = text[at..at + length].find("://").map(|colon| text[at..at + colon].trim_end_matches(is_scheme));
            let next = next.filter(|before| before.ends_with([',', ';', '|', '(', '=', '&', '?', '/', '#']));
            let length = next.map_or(length, str::len);
            from = at + length;
            return Some(Url { scheme: &text[scheme..colon], at, rest: &text[at..from] });
        }
    })
}

/// The length of a login with its `@`, of a URL behind its slashes.
fn login_of(rest: &str) -> Option<usize> {
    let authority = rest.find(['/', '\\', '?', '#']).unwrap_or(rest.len());
    if let Some(at) = rest[..authority].rfind('@') {
        return Some(at + 1);
    }
    // A password with a slash in it ends the authority early. What is left before it is then no host with a port.
    let (_, port) = rest[..authority].rsplit_once(':')?;
    let is_port = port.ends_with(']') || port.bytes().all(|byte| byte.is_ascii_digit());
    (!is_port).then(|| rest.rfind('@')).flatten().map(|at| at + 1)
}

fn without_logins(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut done = 0;
    for Url { at, rest, .. } in urls(text) {
        out.push_str(&text[done..at]);
        done = at + rest.len();
        let login = login_of(rest).unwrap_or(0);
        if login > 0 {
            out.push_str(REDACTED);
            out.push('@');
        }
        let bare = &rest[login..];
        match bare.find('?') {
            // A sentence may end in a question.
            Some(query) if query + 1 < bare.len() => {
                out.push_str(&bare[..=query]);
                out.push_str(REDACTED);
            }
            _ => out.push_str(bare),
        }
    }
    out.push_str(&text[done..]);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn logins_and_queries_of_urls_are_taken_out() {
        for (text, expected) in [
            ("http://user:pass@host/v1", "http://[redacted]@host/v1"),
            ("https://token@host:8080/p?key=sk#f", "https://[redacted]@host:8080/p?[redacted]"),
            ("see https://h/a?k=v, or http://x:1/", "see https://h/a?[redacted] or http://x:1/"),
            ("http://u:p/w@host/x", "http://[redacted]@host/x"),
            ("http://u:p@w@host/x", "http://[redacted]@host/x"),
            ("https:\\\\u:p@host", "https:\\\\[redacted]@host"),
            ("`postgres://a:b@db/x`", "`postgres://[redacted]@db/x`"),
            ("https://example.com/@scope/pkg", "https://example.com/@scope/pkg"),
            ("http://[::1]:9/@x", "http://[::1]:9/@x"),
            ("is it http://host/?", "is it http://host/?"),
            ("https://a.example,https://u:p@b.example,direct", "https://a.example,https://[redacted]@b.example,direct"),
            ("http://a:9200;http://u:p@b:9200", "http://a:9200;http://[redacted]@b:9200"),
            ("amqp://a|amqp://u:p@b", "amqp://a|amqp://[redacted]@b"),
            ("http://h/?next=http://u:p@x/", "http://h/?[redacted]http://[redacted]@x/"),
            ("mail a@b.example at 12:30 // later", "mail a@b.example at 12:30 // later"),
            ("", ""),
        ] {
            assert_eq!(redact(text), expected, "{text}");
        }
    }

    #[test]
    fn keys_are_told_by_their_form_and_by_their_mask() {
        for (text, expected) in [
            ("Incorrect API key provided: sk-proj-abcdefghijkl. See", "Incorrect API key provided: [redacted]. See"),
            ("key sk-SECRET-KEY****cdef is bad", "key [redacted] is bad"),
            ("key sk-ab***...***wxyz.", "key [redacted]."),
            ("(•••••cdef)", "([redacted])"),
            ("ghp_0123456789abcdefghij", "[redacted]"),
            ("**bold** and *** and sk-1", "**bold** and *** and sk-1"),
            ("sk-", "sk-"),
            ("no secret here...", "no secret here..."),
        ] {
            assert_eq!(redact(text), expected, "{text}");
        }
    }

    #[test]
    fn values_with_a_secret_are_told() {
        for value in [
            "http://u:p@proxy:3128",
            "https://key@sentry.example/1",
            "a,redis://:pw@h",
            "ssh://git:pw@host/a",
            "postgres://h/d?sslmode=require&password=p",
            "https://h/x?X-Amz-Credential=a",
        ] {
            assert!(holds_secret(value), "{value}");
        }
        for value in [
            "ssh://git@host/a.git",
            "https://h/?page=2",
            "http://proxy:3128",
            "user@host",
            "https://host/@x",
            "git@github.com:a/b.git",
            "",
            "::",
            "x://",
        ] {
            assert!(!holds_secret(value), "{value}");
        }
    }

    proptest::proptest! {
        #[test]
        fn no_password_is_left_whatever_surrounds_it(before in ".{0,12}", after in ".{0,12}") {
            let shown = redact(&format!("{before} https://user:hunter2hunter2@host/ {after}"));
            proptest::prop_assert!(!shown.contains("hunter2hunter2"), "{}", shown);
        }

        #[test]
        fn any_text_is_taken(text in ".{0,60}") {
            let _ = (redact(&text), holds_secret(&text));
        }
    }
}
