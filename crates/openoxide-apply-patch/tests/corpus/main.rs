//! Real and made-up changes of files in several languages, each written in the ways in which models write patches. Whatever
//! fits in one way is applied exactly; what fits in none or several is refused. An oracle that tries everything says which.

#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test fails where a file of its own is missing, and prints its figures"
)]

mod case;
mod oracle;
mod spellings;

use std::{collections::BTreeMap, fs, path::Path};

use case::{Case, lines};
use oracle::Reading;
use spellings::{SPELLINGS, Spelled};

/// What became of the patches of one spelling.
#[derive(Debug, Default, Clone, Copy)]
struct Score {
    exact: usize,
    wrong: usize,
    refused_though_unique: usize,
    refused_rightly: usize,
    /// Applied, and right, although the oracle found none or several.
    lucky: usize,
}

impl Score {
    fn add(&mut self, other: Self) {
        self.exact += other.exact;
        self.wrong += other.wrong;
        self.refused_though_unique += other.refused_though_unique;
        self.refused_rightly += other.refused_rightly;
        self.lucky += other.lucky;
    }
}

/// Applies a text to a tree with one file: the file's new content, or why not.
fn apply(case: &Case, old: &str, patch: &str) -> Result<String, String> {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join(&case.path);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(&path, old).unwrap();
    let patch = openoxide_apply_patch::parse(patch).map_err(|error| error.to_string())?;
    let verified = patch.verify(dir.path()).map_err(|error| error.to_string())?;
    match verified.changes() {
        [change] if change.real == path.canonicalize().unwrap() => Ok(change.new.clone().unwrap_or_default()),
        others => Ok(format!("{} other changes", others.len())),
    }
}

fn judge(case: &Case, spelled: &Spelled) -> (Score, Option<String>) {
    let (old, new) = spelled.file.as_ref().map_or((&case.old, &case.new), |(old, new)| (old, new));
    let reading = Reading { hunks: &spelled.hunks, anchors: &spelled.anchors, key: spelled.key };
    let is_unique = match (spelled.is_whole, spelled.is_damaged) {
        (true, _) => true,
        (_, true) => false,
        _ => oracle::results(&case.old, &reading) == 1,
    };
    let mut score = Score::default();
    let outcome = apply(case, old, &spelled.text);
    let note = match (&outcome, is_unique) {
        (Ok(text), true) if text == new => {
            score.exact = 1;
            None
        }
        (Ok(text), false) if text == new => {
            score.lucky = 1;
            None
        }
        (Ok(text), _) => {
            score.wrong = 1;
            let differs = lines(text).iter().zip(lines(new)).position(|(a, b)| *a != b);
            let there = differs.map(|at| (at + 1, lines(text)[at].to_owned(), lines(new)[at].to_owned()));
            Some(format!("wrong: {there:?}"))
        }
        (Err(error), true) => {
            score.refused_though_unique = 1;
            Some(format!("refused: {error}"))
        }
        (Err(_), false) => {
            score.refused_rightly = 1;
            None
        }
    };
    (score, note)
}

fn run(cases: &[Case]) -> (BTreeMap<&'static str, Score>, Vec<String>) {
    let (mut scores, mut notes) = (BTreeMap::<&str, Score>::new(), Vec::new());
    for (name, spelling) in SPELLINGS {
        for case in cases {
            let Some(spelled) = spelling(case) else { continue };
            let (score, note) = judge(case, &spelled);
            scores.entry(name).or_default().add(score);
            notes.extend(note.map(|note| format!("{name} / {}: {note}", case.name)));
        }
    }
    (scores, notes)
}

#[test]
fn what_fits_in_one_way_is_applied_and_nothing_else_is() {
    // Another corpus, a directory of `NAME.old` and `NAME.new`, can be named to look at its figures.
    #[expect(clippy::disallowed_methods, reason = "a test's own switch")]
    let other = std::env::var("PATCH_CORPUS").ok();
    let own = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus/cases");
    let cases = case::load(other.as_deref().map_or(&own, Path::new));
    assert!(cases.len() >= 20, "{} cases", cases.len());
    let (scores, notes) = run(&cases);
    let mut all = Score::default();
    println!("{:<40} exact wrong refused-though-unique refused-rightly lucky", "spelling");
    for (name, score) in &scores {
        let Score { exact, wrong, refused_though_unique, refused_rightly, lucky } = score;
        println!("{name:<40} {exact:>5} {wrong:>5} {refused_though_unique:>22} {refused_rightly:>15} {lucky:>5}");
        all.add(*score);
    }
    println!("{} cases, {} spellings: {all:?}", cases.len(), scores.len());
    notes.iter().for_each(|note| println!("{note}"));
    assert!(scores.len() >= 17, "{} spellings", scores.len());
    assert_eq!(all.wrong, 0, "{notes:#?}");
    let unique = all.exact + all.refused_though_unique;
    assert!(all.exact * 100 >= unique * 95, "{} of {unique} exact: {notes:#?}", all.exact);
}
