//! The most that callers of this process may ask for, as its operator set it. Defaults are lowered to it; what a caller
//! asks for beyond it is refused by name, never lowered in silence. Pure but for resolving directories.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use openoxide_sandbox::{SandboxMode, SandboxPolicy, WorkspaceWrite};

use crate::{ApprovalPolicy, CoreError, ThreadConfig};

/// All modes, the strictest first.
const MODES: [SandboxMode; 3] = [SandboxMode::ReadOnly, SandboxMode::WorkspaceWrite, SandboxMode::DangerFullAccess];

/// What may be asked for. Several sources can narrow it, and each only narrows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ceiling {
    sandboxes: Narrowed<SandboxMode>,
    policies: Narrowed<ApprovalPolicy>,
    /// Directories below which threads may work, without links; none means anywhere.
    roots: Option<Narrowed<PathBuf>>,
    /// Why nothing may reach the network of this machine; none where it may.
    no_host_network: Option<Arc<str>>,
}

/// Values that are left, and who took the others away.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Narrowed<T> {
    left: Vec<T>,
    by: String,
}

impl<T: Copy + PartialEq> Narrowed<T> {
    fn all(left: &[T]) -> Self {
        Self { left: left.to_vec(), by: String::new() }
    }

    fn narrow(&mut self, allowed: &[T], by: &str) {
        let before = self.left.len();
        self.left.retain(|value| allowed.contains(value));
        if self.left.len() < before {
            by.clone_into(&mut self.by);
        }
    }
}

impl Default for Ceiling {
    fn default() -> Self {
        Self {
            sandboxes: Narrowed::all(&MODES),
            policies: Narrowed::all(&ApprovalPolicy::ALL),
            roots: None,
            no_host_network: None,
        }
    }
}

impl Ceiling {
    /// Leaves these modes; `by` says who, as a person would.
    pub fn limit_sandboxes(&mut self, allowed: &[SandboxMode], by: &str) {
        self.sandboxes.narrow(allowed, by);
    }

    /// Leaves modes up to this one.
    pub fn limit_sandbox(&mut self, most: SandboxMode, by: &str) {
        self.sandboxes.narrow(up_to(&MODES, most), by);
    }

    /// Leaves these policies.
    pub fn limit_policies(&mut self, allowed: &[ApprovalPolicy], by: &str) {
        self.policies.narrow(allowed, by);
    }

    /// Leaves policies up to this one, where one that asks less is more.
    pub fn limit_policy(&mut self, most: ApprovalPolicy, by: &str) {
        self.policies.narrow(up_to(&ApprovalPolicy::ALL, most), by);
    }

    /// Leaves directories that lie below one of these.
    ///
    /// # Errors
    /// One that does not exist.
    pub fn limit_roots(&mut self, allowed: &[PathBuf], by: &str) -> Result<(), CoreError> {
        let real = |path: &PathBuf| {
            path.canonicalize().map_err(|source| CoreError::CwdUnusable { path: path.clone(), source })
        };
        let allowed = allowed.iter().map(real).collect::<Result<Vec<_>, _>>()?;
        let left = match &self.roots {
            None => allowed,
            Some(held) => {
                let inner = |these: &[PathBuf], those: &[PathBuf]| -> Vec<PathBuf> {
                    these.iter().filter(|this| those.iter().any(|that| this.starts_with(that))).cloned().collect()
                };
                let mut left = inner(&held.left, &allowed);
                left.extend(inner(&allowed, &held.left));
                left.sort();
                left.dedup();
                left
            }
        };
        self.roots = Some(Narrowed { left, by: by.to_owned() });
        Ok(())
    }

    /// Lets nothing reach the network of this machine, whatever is configured, asked for or approved. `why` is a clause.
    ///
    /// # Errors
    /// What is left reaches it: full access is still allowed, or `workspace_write` opens the network.
    pub fn refuse_host_network(&mut self, why: &str, workspace_write: &WorkspaceWrite) -> Result<(), CoreError> {
        let refused = |what| Err(CoreError::HostNetworkRefused { what, why: why.into() });
        self.no_host_network = Some(why.into());
        match self.sandboxes.left.contains(&SandboxMode::DangerFullAccess) {
            true => refused("the sandbox mode `danger-full-access`"),
            false if workspace_write.network_access => refused("`sandbox_workspace_write.network_access = true`"),
            false => Ok(()),
        }
    }

    /// Why nothing may reach the network of this machine; none where it may.
    #[must_use]
    pub fn no_host_network(&self) -> Option<Arc<str>> {
        self.no_host_network.clone()
    }

    /// Refuses a command that would reach further than any may.
    pub(crate) fn check_command(&self, policy: &SandboxPolicy) -> Result<(), CoreError> {
        match &self.no_host_network {
            Some(why) if policy.reaches_network() => {
                Err(CoreError::HostNetworkRefused { what: "the command", why: why.to_string() })
            }
            _ => Ok(()),
        }
    }

