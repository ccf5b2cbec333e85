//! What a sandbox object means, and what is refused.

use serde_json::json;

use super::*;

struct House {
    _dir: tempfile::TempDir,
    root: PathBuf,
}

impl House {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        for name in ["work/sub", "outside"] {
            std::fs::create_dir_all(root.join(name)).unwrap();
        }
        Self { _dir: dir, root }
    }

    fn authority(&self, max: SandboxMode) -> Authority {
        let launcher = Launcher::new("/nowhere".into(), HostPaths::default());
        let roots = vec![self.root.join("work")];
        let pipes = Pipes::new(&HostPaths::default(), &roots).unwrap();
        Authority { launcher, program: "/nowhere".into(), env: BTreeMap::new(), pipes, max, roots }
    }

    fn reach(&self, max: SandboxMode, sandbox: Value) -> Result<Reach, RpcError> {
        let cwd = Workspace::resolve(&self.root.join("work")).unwrap();
        self.authority(max).for_command(&cwd, Some(&sandbox))
    }

    /// As Codex sends it in its workspace-write mode.
    fn codex(&self, network: &str) -> Value {
        let special =
            |kind: &str, access: &str| json!({"path": {"type": "special", "value": {"kind": kind}}, "access": access});
        let kept = |name: &str| {
            json!({"path": {"type": "special", "value": {"kind": "project_roots", "subpath": name}}, "access": "read",
                "missing_path_behavior": "skip"})
        };
        let uri = super::super::path::to_uri(&self.root.join("work"));
        json!({
            "permissions": {"type": "managed", "network": network, "file_system": {"type": "restricted", "entries": [
                special("root", "read"), special("project_roots", "write"), special("slash_tmp", "write"),
                special("tmpdir", "write"), kept(".git"), kept(".agents"), kept(".codex"), kept(".aws"),
            ]}},
            "cwd": uri, "workspaceRoots": [uri], "windowsSandboxLevel": "disabled", "useLegacyLandlock": false,
        })
    }
}

#[test]
fn without_an_object_a_command_writes_in_its_directory_alone() {
    let house = House::new();
    let cwd = Workspace::resolve(&house.root.join("work/sub")).unwrap();
    for (max, mode) in [
        (SandboxMode::ReadOnly, SandboxMode::ReadOnly),
        (SandboxMode::WorkspaceWrite, SandboxMode::WorkspaceWrite),
        (SandboxMode::DangerFullAccess, SandboxMode::WorkspaceWrite),
    ] {
        for none in [None, Some(&Value::Null)] {
            let reach = house.authority(max).for_command(&cwd, none).unwrap();
            assert_eq!((reach.policy.mode, reach.policy.workspace), (mode, house.root.join("work/sub")));
            assert!(!reach.policy.workspace_write.network_access);
        }
    }
}

#[test]
fn the_object_of_codex_is_our_workspace_write() {
    let house = House::new();
    let reach = house.reach(SandboxMode::WorkspaceWrite, house.codex("restricted")).unwrap();
    assert_eq!(reach.policy.mode, SandboxMode::WorkspaceWrite);
    assert_eq!(reach.policy.workspace, house.root.join("work"));
    let write = &reach.policy.workspace_write;
    assert!(!write.exclude_slash_tmp && !write.exclude_tmpdir_env_var && !write.network_access);
    // What would have to be read-only under a name that is not kept is refused once it is there.
    std::fs::create_dir(house.root.join("work/.aws")).unwrap();
    let error = house.reach(SandboxMode::WorkspaceWrite, house.codex("restricted")).unwrap_err();
    assert!(error.message.contains(".aws"), "{}", error.message);
}

#[test]
fn what_exceeds_the_ceiling_is_refused() {
    let house = House::new();
    let disabled = json!({"permissions": {"type": "disabled"}});
    for max in [SandboxMode::ReadOnly, SandboxMode::WorkspaceWrite] {
        let error = house.reach(max, disabled.clone()).unwrap_err();
        assert!(
            error.message.contains("danger-full-access") && error.message.contains(max.as_str()),
            "{}",
            error.message
        );
    }
    assert_eq!(house.reach(SandboxMode::DangerFullAccess, disabled).unwrap().sandbox_type(), "none");
    assert!(house.reach(SandboxMode::ReadOnly, house.codex("restricted")).is_err());
    assert!(house.reach(SandboxMode::WorkspaceWrite, house.codex("enabled")).unwrap_err().message.contains("network"));
    let outside = json!({"mode": "workspace-write", "writableRoots": [house.root.join("outside")]});
    assert!(house.reach(SandboxMode::WorkspaceWrite, outside).unwrap_err().message.contains("outside of what"));
}

#[test]
fn what_cannot_be_expressed_is_refused() {
    let house = House::new();
    let of = |entries: Value| {
        json!({"permissions": {"type": "managed", "network": "restricted",
        "file_system": {"type": "restricted", "entries": entries}}})
    };
    let root = json!({"path": {"type": "special", "value": {"kind": "root"}}, "access": "read"});
    for (sandbox, part) in [
        (of(json!([])), "reading some directories"),
        (
            of(json!([root, {"path": {"type": "glob_pattern", "pattern": "**/*.env"}, "access": "none"}])),
            "glob_pattern",
        ),
        (of(json!([root, {"path": {"type": "special", "value": {"kind": "moon"}}, "access": "read"}])), "moon"),
        (
            of(json!([root, {"path": {"type": "special", "value": {"kind": "slash_tmp"}}, "access": "write"}])),
            "temporary",
        ),
        (of(json!([{"path": {"type": "special", "value": {"kind": "root"}}, "access": "write"}])), "everywhere"),
        (json!({"permissions": {"type": "external"}}), "external"),
        (json!({"mode": "workspace-write", "readableRoots": []}), "readableRoots"),
        (json!({}), "mode"),
        (json!("none"), "sandbox"),
    ] {
        let error = house.reach(SandboxMode::DangerFullAccess, sandbox.clone()).unwrap_err();
        assert!(error.message.contains(part), "{sandbox}: {}", error.message);
    }
}

#[test]
fn what_nobody_may_read_is_hidden() {
    let house = House::new();
    let hidden = house.root.join("work/secret");
    let sandbox = json!({"permissions": {"type": "managed", "network": "restricted", "file_system": {"type": "restricted",
    "entries": [
        {"path": {"type": "special", "value": {"kind": "root"}}, "access": "read"},
        {"path": {"type": "path", "path": hidden}, "access": "none"},
    ]}}});
    let reach = house.reach(SandboxMode::WorkspaceWrite, sandbox).unwrap();
    assert_eq!(reach.policy.mode, SandboxMode::ReadOnly);
    assert!(reach.policy.hidden(reach.launcher.host_paths()).contains(&hidden));
}

#[test]
fn directories_that_callers_work_in_stay() {
    let house = House::new();
    let authority = house.authority(SandboxMode::WorkspaceWrite);
    for path in ["/".into(), house.root.clone(), house.root.join("work"), house.root.join("work/sub/..")] {
        assert!(authority.check_removal(&path).is_err(), "{}", path.display());
    }
    assert!(authority.check_removal(&house.root.join("work/sub")).is_ok());
    assert!(authority.check_write(&house.root.join("work/new/file")).is_ok());
    assert!(authority.check_write(&house.root.join("outside/file")).is_err());
}
