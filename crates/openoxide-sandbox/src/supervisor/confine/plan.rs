//! The order in which a command's view is put together, as a pure function of paths: what is attached, covered and pinned
//! where. Both means that make mounts follow it (`view.rs` by descriptor, `bubblewrap.rs` by path).
//!
//! A mount keeps the directory that it stands on from being renamed or removed, and says nothing of the directories above
//! it. Wherever those could be written, each of them between the writable root and the covered place is mounted on itself
//! too; otherwise a command would move one away and put another in its place, without the cover.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// What is done with a place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Act {
    /// Mounted on itself, as writable as it is.
    Pin,
    /// Mounted on itself, read-only.
    Seal,
    /// One of the writable roots, by its number, is attached.
    Attach(usize),
    /// Covered with something empty.
    Hide,
}

/// One step: a mount.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Mount {
    pub(super) path: PathBuf,
    pub(super) act: Act,
}

/// The steps for writable roots, places that are protected, and places that are hidden. Outer places come before inner ones,
/// so that each step finds its place in the view that the ones before have made.
pub(super) fn plan<'a>(
    roots: &[PathBuf],
    protected: impl IntoIterator<Item = &'a Path>,
    hidden: impl IntoIterator<Item = &'a Path>,
) -> Vec<Mount> {
    let mut acts = BTreeMap::new();
    for path in protected {
        acts.insert(path.to_owned(), Act::Seal);
    }
    // A root within, or at, a protected place is what the user named.
    for (number, path) in roots.iter().enumerate() {
        acts.insert(path.clone(), Act::Attach(number));
    }
    for path in hidden {
        acts.insert(path.to_owned(), Act::Hide);
    }
    let places: Vec<(PathBuf, Act)> = acts.iter().map(|(path, act)| (path.clone(), *act)).collect();
    for (path, act) in places {
        let above = path.parent().and_then(|parent| innermost(&acts, parent));
        match (act, above) {
            // What stands in a hidden place is out of sight, and in a sealed one sealed.
            (_, Some(Act::Hide)) | (Act::Seal, Some(Act::Seal)) => drop(acts.remove(&path)),
            (_, Some(Act::Attach(_) | Act::Pin)) => pin_above(&mut acts, &path),
            // Nobody can rename what lies in a place that is not written.
            (_, Some(Act::Seal) | None) => {}
        }
    }
    acts.into_iter().map(|(path, act)| Mount { path, act }).collect()
}

/// Pins the directories between a place and the root or pin that it lies in.
fn pin_above(acts: &mut BTreeMap<PathBuf, Act>, path: &Path) {
    for above in path.ancestors().skip(1) {
        if acts.contains_key(above) {
            return;
        }
        acts.insert(above.to_owned(), Act::Pin);
    }
}

/// What is done with the innermost place at or above a path.
fn innermost(acts: &BTreeMap<PathBuf, Act>, path: &Path) -> Option<Act> {
    path.ancestors().find_map(|above| acts.get(above).copied())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn planned(roots: &[&str], protected: &[&str], hidden: &[&str]) -> Vec<(String, Act)> {
        let roots: Vec<PathBuf> = roots.iter().map(PathBuf::from).collect();
        let paths = |paths: &'static [&'static str]| paths;
        let _ = paths;
        let steps = plan(&roots, protected.iter().map(Path::new), hidden.iter().map(Path::new));
        steps.into_iter().map(|step| (step.path.to_str().unwrap().to_owned(), step.act)).collect()
    }

    fn at(path: &str, act: Act) -> (String, Act) {
        (path.to_owned(), act)
    }

    #[test]
    fn a_plain_workspace_needs_no_pin() {
        assert_eq!(
            planned(&["/w"], &["/w/.git", "/w/.codex"], &["/home/.ssh"]),
            [
                at("/home/.ssh", Act::Hide),
                at("/w", Act::Attach(0)),
                at("/w/.codex", Act::Seal),
                at("/w/.git", Act::Seal)
            ]
        );
    }

    #[test]
    fn the_way_from_a_root_to_what_is_covered_is_pinned() {
        assert_eq!(
            planned(&["/tmp", "/tmp/x/proj"], &["/tmp/x/proj/a/b/.git"], &["/tmp/x/y/secret"]),
            [
                at("/tmp", Act::Attach(0)),
                at("/tmp/x", Act::Pin),
                at("/tmp/x/proj", Act::Attach(1)),
                at("/tmp/x/proj/a", Act::Pin),
                at("/tmp/x/proj/a/b", Act::Pin),
                at("/tmp/x/proj/a/b/.git", Act::Seal),
                at("/tmp/x/y", Act::Pin),
                at("/tmp/x/y/secret", Act::Hide),
            ]
        );
    }

    #[test]
    fn nothing_is_pinned_where_nothing_can_be_renamed() {
        // Below what is sealed, and outside of the roots.
        assert_eq!(
            planned(&["/w", "/w/.codex/a/work"], &["/w/.codex", "/w/.codex/b/.git"], &["/e/f/g"]),
            [
                at("/e/f/g", Act::Hide),
                at("/w", Act::Attach(0)),
                at("/w/.codex", Act::Seal),
                at("/w/.codex/a/work", Act::Attach(1)),
            ]
        );
    }

    #[test]
    fn what_is_hidden_stays_hidden() {
        assert_eq!(
            planned(
                &["/home"],
                &["/home/.openoxide", "/home/.ssh/.git"],
                &["/home/.openoxide", "/home/.ssh", "/home/.ssh/id"]
            ),
            [at("/home", Act::Attach(0)), at("/home/.openoxide", Act::Hide), at("/home/.ssh", Act::Hide)]
        );
    }

    #[test]
    fn neighbours_share_their_pins() {
        let steps = planned(&["/w"], &["/w/a/b/.git", "/w/a/c/.git", "/w/a/.git"], &[]);
        let pins: Vec<_> = steps.iter().filter(|(_, act)| *act == Act::Pin).map(|(path, _)| path.as_str()).collect();
        assert_eq!(pins, ["/w/a", "/w/a/b", "/w/a/c"]);
    }

    proptest::proptest! {
        /// Whatever the paths: each place comes after all above it, and every directory between a root and a place that is
        /// attached or covered in it has a mount of its own.
        #[test]
        fn every_way_is_covered_in_order(
            roots in proptest::collection::btree_set("(/[ab]){1,3}", 1..4),
            protected in proptest::collection::vec("(/[abc]){1,5}", 0..6),
            hidden in proptest::collection::vec("(/[abc]){1,5}", 0..3),
        ) {
            let roots: Vec<PathBuf> = roots.iter().map(PathBuf::from).collect();
            let steps = plan(&roots, protected.iter().map(Path::new), hidden.iter().map(Path::new));
            let act_at = |path: &Path| steps.iter().find(|step| step.path == path).map(|step| step.act);
            for (number, step) in steps.iter().enumerate() {
                proptest::prop_assert!(steps[number + 1..].iter().all(|later| !step.path.starts_with(&later.path)));
                for above in step.path.ancestors().skip(1).take_while(|above| above.parent().is_some()) {
                    let reached = above.ancestors().find_map(act_at);
                    let is_open = matches!(reached, Some(Act::Attach(_) | Act::Pin));
                    proptest::prop_assert!(!is_open || act_at(above).is_some(), "{above:?} in {steps:?}");
                    proptest::prop_assert!(reached != Some(Act::Hide));
                }
            }
        }
    }
}
