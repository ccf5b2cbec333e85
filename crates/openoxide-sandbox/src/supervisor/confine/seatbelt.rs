//! The Seatbelt profile of a confinement, for macOS: a pure function from [`Confinement`] to text and parameters, and the
//! words that run a command under it. It reads nothing and starts nothing, so that every system's tests can look at it.
//!
//! Paths never become part of the text: they travel as parameters, so that no file name can change a rule. Of the rules
//! that match, the last one counts; so outer roots come before inner ones, and what is denied comes after what is allowed.

use std::ffi::CString;
use std::fmt::Write as _;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use crate::policy::PROTECTED_NAMES;
use crate::{Confinement, SandboxMode};

/// The program that applies a profile. It is named in full: a `PATH` of the command's must not choose another.
pub(super) const PROGRAM: &str = "/usr/bin/sandbox-exec";

/// What ordinary programs need and what reaches nobody else. `kern.proc*` is left out: it tells the arguments and
/// environments of other processes.
const BASE: &str = r#"(version 1)
(deny default)
(allow process-exec)
(allow process-fork)
(allow signal (target same-sandbox))
(allow process-info* (target same-sandbox))
(allow sysctl-read
  (sysctl-name-prefix "hw.")
  (sysctl-name-prefix "machdep.cpu.")
  (sysctl-name "kern.argmax")
  (sysctl-name "kern.boottime")
  (sysctl-name "kern.hostname")
  (sysctl-name "kern.iossupportversion")
  (sysctl-name "kern.maxfilesperproc")
  (sysctl-name "kern.maxproc")
  (sysctl-name "kern.ngroups")
  (sysctl-name "kern.osproductversion")
  (sysctl-name "kern.osrelease")
  (sysctl-name "kern.ostype")
  (sysctl-name "kern.osvariant_status")
  (sysctl-name "kern.osversion")
  (sysctl-name "kern.secure_kernel")
  (sysctl-name "kern.usrstack64")
  (sysctl-name "kern.version")
  (sysctl-name "sysctl.proc_cputype")
  (sysctl-name "vm.loadavg"))
(allow mach-lookup
  (global-name "com.apple.logd")
  (global-name "com.apple.system.notification_center")
  (global-name "com.apple.system.opendirectoryd.libinfo"))
