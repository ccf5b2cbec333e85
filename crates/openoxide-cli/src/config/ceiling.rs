//! The operator's ceiling, put together from the command line, the configuration file and the requirements of the machine,
//! `/etc/openoxide/requirements.toml`. Each source only narrows.
//!
//! The requirements are the administrator's: their path cannot be changed by the user, and a file that cannot be read or
//! trusted stops the program, so that a limit is never lost in silence.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use openoxide_core::{ApprovalPolicy, Ceiling, SandboxMode};
use serde::Deserialize;

/// Where the machine's requirements are.
pub(crate) const REQUIREMENTS: &str = "/etc/openoxide/requirements.toml";

/// Limits, as the command line and `[mcp_server]` give them.
#[derive(Debug, Clone, Default)]
pub(crate) struct Limits {
    pub(crate) max_sandbox: Option<SandboxMode>,
    pub(crate) max_approval: Option<ApprovalPolicy>,
    pub(crate) allow_roots: Vec<PathBuf>,
}

/// How the three limits are called where they stand.
pub(crate) struct Names {
    pub(crate) sandbox: &'static str,
    pub(crate) approval: &'static str,
    pub(crate) roots: &'static str,
}

/// On the command line.
pub(crate) const FLAGS: Names = Names { sandbox: "--max-sandbox", approval: "--max-approval", roots: "--allow-root" };

/// In the configuration file.
pub(crate) const KEYS: Names =
    Names { sandbox: "mcp_server.max_sandbox", approval: "mcp_server.max_approval", roots: "mcp_server.allow_roots" };

/// The file. A key that is not known is an error: it may be a limit that would not hold.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Requirements {
    allowed_sandbox_modes: Option<Vec<SandboxMode>>,
    #[serde(deserialize_with = "super::words::policies")]
    allowed_approval_policies: Option<Vec<ApprovalPolicy>>,
    allowed_roots: Option<Vec<PathBuf>>,
    max_sandbox: Option<SandboxMode>,
    #[serde(deserialize_with = "super::words::policy")]
    max_approval: Option<ApprovalPolicy>,
}

impl Limits {
    /// Narrows a ceiling. Relative directories are resolved against `base`.
    pub(crate) fn apply(&self, ceiling: &mut Ceiling, names: &Names, base: &Path) -> anyhow::Result<()> {
        if let Some(most) = self.max_sandbox {
            ceiling.limit_sandbox(most, names.sandbox);
        }
        if let Some(most) = self.max_approval {
            ceiling.limit_policy(most, names.approval);
        }
        if !self.allow_roots.is_empty() {
            let roots: Vec<PathBuf> = self.allow_roots.iter().map(|root| base.join(root)).collect();
            ceiling.limit_roots(&roots, names.roots).with_context(|| format!("{} cannot be used", names.roots))?;
        }
        Ok(())
    }
}

/// Narrows a ceiling by the machine's requirements, where there are any.
///
/// # Errors
/// A file that cannot be read, is not the administrator's alone, or holds something that is not understood.
pub(crate) fn apply_requirements(ceiling: &mut Ceiling, path: &Path) -> anyhow::Result<()> {
    let shown = path.display();
    let file = match std::fs::File::open(path) {
        Err(error) if matches!(error.kind(), std::io::ErrorKind::NotFound | std::io::ErrorKind::NotADirectory) => {
            return Ok(());
        }
        other => other.with_context(|| format!("{shown} cannot be read, and its limits must not be lost"))?,
    };
    check_owner(&file, path)?;
    let text = std::io::read_to_string(file).with_context(|| format!("{shown} cannot be read"))?;
    let requirements: Requirements = toml::from_str(&text).with_context(|| format!("{shown} is not valid"))?;
    let by = shown.to_string();
    if let Some(modes) = &requirements.allowed_sandbox_modes {
        ceiling.limit_sandboxes(modes, &by);
    }
    if let Some(most) = requirements.max_sandbox {
        ceiling.limit_sandbox(most, &by);
    }
    if let Some(policies) = &requirements.allowed_approval_policies {
        ceiling.limit_policies(policies, &by);
    }
    if let Some(most) = requirements.max_approval {
        ceiling.limit_policy(most, &by);
    }
    if let Some(roots) = &requirements.allowed_roots {
        if let Some(root) = roots.iter().find(|root| !root.is_absolute()) {
            bail!("{shown}: allowed_roots has {}, which is relative; give absolute directories", root.display());
        }
        ceiling.limit_roots(roots, &by).with_context(|| format!("{shown}: allowed_roots cannot be used"))?;
    }
    Ok(())
}

