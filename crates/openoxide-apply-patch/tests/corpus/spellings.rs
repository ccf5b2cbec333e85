//! The ways in which models write one and the same change.

use std::{collections::BTreeSet, fmt::Write as _};

use crate::{
    case::{Case, Hunk, Tag, lines},
    oracle::Key,
};

/// A patch as it was spelled, and what a judge has to know of it.
pub(crate) struct Spelled {
    pub(crate) text: String,
    /// The hunks in the order of the patch, with the texts that they would have without slips.
    pub(crate) hunks: Vec<Hunk>,
    pub(crate) anchors: Vec<Option<String>>,
    pub(crate) key: Key,
    /// Whether the patch says the whole content, so that nothing has to be found.
    pub(crate) is_whole: bool,
    /// Whether something in it is wrong, so that nothing fits.
    pub(crate) is_damaged: bool,
    /// The old and new text of the file, where not the case's.
    pub(crate) file: Option<(String, String)>,
}

type Spelling = (&'static str, fn(&Case) -> Option<Spelled>);

pub(crate) const SPELLINGS: &[Spelling] = &[
    ("as taught", |case| Some(plain(case, 3))),
    ("Markdown fence", |case| Some(plain(case, 3).wrapped("```diff\n", "\n```"))),
    ("fence and sentences", |case| {
        Some(plain(case, 3).wrapped("I fixed it; here is the patch:\n\n```\n", "\n```\n\nIt is tested.\n"))
    }),
    ("heredoc", |case| Some(plain(case, 3).wrapped("apply_patch <<'EOF'\n", "\nEOF\n"))),
    ("bare heredoc", |case| Some(plain(case, 3).wrapped("<<PATCH\n", "\nPATCH"))),
    ("lone delimiter left", |case| Some(plain(case, 3).wrapped("", "\nEOF\n"))),
    ("no end marker", |case| Some(plain(case, 3).with(|text| text.replace("\n*** End Patch", "\n")))),
    ("no begin and end markers", |case| {
        Some(plain(case, 3).with(|text| text.replace("*** Begin Patch\n", "").replace("\n*** End Patch", "\n")))
    }),
    ("markers in another case", |case| {
        Some(
            plain(case, 3)
                .with(|text| text.replace("Update File:", "update file:").replace("End Patch", "end patch ***")),
        )
    }),
    ("a/ before the path", |case| Some(plain(case, 3).with(|text| text.replace("File: ", "File: a/")))),
    ("b/ before the path", |case| Some(plain(case, 3).with(|text| text.replace("File: ", "File: b/")))),
    ("./ before the path", |case| Some(plain(case, 3).with(|text| text.replace("File: ", "File: ./")))),
    ("quoted path", |case| Some(header(case, |path| format!("\"{path}\"")))),
    ("path in single quotes", |case| Some(header(case, |path| format!("'{path}'")))),
    ("path as code", |case| Some(header(case, |path| format!("`{path}`")))),
    ("backslashes in the path", |case| Some(header(case, |path| path.replace('/', "\\")))),
    ("name pair after the header", |case| {
        let pair = format!("--- a/{0}\n+++ b/{0}\n", case.path);
        Some(plain(case, 3).with(|text| text.replacen("@@\n", &format!("{pair}@@\n"), 1)))
    }),
    ("unified diff", |case| Some(unified(case, |start, _| start))),
    ("unified diff in markers", |case| {
        Some(unified(case, |start, _| start).wrapped("*** Begin Patch\n", "\n*** End Patch"))
    }),
    ("unified diff with wrong numbers", |case| Some(unified(case, |start, count| start + 7 + count))),
    ("wrong ranges after @@", |case| {
        Some(plain(case, 3).with(|text| text.replace("\n@@\n", "\n@@ -12,7 +900,3 @@ def wrong(heading):\n")))
    }),
    ("closed @@", |case| Some(plain(case, 3).with(|text| text.replace("\n@@\n", "\n@@ ... @@\n")))),
    ("CRLF patch", |case| Some(plain(case, 3).with(|text| text.replace('\n', "\r\n")))),
    ("CRLF file", |case| {
        let crlf = |text: &str| text.replace('\n', "\r\n");
        Some(plain(case, 3).of(crlf(&case.old), crlf(&case.new)))
    }),
    ("byte order mark", |case| {
        let marked = |text: &str| format!("\u{feff}{text}");
        Some(plain(case, 3).of(marked(&case.old), marked(&case.new)))
    }),
    ("white space at every end", |case| Some(slipped(case, 3, str::trim_end_key, |_, line| format!("{line}  ")))),
    ("white space at kept ends", |case| {
        Some(slipped(
            case,
            3,
            str::trim_end_key,
            |tag, line| if tag == Tag::Add { line.into() } else { format!("{line} ") },
        ))
    }),
    ("indentation of all taken off", |case| dedented(case)),
    ("two columns too many", |case| {
        Some(slipped(
            case,
            3,
            str::trim_key,
            |_, line| if line.trim().is_empty() { line.into() } else { format!("  {line}") },
        ))
    }),
    ("a space after every tag", |case| Some(slipped(case, 3, str::trim_key, |_, line| format!(" {line}")))),
    ("spaces for tabs, tabs for spaces", |case| retabbed(case)),
    ("kept lines without tag", |case| {
        let mut spelled = plain(case, 3);
        let odd = |line: &str| line.is_empty() || line.starts_with(['+', '-', '@', '*', '\\', ' ', '.']);
        let kept = || spelled.hunks.iter().flat_map(|hunk| &hunk.lines).filter(|(tag, _)| *tag == Tag::Keep);
        let is_plain = kept().any(|(_, line)| !odd(line))
            && !kept().any(|(_, line)| odd(line) && !line.starts_with(' ') && !line.is_empty());
        if !is_plain
            || spelled.hunks.iter().any(|hunk| !hunk.lines.iter().any(|(tag, line)| *tag == Tag::Keep && !odd(line)))
        {
            return None;
        }
        spelled.text = written(&case.path, &spelled.hunks, &[], |tag, line| match tag {
            Tag::Keep => line.to_owned(),
            Tag::Remove => format!("-{line}"),
            Tag::Add => format!("+{line}"),
        });
        Some(spelled)
    }),
    ("blank lines without tag", |case| {
        Some(plain(case, 3).with(|text| {
            lines(text).iter().map(|line| if *line == " " { "" } else { line }).collect::<Vec<_>>().join("\n")
        }))
    }),
    ("blank lines between the parts", |case| {
        Some(plain(case, 3).with(|text| text.replace("\n@@\n", "\n\n@@\n").replace("\n*** End", "\n\n*** End")))
    }),
    ("blank line after @@", |case| Some(plain(case, 3).with(|text| text.replace("\n@@\n", "\n@@\n\n")))),
    ("one line of context", |case| Some(plain(case, 1))),
    ("no context", |case| Some(plain(case, 0)).filter(|spelled| spelled.hunks.iter().all(finds))),
    ("long context that is shared", |case| shared(case)),
    ("named by what encloses", |case| enclosed(case)),
    ("hunks from last to first", |case| {
        let mut spelled = plain(case, 3);
        spelled.hunks.reverse();
        reordered(case, spelled)
    }),
    ("hunks rotated", |case| {
        let mut spelled = plain(case, 3);
        let half = spelled.hunks.len() / 2;
        spelled.hunks.rotate_left(half);
        reordered(case, spelled)
    }),
    ("hunks without context, reversed", |case| {
        let mut spelled = plain(case, 0);
        if !spelled.hunks.iter().all(finds) {
            return None;
        }
        spelled.hunks.reverse();
        reordered(case, spelled)
    }),
    ("a header for every hunk", |case| {
        let spelled = plain(case, 3);
        let header = format!("\n*** Update File: {}\n@@\n", case.path);
        (spelled.hunks.len() > 1)
            .then(|| spelled.with(|text| text.replacen("\n@@\n", "\n@@ \n", 1).replace("\n@@\n", &header)))
    }),
    ("typographic punctuation", |case| typographic(case, true)),
    ("typographic punctuation in kept lines", |case| typographic(case, false)),
    ("a patch inside a quotation", |case| {
        Some(plain(case, 3).with(|text| text.replace('\n', "\n> ")).wrapped("> ", ""))
    }),
    ("a patch that is indented", |case| {
        Some(plain(case, 3).with(|text| text.replace('\n', "\n    ")).wrapped("    ", ""))
    }),
    ("encoded twice", |case| {
        let escaped = plain(case, 3)
            .with(|text| text.replace('\\', "\\\\").replace('\n', "\\n").replace('\t', "\\t").replace('"', "\\\""));
        Some(escaped)
    }),
    ("a file added over itself", |case| whole(case, false)),
    ("a file deleted and added", |case| whole(case, true)),
    ("damaged: a kept line is wrong", |case| damaged(case, |line| format!("{line} x"))),
    ("damaged: a kept line is left out", |case| {
        let mut spelled = plain(case, 3);
        let hunk = &mut spelled.hunks[0];
        let shown: Vec<usize> = (0..hunk.lines.len()).filter(|at| hunk.lines[*at].0 != Tag::Add).collect();
        let inner = shown.get(1..shown.len() - 1)?;
        let at = *inner.iter().find(|at| hunk.lines[**at].0 == Tag::Keep && hunk.lines[**at].1.trim().len() > 3)?;
        hunk.lines.remove(at);
        spelled.text = spell(&case.path, &spelled.hunks);
        spelled.is_damaged = true;
        Some(spelled)
    }),
    ("damaged: cut off in the last hunk", |case| {
        let mut spelled = plain(case, 3);
        let hunk = spelled.hunks.last()?;
        let first = hunk.lines.iter().position(|(tag, _)| *tag != Tag::Keep)?;
        let size = hunk.lines.iter().filter(|(tag, _)| *tag != Tag::Add).count();
        // At the end of the file nothing tells a patch that was cut off from a shorter one.
        (first > 0 && hunk.start + size < lines(&case.old).len()).then_some(())?;
        let rest: usize = hunk.lines[first + 1..].iter().map(|(_, line)| line.len() + 2).sum();
        let end = spelled.text.len() - "*** End Patch".len() - rest;
        spelled.text.truncate(end);
        spelled.is_damaged = true;
        Some(spelled)
    }),
];

trait Keys {
    fn trim_key(line: &str) -> String;
    fn trim_end_key(line: &str) -> String;
}

impl Keys for str {
    fn trim_key(line: &str) -> String {
        line.trim().to_owned()
    }

    fn trim_end_key(line: &str) -> String {
        line.trim_end().to_owned()
    }
}

impl Spelled {
    fn with(mut self, change: impl Fn(&str) -> String) -> Self {
        self.text = change(&self.text);
        self
    }

    fn wrapped(mut self, before: &str, after: &str) -> Self {
        self.text = format!("{before}{}{after}", self.text);
        self
    }

    fn of(mut self, old: String, new: String) -> Self {
        self.file = Some((old, new));
        self
    }
}

/// Whether a hunk shows something of the file.
fn finds(hunk: &Hunk) -> bool {
    hunk.lines.iter().any(|(tag, _)| *tag != Tag::Add)
}

fn tagged(tag: Tag, line: &str) -> String {
    let mark = match tag {
        Tag::Keep => ' ',
        Tag::Remove => '-',
        Tag::Add => '+',
    };
    format!("{mark}{line}")
}

fn written(path: &str, hunks: &[Hunk], anchors: &[Option<String>], line: impl Fn(Tag, &str) -> String) -> String {
    let mut text = format!("*** Begin Patch\n*** Update File: {path}\n");
    for (index, hunk) in hunks.iter().enumerate() {
        match anchors.get(index).and_then(Option::as_ref) {
            Some(anchor) => writeln!(text, "@@ {}", anchor.trim()).unwrap(),
            None => text.push_str("@@\n"),
        }
        for (tag, content) in &hunk.lines {
            text.push_str(&line(*tag, content));
            text.push('\n');
        }
    }
    text + "*** End Patch"
}

fn spell(path: &str, hunks: &[Hunk]) -> String {
    written(path, hunks, &[], tagged)
}

fn plain(case: &Case, context: usize) -> Spelled {
    let hunks = case.hunks(context);
    let anchors = vec![None; hunks.len()];
    let text = spell(&case.path, &hunks);
    Spelled { text, hunks, anchors, key: str::to_owned, is_whole: false, is_damaged: false, file: None }
}

fn header(case: &Case, path: impl Fn(&str) -> String) -> Spelled {
    plain(case, 3).with(|text| text.replacen(&case.path, &path(&case.path), 1))
}

fn slipped(case: &Case, context: usize, key: Key, slip: impl Fn(Tag, &str) -> String) -> Spelled {
    let mut spelled = plain(case, context);
    spelled.text = written(&case.path, &spelled.hunks, &[], |tag, line| tagged(tag, &slip(tag, line)));
    spelled.key = key;
    spelled
}

fn unified(case: &Case, number: impl Fn(usize, usize) -> usize) -> Spelled {
    let mut spelled = plain(case, 3);
    let path = &case.path;
    let mut text = format!("diff --git a/{path} b/{path}\nindex 1111111..2222222 100644\n--- a/{path}\n+++ b/{path}\n");
    let mut shift = 0_isize;
    for hunk in &spelled.hunks {
        let count = |tag| hunk.lines.iter().filter(|(other, _)| *other == tag).count();
        let (old, new) = (count(Tag::Keep) + count(Tag::Remove), count(Tag::Keep) + count(Tag::Add));
        let start = number(hunk.start + 1, old);
        let there = start.saturating_add_signed(shift);
        writeln!(text, "@@ -{start},{old} +{there},{new} @@").unwrap();
        shift += isize::try_from(new).unwrap() - isize::try_from(old).unwrap();
        hunk.lines.iter().for_each(|(tag, line)| writeln!(text, "{}", tagged(*tag, line)).unwrap());
    }
    text.pop();
    spelled.text = text;
    spelled
}

fn reordered(case: &Case, mut spelled: Spelled) -> Option<Spelled> {
    spelled.text = spell(&case.path, &spelled.hunks);
    (spelled.hunks.len() > 1).then_some(spelled)
}

/// Each hunk without the indentation that all its lines have.
fn dedented(case: &Case) -> Option<Spelled> {
    let mut spelled = plain(case, 3);
    let common = |hunk: &Hunk| {
        let texts = hunk.lines.iter().map(|(_, line)| line).filter(|line| !line.trim().is_empty());
        texts.map(|line| line.len() - line.trim_start().len()).min().unwrap_or(0)
    };
    let mut any = false;
    let shown: Vec<Hunk> = spelled
        .hunks
        .iter()
        .map(|hunk| {
            let cut = common(hunk);
            any |= cut > 0;
            let lines = hunk.lines.iter().map(|(tag, line)| (*tag, line.get(cut..).unwrap_or_default().to_owned()));
            Hunk { start: hunk.start, lines: lines.collect() }
        })
        .collect();
    spelled.text = spell(&case.path, &shown);
    spelled.key = str::trim_key;
    any.then_some(spelled)
}

fn retabbed(case: &Case) -> Option<Spelled> {
    let tabs = case.old.contains("\n\t");
    let unit = if tabs { "    " } else { "\t" };
    let own = if tabs { "\t" } else { "    " };
    if !tabs && case.old.lines().chain(case.new.lines()).any(|line| (line.len() - line.trim_start().len()) % 4 != 0) {
        return None;
    }
    let spelled = slipped(case, 3, str::trim_key, |_, line| {
        let text = line.trim_start_matches(own.chars().next().unwrap_or(' '));
        let depth = (line.len() - text.len()) / own.len();
        format!("{}{text}", unit.repeat(depth))
    });
    let shows = spelled.hunks.iter().all(|hunk| {
        let starts = |(_, line): &&(Tag, String)| line.starts_with(own);
        let added = hunk.lines.iter().filter(|(tag, _)| *tag == Tag::Add).any(|line| starts(&line));
        !added || hunk.lines.iter().filter(|(tag, _)| *tag != Tag::Add).any(|line| starts(&line))
    });
    let mixes = |text: &str| text.lines().any(|line| line.starts_with(' ') && tabs || line.starts_with('\t') && !tabs);
    (shows && !mixes(&case.old) && !mixes(&case.new)).then_some(spelled)
}

/// Hunks of which each shows eight lines around it, whether they belong to the next as well or not.
fn shared(case: &Case) -> Option<Spelled> {
    let mut spelled = plain(case, 1);
    if spelled.hunks.len() < 2 {
        return None;
    }
    let file = lines(&case.old);
    let size = |hunk: &Hunk| hunk.lines.iter().filter(|(tag, _)| *tag != Tag::Add).count();
    let bounds: Vec<(usize, usize)> = spelled.hunks.iter().map(|hunk| (hunk.start, hunk.start + size(hunk))).collect();
    let shown: Vec<Hunk> = spelled
        .hunks
        .iter()
        .enumerate()
        .map(|(index, hunk)| {
            let (from, to) = bounds[index];
            // Never into another's change: its kept line is the first of its own.
            let floor = index.checked_sub(1).map_or(0, |before| bounds[before].1 - 1);
            let ceiling = bounds.get(index + 1).map_or(file.len(), |next| next.0 + 1);
            let start = from.saturating_sub(7).max(floor).min(from);
            let end = (to + 7).min(ceiling).max(to);
            let keep = |range: std::ops::Range<usize>| file[range].iter().map(|line| (Tag::Keep, (*line).to_owned()));
            let lines = keep(start..from).chain(hunk.lines.iter().cloned()).chain(keep(to..end)).collect();
            Hunk { start, lines }
        })
        .collect();
    spelled.text = spell(&case.path, &shown);
    Some(spelled)
}

/// Only the changed lines, and the line above that is indented less.
fn enclosed(case: &Case) -> Option<Spelled> {
    let mut spelled = plain(case, 0);
    if !spelled.hunks.iter().all(finds) {
        return None;
    }
    let file = lines(&case.old);
    let depth = |line: &str| line.len() - line.trim_start().len();
    spelled.anchors = spelled
        .hunks
        .iter()
        .map(|hunk| {
            let own = depth(file[hunk.start]);
            let above = file[..hunk.start].iter().rev().find(|line| !line.trim().is_empty() && depth(line) < own);
            above.filter(|line| line.chars().filter(|c| c.is_alphanumeric()).count() > 1).map(|line| (*line).to_owned())
        })
        .collect();
    spelled.text = written(&case.path, &spelled.hunks, &spelled.anchors, tagged);
    spelled.anchors.iter().any(Option::is_some).then_some(spelled)
}

fn typographic(case: &Case, all: bool) -> Option<Spelled> {
    let curl = |line: &str| {
        let mut open = false;
        let quote = |c: char, open: &mut bool| match c {
            '"' => {
                *open = !*open;
                if *open { '\u{201c}' } else { '\u{201d}' }
            }
            '\'' => '\u{2019}',
            c => c,
        };
        line.chars().map(|c| quote(c, &mut open)).collect::<String>()
    };
    let key = |line: &str| {
        let plain = |c| match c {
            '\u{201c}' | '\u{201d}' => '"',
            '\u{2019}' => '\'',
            c => c,
        };
        line.trim().chars().map(plain).collect::<String>()
    };
    let marks = |added: bool| -> BTreeSet<char> {
        let hunks = case.hunks(3);
        let lines = hunks.iter().flat_map(|hunk| &hunk.lines).filter(|(tag, _)| (*tag == Tag::Add) == added);
        let text: String = lines.map(|(_, line)| curl(line)).collect();
        text.chars().filter(|c| "\u{201c}\u{201d}\u{2019}".contains(*c)).collect()
    };
    // What added lines alone have is as it is written.
    if all && !marks(true).is_subset(&marks(false)) {
        return None;
    }
    let spelled = slipped(case, 3, key, |tag, line| if all || tag == Tag::Keep { curl(line) } else { line.to_owned() });
    (spelled.text.contains(['\u{201c}', '\u{2019}']) && !case.old.contains(['\u{201c}', '\u{2019}'])).then_some(spelled)
}

fn whole(case: &Case, deletes: bool) -> Option<Spelled> {
    if !case.new.ends_with('\n') {
        return None;
    }
    let mut spelled = plain(case, 3);
    let mut text = String::from("*** Begin Patch\n");
    if deletes {
        writeln!(text, "*** Delete File: {}", case.path).unwrap();
    }
    writeln!(text, "*** Add File: {}", case.path).unwrap();
    lines(&case.new).iter().for_each(|line| writeln!(text, "+{line}").unwrap());
    spelled.text = text + "*** End Patch";
    spelled.is_whole = true;
    Some(spelled)
}

fn damaged(case: &Case, damage: impl Fn(&str) -> String) -> Option<Spelled> {
    let mut spelled = plain(case, 3);
    let kept =
        spelled.hunks.last_mut()?.lines.iter_mut().find(|(tag, line)| *tag == Tag::Keep && !line.trim().is_empty())?;
    kept.1 = damage(&kept.1);
    spelled.text = spell(&case.path, &spelled.hunks);
    spelled.is_damaged = true;
    Some(spelled)
}