    /// Whether anything is left of each.
    ///
    /// # Errors
    /// What nothing is left of.
    pub fn check_not_empty(&self) -> Result<(), CoreError> {
        let nothing = |what, by: &String| Err(CoreError::NothingAllowed { what, by: by.clone() });
        match self {
            Self { sandboxes, .. } if sandboxes.left.is_empty() => nothing("sandbox mode", &sandboxes.by),
            Self { policies, .. } if policies.left.is_empty() => nothing("approval policy", &policies.by),
            Self { roots: Some(roots), .. } if roots.left.is_empty() => nothing("directory", &roots.by),
            _ => Ok(()),
        }
    }

    /// Directories below which threads may work, without links; none means anywhere.
    #[must_use]
    pub fn roots(&self) -> Option<&[PathBuf]> {
        self.roots.as_ref().map(|roots| roots.left.as_slice())
    }

    /// Sandbox modes that may be asked for, the strictest first.
    #[must_use]
    pub fn sandboxes(&self) -> &[SandboxMode] {
        &self.sandboxes.left
    }

    /// Approval policies that may be asked for, the strictest first.
    #[must_use]
    pub fn policies(&self) -> &[ApprovalPolicy] {
        &self.policies.left
    }

    /// The default, or the most that is allowed where that is less.
    #[must_use]
    pub fn lowered_sandbox(&self, default: SandboxMode) -> SandboxMode {
        lowered(&MODES, &self.sandboxes.left, default)
    }

    /// The default, or the most that is allowed where that is less.
    #[must_use]
    pub fn lowered_policy(&self, default: ApprovalPolicy) -> ApprovalPolicy {
        lowered(&ApprovalPolicy::ALL, &self.policies.left, default)
    }

    /// Refuses what goes beyond. A thread that only reads in a read-only sandbox asks for nothing but its directory.
    pub(crate) fn check(&self, config: &ThreadConfig) -> Result<(), CoreError> {
        self.check_directory(&config.cwd)?;
        if config.read_only_tools {
            return Ok(());
        }
        let words = |words: Vec<&str>| words.join(", ");
        if !self.sandboxes.left.contains(&config.sandbox) {
            return Err(CoreError::BeyondCeiling {
                what: "sandbox mode",
                asked: config.sandbox.as_str(),
                allowed: words(self.sandboxes.left.iter().map(|mode| mode.as_str()).collect()),
                by: self.sandboxes.by.clone(),
            });
        }
        if !self.policies.left.contains(&config.approval_policy) {
            return Err(CoreError::BeyondCeiling {
                what: "approval policy",
                asked: config.approval_policy.as_str(),
                allowed: words(self.policies.left.iter().map(|policy| policy.as_str()).collect()),
                by: self.policies.by.clone(),
            });
        }
        Ok(())
    }

    /// Whether threads may work in this directory, so that those who list threads leave out the others.
    ///
    /// # Errors
    /// It lies elsewhere than is allowed, or cannot be resolved.
    pub fn check_directory(&self, cwd: &Path) -> Result<(), CoreError> {
        let Some(roots) = &self.roots else { return Ok(()) };
        let real = cwd.canonicalize().map_err(|source| CoreError::CwdUnusable { path: cwd.into(), source })?;
        if roots.left.iter().any(|root| real.starts_with(root)) {
            return Ok(());
        }
        let allowed: Vec<String> = roots.left.iter().map(|root| root.display().to_string()).collect();
        Err(CoreError::CwdNotAllowed { path: cwd.into(), allowed: allowed.join(", "), by: roots.by.clone() })
    }
}

fn up_to<T: PartialEq>(all: &[T], most: T) -> &[T] {
    let end = all.iter().position(|value| *value == most).map_or(0, |at| at + 1);
    &all[..end]
}

fn lowered<T: Copy + PartialEq>(all: &[T], left: &[T], default: T) -> T {
    let below = up_to(all, default).iter().rev().find(|value| left.contains(value));
    below.or(left.first()).copied().unwrap_or(all[0])
}

#[cfg(test)]
mod tests {
    use super::*;
    use ApprovalPolicy::{Never, OnFailure, OnRequest, Untrusted};
    use SandboxMode::{DangerFullAccess, ReadOnly};

    fn config(cwd: &Path, sandbox: SandboxMode, approval_policy: ApprovalPolicy) -> ThreadConfig {
        ThreadConfig::new(cwd.into(), "m".into(), sandbox, approval_policy)
    }

