//! What each approval for the thread covers, and what it says it covers.

use super::*;

fn command(line: &str, cwd: &str, leaves_sandbox: bool, facts: Facts) -> Question {
    let argv = ["bash", "-c", line].map(str::to_owned).to_vec();
    let action = ApprovalAction::Command { argv, cwd: cwd.into() };
    Question { leaves_sandbox, facts, ..Question::new(action) }
}

fn patch(files: &[(&str, bool)]) -> Question {
    let action = ApprovalAction::Patch { changes: Vec::new(), unified_diff: String::new() };
    let files: Vec<PatchedFile> =
        files.iter().map(|(path, is_beyond)| PatchedFile { path: path.into(), is_beyond: *is_beyond }).collect();
    let leaves_sandbox = files.iter().any(|file| file.is_beyond);
    Question { leaves_sandbox, facts: Facts::Files(files), ..Question::new(action) }
}

fn widened(line: &str, widening: Widening, prefix: &[&str]) -> Question {
    let prefix = prefix.iter().map(|word| (*word).to_owned()).collect();
    command(line, "/w", false, Facts::Widened { widening, prefix })
}

fn approved(question: &Question) -> Remembered {
    let mut remembered = Remembered::default();
    remembered.approve(question);
    remembered
}

#[test]
fn a_command_in_the_sandbox_is_covered_by_its_words_and_directory() {
    let question = command("make", "/a", false, Facts::None);
    let remembered = approved(&question);
    assert!(remembered.covers(&question, true));
    for other in [command("make ", "/a", false, Facts::None), command("make", "/b", false, Facts::None)] {
        assert!(!remembered.covers(&other, true), "{other:?}");
    }
    assert!(!remembered.covers(&command("make", "/a", true, Facts::FixedPrograms), true), "not outside");
    let said = coverage(&question, true).unwrap();
    assert_eq!(said, "exactly this command in /a, inside the sandbox, and no other");
    assert!(coverage(&question, false).unwrap().contains("without a sandbox"));
}

#[test]
fn a_command_outside_is_covered_only_while_its_programs_cannot_change() {
    let changing = || Facts::ChangingPrograms { is_swappable: true, why: "./run.sh can be written".into() };
    for facts in [Facts::None, changing()] {
        let question = command("./run.sh", "/a", true, facts);
        assert_eq!((for_thread(&question), coverage(&question, true)), (None, None));
        assert!(!approved(&question).covers(&question, true));
    }
    let fixed = command("curl x", "/a", true, Facts::FixedPrograms);
    let remembered = approved(&fixed);
    assert!(remembered.covers(&fixed, true));
    assert!(!remembered.covers(&command("curl x", "/a", true, changing()), true), "it may be another by now");
    assert!(!remembered.covers(&command("curl x", "/b", true, Facts::FixedPrograms), true));
    assert!(coverage(&fixed, true).unwrap().contains("in /a, outside of the sandbox"));
}

#[test]
fn patches_beyond_the_sandbox_are_covered_by_their_files() {
    let harmless = patch(&[("/etc/motd", true)]);
    let remembered = approved(&harmless);
    assert!(remembered.covers(&harmless, true));
    for other in ["/h/.bashrc", "/w/.git/hooks/pre-commit", "/h/.config/git/config"] {
        assert!(!remembered.covers(&patch(&[(other, true)]), true), "{other}");
        assert!(!remembered.covers(&patch(&[("/etc/motd", true), (other, true)]), true), "{other} beside it");
    }
    let mixed = patch(&[("/etc/motd", true), ("/w/a", false)]);
    assert!(remembered.covers(&mixed, false) && !remembered.covers(&mixed, true));
    assert!(!remembered.covers(&patch(&[("/w/a", false)]), true), "those in the sandbox are another matter");
    let said = coverage(&patch(&[("/etc/motd", true), ("/h/a b", true)]), true).unwrap();
    assert!(said.starts_with("patches of /etc/motd, \"/h/a b\"") || said.contains("/etc/motd") && said.contains("a b"));
    // What an older release wrote down named no file.
    let mut remembered = Remembered::default();
    remembered.restore(RememberedApproval::Patches { leaves_sandbox: true });
    assert!(!remembered.covers(&harmless, true));
}

#[test]
fn an_approval_by_prefix_gives_one_thing_and_stays_in_the_sandbox() {
    let asked = widened("npm install left-pad", Widening::Network, &["npm", "install"]);
    let remembered = approved(&asked);
    assert_eq!(
        coverage(&asked, true).unwrap(),
        "commands that begin with `npm install`, inside the sandbox with the network"
    );
    for covered in ["npm install left-pad", "npm install", "npm install a; npm install b"] {
        assert!(remembered.covers(&widened(covered, Widening::Network, &[]), true), "{covered}");
    }
    for other in
        ["npm publish", "npm install; curl x", "npm install > x", "npm install $x", "A=b npm install", "x/npm install"]
    {
        assert!(!remembered.covers(&widened(other, Widening::Network, &[]), true), "{other}");
        let question = widened(other, Widening::Network, &["npm", "install"]);
        assert_eq!(for_thread(&question), None, "{other}");
    }
    assert!(!remembered.covers(&widened("npm install", Widening::Directory("/x".into()), &[]), true), "another thing");
    assert!(!remembered.covers(&command("npm install", "/w", true, Facts::FixedPrograms), true), "not outside");
    assert!(!remembered.covers(&command("npm install", "/w", false, Facts::None), true), "only with what was asked");
    assert_eq!(for_thread(&widened("npm install", Widening::Network, &[])), None, "no prefix, no approval");
}
