//! An edit: one text of a file for another, as tools of other harnesses have it.
//!
//! The text is looked for as it stands, whatever the file's line endings are. Where it stands nowhere, it is read as the
//! lines of a chunk, which may have slips that leave one result (`matcher`, `habits`). Nothing is written here.

use std::path::Path;

use crate::{
    PatchError,
    lines::Document,
    matcher,
    patch::{Chunk, ChunkLine, LineTag},
};

/// Says how to make one place of several.
const SEVERAL: &str =
    "give more of the lines around it in `old` until one place fits, or set `all` to change every one";

/// The file's text with `old` changed into `new`: at its only place, or everywhere.
pub(crate) fn replace(text: &str, old: &str, new: &str, all: bool, path: &Path) -> Result<String, PatchError> {
    let fail = |message: String| PatchError::Edit { path: path.into(), message };
    if old.is_empty() {
        return match text.trim_start_matches('\u{feff}') {
            "" => Ok(format!("{text}{new}")),
            _ => Err(fail("`old` is empty, and the file is not: give the text that is to be changed".into())),
        };
    }
    if unix(old) == unix(new) {
        return Err(fail("`old` and `new` are the same text".into()));
    }
    let places = places(text, old);
    let overlap = places.windows(2).any(|pair| pair[1].0 < pair[0].1);
    match places.len() {
        0 => loose(text, old, new, path),
        1 => Ok(put(text, &places, new)),
        _ if all && !overlap => Ok(put(text, &places, new)),
        _ if all => {
            Err(fail(format!("`old` overlaps itself at {}: give it with the text around it", lines(text, &places))))
        }
        count => Err(fail(format!("`old` stands at {count} places, at {}; {SEVERAL}", lines(text, &places)))),
    }
}

fn unix(text: &str) -> String {
    text.replace("\r\n", "\n")
}

/// Where the text stands, from byte to byte, overlapping places included. A line feed in it means any line ending.
fn places(text: &str, old: &str) -> Vec<(usize, usize)> {
    let old = unix(old);
    let parts: Vec<&str> = old.split('\n').collect();
    let first = parts[0];
    let mut found = Vec::new();
    let starts: Vec<usize> = if first.is_empty() {
        // It begins with a line feed.
        text.match_indices('\n').map(|(at, _)| if text[..at].ends_with('\r') { at - 1 } else { at }).collect()
    } else {
        let mut from = 0;
        let next = std::iter::from_fn(|| {
            let at = from + text.get(from..)?.find(first)?;
            from = at + text[at..].chars().next().map_or(1, char::len_utf8);
            Some(at)
        });
        next.collect()
    };
    for start in starts {
        let mut at = start;
        let fits = parts.iter().enumerate().all(|(index, part)| {
            if index > 0 {
                let rest = &text[at..];
                let Some(after) = rest.strip_prefix("\r\n").or_else(|| rest.strip_prefix('\n')) else { return false };
                at += rest.len() - after.len();
            }
            let fits = text[at..].starts_with(part);
            at += if fits { part.len() } else { 0 };
            fits
        });
        if fits {
            found.push((start, at));
        }
    }
    found
}

/// Puts the new text at every place, with the line endings of the file there.
fn put(text: &str, places: &[(usize, usize)], new: &str) -> String {
    let new = unix(new);
    let crlf = new.replace('\n', "\r\n");
    let most = Document::new(text).ends_in_crlf();
    let mut out = String::with_capacity(text.len() + new.len());
    let mut next = 0;
    for (start, end) in places {
        out.push_str(&text[next..*start]);
        // What stands there has a line end of its own, or stands in a line that has.
        let there = text[*start..].find('\n').map_or(most, |at| text[..start + at].ends_with('\r'));
        out.push_str(if there { &crlf } else { &new });
        next = *end;
    }
    out.push_str(&text[next..]);
    out
}

/// The 1-based lines of the places, as a sentence has them.
fn lines(text: &str, places: &[(usize, usize)]) -> String {
    let (mut line, mut at) = (1, 0);
    let numbers = places.iter().map(|(start, _)| {
        line += text[at..*start].matches('\n').count();
        at = *start;
        line
    });
    let mut numbers: Vec<usize> = numbers.collect();
    numbers.dedup();
    let word = if numbers.len() == 1 { "line" } else { "lines" };
    format!("{word} {}", crate::error::list(&numbers))
}