    #[test]
    fn sources_only_narrow_and_defaults_follow() {
        let mut ceiling = Ceiling::default();
        ceiling.limit_sandbox(SandboxMode::WorkspaceWrite, "--max-sandbox");
        ceiling.limit_sandbox(DangerFullAccess, "mcp_server.max_sandbox");
        ceiling.limit_policies(&[Untrusted, OnFailure], "the requirements");
        assert_eq!(ceiling.sandboxes(), [ReadOnly, SandboxMode::WorkspaceWrite]);
        assert_eq!(ceiling.policies(), [Untrusted, OnFailure]);
        assert_eq!(ceiling.lowered_sandbox(DangerFullAccess), SandboxMode::WorkspaceWrite);
        assert_eq!(ceiling.lowered_policy(OnRequest), Untrusted);
        assert_eq!(ceiling.lowered_policy(Never), OnFailure);
        assert!(ceiling.check_not_empty().is_ok());
        ceiling.limit_policy(Untrusted, "a");
        ceiling.limit_policies(&[Never], "b");
        let error = ceiling.check_not_empty().unwrap_err().to_string();
        assert!(error.contains("approval policy") && error.contains('b'), "{error}");
        // A default that is stricter than all that is left is raised to the strictest.
        let mut ceiling = Ceiling::default();
        ceiling.limit_sandboxes(&[DangerFullAccess], "c");
        assert_eq!(ceiling.lowered_sandbox(ReadOnly), DangerFullAccess);
    }

    #[test]
    fn what_goes_beyond_is_refused_with_the_limit_and_who_set_it() {
        let dir = tempfile::tempdir().unwrap();
        let mut ceiling = Ceiling::default();
        ceiling.limit_sandbox(ReadOnly, "--max-sandbox");
        ceiling.limit_policy(OnRequest, "--max-approval");
        assert!(ceiling.check(&config(dir.path(), ReadOnly, OnRequest)).is_ok());
        let error = ceiling.check(&config(dir.path(), SandboxMode::WorkspaceWrite, OnRequest)).unwrap_err().to_string();
        for part in ["`workspace-write`", "allowed: read-only", "--max-sandbox"] {
            assert!(error.contains(part), "{error}");
        }
        let error = ceiling.check(&config(dir.path(), ReadOnly, Never)).unwrap_err().to_string();
        assert!(error.contains("untrusted, on-request") && error.contains("--max-approval"), "{error}");
        let query = ThreadConfig { read_only_tools: true, ..config(dir.path(), ReadOnly, Never) };
        assert!(ceiling.check(&query).is_ok());
    }

    #[test]
    fn nothing_reaches_the_host_network_where_that_is_refused() {
        let closed = WorkspaceWrite::default();
        let open = WorkspaceWrite { network_access: true, ..WorkspaceWrite::default() };
        let refuse =
            |ceiling: &mut Ceiling, write: &WorkspaceWrite| ceiling.refuse_host_network("a listener is open", write);
        let error = refuse(&mut Ceiling::default(), &closed).unwrap_err().to_string();
        assert!(error.contains("danger-full-access") && error.contains("a listener is open"), "{error}");
        let mut ceiling = Ceiling::default();
        ceiling.limit_sandbox(SandboxMode::WorkspaceWrite, "--max-sandbox");
        assert!(refuse(&mut ceiling.clone(), &open).unwrap_err().to_string().contains("network_access"));
        assert!(ceiling.check_command(&SandboxPolicy::full_access()).is_ok());
        refuse(&mut ceiling, &closed).unwrap();
        let policy =
            |mode, workspace_write: &WorkspaceWrite| SandboxPolicy::new(mode, "/".into(), workspace_write.clone());
        for (policy, passes) in [
            (SandboxPolicy::full_access(), false),
            (policy(SandboxMode::WorkspaceWrite, &open), false),
            (policy(SandboxMode::WorkspaceWrite, &closed), true),
            (policy(SandboxMode::ReadOnly, &open), true),
        ] {
            assert_eq!(ceiling.check_command(&policy).is_ok(), passes, "{policy:?}");
        }
    }

    #[test]
    fn a_directory_outside_is_refused_whatever_links_lead_there() {
        let dir = tempfile::tempdir().unwrap();
        for name in ["in/deep", "in2", "out"] {
            std::fs::create_dir_all(dir.path().join(name)).unwrap();
        }
        std::os::unix::fs::symlink(dir.path().join("out"), dir.path().join("in/link")).unwrap();
        let mut ceiling = Ceiling::default();
        ceiling.limit_roots(&[dir.path().join("in")], "--allow-root").unwrap();
        let check = |ceiling: &Ceiling, name: &str| ceiling.check(&config(&dir.path().join(name), ReadOnly, Never));
        assert!(check(&ceiling, "in").is_ok() && check(&ceiling, "in/deep").is_ok());
        for outside in ["out", "in/link", "in2", "in/../out"] {
            let error = check(&ceiling, outside).unwrap_err();
            assert!(matches!(error, CoreError::CwdNotAllowed { .. }), "{outside}: {error}");
        }
        ceiling.limit_roots(&[dir.path().join("in/deep"), dir.path().join("out")], "the requirements").unwrap();
        assert!(
            check(&ceiling, "in/deep").is_ok() && check(&ceiling, "in").is_err() && check(&ceiling, "out").is_err()
        );
    }
}
