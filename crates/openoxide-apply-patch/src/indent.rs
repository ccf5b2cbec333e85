//! Indentation of inserted lines where the patch and the file indent differently.
//!
//! A chunk that matches only after trimming shows, line by line, which indentation of the file stands for which of the
//! patch. Inserted lines follow that only when it leaves one answer; otherwise the patch is refused.

use std::collections::{HashMap, HashSet};

/// What the kept and removed lines say about indentation.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Indented {
    /// The patch indents like the file.
    AsWritten,
    /// The added lines, indented like the file.
    Lines(Vec<String>),
    /// There is more than one way, first for the added line with this index.
    Unclear(usize),
}

/// Re-indents `added` the way `pairs` (patch line, file line) show. Where they show nothing, because none of them is
/// indented, `wider` pairs of the same patch and file are asked.
///
/// Three readings are tried for each inserted line: the very indentation occurs among the pairs; a fixed prefix is missing
/// from, or too much in, every pair; every pair's indentation is one unit repeated, at a fixed ratio. The last two
/// must agree where both apply. `shows_changed` says that a removed line is among the pairs that differ: then the added
/// lines are written like it.
pub(crate) fn adapt(pairs: &[(&str, &str)], wider: &[(&str, &str)], added: &[&str], shows_changed: bool) -> Indented {
    let mut seen = meanings(pairs);
    if seen.iter().all(|(patch, files)| files.iter().all(|file| patch == file)) {
        let is_flat = seen.keys().all(|patch| patch.is_empty());
        let all = meanings(wider);
        let unique: Option<HashMap<&str, &str>> =
            all.iter().map(|(patch, files)| one(files).map(|file| (*patch, file))).collect();
        let ratio = unique.as_ref().and_then(ratio);
        match ratio {
            Some(ratio) if is_flat && !ratio.is_same() => seen = all,
            _ => return Indented::AsWritten,
        }
    }
    let unique: Option<HashMap<&str, &str>> =
        seen.iter().map(|(patch, files)| one(files).map(|file| (*patch, file))).collect();
    let shift = unique.as_ref().and_then(shift);
    let ratio = unique.as_ref().and_then(ratio);
    let of_file: HashSet<&str> = seen.values().flatten().copied().collect();
    let texts = || added.iter().map(|line| indentation(line)).zip(added).filter(|(own, line)| own.len() < line.len());
    // Every added line indented as only the file is: they may have been written for the file, unlike the lines around.
    let mut own = texts().map(|(own, _)| own).peekable();
    if !shows_changed && own.peek().is_some() && own.all(|own| of_file.contains(own) && !seen.contains_key(own)) {
        return Indented::Unclear(0);
    }
    let mut lines = Vec::with_capacity(added.len());
    for (index, line) in added.iter().enumerate() {
        let own = indentation(line);
        let rest = &line[own.len()..];
        let shifted = || shift.as_ref().and_then(|shift| shift.apply(own));
        let scaled = || ratio.as_ref().and_then(|ratio| ratio.apply(own));
        if rest.is_empty() {
            let extra = matches!(shift, Some(Shift::Extra(_)));
            lines.push(if extra { shifted().unwrap_or_default() } else { (*line).to_owned() });
            continue;
        }
        let indent = match seen.get(own) {
            Some(files) => one(files).map(str::to_owned),
            None => match (shifted(), scaled()) {
                (Some(one), Some(other)) if one != other => None,
                (Some(indent), _) | (None, Some(indent)) => Some(indent),
                (None, None) => None,
            },
        };
        let Some(indent) = indent else { return Indented::Unclear(index) };
        lines.push(format!("{indent}{rest}"));
    }
    Indented::Lines(lines)
}

/// For each indentation in the patch those of the file that it stands for.
fn meanings<'a>(pairs: &[(&'a str, &'a str)]) -> HashMap<&'a str, HashSet<&'a str>> {
    let mut seen: HashMap<&str, HashSet<&str>> = HashMap::new();
    for (patch, file) in pairs {
        if !patch.trim().is_empty() && !file.trim().is_empty() {
            seen.entry(indentation(patch)).or_default().insert(indentation(file));
        }
    }
    seen
}

fn one<'a>(files: &HashSet<&'a str>) -> Option<&'a str> {
    let mut files = files.iter();
    files.next().copied().filter(|_| files.next().is_none())
}

pub(crate) fn indentation(line: &str) -> &str {
    &line[..line.len() - line.trim_start().len()]
}

