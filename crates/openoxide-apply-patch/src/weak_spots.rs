//! Tests of whole patches on real directories: each case is a way in which patch tools are known to go wrong.
//!
//! The rooms' own tests stay beside their code; here a patch goes the whole road from text to disk.

use std::{
    fs,
    os::unix::{
        fs::{MetadataExt, PermissionsExt, symlink},
        net::UnixListener,
    },
    path::{Path, PathBuf},
};

use crate::{Applied, ChangeKind, ErrorKind, MAX_FILE_BYTES, PatchError, VerifiedPatch, parse};

fn verify(root: &Path, body: &str) -> Result<VerifiedPatch, PatchError> {
    parse(&format!("*** Begin Patch\n{body}\n*** End Patch"))?.verify(root)
}

fn apply(root: &Path, body: &str) -> Result<Applied, PatchError> {
    verify(root, body)?.apply()
}

fn tree(files: &[(&str, &str)]) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    for (path, text) in files {
        let path = dir.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    dir
}

fn listing(dir: &Path) -> Vec<String> {
    let mut names: Vec<String> =
        fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// Updates one file `f` with the given chunks and returns its new content, or the error's text.
fn update(old: &str, chunks: &str) -> Result<String, String> {
    let dir = tree(&[("f", old)]);
    apply(dir.path(), &format!("*** Update File: f\n{chunks}")).map_err(|error| error.to_string())?;
    assert_eq!(listing(dir.path()), ["f"], "no temporary file stays behind");
    Ok(fs::read_to_string(dir.path().join("f")).unwrap())
}

#[test]
fn updates_give_exactly_this() {
    for (name, old, chunks, new) in [
        ("replace", "a\nb\nc\n", "@@\n a\n-b\n+B\n c", "a\nB\nc\n"),
        ("two chunks", "a\nb\nc\nd\ne\n", "@@\n-a\n+A\n@@\n-e\n+E", "A\nb\nc\nd\nE\n"),
        ("context keeps the file's trailing space", "a  \nb\n", "@@\n a\n-b\n+c", "a  \nc\n"),
        ("context keeps the file's indentation", "\tif x:\n\t\ty\n", "@@\n if x:\n-    y\n+    z", "\tif x:\n\t\tz\n"),
        (
            "context keeps the file's quotes",
            "say \u{201c}hi\u{201d}\nb\n",
            "@@\n say \"hi\"\n-b\n+c",
            "say \u{201c}hi\u{201d}\nc\n",
        ),
        ("dashes and odd spaces", "a \u{2013} b\u{a0}c\nx\n", "@@\n a - b c\n-x\n+y", "a \u{2013} b\u{a0}c\ny\n"),
        ("inserted lines follow a missing prefix", "    a\n      b\n", "@@\n a\n-  b\n+    c", "    a\n        c\n"),
        ("chunks in another order", "a\nb\nc\n", "@@\n-c\n@@\n-a", "b\n"),
        ("equal chunks for as many places", "x\na\nx\n", "@@\n-x\n+y\n@@\n-x\n+y", "y\na\ny\n"),
        ("one of equal lines goes, whichever", "a\n\n\nb\n", "@@\n-\n", "a\n\nb\n"),
        ("chunks that share context", "a\nb\nc\n", "@@\n-a\n+A\n b\n@@\n b\n-c\n+C", "A\nb\nC\n"),
        ("a chunk said twice", "a\nb\n", "@@\n-a\n+A\n@@\n-a\n+A", "A\nb\n"),
        (
            "kept lines without a tag",
            "def f():\n    a\n    b\n",
            "@@\ndef f():\n    a\n-    b\n+    c",
            "def f():\n    a\n    c\n",
        ),
        ("white space at the end of every line", "a\nb\n", "@@\n a \n-b \n+c ", "a\nc\n"),
        (
            "typographic quotes in the whole patch",
            "f(\"a\")\n",
            "@@\n-f(\u{201c}a\u{201d})\n+f(\u{201c}b\u{201d})",
            "f(\"b\")\n",
        ),
        (
            "a changed line keeps the file's quotes",
            "say \u{201c}a\u{201d} now\n",
            "@@\n-say \"a\" now\n+say \"b\" now",
            "say \u{201c}b\u{201d} now\n",
        ),
        ("no newline at the end, said so", "a\nb\n", "@@\n a\n-b\n+c\n\\ No newline at end of file", "a\nc"),
        ("a newline at the end, said so", "a\nb", "@@\n a\n-b\n\\ No newline at end of file\n+c", "a\nc\n"),
        ("crlf file, lf patch", "a\r\nb\r\nc\r\n", "@@\n a\n-b\n+B\n+BB\n c", "a\r\nB\r\nBB\r\nc\r\n"),
        ("crlf file, crlf patch", "a\r\nb\r\n", "@@\r\n a\r\n-b\r\n+B\r", "a\r\nB\r\n"),
        ("lf file, crlf patch", "a\nb\n", "@@\r\n a\r\n-b\r\n+B\r", "a\nB\n"),
        ("mixed file, each line like the one it replaces", "a\r\nb\nc\r\n", "@@\n-a\n-b\n+A\n+B\n c", "A\r\nB\nc\r\n"),
        ("mixed file, neighbour decides", "a\r\nb\nc\n", "@@\n a\n+x\n b", "a\r\nx\r\nb\nc\n"),
        ("no final newline, change before", "a\nb", "@@\n-a\n+A\n b", "A\nb"),
        ("no final newline, last line replaced", "a\nb", "@@\n a\n-b\n+B", "a\nB"),
        ("no final newline, line appended", "a\r\nb", "@@\n b\n+c", "a\r\nb\r\nc"),
        ("no final newline, last line removed", "a\nb", "@@\n a\n-b", "a"),
        ("byte order mark", "\u{feff}a\nb\n", "@@\n-a\n+A\n b", "\u{feff}A\nb\n"),
        ("empty file", "", "@@\n+a\n+b", "a\nb\n"),
        ("everything removed", "a\nb\n", "@@\n-a\n-b", ""),
        ("insert right after the context line", "a\nb\n", "@@ a\n+x", "a\nx\nb\n"),
        ("insert after the last line", "a\nb\n", "@@ b\n+x", "a\nb\nx\n"),
        ("insert at the end", "a\nb\n", "@@\n+x\n*** End of File", "a\nb\nx\n"),
        ("end of file picks the last", "x\na\nx\n", "@@\n-x\n+y\n*** End of File", "x\na\ny\n"),
        ("end of file, final newline taken for a line", "a\nb\n", "@@\n b\n+c\n \n*** End of File", "a\nb\nc\n"),
        (
            "context picks the first after it",
            "fn a\n r\nfn b\n r\nfn c\n r\n",
            "@@ fn b\n- r\n+ s",
            "fn a\n r\nfn b\n s\nfn c\n r\n",
        ),
        ("stacked context", "A\n f\n  r\nB\n f\n  r\n", "@@ B\n@@  f\n-  r\n+  s", "A\n f\n  r\nB\n f\n  s\n"),
        ("context repeated as first line", "fn a\nx\nfn b\nx\n", "@@ fn b\n fn b\n-x\n+y", "fn a\nx\nfn b\ny\n"),
        (
            "context is the beginning of a line",
            "class Ab:\n x\nclass A(B):\n x\n",
            "@@ class A\n- x\n+ y",
            "class Ab:\n x\nclass A(B):\n y\n",
        ),
        (
            "two chunks in one function",
            "fn a\n x\n y\n z\nfn b\n z\n",
            "@@ fn a\n- x\n+ X\n@@ fn a\n- z\n+ Z",
            "fn a\n X\n y\n Z\nfn b\n z\n",
        ),
        ("exact match wins over a loose one", "  x\nx\n", "@@\n-x\n+y", "  x\ny\n"),
        ("blank lines between chunks are spacing", "a\nb\nc\n", "\n@@\n-a\n+A\n\n@@\n-c\n+C\n\n", "A\nb\nC\n"),
        ("a blank line as context", "a\n\nb\n", "@@\n a\n\n-b\n+c", "a\n\nc\n"),
        ("first chunk without locator", "a\nb\n", " a\n-b\n+c", "a\nc\n"),
        ("unified range", "a\nb\n", "@@ -1,2 +1,2 @@\n a\n-b\n+c", "a\nc\n"),
        ("lone carriage returns are no line ends", "a\rb\nc\n", "@@\n-c\n+d", "a\rb\nd\n"),
    ] {
        assert_eq!(update(old, chunks).as_deref(), Ok(new), "{name}");
    }
}

#[test]
fn refused_chunks_say_what_to_do() {
    for (name, old, chunks, expected) in [
        (
            "ambiguous",
            "x\na\nx\nb\nx\n",
            "@@\n-x\n+y",
            "ambiguous chunk at patch line 3: it fits f at lines 1, 3 and 5; add unchanged",
        ),
        (
            "ambiguous after a loose tier",
            " x\n  x\n",
            "@@\n-x\n+y",
            "ambiguous chunk at patch line 3: it fits f at lines 1 and 2;",
        ),
        (
            "ambiguous context",
            "f\nr\nf\nr\n",
            "@@ f\n-r\n+s",
            "ambiguous chunk at patch line 3: it fits f at lines 2 and 4;",
        ),
        (
            "ambiguous insertion",
            "f\nr\nf\n",
            "@@ f\n+s",
            "ambiguous chunk at patch line 3: it fits f at lines 2 and 4;",
        ),
        (
            "insertion nowhere",
            "a\n",
            "@@\n+s",
            "chunk at patch line 3 only inserts and names no place in f: add the unchanged",
        ),
        (
            "context missing",
            "let total = 1;\n",
            "@@ let totals = 1;\n-x",
            "failed to find context 'let totals = 1;' in f (patch line 3); the nearest line is 1: `let total = 1;`",
        ),
        (
            "stacked context in the wrong order",
            "A\nB\nx\n",
            "@@ B\n@@ A\n-x",
            "failed to find context 'A' in f (patch line 4); it stands at line 1, which is not after",
        ),
        (
            "lines missing",
            "a\nb\nc\n",
            "@@\n a\n-B\n c",
            "failed to find expected lines in f (chunk at patch line 3):\na\nB\nc\nthe nearest place starts at line 1; there line 2 reads `b` where the patch has `B`",
        ),
        (
            "twice the same line",
            "a\nb\nc\n",
            "@@\n-c\n+x\n@@\n-c\n+y",
            "failed to find expected lines in f (chunk at patch line 6):\nc\nthey stand at line 3, where another chunk",
        ),
        (
            "unclear indentation",
            "    a\n",
            "@@\n-  a\n+     c",
            "unclear chunk at patch line 3 for f: it fits at line 1, where the file is indented otherwise",
        ),
        (
            "loose in order, or strict out of it",
            "x\nb\n  x\n",
            "@@\n-b\n@@\n-x",
            "ambiguous chunk at patch line 5: it fits f at lines 1 and 3;",
        ),
        (
            "not the end",
            "a\nb\n",
            "@@\n-a\n*** End of File",
            "failed to find expected lines in f (chunk at patch line 3):\na\nthey stand at line 1, but not at the end",
        ),
        (
            "before the context",
            "a\nb\n",
            "@@ b\n-a",
            "failed to find expected lines in f (chunk at patch line 3):\na\nthey stand at line 1, not after the context found at line 2",
        ),
        (
            "already applied",
            "a\nc\n",
            "@@\n a\n-b\n+c",
            "failed to find expected lines in f (chunk at patch line 3):\na\nb\nthe result of this chunk already stands at line 1",
        ),
        ("no effect", "a\n", "@@\n-a\n+a", "the update of f at patch line 2 changes nothing"),
    ] {
        let error = update(old, chunks).expect_err(name);
        assert!(error.starts_with(expected), "{name}: {error}");
    }
}

#[test]
fn a_patch_of_every_kind_is_applied_shown_and_summed_up() {
    let dir = tree(&[("u", "a\n"), ("d", "gone\n"), ("m", "x\ny\n"), ("r", "same\n")]);
    let patch = verify(
        dir.path(),
        "*** Add File: new/deep/a\n+hi\n*** Update File: u\n@@\n-a\n+b\n*** Delete File: d\n*** Update File: m\n\
         *** Move to: to/m2\n@@\n-y\n+z\n*** Update File: r\n*** Move to: r2",
    )
    .unwrap();
    let kinds: Vec<ChangeKind> = patch.changes().iter().map(|change| change.kind).collect();
    use ChangeKind::{Add, Delete, Update};
    assert_eq!(kinds, [Add, Update, Delete, Update, Update]);
    assert_eq!(patch.changes()[3].move_to.as_deref(), Some(Path::new("to/m2")));
    assert_eq!(patch.changes()[0].absolute, dir.path().join("new/deep/a"));
    assert!(patch.outside_root().is_empty());
    assert!(!dir.path().join("new").exists(), "verifying writes nothing");
    let diff = patch.unified_diff();
    assert!(
        diff.contains("rename from m\nrename to to/m2\n--- a/m\n+++ b/to/m2\n@@ -1,2 +1,2 @@\n x\n-y\n+z\n"),
        "{diff}"
    );
    assert!(diff.ends_with("rename from r\nrename to r2\n"), "{diff}");

    let applied = patch.apply().unwrap();
    assert_eq!(applied.summary(), "Success. Updated the following files:\nA new/deep/a\nM u\nM to/m2\nM r2\nD d");
    assert!(applied.leftovers().is_empty());
    assert_eq!(listing(dir.path()), ["new", "r2", "to", "u"]);
    let read = |path: &str| fs::read_to_string(dir.path().join(path)).unwrap();
    assert_eq!(
        (read("new/deep/a"), read("u"), read("to/m2"), read("r2")),
        ("hi\n".into(), "b\n".into(), "x\nz\n".into(), "same\n".into())
    );
}

#[test]
fn nothing_is_overwritten_silently() {
    let dir = tree(&[("a", "a\n"), ("b", "b\n")]);
    for (body, expected) in [
        ("*** Update File: a\n*** Move to: b", "b already exists: move to a path that is free"),
        ("*** Add File: c\n+x\n*** Update File: a\n*** Move to: c", "c is named twice, at lines 2 and 5"),
        ("*** Update File: a\n*** Move to: ./a", "a is named twice, at lines 2 and 3: the file would move onto itself"),
        ("*** Add File: c\n+x\n*** Add File: c\n+y", "c is named twice, at lines 2 and 4"),
        ("*** Update File: a\n@@\n-a\n+x\n*** Delete File: a", "a is named twice, at lines 2 and 6"),
        ("*** Update File: a\n*** Move to: c\n*** Update File: a\n@@\n-a\n+b", "a is named twice, at lines 2 and 4"),
        ("*** Add File: c\n+x\n*** Add File: c/d\n+y", "c/d is named twice, at lines 2 and 4: another path"),
    ] {
        let error = verify(dir.path(), body).expect_err(body);
        assert!(error.to_string().starts_with(expected), "{body}: {error}");
        assert_eq!(error.kind(), ErrorKind::Input);
    }
    assert_eq!(listing(dir.path()), ["a", "b"]);
}

#[test]
fn updates_of_one_file_compose_and_a_deleted_file_can_be_rewritten() {
    let dir = tree(&[("a", "1\n2\n"), ("b", "old\n")]);
    fs::set_permissions(dir.path().join("b"), fs::Permissions::from_mode(0o755)).unwrap();
    let body = "*** Update File: a\n@@\n-2\n+two\n*** Update File: ./a\n*** Move to: c\n@@\n-1\n+one\n*** Delete File: b\n*** Add File: b\n+new";
    let applied = apply(dir.path(), body).unwrap();
    assert_eq!(applied.summary(), "Success. Updated the following files:\nM c\nM b");
    assert_eq!(fs::read_to_string(dir.path().join("c")).unwrap(), "one\ntwo\n");
    assert_eq!(fs::read_to_string(dir.path().join("b")).unwrap(), "new\n");
    assert_eq!(dir.path().join("b").metadata().unwrap().mode() & 0o777, 0o755);
    assert_eq!(listing(dir.path()), ["b", "c"]);
}

#[test]
fn paths_are_confined_and_the_outside_is_reported() {
    let outside = tree(&[("o", "o\n")]);
    let dir = tree(&[("sub/a", "a\n")]);
    let real = dir.path().canonicalize().unwrap();
    for (path, place) in [
        ("../x", real.with_file_name("x")),
        ("sub/../x", real.join("x")),
        ("sub/../../x", real.with_file_name("x")),
        ("/usr/../x", "/x".into()),
    ] {
        let patch = verify(dir.path(), &format!("*** Add File: {path}\n+x")).unwrap();
        assert_eq!(patch.changes()[0].real, place, "{path}");
        assert_eq!(patch.outside_root().is_empty(), place.starts_with(&real), "{path}");
    }
    let error = verify(dir.path(), "*** Add File: none/../x\n+x").unwrap_err();
    assert!(error.to_string().contains("does not exist, so `..` after it leads nowhere"), "{error}");
    for path in [".", "sub/..", "sub/", "/", dir.path().to_str().unwrap()] {
        let error = verify(dir.path(), &format!("*** Add File: {path}\n+x")).unwrap_err();
        assert!(error.to_string().contains("names a directory"), "{error}");
    }
    let inside = dir.path().join("sub/a");
    let patch = verify(dir.path(), &format!("*** Delete File: {}", inside.display())).unwrap();
    assert_eq!(patch.changes()[0].path, PathBuf::from("sub/a"));
    let file = outside.path().canonicalize().unwrap().join("o");
    let patch = verify(dir.path(), &format!("*** Update File: sub/a\n*** Move to: {}2", file.display())).unwrap();
    assert_eq!(patch.outside_root(), [file.with_file_name("o2")]);
    let patch = verify(dir.path(), &format!("*** Delete File: {}", file.display())).unwrap();
    assert_eq!(patch.outside_root(), std::slice::from_ref(&file));
    assert_eq!(patch.changes()[0].path, file);
    assert!(matches!(verify(Path::new("relative"), "*** Delete File: a"), Err(PatchError::Root { .. })));
}

#[test]
fn links_are_refused_unless_they_stay_inside() {
    let outside = tree(&[("o", "o\n")]);
    let dir = tree(&[("real/a", "a\n"), ("t", "t\n")]);
    let at = |name: &str| dir.path().join(name);
    symlink("t", at("link")).unwrap();
    symlink("nowhere", at("dangling")).unwrap();
    symlink(outside.path(), at("out")).unwrap();
    symlink("real", at("in")).unwrap();
    for (body, expected) in [
        ("*** Update File: link\n@@\n-t\n+u", "refused to change link: it is a symbolic link to `t`"),
        ("*** Delete File: link", "refused to change link: it is a symbolic link to `t`"),
        ("*** Add File: dangling\n+x", "refused to change dangling: it is a symbolic link to `nowhere`"),
        ("*** Add File: dangling/x\n+x", "refused to change dangling/x: "),
        ("*** Add File: out/x\n+x", "refused to change out/x: "),
        ("*** Update File: t\n*** Move to: out/x", "refused to change out/x: "),
        ("*** Add File: t/x\n+x", "refused to change t/x: "),
    ] {
        let error = verify(dir.path(), body).expect_err(body);
        assert!(error.to_string().starts_with(expected), "{error}");
        assert_eq!(error.kind(), ErrorKind::Denied);
    }
    let patch = verify(dir.path(), "*** Update File: in/a\n@@\n-a\n+b").unwrap();
    assert_eq!(patch.changes()[0].path, PathBuf::from("real/a"), "the caller judges the real place");
    patch.apply().unwrap();
    assert_eq!(fs::read_to_string(at("real/a")).unwrap(), "b\n");
    assert_eq!(listing(outside.path()), ["o"]);
}

#[test]
fn what_is_no_writable_text_file_is_refused() {
    let dir = tree(&[("bin", "a\0b"), ("ro", "a\n"), ("d/x", "")]);
    let at = |name: &str| dir.path().join(name);
    fs::write(at("latin"), b"caf\xe9\n").unwrap();
    fs::File::create(at("huge")).unwrap().set_len(MAX_FILE_BYTES + 1).unwrap();
    fs::set_permissions(at("ro"), fs::Permissions::from_mode(0o444)).unwrap();
    let _socket = UnixListener::bind(at("sock")).unwrap();
    rustix::fs::mknodat(
        rustix::fs::CWD,
        at("fifo"),
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR,
        0,
    )
    .unwrap();
    for (name, expected) in [
        ("bin", "failed to read file to update bin: it is a binary file"),
        ("latin", "failed to read file to update latin: it is not UTF-8 text (first bad byte at offset 3)"),
        ("huge", "huge is too large: 10485761 bytes, the limit is 10485760"),
        ("ro", "refused to change ro: it is read-only (mode 0444)"),
        ("d", "refused to change d: it is a directory"),
        ("sock", "refused to change sock: it is not a regular file"),
        ("fifo", "refused to change fifo: it is not a regular file"),
        ("none", "failed to read file to update none: no such file"),
    ] {
        let error = verify(dir.path(), &format!("*** Update File: {name}\n@@\n-a\n+b")).expect_err(name);
        assert!(error.to_string().starts_with(expected), "{error}");
        assert!(verify(dir.path(), &format!("*** Delete File: {name}")).is_err(), "{name}");
    }
}

#[test]
fn modes_stay_setuid_goes_and_hard_links_part() {
    let dir = tree(&[("tool", "a\n"), ("kept", "k\n")]);
    let at = |name: &str| dir.path().join(name);
    fs::set_permissions(at("tool"), fs::Permissions::from_mode(0o4751)).unwrap();
    fs::hard_link(at("tool"), at("other")).unwrap();
    apply(dir.path(), "*** Update File: tool\n@@\n-a\n+b").unwrap();
    assert_eq!(at("tool").metadata().unwrap().mode() & 0o7777, 0o751);
    assert_eq!(fs::read_to_string(at("other")).unwrap(), "a\n");

    fs::hard_link(at("kept"), at("twin")).unwrap();
    let error = verify(dir.path(), "*** Update File: kept\n@@\n-k\n+1\n*** Update File: twin\n@@\n-k\n+2").unwrap_err();
    assert!(error.to_string().contains("are the same file on disk"), "{error}");
}

#[test]
fn a_file_that_changed_since_it_was_verified_stops_everything() {
    let body = "*** Add File: n/new\n+x\n*** Update File: a\n@@\n-a\n+A\n*** Delete File: b";
    type Meddle = fn(&Path);
    let meddles: [(&str, Meddle); 6] = [
        ("update target rewritten", |dir| fs::write(dir.join("a"), "other\n").unwrap()),
        ("delete target rewritten", |dir| fs::write(dir.join("b"), "other\n").unwrap()),
        ("delete target gone", |dir| fs::remove_file(dir.join("b")).unwrap()),
        ("same content, another file", |dir| {
            fs::write(dir.join("a2"), "a\n").unwrap();
            fs::rename(dir.join("a2"), dir.join("a")).unwrap();
        }),
        ("added path taken", |dir| {
            fs::create_dir(dir.join("n")).unwrap();
            fs::write(dir.join("n/new"), "mine\n").unwrap();
        }),
        ("added directory became a link", |dir| {
            fs::create_dir(dir.join("elsewhere")).unwrap();
            symlink("elsewhere", dir.join("n")).unwrap();
        }),
    ];
    for (name, meddle) in meddles {
        let dir = tree(&[("a", "a\n"), ("b", "b\n")]);
        let patch = verify(dir.path(), body).unwrap();
        meddle(dir.path());
        let before = listing(dir.path());
        let content = fs::read(dir.path().join("a")).unwrap();
        let error = patch.apply().expect_err(name);
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{name}: {error}");
        assert_eq!(listing(dir.path()), before, "{name}: staged files and new directories are gone");
        assert_eq!(fs::read(dir.path().join("a")).unwrap(), content, "{name}");
    }
}

#[test]
fn a_failure_while_staging_changes_nothing() {
    let dir = tree(&[("a", "a\n")]);
    let body = format!("*** Update File: a\n@@\n-a\n+A\n*** Add File: new/{}/f\n+x", "x".repeat(300));
    let error = apply(dir.path(), &body).unwrap_err();
    assert!(!error.to_string().contains("taken back"), "{error}");
    assert_eq!(listing(dir.path()), ["a"]);
    assert_eq!(fs::read_to_string(dir.path().join("a")).unwrap(), "a\n");
}

#[test]
fn a_large_and_repetitive_file_is_searched_in_linear_steps() {
    let mut old = "same\n".repeat(1_000_000);
    old.push_str("last\n");
    let mut chunk = String::from("@@\n");
    chunk.push_str(&" same\n".repeat(5_000));
    chunk.push_str("-last\n+end");
    let new = update(&old, &chunk).unwrap();
    assert!(new.ends_with("same\nend\n"));
    assert_eq!(new.len(), old.len() - 1);
}
