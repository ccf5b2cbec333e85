//! Paths as clients write them: absolute, plain or as `file://` URIs. A path is answered in the form it came in.

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};

use openoxide_rpc::RpcError;

/// How a client writes paths.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    Plain,
    Uri,
}

/// A path that a client gave.
#[derive(Debug, Clone)]
pub(super) struct Given {
    pub(super) path: PathBuf,
    pub(super) form: Form,
}

impl Given {
    /// `field` is where it stood.
    ///
    /// # Errors
    /// -32602 for what is no absolute path of this machine.
    pub(super) fn parse(field: &str, text: &str) -> Result<Self, RpcError> {
        let wrong = |why: &str| {
            RpcError::invalid_params(format!(
                "{field} is {text:?}, {why}; give an absolute path, plain or as file:///PATH"
            ))
        };
        let (bytes, form) = match text.strip_prefix("file://") {
            None if text.contains("://") => return Err(wrong("which is another kind of URI")),
            None => (text.as_bytes().to_vec(), Form::Plain),
            Some(rest) => {
                let rest = rest.strip_prefix("localhost").unwrap_or(rest);
                if rest.contains(['?', '#']) {
                    return Err(wrong("which has a query or a fragment"));
                }
                (decoded(rest).ok_or_else(|| wrong("in which a % stands for no byte"))?, Form::Uri)
            }
        };
        if bytes.contains(&0) {
            return Err(wrong("which has a NUL byte in it"));
        }
        let path = PathBuf::from(OsString::from_vec(bytes));
        match path.is_absolute() {
            true => Ok(Self { path, form }),
            false => Err(wrong("which is no absolute path of this machine")),
        }
    }

    /// As messages show it.
    pub(super) fn shown(&self) -> String {
        self.path.display().to_string()
    }
}

impl Form {
    /// The path in this form. In the plain one, bytes that are not UTF-8 are replaced.
    pub(super) fn write(self, path: &Path) -> String {
        match self {
            Self::Plain => path.to_string_lossy().into_owned(),
            Self::Uri => to_uri(path),
        }
    }
}

/// As a `file://` URI.
pub(super) fn to_uri(path: &Path) -> String {
    let mut uri = String::from("file://");
    for byte in path.as_os_str().as_bytes() {
        match byte {
            b'a'..=b'z'
            | b'A'..=b'Z'
            | b'0'..=b'9'
            | b'/'
            | b'-'
            | b'.'
            | b'_'
            | b'~'
            | b'!'
            | b'$'
            | b'&'
            | b'\''
            | b'('
            | b')'
            | b'*'
            | b'+'
            | b','
            | b';'
            | b'='
            | b':'
            | b'@' => uri.push(char::from(*byte)),
            other => uri.push_str(&format!("%{other:02X}")),
        }
    }
    uri
}

fn decoded(text: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        rest = after;
        if *first != b'%' {
            bytes.push(*first);
            continue;
        }
        let (digits, after) = rest.split_at_checked(2)?;
        let digits = std::str::from_utf8(digits).ok().filter(|digits| digits.bytes().all(|d| d.is_ascii_hexdigit()))?;
        bytes.push(u8::from_str_radix(digits, 16).ok()?);
        rest = after;
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_forms_are_read_and_come_back() {
        for (text, path) in [
            ("/a/b c", "/a/b c"),
            ("file:///a/b%20c", "/a/b c"),
            ("file://localhost/a", "/a"),
            ("file:///%C3%A9", "/é"),
            ("/a%20b", "/a%20b"),
        ] {
            assert_eq!(Given::parse("path", text).unwrap().path, Path::new(path), "{text}");
        }
        let odd = PathBuf::from(OsString::from_vec(b"/\xff %?#".to_vec()));
        let uri = Form::Uri.write(&odd);
        assert_eq!(uri, "file:///%FF%20%25%3F%23");
        assert_eq!(Given::parse("path", &uri).unwrap().path, odd);
    }

    #[test]
    fn what_is_no_path_of_this_machine_is_refused_by_name() {
        for wrong in
            ["", "a", "./a", "file://host/a", "file:a", "http://x/a", "file:///a%2", "file:///a%zz", "file:///%00"]
        {
            let error = Given::parse("cwd", wrong).unwrap_err();
            assert_eq!(error.code, openoxide_rpc::code::INVALID_PARAMS);
            assert!(
                error.message.contains("cwd") && error.message.contains(&format!("{wrong:?}")),
                "{}",
                error.message
            );
        }
    }
}