/// Reads the edit as whole lines that have slips.
fn loose(text: &str, old: &str, new: &str, path: &Path) -> Result<String, PatchError> {
    let fail = |message: String| PatchError::Edit { path: path.into(), message };
    let (old, new) = (unix(old), unix(new));
    let ended = old.ends_with('\n') && (new.ends_with('\n') || new.is_empty());
    let split = |text: &str| -> Vec<String> {
        let text = if ended { text.strip_suffix('\n').unwrap_or(text) } else { text };
        if text.is_empty() && ended { Vec::new() } else { text.split('\n').map(str::to_owned).collect() }
    };
    let (olds, news) = (split(&old), split(&new));
    // Lines that both have are kept, and so keep the file's bytes.
    let head = olds.iter().zip(&news).take_while(|(a, b)| a == b).count();
    let most = olds.len().min(news.len()) - head;
    let tail = olds.iter().rev().zip(news.iter().rev()).take(most).take_while(|(a, b)| a == b).count();
    let tagged = |tag: LineTag, lines: &[String]| -> Vec<ChunkLine> {
        lines.iter().map(|text| ChunkLine { tag, text: text.clone(), bare: false }).collect()
    };
    let mut all = tagged(LineTag::Context, &olds[..head]);
    all.extend(tagged(LineTag::Remove, &olds[head..olds.len() - tail]));
    all.extend(tagged(LineTag::Add, &news[head..news.len() - tail]));
    all.extend(tagged(LineTag::Context, &olds[olds.len() - tail..]));
    let chunk = Chunk {
        line: 1,
        contexts: Vec::new(),
        lines: all,
        end_of_file: false,
        blank_tail: 0,
        blank_head: 0,
        open_end: false,
        final_newline: None,
    };
    let document = Document::new(text);
    let chunks = [chunk];
    let result = matcher::place(&document, &chunks, path).and_then(|placed| document.rebuild(&placed, path));
    result.map_err(|error| match error {
        PatchError::LinesNotFound { hint, .. } => {
            let hint = hint.replace("the patch has", "`old` has").replace("the result of this chunk", "`new`");
            fail(format!("`old` is not in it{}", hint.replace('\n', "; ")))
        }
        PatchError::Ambiguous { places, .. } => fail(format!(
            "`old` is not in it as it stands, and but for white space or punctuation it fits at lines {}; copy it exactly, \
             with more of the lines around it",
            crate::error::list(&places)
        )),
        PatchError::Unclear { message, .. } => fail(message),
        other => other,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn edited(text: &str, old: &str, new: &str, all: bool) -> Result<String, String> {
        replace(text, old, new, all, Path::new("f")).map_err(|error| error.to_string())
    }

    #[test]
    fn a_text_is_changed_at_its_only_place_with_the_endings_there() {
        for (name, text, old, new, result) in [
            ("in a line", "let a = 1;\n", "a = 1", "b = 2", "let b = 2;\n"),
            ("over lines", "a\nb\nc\n", "a\nb\n", "x\n", "x\nc\n"),
            ("in a file with CRLF", "a\r\nb\r\nc\r\n", "a\nb", "x\ny\nz", "x\r\ny\r\nz\r\nc\r\n"),
            ("written with CRLF", "a\nb\n", "a\r\nb\r\n", "x\r\n", "x\n"),
            ("in a mixed file", "a\r\nb\nc\n", "b\nc", "x\ny", "a\r\nx\ny\n"),
            ("one line becomes two", "a\r\nb\nc\n", "a", "x\ny", "x\r\ny\r\nb\nc\n"),
            ("after a byte order mark", "\u{feff}a\n", "a", "b", "\u{feff}b\n"),
            ("without a newline at the end", "a\nb", "b", "c", "a\nc"),
            ("removed", "a\nb\nc\n", "b\n", "", "a\nc\n"),
            ("begins with a line feed", "a\r\nb\r\n", "\nb", "\nc", "a\r\nc\r\n"),
            ("an empty file", "", "", "a\n", "a\n"),
            ("other indentation", "\tif a:\n\t\tb\n", "if a:\n    b\n", "if a:\n    c\n", "\tif a:\n\t\tc\n"),
            ("white space at an end", "a  \nb\n", "a\nb\n", "a\nc\n", "a  \nc\n"),
            ("other quotes", "say \u{201c}a\u{201d}\n", "say \"a\"", "say \"b\"", "say \u{201c}b\u{201d}\n"),
        ] {
            assert_eq!(edited(text, old, new, false).as_deref(), Ok(result), "{name}");
        }
        assert_eq!(edited("a b\na\r\n", "a", "c", true).as_deref(), Ok("c b\nc\r\n"));
    }

    #[test]
    fn what_fits_nowhere_or_more_than_once_is_named() {
        for (text, old, new, all, expected) in [
            (
                "x\na\nx\n",
                "x",
                "y",
                false,
                "the edit does not fit f: `old` stands at 2 places, at lines 1 and 3; give more",
            ),
            ("aaa\n", "aa", "b", false, "the edit does not fit f: `old` stands at 2 places, at line 1; give"),
            ("aaa\n", "aa", "b", true, "the edit does not fit f: `old` overlaps itself at line 1"),
            (
                "one\ntwo\n",
                "one\ntoo\n",
                "x\n",
                false,
                "the edit does not fit f: `old` is not in it; the nearest place starts at line 1; there line 2 reads `two` where `old` has `too`",
            ),
            (
                " x\n  x\n",
                "   x\n",
                "y\n",
                false,
                "the edit does not fit f: `old` is not in it as it stands, and but for white space or punctuation it fits at lines 1 and 2",
            ),
            ("a\n", "", "b", false, "the edit does not fit f: `old` is empty, and the file is not"),
            ("a\r\nb\n", "a\nb", "a\r\nb", false, "the edit does not fit f: `old` and `new` are the same"),
        ] {
            let error = edited(text, old, new, all).expect_err(old);
            assert!(error.starts_with(expected), "{error}");
        }
    }
}
