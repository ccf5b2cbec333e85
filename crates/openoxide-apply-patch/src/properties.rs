//! Property tests: what must hold for any text, not only for the examples.

use proptest::prelude::*;
use similar::{DiffTag, TextDiff};

use crate::{Patch, PatchError, extract_from_shell, lines::Document, matcher, parse, patch::FileOp};

/// Applies the only update of a patch to a text, without a disk.
fn rewrite(patch: &Patch, old: &str) -> Result<String, PatchError> {
    let FileOp::Update { chunks, .. } = &patch.hunks[0] else { panic!("not an update") };
    let document = Document::new(old);
    let placements = matcher::place(&document, chunks, "f".as_ref())?;
    document.rebuild(&placements, "f".as_ref())
}

/// The patch that turns one list of lines into another, with three lines of context. `damage` rewrites each kept or
/// removed line as the patch shows it.
fn write_patch(old: &[String], new: &[String], damage: impl Fn(&str) -> String) -> String {
    let (old, new): (Vec<&str>, Vec<&str>) =
        (old.iter().map(String::as_str).collect(), new.iter().map(String::as_str).collect());
    let diff: TextDiff<'_, '_, str> = TextDiff::from_slices(&old, &new);
    let mut text = String::from("*** Begin Patch\n*** Update File: f\n");
    for ops in diff.grouped_ops(3) {
        text.push_str("@@\n");
        for op in ops {
            let tag = if op.tag() == DiffTag::Equal { ' ' } else { '-' };
            for line in &old[op.old_range()] {
                text.push_str(&format!("{tag}{}\n", damage(line)));
            }
            if op.tag() != DiffTag::Equal {
                for line in &new[op.new_range()] {
                    text.push_str(&format!("+{line}\n"));
                }
            }
        }
    }
    text + "*** End Patch\n"
}

/// A file: its lines, each with whether it ends in CRLF, and whether the last line is ended.
#[derive(Debug, Clone)]
struct File {
    lines: Vec<(String, bool)>,
    finished: bool,
}

impl File {
    fn text(&self) -> String {
        let mut text = String::new();
        for (index, (line, crlf)) in self.lines.iter().enumerate() {
            text.push_str(line);
            if index + 1 < self.lines.len() || self.finished {
                text.push_str(if *crlf { "\r\n" } else { "\n" });
            }
        }
        text
    }

    fn texts(&self) -> Vec<String> {
        self.lines.iter().map(|(line, _)| line.clone()).collect()
    }
}

/// Few different lines, so that repetitions, blank lines and near-equal lines are common.
fn line() -> impl Strategy<Value = String> {
    prop_oneof![
        12 => "[ab]",
        2 => "[a-e]{1,2}",
        1 => Just(String::new()),
        2 => " {0,4}[a-c]",
        1 => Just("*** End Patch".to_owned()),
        1 => Just("@@ x".to_owned()),
        1 => Just("x \u{2013} \u{201c}y\u{201d}".to_owned()),
        2 => "[a-z]{6,12}",
    ]
}

/// How the endings of a file are chosen.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Endings {
    Lf,
    Crlf,
    Mixed,
}

fn file(endings: Endings) -> impl Strategy<Value = File> {
    let crlf = move || match endings {
        Endings::Lf => Just(false).boxed(),
        Endings::Crlf => Just(true).boxed(),
        Endings::Mixed => any::<bool>().boxed(),
    };
    // A last line that is empty and unfinished is no line at all, so finished files only where the last is empty.
    (prop::collection::vec((line(), crlf()), 0..30), any::<bool>()).prop_map(|(lines, finished)| {
        let finished = finished || lines.last().is_none_or(|(line, _)| line.is_empty());
        File { lines, finished }
    })
}

/// Edits at random places: (place, lines removed there, lines put there).
fn edits() -> impl Strategy<Value = Vec<(prop::sample::Index, usize, Vec<String>)>> {
    prop::collection::vec((any::<prop::sample::Index>(), 0_usize..3, prop::collection::vec(line(), 0..3)), 1..5)
}

fn edited(old: &[String], edits: &[(prop::sample::Index, usize, Vec<String>)]) -> Vec<String> {
    let mut new = old.to_vec();
    for (place, removed, added) in edits {
        let at = place.index(new.len() + 1);
        let end = (at + removed).min(new.len());
        new.splice(at..end, added.iter().cloned());
    }
    new
}

