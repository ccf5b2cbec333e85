//! Old and new text -> the unified diff that people, hosts and `git apply` read.
//!
//! Only rendering lives here. Lines end at a line feed alone, so that a carriage return is shown as content and the file
//! can be rebuilt byte by byte.

use std::{fmt::Write, os::unix::ffi::OsStrExt as _, path::Path, time::Duration};

use openoxide_display::{quote_bytes, quote_path};
use similar::{DiffOp, DiffTag, TextDiff, TextDiffConfig, udiff::UnifiedHunkHeader};

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
    let diff: TextDiff<'_, '_, str> = TextDiffConfig::default().timeout(PATIENCE).diff_slices(&old, &new);
    for ops in diff.grouped_ops(CONTEXT) {
        let _ = writeln!(out, "{}", UnifiedHunkHeader::new(&ops));
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

fn lines(out: &mut String, tag: char, text: &[&str], op: &DiffOp, range: fn(&DiffOp) -> std::ops::Range<usize>) {
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
}
