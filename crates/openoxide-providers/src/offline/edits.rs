//! Writes patches in the patch language, from the lines a file has and what shall become of them.

/// Lines of context on each side of a change, unless that is ambiguous.
const CONTEXT: usize = 3;

/// A patch that replaces text.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Replacement {
    pub(super) patch: String,
    /// The lines where the text stood, from 1.
    pub(super) places: Vec<usize>,
}

/// Lines `start..end` become `new`.
struct Change {
    start: usize,
    end: usize,
    new: Vec<String>,
}

/// A patch that creates a file. An empty content becomes one empty line, since a patch adds at least one.
pub(super) fn create(path: &str, content: &str) -> String {
    let lines: Vec<String> = content.trim_end_matches('\n').split('\n').map(|line| format!("+{line}\n")).collect();
    wrap(&format!("*** Add File: {path}\n{}", lines.concat()))
}

/// A patch that deletes a file.
pub(super) fn delete(path: &str) -> String {
    wrap(&format!("*** Delete File: {path}\n"))
}

/// A patch that renames a file.
pub(super) fn rename(from: &str, to: &str) -> String {
    wrap(&format!("*** Update File: {from}\n*** Move to: {to}\n"))
}

/// A patch that adds lines at the end of a file.
pub(super) fn append(path: &str, lines: &[&str], text: &str) -> String {
    let mut body = format!("*** Update File: {path}\n@@\n");
    for line in &lines[lines.len().saturating_sub(CONTEXT)..] {
        body.push_str(&format!(" {line}\n"));
    }
    for line in text.trim_end_matches('\n').split('\n') {
        body.push_str(&format!("+{line}\n"));
    }
    if !lines.is_empty() {
        body.push_str("*** End of File\n");
    }
    wrap(&body)
}

/// A patch that replaces `from` by `to` at the first place or everywhere; `None` when it stands nowhere. A line that
/// had only `from` on it goes altogether when `to` is empty.
pub(super) fn replace(path: &str, lines: &[&str], from: &str, to: &str, first_only: bool) -> Option<Replacement> {
    let text = lines.join("\n");
    let found: Vec<usize> =
        text.match_indices(from).map(|(at, _)| at).take(if first_only { 1 } else { usize::MAX }).collect();
    let line_of = |at: usize| text[..at].matches('\n').count();
    let mut changes: Vec<Change> = Vec::new();
    for &at in &found {
        let (start, end) = (line_of(at), line_of(at + from.len()) + 1);
        match changes.last_mut() {
            Some(last) if start < last.end => last.end = last.end.max(end),
            _ => changes.push(Change { start, end, new: Vec::new() }),
        }
    }
    for change in &mut changes {
        let old = lines[change.start..change.end].join("\n");
        let new = if first_only { old.replacen(from, to, 1) } else { old.replace(from, to) };
        let goes = to.is_empty() && new.trim().is_empty() && !old.trim().is_empty();
        change.new = if goes { Vec::new() } else { new.split('\n').map(str::to_owned).collect() };
    }
    if changes.is_empty() {
        return None;
    }
    let places = found.iter().map(|at| line_of(*at) + 1).collect();
    Some(Replacement { patch: wrap(&format!("*** Update File: {path}\n{}", hunks(lines, &changes))), places })
}

/// The changes as hunks with as much context as makes each stand at one place only.
fn hunks(lines: &[&str], changes: &[Change]) -> String {
    let mut context = CONTEXT;
    loop {
        let groups = group(lines.len(), changes, context);
        let is_unique = |&(start, end, _): &(usize, usize, &[Change])| {
            lines.windows(end - start).filter(|window| *window == &lines[start..end]).count() == 1
        };
        // One hunk of the whole file is unique by itself, so this ends.
        if groups.iter().all(is_unique) || context >= lines.len() {
            return groups.iter().map(|(start, end, changes)| hunk(lines, *start, *end, changes)).collect();
        }
        context *= 2;
    }
}