/// The new text in a file whose lines all end alike and whose final newline is as before.
fn uniform(new: &[String], old: &File, crlf: bool) -> String {
    let finished = old.finished;
    File { lines: new.iter().map(|line| (line.clone(), crlf)).collect(), finished }.text()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_patch_made_from_a_diff_gives_exactly_the_new_text_or_is_refused(
        (old, crlf) in prop_oneof![
            file(Endings::Lf).prop_map(|file| (file, false)),
            file(Endings::Crlf).prop_map(|file| (file, true)),
        ],
        edits in edits(),
    ) {
        let lines = old.texts();
        let new = edited(&lines, &edits);
        prop_assume!(new != lines);
        let patch = parse(&write_patch(&lines, &new, str::to_owned)).expect("the patch is well formed");
        match rewrite(&patch, &old.text()) {
            // Where no line of the old file is ended, there is no ending to keep, and new lines get line feeds.
            Ok(text) => prop_assert_eq!(text, uniform(&new, &old, crlf && old.text().contains('\n'))),
            Err(PatchError::Ambiguous { .. }) => {}
            Err(error) => prop_assert!(false, "{}", error),
        }
    }

    #[test]
    fn in_a_mixed_file_the_kept_lines_keep_their_endings(old in file(Endings::Mixed), edits in edits()) {
        let lines = old.texts();
        let new = edited(&lines, &edits);
        prop_assume!(new != lines);
        let patch = parse(&write_patch(&lines, &new, str::to_owned)).expect("the patch is well formed");
        let Ok(text) = rewrite(&patch, &old.text()) else { return Ok(()) };
        prop_assert_eq!(text.replace("\r\n", "\n"), uniform(&new, &old, false));
        prop_assert_eq!(kept(&patch, &old.text()), Some(text));
    }

    #[test]
    fn a_damaged_context_never_changes_a_line_that_the_patch_keeps(
        old in file(Endings::Mixed),
        edits in edits(),
        lead in " {0,3}",
        trail in "[ \t]{0,3}",
    ) {
        let lines = old.texts();
        let new = edited(&lines, &edits);
        prop_assume!(new != lines);
        let damage = |line: &str| format!("{lead}{}{trail}", line.trim_start().replace('\u{2013}', "-"));
        let patch = parse(&write_patch(&lines, &new, damage)).expect("the patch is well formed");
        let Ok(text) = rewrite(&patch, &old.text()) else { return Ok(()) };
        prop_assert_eq!(kept(&patch, &old.text()), Some(text));
    }

    #[test]
    fn no_text_makes_the_parsers_panic(text in any::<String>(), lines in prop::collection::vec(piece(), 0..20)) {
        let _ = parse(&text);
        let _ = extract_from_shell(&text);
        let text = lines.concat();
        let _ = extract_from_shell(&text);
        if let Ok(patch) = parse(&format!("*** Begin Patch\n{text}\n*** End Patch"))
            && matches!(patch.hunks[0], FileOp::Update { .. })
        {
            let _ = rewrite(&patch, "a\n\nb\n  a\nc");
        }
        let _ = parse(&text);
    }
}

/// Pieces that bring random text close to a patch or a command.
fn piece() -> impl Strategy<Value = String> {
    let fixed = [
        "*** Begin Patch\n",
        "*** End Patch\n",
        "*** Update File: f\n",
        "*** Add File: é\n",
        "*** Delete File: f\n",
        "*** Move to: g\n",
        "*** End of File\n",
        "@@\n",
        "@@ a\n",
        "@@ é",
        " a\n",
        "-b\n",
        "+x\n",
        "\n",
        "\r\n",
        "***",
        "apply_patch ",
        "<<'EOF'\n",
        "EOF\n",
        "cd ",
        "&& ",
        "'",
        "\"",
        "\\",
        "\u{2013}",
    ];
    prop_oneof![prop::sample::select(fixed.to_vec()).prop_map(str::to_owned), ".{0,3}"]
}

/// Rebuilds the result independently of `rebuild`: takes out what the patch removes, puts in what it adds, and copies
/// every other line's text from the old file; endings are then compared for the lines that are not at the file's end.
fn kept(patch: &Patch, old: &str) -> Option<String> {
    let result = rewrite(patch, old).ok()?;
    let FileOp::Update { chunks, .. } = &patch.hunks[0] else { return None };
    let document = Document::new(old);
    let placements = matcher::place(&document, chunks, "f".as_ref()).ok()?;
    let olds: Vec<&str> = old.split_inclusive('\n').collect();
    let news: Vec<&str> = result.split_inclusive('\n').collect();
    let (mut from, mut to) = (0, 0);
    let same = |from: usize, to: usize| {
        // A blank last line without an ending leaves no trace in the text.
        let (a, b) = (olds.get(from)?, news.get(to).unwrap_or(&""));
        let at_end = from + 1 == olds.len() || to + 1 >= news.len();
        let bare = |line: &str| {
            line.strip_suffix('\n').map_or(line.to_owned(), |l| l.strip_suffix('\r').unwrap_or(l).to_owned())
        };
        (a == b || (at_end && bare(a) == bare(b))).then_some(())
    };
    for placement in &placements {
        while from < placement.start {
            same(from, to)?;
            (from, to) = (from + 1, to + 1);
        }
        for line in placement.lines.iter() {
            match line.tag {
                crate::LineTag::Context => {
                    same(from, to)?;
                    (from, to) = (from + 1, to + 1);
                }
                crate::LineTag::Remove => from += 1,
                crate::LineTag::Add => to += 1,
            }
        }
    }
    while from < olds.len() {
        same(from, to)?;
        (from, to) = (from + 1, to + 1);
    }
    Some(result)
}
