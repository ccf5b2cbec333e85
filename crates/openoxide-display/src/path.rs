//! Paths as text, without loss: as git quotes them.

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};

use crate::is_deceptive;

/// A path as git writes it: as it is where it is plain text, else in double quotes with C's escapes, so that a name with
/// a line break, a quote or bytes that are no UTF-8 is told without loss and passes for nothing else.
#[must_use]
pub fn quote_path(path: &Path) -> String {
    quote_bytes(path.as_os_str().as_bytes())
}

/// The same for bytes that are no path of their own, such as `a/` and a path in a diff.
#[must_use]
pub fn quote_bytes(bytes: &[u8]) -> String {
    let is_plain = |c: char| !(c.is_control() || is_deceptive(c) || c == '"' || c == '\\');
    match std::str::from_utf8(bytes) {
        Ok(text) if text.chars().all(is_plain) => return text.to_owned(),
        _ => {}
    }
    let mut quoted = String::from("\"");
    for chunk in bytes.utf8_chunks() {
        for c in chunk.valid().chars() {
            match c {
                '\n' => quoted.push_str("\\n"),
                '\t' => quoted.push_str("\\t"),
                '\r' => quoted.push_str("\\r"),
                '"' => quoted.push_str("\\\""),
                '\\' => quoted.push_str("\\\\"),
                c if is_plain(c) => quoted.push(c),
                c => push_octal(&mut quoted, c.encode_utf8(&mut [0; 4]).as_bytes()),
            }
        }
        push_octal(&mut quoted, chunk.invalid());
    }
    quoted.push('"');
    quoted
}

fn push_octal(text: &mut String, bytes: &[u8]) {
    for byte in bytes {
        text.push_str(&format!("\\{byte:03o}"));
    }
}

/// The path that [`quote_path`] wrote. Text that is not written so is the path itself.
#[must_use]
pub fn unquote_path(text: &str) -> PathBuf {
    unquoted(text).map_or_else(|| PathBuf::from(text), |bytes| PathBuf::from(OsString::from_vec(bytes)))
}

fn unquoted(text: &str) -> Option<Vec<u8>> {
    let inner = text.strip_prefix('"')?.strip_suffix('"')?;
    let (mut bytes, mut rest) = (Vec::with_capacity(inner.len()), inner.as_bytes());
    while let Some((byte, after)) = rest.split_first() {
        rest = after;
        if *byte != b'\\' {
            bytes.push(*byte);
            continue;
        }
        let (kind, after) = rest.split_first()?;
        rest = after;
        bytes.push(match kind {
            b'n' => b'\n',
            b't' => b'\t',
            b'r' => b'\r',
            b'"' | b'\\' => *kind,
            b'0'..=b'3' => {
                let digits = std::str::from_utf8(rest.get(..2)?).ok()?;
                rest = &rest[2..];
                (kind - b'0') * 64 + u8::from_str_radix(digits, 8).ok()?
            }
            _ => return None,
        });
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_quoted_as_git_does_and_comes_back_whole() {
        let path = |bytes: &[u8]| PathBuf::from(OsString::from_vec(bytes.to_vec()));
        for (bytes, quoted) in [
            (&b"src/main.rs"[..], "src/main.rs"),
            ("Bücher/a b'c".as_bytes(), "Bücher/a b'c"),
            (b"a\nb", r#""a\nb""#),
            (b"\xff", r#""\377""#),
            (b"a\"b\\c", r#""a\"b\\c""#),
            (b"\x1b]0;x\x07", r#""\033]0;x\007""#),
            ("gpj.\u{202e}exe".as_bytes(), r#""gpj.\342\200\256exe""#),
        ] {
            assert_eq!(quote_path(&path(bytes)), quoted);
            assert_eq!(unquote_path(quoted), path(bytes));
        }
    }

    proptest::proptest! {
        #[test]
        fn any_path_comes_back_whole(bytes in proptest::collection::vec(1..=255_u8, 0..40)) {
            let path = PathBuf::from(OsString::from_vec(bytes));
            let quoted = quote_path(&path);
            proptest::prop_assert!(!quoted.chars().any(char::is_control));
            proptest::prop_assert_eq!(unquote_path(&quoted), path);
        }
    }
}