/// Whoever may write the file sets the limits: nobody but root may.
fn check_owner(file: &std::fs::File, path: &Path) -> anyhow::Result<()> {
    use std::os::unix::fs::MetadataExt as _;
    const OTHERS_WRITE: u32 = 0o022;
    let metadata = file.metadata().with_context(|| format!("{} cannot be looked at", path.display()))?;
    let is_trusted = metadata.uid() == 0 || cfg!(test);
    if !is_trusted || metadata.mode() & OTHERS_WRITE != 0 {
        bail!(
            "{} has owner {} and mode {:o}; it must be root's and writable by nobody else (chown root, chmod 644)",
            path.display(),
            metadata.uid(),
            metadata.mode() & 0o7777
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    fn requirements(text: &str) -> (tempfile::TempDir, PathBuf) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("requirements.toml");
        std::fs::write(&path, text).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).unwrap();
        (dir, path)
    }

    fn applied(text: &str) -> anyhow::Result<Ceiling> {
        let (_dir, path) = requirements(text);
        let mut ceiling = Ceiling::default();
        apply_requirements(&mut ceiling, &path).map(|()| ceiling)
    }

    #[test]
    fn requirements_narrow_what_the_user_allows() {
        let mut ceiling = Ceiling::default();
        let limits = Limits { max_sandbox: Some(SandboxMode::WorkspaceWrite), ..Limits::default() };
        limits.apply(&mut ceiling, &FLAGS, Path::new("/")).unwrap();
        let (_dir, path) = requirements(
            "allowed_sandbox_modes = [\"read-only\", \"danger-full-access\"]\nmax_approval = \"untrusted\"\n",
        );
        apply_requirements(&mut ceiling, &path).unwrap();
        assert_eq!(ceiling.sandboxes(), [SandboxMode::ReadOnly]);
        assert_eq!(ceiling.policies(), [ApprovalPolicy::Untrusted]);
    }

    #[test]
    fn what_is_not_understood_stops_the_program() {
        for (text, part) in [
            ("max_sandbx = \"read-only\"\n", "max_sandbx"),
            ("max_sandbox = \"none\"\n", "line 1"),
            ("max_sandbox = [\n", "line"),
            ("allowed_roots = [\"relative\"]\n", "relative"),
            ("allowed_roots = [\"/no such place\"]\n", "/no such place"),
        ] {
            let error = format!("{:#}", applied(text).unwrap_err());
            assert!(error.contains("requirements.toml") && error.contains(part), "{text}: {error}");
        }
        assert_eq!(applied("").unwrap(), Ceiling::default());
    }

    #[test]
    fn a_file_that_others_may_write_is_not_trusted_and_a_missing_one_limits_nothing() {
        let (_dir, path) = requirements("max_sandbox = \"read-only\"\n");
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o666)).unwrap();
        let error = apply_requirements(&mut Ceiling::default(), &path).unwrap_err().to_string();
        assert!(error.contains("666") && error.contains("chmod 644"), "{error}");
        let mut ceiling = Ceiling::default();
        apply_requirements(&mut ceiling, Path::new("/no/such/file")).unwrap();
        assert_eq!(ceiling, Ceiling::default());
    }
}