/// A prefix that the patch lacks, or has too much, on every line.
enum Shift<'a> {
    Missing(&'a str),
    Extra(&'a str),
}

impl Shift<'_> {
    fn apply(&self, indent: &str) -> Option<String> {
        match self {
            Self::Missing(prefix) => Some(format!("{prefix}{indent}")),
            Self::Extra(prefix) => indent.strip_prefix(prefix).map(str::to_owned),
        }
    }
}

fn shift<'a>(seen: &HashMap<&'a str, &'a str>) -> Option<Shift<'a>> {
    let (patch, file) = seen.iter().next()?;
    if let Some(prefix) = file.strip_suffix(patch).filter(|prefix| !prefix.is_empty()) {
        let everywhere = seen.iter().all(|(patch, file)| file.strip_suffix(patch) == Some(prefix));
        return everywhere.then_some(Shift::Missing(prefix));
    }
    let prefix = patch.strip_suffix(file).filter(|prefix| !prefix.is_empty())?;
    let everywhere = seen.iter().all(|(patch, file)| patch.strip_suffix(file) == Some(prefix));
    everywhere.then_some(Shift::Extra(prefix))
}

/// One character repeated in the patch for another repeated in the file: four spaces for a tab, two spaces for four.
struct Ratio {
    patch: (char, usize),
    file: (char, usize),
}

impl Ratio {
    fn is_same(&self) -> bool {
        self.patch == self.file
    }

    fn apply(&self, indent: &str) -> Option<String> {
        if !indent.chars().all(|c| c == self.patch.0) {
            return None;
        }
        let scaled = indent.len() * self.file.1;
        scaled.is_multiple_of(self.patch.1).then(|| self.file.0.to_string().repeat(scaled / self.patch.1))
    }
}

fn ratio(seen: &HashMap<&str, &str>) -> Option<Ratio> {
    let uniform = |indent: &str| {
        let first = indent.chars().next()?;
        (matches!(first, ' ' | '\t') && indent.chars().all(|c| c == first)).then_some((first, indent.len()))
    };
    let (patch, file) = seen.iter().find(|(patch, file)| !patch.is_empty() && !file.is_empty())?;
    let ratio = Ratio { patch: uniform(patch)?, file: uniform(file)? };
    seen.iter().all(|(patch, file)| ratio.apply(patch).as_deref() == Some(*file)).then_some(ratio)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn indentation_follows_the_file_where_it_is_certain() {
        for (name, pairs, added, expected) in [
            (
                "seen as such",
                &[("a", "    a"), ("  b", "        b")][..],
                &["  x", "y"][..],
                Some(&["        x", "    y"][..]),
            ),
            ("missing prefix", &[("a", "    a"), ("  b", "      b")], &["   x"], Some(&["       x"])),
            ("extra prefix", &[("    a", "a"), ("      b", "  b")], &["        x"], Some(&["    x"])),
            ("extra column on a blank line", &[(" a", "a"), (" b", "b")], &[" ", " x"], Some(&["", "x"])),
            ("spaces for tabs", &[("a", "a"), ("    b", "\tb")], &["        x"], Some(&["\t\tx"])),
            ("two for four", &[("a", "a"), ("  b", "    b")], &["    x", "y", ""], Some(&["        x", "y", ""])),
            ("shift and ratio differ", &[("  b", "    b")], &["      x"], None),
            ("one indent, two meanings", &[("a", "  a"), ("b", "    b")], &["x"], None),
            (
                "one of two meanings is not needed",
                &[("a", "  a"), ("b", "    b"), ("  c", "  c")],
                &["  x"],
                Some(&["  x"]),
            ),
            ("prefix does not fit", &[("    a", "a")], &["  x"], None),
            ("written for the file", &[("a", "    a")], &["    x"], None),
        ] {
            let expected = expected.map(|lines| lines.iter().map(ToString::to_string).collect::<Vec<_>>());
            let adapted = match adapt(pairs, &[], added, false) {
                Indented::Lines(lines) => Some(lines),
                Indented::AsWritten | Indented::Unclear(_) => None,
            };
            assert_eq!(adapted, expected, "{name}");
        }
    }

    #[test]
    fn what_shows_nothing_stays_as_written_unless_the_rest_of_the_patch_shows_it() {
        assert_eq!(adapt(&[("  a", "  a")], &[], &["x"], false), Indented::AsWritten);
        assert_eq!(adapt(&[("", "    ")], &[], &["x"], false), Indented::AsWritten);
        let wider = [("    a", "\ta"), ("b", "b")];
        assert_eq!(adapt(&[("b", "b")], &wider, &["        x"], false), Indented::Lines(vec!["\t\tx".into()]));
        assert_eq!(adapt(&[("b", "b")], &[("a", "    a")], &["    x"], false), Indented::AsWritten);
    }
}
