//! Old and new text -> the unified diff that people, hosts and `git apply` read.
//!
//! Only rendering lives here. Lines end at a line feed alone, so that a carriage return is shown as content and the file
//! can be rebuilt byte by byte.

use std::{
    fmt::Write,
    ops::Range,
    os::unix::ffi::OsStrExt as _,
    path::Path,
    time::{Duration, Instant},
};

use openoxide_display::{quote_bytes, quote_path};
use similar::{
    DiffOp, DiffTag,
    algorithms::{Capture, Compact, DiffHook as _, IdentifyDistinct, NoFinishHook, Replace, myers},
    group_diff_ops,
};

/// Unchanged lines shown around a change.
const CONTEXT: usize = 3;
/// After this long the rest of a very large rewrite is shown as removed and added instead of being compared further.
const PATIENCE: Duration = Duration::from_millis(500);

/// Renders one file's change in git's format: `diff --git`, `a/` and `b/` headers, `/dev/null` on the side where the file
/// does not exist (`None`). Empty when nothing differs.
#[must_use]
pub fn unified_diff(path: &Path, old: Option<&str>, new: Option<&str>) -> String {
    render(path, path, old, new)
}

/// Renders a change whose file may have another name afterwards.
pub(crate) fn render(from: &Path, to: &Path, old: Option<&str>, new: Option<&str>) -> String {
    if from == to && old == new {
        return String::new();
    }
    let (a, b) = (side("a/", from), side("b/", to));
    let mut out = format!("diff --git {} {}\n", quote_bytes(&a), quote_bytes(&b));
    match (old, new) {
        (None, _) => out.push_str("new file mode 100644\n"),
        (_, None) => out.push_str("deleted file mode 100644\n"),
        _ if from != to => {
            // Infallible: writing to a String.
            let _ = write!(out, "rename from {}\nrename to {}\n", quote_path(from), quote_path(to));
        }
        _ => {}
    }
    let (old_text, new_text) = (old.unwrap_or_default(), new.unwrap_or_default());
    if old_text == new_text {
        return out;
    }
    let a = if old.is_none() { "/dev/null".to_owned() } else { header(&a) };
    let b = if new.is_none() { "/dev/null".to_owned() } else { header(&b) };
    let _ = write!(out, "--- {a}\n+++ {b}\n");
    hunks(&mut out, old_text, new_text);
    out
}

fn hunks(out: &mut String, old: &str, new: &str) {
    let old: Vec<&str> = old.split_inclusive('\n').collect();
    let new: Vec<&str> = new.split_inclusive('\n').collect();
    for ops in group_diff_ops(compare(&old, &new), CONTEXT) {
        let (Some(first), Some(last)) = (ops.first(), ops.last()) else { continue };
        let removed = place(first.old_range().start..last.old_range().end);
        let added = place(first.new_range().start..last.new_range().end);
        let _ = writeln!(out, "@@ -{removed} +{added} @@");
        for op in &ops {
            if op.tag() == DiffTag::Equal {
                lines(out, ' ', &old, op, DiffOp::old_range);
            } else {
                lines(out, '-', &old, op, DiffOp::old_range);
                lines(out, '+', &new, op, DiffOp::new_range);
            }
        }
    }
}

/// What makes the new lines of the old ones, in order and without gaps.
///
/// The algorithm is named, and sees numbers for lines: `TextDiff` is compiled for each of its six algorithms and for every
/// kind of text, ten times the code of the rest of this crate. The result is the same.
fn compare(old: &[&str], new: &[&str]) -> Vec<DiffOp> {
    let same = |(a, b): &(&&str, &&str)| a == b;
    let before = old.iter().zip(new).take_while(same).count();
    let after = old[before..].iter().rev().zip(new[before..].iter().rev()).take_while(same).count();
    let (old_end, new_end) = (old.len() - after, new.len() - after);

    // Infallible: the hooks only collect.
    let mut hook = Compact::new(Replace::new(Capture::new()), old, new);
    if before > 0 {
        let Ok(()) = hook.equal(0, 0, before);
    }
    let numbered = IdentifyDistinct::<u32>::new(old, before..old_end, new, before..new_end);
    let Ok(()) = myers::diff_deadline(
        &mut NoFinishHook::new(&mut hook),
        numbered.old_lookup(),
        numbered.old_range(),
        numbered.new_lookup(),
        numbered.new_range(),
        Instant::now().checked_add(PATIENCE),
    );
    if after > 0 {
        let Ok(()) = hook.equal(old_end, new_end, after);
    }
    let Ok(()) = hook.finish();
    hook.into_inner().into_inner().into_ops()
}

/// Lines in a hunk's header: the first, counted from 1, and how many; an empty range begins at the line before it.
fn place(lines: Range<usize>) -> String {
    match lines.len() {
        1 => format!("{}", lines.start + 1),
        0 => format!("{},0", lines.start),
        count => format!("{},{count}", lines.start + 1),
    }
}

