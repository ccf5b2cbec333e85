//! Indentation of inserted lines where the patch and the file indent differently.
//!
//! A chunk that matches only after trimming shows, line by line, which indentation of the file stands for which of the
//! patch. Inserted lines follow that only when it leaves one answer; otherwise they stay as written.

use std::collections::HashMap;

/// Re-indents `added` the way `pairs` (patch line, file line) show, or `None` when they do not show one way.
///
/// Three readings are tried for each inserted line: the very indentation occurs among the pairs; a fixed prefix is missing
/// from, or too much in, every pair; every pair's indentation is one unit repeated, at a fixed ratio. The last two
/// must agree where both apply.
pub(crate) fn adapt(pairs: &[(&str, &str)], added: &[&str]) -> Option<Vec<String>> {
    let mut seen: HashMap<&str, &str> = HashMap::new();
    for (patch, file) in pairs {
        if patch.trim().is_empty() || file.trim().is_empty() {
            continue;
        }
        let (patch, file) = (indentation(patch), indentation(file));
        if *seen.entry(patch).or_insert(file) != file {
            return None;
        }
    }
    if seen.iter().all(|(patch, file)| patch == file) {
        return None;
    }
    let shift = shift(&seen);
    let ratio = ratio(&seen);
    added
        .iter()
        .map(|line| {
            let own = indentation(line);
            let rest = &line[own.len()..];
            if rest.is_empty() {
                return Some((*line).to_owned());
            }
            if let Some(file) = seen.get(own) {
                return Some(format!("{file}{rest}"));
            }
            let shifted = shift.as_ref().and_then(|shift| shift.apply(own));
            let scaled = ratio.as_ref().and_then(|ratio| ratio.apply(own));
            match (shifted, scaled) {
                (Some(one), Some(other)) if one != other => None,
                (Some(indent), _) | (None, Some(indent)) => Some(format!("{indent}{rest}")),
                (None, None) => None,
            }
        })
        .collect()
}

fn indentation(line: &str) -> &str {
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
            ("missing prefix", &[("a", "    a"), ("  b", "      b")], &["    x"], Some(&["        x"])),
            ("extra prefix", &[("    a", "a"), ("      b", "  b")], &["        x"], Some(&["    x"])),
            ("spaces for tabs", &[("a", "a"), ("    b", "\tb")], &["        x"], Some(&["\t\tx"])),
            ("two for four", &[("a", "a"), ("  b", "    b")], &["    x", ""], Some(&["        x", ""])),
            ("shift and ratio differ", &[("  b", "    b")], &["    x"], None),
            ("one indent, two meanings", &[("a", "  a"), ("b", "    b")], &["x"], None),
            ("prefix does not fit", &[("    a", "a")], &["  x"], None),
            ("nothing differs", &[("  a", "  a")], &["x"], None),
            ("blank pairs tell nothing", &[("", "    ")], &["x"], None),
        ] {
            let expected = expected.map(|lines| lines.iter().map(ToString::to_string).collect::<Vec<_>>());
            assert_eq!(adapt(pairs, added), expected, "{name}");
        }
    }
}
