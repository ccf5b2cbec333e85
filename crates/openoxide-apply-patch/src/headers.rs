//! One line of a patch -> the marker it is: `*** Update File: x`, `@@ def f`, and what models write for them.
//!
//! Only single lines are judged here; `parse` knows where they stand.

/// A line that begins with `***`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Header<'a> {
    /// `*** Begin Patch`.
    Begin,
    /// `*** End Patch`.
    End,
    /// `*** End of File`.
    EndOfFile,
    /// `*** Add File:` and the rest of the line.
    Add(&'a str),
    /// `*** Delete File:`.
    Delete(&'a str),
    /// `*** Update File:`.
    Update(&'a str),
    /// `*** Move to:`.
    Move(&'a str),
    /// None of these.
    Unknown,
}

/// Words of a header, whatever their case, and what they mean.
type Verb = (&'static [&'static str], for<'a> fn(&'a str) -> Header<'a>);

const VERBS: [Verb; 4] = [
    (&["add file", "create file", "new file"], |path| Header::Add(path)),
    (&["delete file", "remove file"], |path| Header::Delete(path)),
    (&["update file", "modify file", "edit file", "change file"], |path| Header::Update(path)),
    (&["move to", "rename to", "move file to", "rename file to"], |path| Header::Move(path)),
];

/// The header that a line is, with or without white space around it; none when it is another line.
pub(crate) fn header(line: &str) -> Option<Header<'_>> {
    let rest = line.trim().strip_prefix("***")?.trim();
    let rest = rest.strip_suffix("***").map_or(rest, str::trim_end);
    let is = |words: &str| rest.trim_end_matches(':').eq_ignore_ascii_case(words);
    if is("begin patch") {
        return Some(Header::Begin);
    }
    if is("end patch") {
        return Some(Header::End);
    }
    if is("end of file") {
        return Some(Header::EndOfFile);
    }
    for (words, made) in VERBS {
        for word in words {
            let (Some(head), Some(after)) = (rest.get(..word.len()), rest.get(word.len()..)) else { continue };
            // The colon may be missing, but not what separates the words from the path.
            if head.eq_ignore_ascii_case(word) && (after.is_empty() || after.starts_with([':', ' ', '\t'])) {
                let after = after.trim_start();
                return Some(made(after.strip_prefix(':').unwrap_or(after).trim()));
            }
        }
    }
    Some(Header::Unknown)
}

/// The contexts after `@@`, none for a range of a unified diff, whose numbers are not to be trusted; `None` when the line
/// is no locator.
pub(crate) fn locator(line: &str) -> Option<Vec<String>> {
    let line = line.strip_suffix('\r').unwrap_or(line);
    // A lone line of dots stands for lines that were left out.
    if matches!(line.trim_end(), "..." | "\u{2026}" | "[...]") {
        return Some(Vec::new());
    }
    let rest = line.strip_prefix("@@")?;
    if is_range(rest) {
        return Some(Vec::new());
    }
    if !rest.is_empty() && !rest.starts_with([' ', '\t']) {
        return None;
    }
    let rest = rest.strip_prefix([' ', '\t']).unwrap_or(rest);
    let rest = rest.trim_end();
    let rest = rest.strip_suffix("@@").filter(|rest| rest.is_empty() || rest.ends_with(' ')).unwrap_or(rest);
    let texts = rest.split(" @@ ").map(str::trim_end).filter(|text| !matches!(text.trim(), "" | "..." | "\u{2026}"));
    Some(texts.map(str::to_owned).collect())
}

/// Whether the text is `-3,7 +3,9 @@ ...`: a range of a unified diff, with numbers or what stands for them.
fn is_range(text: &str) -> bool {
    let (range, closed) = match text.split_once("@@") {
        Some((range, _)) => (range.trim(), true),
        None => (text.trim(), false),
    };
    let words = range.trim_start_matches("lines").trim_start_matches("line").trim();
    let digits = words.chars().any(|c| c.is_ascii_digit());
    let numbers = words.chars().all(|c| c.is_ascii_digit() || "-+,. \t".contains(c));
    let blanks = !words.is_empty() && words.chars().all(|c| "-+,. \t?x\u{2026}".contains(c));
    let signed = words.starts_with('-') && words.contains('+');
    (digits && numbers && (closed || signed || words.len() < range.len())) || (closed && blanks)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_are_known_in_the_ways_they_are_written() {
        for (line, expected) in [
            ("*** Begin Patch", Some(Header::Begin)),
            ("  ***begin patch ***", Some(Header::Begin)),
            ("*** End Patch\r", Some(Header::End)),
            ("*** End of File", Some(Header::EndOfFile)),
            ("*** Update File: a b.rs", Some(Header::Update("a b.rs"))),
            ("*** Update file: a.rs ***", Some(Header::Update("a.rs"))),
            ("*** Update File a.rs", Some(Header::Update("a.rs"))),
            ("*** Create File:a.rs", Some(Header::Add("a.rs"))),
            ("*** Remove File: a.rs", Some(Header::Delete("a.rs"))),
            ("*** Rename to: b.rs", Some(Header::Move("b.rs"))),
            ("*** Add File:", Some(Header::Add(""))),
            ("*** Update Files: a", Some(Header::Unknown)),
            ("***", Some(Header::Unknown)),
            ("** Begin Patch", None),
            ("+*** Begin Patch", None),
        ] {
            assert_eq!(header(line), expected, "{line:?}");
        }
    }

    #[test]
    fn locators_give_contexts_and_ranges_give_none() {
        let texts = |line: &str| locator(line).map(|texts| texts.join("|"));
        for line in [
            "@@",
            "@@ ",
            "@@\r",
            "@@ @@",
            "@@ ... @@",
            "@@ -1,3 +1,4 @@",
            "@@ -1 +1 @@ fn x() {",
            "@@ -1,3 +1,4",
            "@@-1,2 +1,2@@",
            "@@ -12,7 @@",
            "@@ line 12 @@",
            "@@ -?,? +?,? @@",
            "@@ -x,x +x,x @@",
            "@@ -,+ @@",
            "...",
        ] {
            assert_eq!(texts(line).as_deref(), Some(""), "{line:?}");
        }
        assert_eq!(texts("@@ class A").as_deref(), Some("class A"));
        assert_eq!(texts("@@   def f").as_deref(), Some("  def f"));
        assert_eq!(texts("@@ def f(): @@").as_deref(), Some("def f():"));
        assert_eq!(texts("@@ class A @@ def f").as_deref(), Some("class A|def f"));
        assert_eq!(texts("@@ -1 is a number").as_deref(), Some("-1 is a number"));
        assert_eq!(texts("@@ 12").as_deref(), Some("12"));
        assert_eq!(texts("@@decorated"), None);
        assert_eq!(texts(" ..."), None);
    }
}