fn lines(out: &mut String, tag: char, text: &[&str], op: &DiffOp, range: fn(&DiffOp) -> Range<usize>) {
    for line in &text[range(op)] {
        out.push(tag);
        out.push_str(line);
        if !line.ends_with('\n') {
            out.push_str("\n\\ No newline at end of file\n");
        }
    }
}

/// `a/path`; an absolute path, which only a file outside the root has, stays as it is.
fn side(prefix: &str, path: &Path) -> Vec<u8> {
    let prefix = if path.is_absolute() { "" } else { prefix };
    [prefix.as_bytes(), path.as_os_str().as_bytes()].concat()
}

/// A path in a `---` or `+++` line. A tab ends one that has spaces, as readers of the format expect.
fn header(path: &[u8]) -> String {
    let shown = quote_bytes(path);
    if shown.contains(' ') && !shown.starts_with('"') { format!("{shown}\t") } else { shown }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn unified_diff(path: &str, old: Option<&str>, new: Option<&str>) -> String {
        super::unified_diff(Path::new(path), old, new)
    }

    #[test]
    fn each_kind_of_change_has_its_headers() {
        assert_eq!(
            unified_diff("d/a", Some("x\ny\n"), Some("x\nz\n")),
            "diff --git a/d/a b/d/a\n--- a/d/a\n+++ b/d/a\n@@ -1,2 +1,2 @@\n x\n-y\n+z\n"
        );
        assert_eq!(
            unified_diff("a", None, Some("x\n")),
            "diff --git a/a b/a\nnew file mode 100644\n--- /dev/null\n+++ b/a\n@@ -0,0 +1 @@\n+x\n"
        );
        assert_eq!(
            unified_diff("a", Some("x\n"), None),
            "diff --git a/a b/a\ndeleted file mode 100644\n--- a/a\n+++ /dev/null\n@@ -1 +0,0 @@\n-x\n"
        );
        assert_eq!(
            render(Path::new("a"), Path::new("b"), Some("x\n"), Some("x\n")),
            "diff --git a/a b/b\nrename from a\nrename to b\n"
        );
        assert_eq!(unified_diff("a", None, Some("")), "diff --git a/a b/a\nnew file mode 100644\n");
        assert_eq!(unified_diff("a", Some("x"), Some("x")), "");
    }

    #[test]
    fn a_missing_final_newline_is_said_on_the_side_it_is_missing_from() {
        let tail = |old, new| unified_diff("a", Some(old), Some(new)).split_once("@@\n").unwrap().1.to_owned();
        let hint = "\\ No newline at end of file\n";
        assert_eq!(tail("x", "x\n"), format!("-x\n{hint}+x\n"));
        assert_eq!(tail("x\n", "x"), format!("-x\n+x\n{hint}"));
        assert_eq!(tail("x\ny", "z\ny"), format!("-x\n+z\n y\n{hint}"));
        assert_eq!(tail("x\r\n", "y\r"), format!("-x\r\n+y\r\n{hint}"));
    }

    #[test]
    fn odd_paths_are_quoted() {
        let diff = unified_diff("a b", None, Some("x\n"));
        assert!(diff.contains("+++ b/a b\t\n"), "{diff}");
        let diff = unified_diff("a\"\n", None, Some("x\n"));
        assert!(diff.contains("+++ \"b/a\\\"\\n\"\n"), "{diff}");
        let diff = super::unified_diff(Path::new(std::ffi::OsStr::from_bytes(b"\xff")), None, Some("x\n"));
        assert!(diff.contains("+++ \"b/\\377\"\n"), "{diff}");
    }

    /// What `TextDiff` makes of the same lines; the result must not depend on which part of the library is asked.
    fn by_text_diff(old: &str, new: &str) -> String {
        let diff: similar::TextDiff<'_, '_, str> = similar::TextDiff::from_slices(
            &old.split_inclusive('\n').collect::<Vec<_>>(),
            &new.split_inclusive('\n').collect::<Vec<_>>(),
        );
        let mut out = String::new();
        for hunk in diff.unified_diff().context_radius(CONTEXT).iter_hunks() {
            let _ = writeln!(out, "{}", hunk.header());
            for change in hunk.iter_changes() {
                let missing = if change.missing_newline() { "\n\\ No newline at end of file\n" } else { "" };
                let _ = write!(out, "{}{}{missing}", change.tag(), change.value());
            }
        }
        out
    }

    proptest::proptest! {
        #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn hunks_are_those_of_the_whole_library(
            old in prop::collection::vec("[a-c]{0,2}\n", 0..300),
            edits in prop::collection::vec((any::<prop::sample::Index>(), 0_usize..9, "([a-d]\n){0,9}"), 0..20),
            ended in any::<bool>(),
        ) {
            let mut new = old.clone();
            for (at, removed, added) in edits {
                let at = at.index(new.len() + 1);
                let end = (at + removed).min(new.len());
                new.splice(at..end, added.split_inclusive('\n').map(str::to_owned));
            }
            let (old, mut new) = (old.concat(), new.concat());
            if !ended {
                new.push('x');
            }
            let mut out = String::new();
            hunks(&mut out, &old, &new);
            prop_assert_eq!(out, by_text_diff(&old, &new));
        }
    }
}