/// Changes whose contexts touch, together with the range of lines they span.
fn group(count: usize, changes: &[Change], context: usize) -> Vec<(usize, usize, &[Change])> {
    let mut groups: Vec<(usize, usize, &[Change])> = Vec::new();
    let mut first = 0;
    for (index, change) in changes.iter().enumerate() {
        let (start, end) = (change.start.saturating_sub(context), (change.end + context).min(count));
        match groups.last_mut() {
            Some(last) if start <= last.1 => {
                last.1 = end;
                last.2 = &changes[first..=index];
            }
            _ => {
                first = index;
                groups.push((start, end, &changes[first..=index]));
            }
        }
    }
    groups
}

fn hunk(lines: &[&str], start: usize, end: usize, changes: &[Change]) -> String {
    let mut text = String::from("@@\n");
    let mut at = start;
    let mut push = |sign: char, line: &str| {
        text.push(sign);
        text.push_str(line);
        text.push('\n');
    };
    for change in changes {
        lines[at..change.start].iter().for_each(|line| push(' ', line));
        lines[change.start..change.end].iter().for_each(|line| push('-', line));
        change.new.iter().for_each(|line| push('+', line));
        at = change.end;
    }
    lines[at..end].iter().for_each(|line| push(' ', line));
    text
}

fn wrap(body: &str) -> String {
    format!("*** Begin Patch\n{body}*** End Patch\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn body(patch: &str) -> String {
        let body = patch.strip_prefix("*** Begin Patch\n").unwrap().strip_suffix("*** End Patch\n").unwrap();
        body.to_owned()
    }

    #[test]
    fn whole_file_patches() {
        assert_eq!(body(&create("a", "x\n\ny\n")), "*** Add File: a\n+x\n+\n+y\n");
        assert_eq!(body(&create("a", "\n")), "*** Add File: a\n+\n");
        assert_eq!(body(&delete("a")), "*** Delete File: a\n");
        assert_eq!(body(&rename("a", "b")), "*** Update File: a\n*** Move to: b\n");
        assert_eq!(
            body(&append("a", &["1", "2", "3", "4"], "5\n6\n")),
            "*** Update File: a\n@@\n 2\n 3\n 4\n+5\n+6\n*** End of File\n"
        );
        assert_eq!(body(&append("a", &[], "5\n")), "*** Update File: a\n@@\n+5\n");
    }

    #[test]
    fn a_replacement_has_exact_context() {
        let lines = ["1", "2", "3", "4", "  x = a - b", "6", "7", "8", "9"];
        let made = replace("f", &lines, "a - b", "a + b", false).unwrap();
        assert_eq!(made.places, [5]);
        assert_eq!(body(&made.patch), "*** Update File: f\n@@\n 2\n 3\n 4\n-  x = a - b\n+  x = a + b\n 6\n 7\n 8\n");
        assert_eq!(replace("f", &lines, "absent", "y", false), None);
    }

    #[test]
    fn what_is_ambiguous_gets_more_context() {
        let mut lines = vec!["same"; 9];
        lines.extend(["mark", "same", "same", "same", "x"]);
        lines.extend(["same"; 3]);
        lines.extend(["x", "same", "same", "same"]);
        let made = replace("f", &lines, "x", "y", true).unwrap();
        assert_eq!(made.places, [14]);
        assert!(body(&made.patch).contains(" mark\n"), "{}", made.patch);
    }

    #[test]
    fn places_near_and_far_are_all_replaced() {
        let mut lines = vec!["a a", "k", "a"];
        let numbers: Vec<String> = (0..20).map(|n| n.to_string()).collect();
        lines.extend(numbers.iter().map(String::as_str));
        lines.push("a");
        let made = replace("f", &lines, "a", "b", false).unwrap();
        assert_eq!(made.places, [1, 1, 3, 24]);
        assert_eq!(body(&made.patch).matches("@@").count(), 2);
        assert!(body(&made.patch).contains("-a a\n+b b\n k\n-a\n+b\n"), "{}", made.patch);
    }

    #[test]
    fn lines_may_join_split_and_go() {
        let made = replace("f", &["a", "b", "c"], "a\nb", "x", false).unwrap();
        assert_eq!(body(&made.patch), "*** Update File: f\n@@\n-a\n-b\n+x\n c\n");
        let made = replace("f", &["a", "  b();", "c"], "b();", "", false).unwrap();
        assert_eq!(body(&made.patch), "*** Update File: f\n@@\n a\n-  b();\n c\n");
    }
}
