//! Known secrets, in every form in which a server that was given them may repeat them.

use crate::text::{is_mask, redact, replace_words};
use crate::{REDACTED, looks_secret};

/// Shorter ones are not looked for: they would be found in ordinary words.
const SHORTEST: usize = 6;

/// How much of a secret is left beside a mask, at least, so that it is told from an ordinary word.
const LEFT: usize = 3;

/// Takes known secrets out of texts, and what [`redact`] takes out. Nothing of it is ever shown.
#[derive(Clone, Default)]
pub struct Redactor {
    secrets: Vec<String>,
}

impl std::fmt::Debug for Redactor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Redactor({} secrets)", self.secrets.len())
    }
}

impl Redactor {
    /// Adds a secret. One of fewer than six bytes is left out.
    pub fn add(&mut self, secret: &str) {
        let secret = secret.trim();
        if secret.len() >= SHORTEST && !self.secrets.iter().any(|known| known == secret) {
            self.secrets.push(secret.to_owned());
            // A longer one goes first, should it hold a shorter one.
            self.secrets.sort_by_key(|known| std::cmp::Reverse(known.len()));
        }
    }

    /// Adds the value of a header or a parameter: the whole, and what follows the scheme (`Bearer`, `Basic`) in it. A value under
    /// a name that does not look secret counts from twelve bytes on, since short ones are ordinary words.
    pub fn add_value(&mut self, name: &str, value: &str) {
        const LONG: usize = 12;
        if looks_secret(name) || value.len() >= LONG {
            self.add(value);
            if let Some((_, rest)) = value.trim().split_once(' ') {
                self.add(rest);
            }
        }
    }

    /// The text without any of the secrets: as they are, escaped for a URL, in base64 of either alphabet (also where it stands
    /// within the base64 of something longer), and cut short with dots or a mask.
    #[must_use]
    pub fn redact(&self, text: &str) -> String {
        let mut text = text.to_owned();
        for secret in &self.secrets {
            for form in [secret.clone(), escaped(secret, true), escaped(secret, false)] {
                if text.contains(&form) {
                    text = text.replace(&form, REDACTED);
                }
            }
        }
        let parts: Vec<String> = self.secrets.iter().flat_map(|secret| encoded(secret.as_bytes())).collect();
        if !parts.is_empty() {
            text = replace_words(&text, is_base64, |word| parts.iter().any(|part| word.contains(part.as_str())));
        }
        text = replace_words(&text, is_shortened_word, |word| self.is_shortened(word));
        redact(&text)
    }

    /// Whether a word is the beginning or the end of a secret, with dots or a mask for the rest.
    fn is_shortened(&self, word: &str) -> bool {
        let is_gap = |c: char| is_mask(c) || matches!(c, '.' | '…');
        let (Some(first), Some(last)) = (word.find(is_gap), word.rfind(is_gap)) else { return false };
        let gap = word[first..].chars().take_while(|c| is_gap(*c)).count();
        if gap < 2 && !word[first..].starts_with('…') {
            return false;
        }
        let begin = &word[..first];
        let end = word[last..].trim_start_matches(is_gap);
        self.secrets.iter().any(|secret| {
            (begin.len() >= LEFT && secret.starts_with(begin)) || (end.len() >= LEFT && secret.ends_with(end))
        })
    }
}

fn is_base64(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '+' | '/' | '-' | '_' | '=')
}

fn is_shortened_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '+' | '/' | '-' | '_' | '=' | '.' | '…') || is_mask(c)
}

/// The secret as a part of a URL (RFC 3986, section 2.1), with upper-case or lower-case digits.
fn escaped(secret: &str, is_upper: bool) -> String {
    let mut out = String::with_capacity(secret.len());
    for byte in secret.bytes() {
        match byte {
            b'-' | b'.' | b'_' | b'~' => out.push(char::from(byte)),
            _ if byte.is_ascii_alphanumeric() => out.push(char::from(byte)),
            _ if is_upper => out.push_str(&format!("%{byte:02X}")),
            _ => out.push_str(&format!("%{byte:02x}")),
        }
    }
    out
}