(allow ipc-posix-sem)
(allow pseudo-tty)
(allow file-ioctl (regex #"^/dev/(tty[a-z0-9]*|ptmx)$"))
(allow file-read*)
(allow file-write* (regex #"^/dev/(tty[a-z0-9]*|ptmx)$"))
(allow file-write-data (literal "/dev/null") (literal "/dev/zero") (literal "/dev/dtracehelper"))
"#;

/// The rules where the network is allowed. Without them not even the loopback works: macOS has no network of its own for
/// a command, and the host's loopback has the host's services.
const NETWORK: &str = r#"(allow network*)
(allow system-socket)
(allow mach-lookup
  (global-name "com.apple.SystemConfiguration.configd")
  (global-name "com.apple.trustd.agent"))
"#;

/// A profile and what its parameters stand for.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Profile {
    pub(super) text: String,
    pub(super) parameters: Vec<(String, PathBuf)>,
}

/// The profile of a confinement; none for full access, which confines nothing.
pub(super) fn profile(confinement: &Confinement) -> Option<Profile> {
    if confinement.mode == SandboxMode::DangerFullAccess {
        return None;
    }
    let mut text = BASE.to_owned();
    let mut parameters = Vec::new();
    for (number, root) in confinement.writable.iter().enumerate() {
        let name = format!("WRITABLE_{number}");
        let pattern = protected_beneath(&root.path);
        let _ = write!(
            text,
            "(allow file-write* (subpath (param \"{name}\")))\n\
             (deny file-write* (require-all (subpath (param \"{name}\")) (regex #\"{pattern}\")))\n",
        );
        parameters.push((name, root.path.clone()));
    }
    for (number, path) in confinement.hidden.iter().enumerate() {
        let name = format!("HIDDEN_{number}");
        let _ = writeln!(text, "(deny file-read* file-write* (subpath (param \"{name}\")))");
        parameters.push((name, path.clone()));
    }
    if confinement.network {
        text.push_str(NETWORK);
    }
    Some(Profile { text, parameters })
}

/// Matches every path with a protected name at any depth beneath the root, in any case of letters. Only the number of
/// the root's components goes into it, so that a root that lies beneath such a name itself can be written.
fn protected_beneath(root: &Path) -> String {
    let depth = root.components().count().saturating_sub(1);
    let names = PROTECTED_NAMES.map(|name| name.chars().map(either_case).collect::<String>());
    format!("^{}(/[^/]+)*/({})(/|$)", "/[^/]+".repeat(depth), names.join("|"))
}

fn either_case(letter: char) -> String {
    match letter {
        '.' => r"\.".to_owned(),
        letter => format!("[{letter}{}]", letter.to_ascii_uppercase()),
    }
}

/// The words that come before the command's own. None where a path holds a NUL, which no path does.
pub(super) fn wrapper(profile: &Profile) -> Option<Vec<CString>> {
    let parameters = profile
        .parameters
        .iter()
        .map(|(name, path)| CString::new([b"-D", name.as_bytes(), b"=", path.as_os_str().as_bytes()].concat()));
    let words = [PROGRAM, "-p", &profile.text].map(CString::new).into_iter();
    words.chain(parameters).chain([CString::new("--")]).collect::<Result<_, _>>().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::WritableRoot;

    fn confinement(mode: SandboxMode, workspace: &str) -> Confinement {
        let is_writable = mode == SandboxMode::WorkspaceWrite;
        Confinement {
            writable: [("/private/tmp", false), (workspace, true)]
                .into_iter()
                .filter(|_| is_writable)
                .map(|(path, is_workspace)| WritableRoot { path: path.into(), is_workspace, is_git: false, id: None })
                .collect(),
            hidden: vec!["/Users/ada/.openoxide".into(), "/Users/ada/.ssh".into()],
            ..Confinement::new(mode)
        }
    }

    fn text_of(confinement: &Confinement) -> String {
        profile(confinement).expect("a confined mode").text
    }

    #[test]
    fn full_access_has_no_profile() {
        assert_eq!(profile(&confinement(SandboxMode::DangerFullAccess, "/w")), None);
    }

    #[test]
    fn the_profile_of_read_only_is_as_reviewed() {
        insta::assert_snapshot!(text_of(&confinement(SandboxMode::ReadOnly, "/Users/ada/work")));
    }

    #[test]
    fn the_profile_of_workspace_write_is_as_reviewed() {
        insta::assert_snapshot!(text_of(&confinement(SandboxMode::WorkspaceWrite, "/Users/ada/work")));
    }

    #[test]
    fn the_network_is_there_only_where_it_is_allowed() {
        let mut confinement = confinement(SandboxMode::WorkspaceWrite, "/Users/ada/work");
        assert!(!text_of(&confinement).contains("network"));
        confinement.network = true;
        assert!(text_of(&confinement).ends_with(NETWORK));
    }

    #[test]
    fn a_file_name_cannot_change_a_rule() {
        let plain = confinement(SandboxMode::WorkspaceWrite, "/Users/ada/work");
        for hostile in [r#"/Users/ada/") (allow default) (""#, "/Users/ada/a\nb", r"/Users/ada/\1(", "/Users/ada/-D"] {
            let other = confinement(SandboxMode::WorkspaceWrite, hostile);
            assert_eq!(text_of(&other), text_of(&plain), "{hostile}");
            let words = wrapper(&profile(&other).unwrap()).unwrap();
            assert!(words.contains(&CString::new(format!("-DWRITABLE_1={hostile}")).unwrap()), "{words:?}");
        }
    }

    #[test]
    fn parameters_and_brackets_are_in_order() {
        let profile = profile(&confinement(SandboxMode::WorkspaceWrite, "/w")).unwrap();
        for (name, path) in &profile.parameters {
            assert!(profile.text.contains(&format!("(param \"{name}\")")), "{name} is not used");
            assert!(!profile.text.contains(path.to_str().unwrap()), "{path:?} is in the text");
        }
        assert_eq!(profile.text.matches("(param ").count(), 2 * 2 + 2, "each root twice, each hidden path once");
        let (mut depth, mut in_string) = (0_i32, false);
        for c in profile.text.chars() {
            match c {
                '"' => in_string = !in_string,
                '(' if !in_string => depth += 1,
                ')' if !in_string => depth -= 1,
                _ => {}
            }
            assert!(depth >= 0);
        }
        assert!(depth == 0 && !in_string);
    }

    #[test]
    fn protected_names_are_matched_beneath_the_root_alone() {
        assert_eq!(
            protected_beneath(Path::new("/a/.git")),
            r"^/[^/]+/[^/]+(/[^/]+)*/(\.[gG][iI][tT]|\.[oO][pP][eE][nN][oO][xX][iI][dD][eE]|\.[cC][oO][dD][eE][xX]|\.[aA][gG][eE][nN][tT][sS])(/|$)"
        );
    }
}