/// What base64 of anything that contains the bytes has to contain: three digits stand for four of six bits, so there is one form
/// for each place modulo three at which the bytes may begin, without the digits that depend on what is around them; each in both
/// alphabets (RFC 4648, sections 4 and 5).
fn encoded(bytes: &[u8]) -> Vec<String> {
    let mut forms = Vec::new();
    for alphabet in [b"+/", b"-_"] {
        for place in 0..3 {
            let mut padded = vec![0; place];
            padded.extend_from_slice(bytes);
            let digits = padded.len() * 8 / 6;
            let text: String = (0..digits).map(|at| digit(&padded, at, *alphabet)).collect();
            // The first digits hold bits of what comes before.
            let first = (place * 8).div_ceil(6);
            forms.push(text[first..].to_owned());
        }
    }
    forms.sort();
    forms.dedup();
    forms
}

/// One digit: six bits, the highest first.
fn digit(bytes: &[u8], at: usize, others: [u8; 2]) -> char {
    let bit = at * 6;
    let pair = u16::from(bytes[bit / 8]) << 8 | u16::from(bytes.get(bit / 8 + 1).copied().unwrap_or(0));
    let value = u8::try_from(pair >> (10 - bit % 8) & 0x3f).unwrap_or_default();
    char::from(match value {
        0..26 => b'A' + value,
        26..52 => b'a' + value - 26,
        52..62 => b'0' + value - 52,
        _ => others[usize::from(value - 62)],
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn redactor() -> Redactor {
        let mut redactor = Redactor::default();
        redactor.add("sk-SECRET-KEY-0123456789cdef");
        redactor.add_value("x-title", "OpenOxide");
        redactor.add_value("x-upstream", "Bearer upstream-secret");
        redactor.add_value("cookie", "a/b+c=d");
        redactor
    }

    #[test]
    fn a_secret_is_taken_out_in_every_form() {
        for text in [
            "bad key sk-SECRET-KEY-0123456789cdef!",
            "bad key sk-SECRET-KEY****cdef",
            "bad key sk-SEC...cdef.",
            "bad key sk-SE…",
            "bad key ...9cdef",
            // base64 of the key, and of `user:key`, `u:key` and `us:key`.
            "c2stU0VDUkVULUtFWS0wMTIzNDU2Nzg5Y2RlZg==",
            "dXNlcjpzay1TRUNSRVQtS0VZLTAxMjM0NTY3ODljZGVm",
            "dTpzay1TRUNSRVQtS0VZLTAxMjM0NTY3ODljZGVm",
            "got 'dXM6c2stU0VDUkVULUtFWS0wMTIzNDU2Nzg5Y2RlZg'",
            "upstream-secret",
            "a%2Fb%2Bc%3Dd a/b+c=d",
            "a%2fb%2bc%3dd",
        ] {
            let shown = redactor().redact(text);
            assert!(shown.contains(REDACTED), "{text}: {shown}");
            for part in ["SECRET", "cdef", "U0VD", "ZGVm", "upstream", "a%2", "a/b"] {
                assert!(!shown.contains(part), "{text}: {shown}");
            }
        }
    }

    #[test]
    fn the_rest_stays_as_it_is() {
        let text = "model `gpt` of OpenOxide is not known... try skate or 1.5 (it is s…)";
        assert_eq!(redactor().redact(text), text);
        assert_eq!(Redactor::default().redact("a ... b"), "a ... b");
        assert!(!format!("{:?}", redactor()).contains("SECRET"));
    }

    proptest::proptest! {
        #[test]
        fn its_base64_is_found_wherever_it_stands(before in "[ -~]{0,7}", after in "[ -~]{0,7}") {
            let secret = "hunter2-hunter3";
            let whole = format!("{before}{secret}{after}");
            let digits = (whole.len() * 8).div_ceil(6);
            let text: String = (0..digits).map(|at| digit(whole.as_bytes(), at, *b"+/")).collect();
            let mut redactor = Redactor::default();
            redactor.add(secret);
            proptest::prop_assert_eq!(redactor.redact(&text), REDACTED);
        }
    }
}
