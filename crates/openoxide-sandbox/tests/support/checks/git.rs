//! A command that is nothing but git writes its repository, and nothing that makes git run programs or look elsewhere: tried
//! with commands that do whatever they like, as a hook of the repository might.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::Stdio;

use crate::support::house::{FULL_ACCESS, House, WORKSPACE_WRITE};

/// The names that stand for missing ones, which nobody finds afterwards.
const PLACEHOLDERS: [&str; 5] = ["commondir", "config.worktree", "gitdir", "modules", "remotes"];

/// The mode of a command of git that starts in the directories.
fn git(house: &House, from: &[&str]) -> String {
    let from: Vec<String> = from.iter().map(|path| format!("+from={}", house.at(path).display())).collect();
    format!("{WORKSPACE_WRITE}+git{}", from.concat())
}

/// Builds a repository with a hook that says that it ran, and tries what it must not.
const REPOSITORY: &str = r#"
    set -e
    export GIT_CONFIG_NOSYSTEM=1 HOME=$base/home
    git config --global user.name Ada; git config --global user.email ada@example.org
    git config --global init.defaultBranch main; git config --global protocol.file.allow always
    repository() {
        git init -q "$1"
        printf '#!/bin/sh\necho hooked >> "$(git rev-parse --show-toplevel)/hooked"\n' > "$1/.git/hooks/pre-commit"
        printf '[ -n "$BOXED" ] && (echo evil > "$(git rev-parse --git-path hooks)/post-commit") 2>/dev/null && exit 1\n' >> "$1/.git/hooks/pre-commit"
        printf 'exit 0\n' >> "$1/.git/hooks/pre-commit"
        chmod +x "$1/.git/hooks/pre-commit"
        (cd "$1"; printf 'hooked\n' > .git/info/exclude; echo one > one; git add one; git commit -qm one)
    }
"#;

fn build(house: &House, script: &str) {
    house.host(&format!("{REPOSITORY}\n{script}")).success();
}

/// What people do all day.
const EVERYDAY: &str = r#"
    set -e
    echo two > two; git add -A; git commit -qm two
    git switch -qc topic; git mv two three; git commit -qm moved
    git switch -q main; echo more >> one; git commit -qam more
    git merge -q --no-edit topic; git branch -qd topic 2>/dev/null || true
    echo x > one; git stash -q; git stash pop -q; git restore one; git tag v1
    git checkout -qb other HEAD~1; echo o > o; git add o; git commit -qm o; git rebase -q main
    git rm -q o; git commit -qm removed; git checkout -q main
    git worktree add -q beside other 2>&1; cat hooked | wc -l; git status --porcelain
"#;

fn has_no_placeholders(house: &House, directory: &str) {
    let names = house.names(directory);
    assert!(names.contains(&"HEAD".to_owned()), "{names:?}");
    for name in PLACEHOLDERS {
        assert!(!names.contains(&name.to_owned()), "{name} is left in {names:?}");
    }
}

pub fn git_writes_its_repository(house: &House) {
    build(house, "repository repo; mkdir repo/.git/modules && rmdir repo/.git/modules");
    let hooks = house.snapshot("repo/.git/hooks");
    let text = house.run_in("repo", &git(house, &["repo"]), &format!("export BOXED=1; {EVERYDAY}")).success();
    assert_eq!(text, "6\n?? beside/\n", "each commit has run the hook");
    has_no_placeholders(house, "repo/.git");
    assert_eq!(house.snapshot("repo/.git/hooks"), hooks);
    let text = house.host("cd $base/repo; export HOME=$base/home; git fsck --strict --no-dangling; git log --oneline | wc -l; git -C beside status -sb");
    assert_eq!(text.success(), "5\n## other\n");
    // From below its top, and where the workspace is below it.
    build(house, "mkdir repo/deep");
    for workspace in ["repo", "repo/deep"] {
        let script =
            format!("cd $base/repo/deep; echo {workspace} > x; git add x; git commit -qm deep; git status -s -uno");
        house.run_in(workspace, &git(house, &["repo/deep"]), &script).success();
        has_no_placeholders(house, "repo/.git");
    }
}

pub fn git_writes_from_a_work_tree(house: &House) {
    build(
        house,
        "repository main; cd main; git worktree add -q ../tree -b tree 2>&1; git worktree add -q ../tree2 2>&1",
    );
    let script = "export BOXED=1; echo t > t; git add t; git commit -qm t; git stash list; echo u >> t; git stash -q; git stash pop -q
        git commit -qam u; git switch -qc w; git rebase -q tree; git log --oneline | wc -l; wc -l < hooked";
    let text = house.run_in("tree", &git(house, &["tree"]), script).success();
    assert_eq!(text, "3\n2\n");
    has_no_placeholders(house, "main/.git");
    assert_eq!(house.names("main/.git/worktrees/tree").iter().filter(|name| name.starts_with("co")).count(), 1);
    let text = house.host("export HOME=$base/home; cd $base/main; git fsck --strict --no-dangling; git worktree list | wc -l; git log --oneline tree | wc -l");
    assert_eq!(text.success(), "3\n3\n");
}

pub fn git_writes_from_a_submodule(house: &House) {
    build(
        house,
        "repository lib; repository super; cd super; git submodule add -q ../lib lib 2>&1; git commit -qm lib
        cp ../lib/.git/hooks/pre-commit .git/modules/lib/hooks/",
    );
    for workspace in ["super", "super/lib"] {
        let script = format!(
            "export BOXED=1; cd $base/super/lib; echo {workspace} > l; git add l; git commit -qm l; git log --oneline | wc -l; wc -l < hooked"
        );
        let text = house.run_in(workspace, &git(house, &["super/lib"]), &script).success();
        assert_eq!(text, if workspace == "super" { "2\n1\n" } else { "3\n2\n" });
        has_no_placeholders(house, "super/.git/modules/lib");
    }
    // And then what the other repository has of it.
    let script = "git add lib; git commit -qm bump; git status --porcelain";
    house.run_in("super", &git(house, &["super"]), script).success();
    let text = house.host("export HOME=$base/home; cd $base/super; git submodule status | cut -c1; git fsck --strict");
    assert_eq!(text.success(), " \n");
}

/// What a git directory holds that must not be changed, with its ways. `$g` is the directory.
const HELD: [(&str, &str); 27] = [
    ("configure", "echo '[core] fsmonitor = evil' >> $g/config"),
    ("configure by git", "git config core.fsmonitor evil"),
    (
        "replace the configuration",
        "cp $g/config $g/c2 && echo '[core] fsmonitor = evil' >> $g/c2 && try rename $g/c2 $g/config",
    ),
    ("exchange the configuration", "cp $g/config $g/c2 && try exchange $g/c2 $g/config"),
    ("another name of the configuration", "try link $g/config $g/c3"),
    ("configure a work tree", "echo '[core] fsmonitor = evil' > $g/config.worktree"),
    ("share another's", "echo /elsewhere > $g/commondir"),
    ("share another's by renaming", "echo /elsewhere > $g/c4; try rename $g/c4 $g/commondir"),
    ("take away what is shared", "rm $g/commondir"),
    ("point back", "echo /elsewhere > $g/gitdir"),
    ("hook", "echo evil > $g/hooks/post-commit"),
    ("change a hook", "echo evil >> $g/hooks/pre-commit"),
    ("chmod a hook", "chmod 700 $g/hooks/pre-commit"),
    ("another directory of hooks", "mkdir $g/h2 && try exchange $g/hooks $g/h2"),
    ("move the hooks", "mv $g/hooks $g/h3"),
    ("attributes", "echo '* filter=evil' > $g/info/attributes"),
    ("what to pass over", "echo x > $g/info/exclude"),
    ("grafts", "echo x > $g/info/grafts"),
    ("alternates", "echo /elsewhere > $g/objects/info/alternates"),
    ("alternates of the web", "echo x > $g/objects/info/http-alternates"),
    ("move objects/info", "mv $g/objects/info $g/objects/i2"),
    ("move the objects", "mv $g/objects $g/o2"),
    ("a submodule", "mkdir -p $g/modules/x && echo x > $g/modules/x/config"),
    ("a remote", "mkdir -p $g/remotes && echo 'URL: ext::evil' > $g/remotes/origin"),
    ("a branch's remote", "mkdir -p $g/branches && echo evil > $g/branches/origin"),
    ("rename it", "mv $g $g-2"),
    ("remove it", "rm -rf $g && ! [ -e $g ]"),
];

/// All but the last two.
fn held(directory: &str) -> Vec<(String, String)> {
    let of = |(name, script): &(&str, &str)| ((*name).to_owned(), format!("g={directory}; {script}"));
    HELD.iter().map(of).collect()
}

#[track_caller]
fn refuses(house: &House, workspace: &str, mode: &str, attempts: &[(String, String)]) {
    let attempts: Vec<_> = attempts.iter().map(|(name, script)| (name.as_str(), script.as_str())).collect();
    house.refuses_in(workspace, mode, &attempts);
}

pub fn what_git_obeys_is_held(house: &House) {
    build(house, "repository repo");
    let held_now = ["config", "hooks", "info"].map(|name| house.snapshot(&format!("repo/.git/{name}")));
    // The last one empties what can be emptied, which is the objects.
    refuses(house, "repo", &git(house, &["repo"]), &held(".git"));
    assert_eq!(["config", "hooks", "info"].map(|name| house.snapshot(&format!("repo/.git/{name}"))), held_now);
    assert_eq!(house.names("repo/.git/objects/info"), Vec::<String>::new());
    for name in PLACEHOLDERS {
        assert!(!house.names("repo/.git").contains(&name.to_owned()), "{name}");
    }
    // Outside of the repository nothing is opened.
    build(house, "repository repo2");
    let outside = [
        ("outside", "echo x > $out/file"),
        ("home", "echo x > $base/home/.bashrc"),
        ("a work tree outside", "git worktree add -q $out/tree"),
        ("a link in from outside", "try link $base/home/.bashrc .git/logs/HEAD2"),
        ("a work tree in settings", "mkdir -p .codex/x || git worktree add -q .codex/x"),
        ("a pointer", "echo 'gitdir: evil' > $base/repo2/.git"),
    ];
    house.refuses_in("repo2", &git(house, &["repo2"]), &outside);
    // The attempts are real, but for those at what is missing or makes no difference there.
    let another = house.another_with(|house| build(house, "repository repo"));
    let attempts = held(".git");
    let attempts: Vec<_> = attempts.iter().filter(|(name, _)| !name.starts_with("take away")).collect();
    let attempts: Vec<_> = attempts.iter().map(|(name, script)| (name.as_str(), script.as_str())).collect();
    for attempt in &attempts {
        let fresh = another.another_with(|house| build(house, "repository repo"));
        fresh.allows_in("repo", FULL_ACCESS, &[*attempt]);
    }
}

pub fn what_another_work_tree_obeys_is_held(house: &House) {
    build(
        house,
        "repository main; cd main; git worktree add -q ../tree -b tree 2>&1; git worktree add -q ../other 2>&1",
    );
    let other = house.snapshot("main/.git/worktrees/other");
    let (main, own) = (house.at("main/.git"), house.at("main/.git/worktrees/tree"));
    let common: Vec<_> =
        held(main.to_str().unwrap()).into_iter().filter(|(name, _)| name != "configure by git").collect();
    let attempts = [
        ("share another's, from the own", "echo /elsewhere > $g/commondir"),
        ("point back, from the own", "echo /elsewhere > $g/gitdir"),
        ("configure the own", "echo '[core] fsmonitor = evil' > $g/config.worktree"),
        ("move the own", "mv $g $g-2"),
        ("move all", "mv $g/.. $g/../../w2"),
        ("share another's, from another", "echo /elsewhere > $g/../other/commondir"),
        ("configure another", "echo x > $g/../other/config.worktree"),
        ("change another", "echo x > $g/../other/HEAD"),
        ("move another", "mv $g/../other $g/../o2"),
        ("the main work tree", "echo x > $base/main/one"),
    ];
    let own = attempts.map(|(name, script)| (name.to_owned(), format!("g={}; {script}", own.display())));
    refuses(house, "tree", &git(house, &["tree"]), &own);
    refuses(house, "tree", &git(house, &["tree"]), &common);
    assert_eq!(house.snapshot("main/.git/worktrees/other"), other);
    // The same from the main one.
    build(house, "rm -rf main other tree; repository main; cd main; git worktree add -q ../other 2>&1");
    let attempts = [
        ("share another's", "echo /elsewhere > .git/worktrees/other/commondir"),
        ("configure", "echo x > .git/worktrees/other/config.worktree"),
        ("replace", "mkdir .git/w2 && try exchange .git/w2 .git/worktrees/other"),
        ("replace all", "mkdir .git/w3 && try exchange .git/w3 .git/worktrees"),
    ];
    house.refuses_in("main", &git(house, &["main"]), &attempts);
}

pub fn nothing_that_was_planted_runs_for_the_user(house: &House) {
    // Whatever works of it: what the user's git does next runs nothing of it, and writes nothing elsewhere.
    build(house, "repository repo; cd repo; git branch b; git worktree add -q ../wt 2>&1; mkdir ../clean");
    let plant = r#"
        printf '#!/bin/sh\necho ran > %s/ran\n' "$base" > evil; chmod +x evil; e=$PWD/evil
        mkdir -p fake/hooks; cp .git/HEAD fake; cp -r .git/objects .git/refs fake; cp evil fake/hooks/pre-commit
        printf '[core]\nfsmonitor = %s\nhooksPath = %s/fake/hooks\n' "$e" "$PWD" > fake/config
        for f in .git/commondir .git/worktrees/wt/commondir; do echo "$PWD/fake" > $f; done
        for f in config config.worktree worktrees/wt/config.worktree; do cp fake/config .git/$f; done
        cp fake/config .git/config.lock; ln -s "$PWD/fake/config" .git/conf; mv .git/conf .git/config
        rm -rf .git/hooks; cp -r fake/hooks .git/hooks; cp evil .git/hooks/post-checkout
        echo '* filter=evil diff=evil' | tee .gitattributes > .git/info/attributes
        mkdir -p .git/remotes .git/rebase-merge; printf 'URL: ext::%s\n' "$e" > .git/remotes/origin
        printf 'exec %s\nx %s\n' "$e" "$e" > .git/rebase-merge/git-rebase-todo
        ln -sf "$base/home/.bashrc" .git/COMMIT_EDITMSG; ln -sf "$base/home/.bashrc" .git/FETCH_HEAD
        rm -rf .git/logs; mkdir -p .git/logs; ln -s "$base/home/.bashrc" .git/logs/HEAD
        rm -rf .git/refs/heads/side; ln -s "$base/clean" .git/refs/heads/side; ln -s "$base/clean" .git/refs/tags/t
        ln -sf "$base/home/.bashrc" .git/packed-refs; rm .git/ORIG_HEAD; ln -s "$base/home/.bashrc" .git/ORIG_HEAD
        ln -s "$base/home/.bashrc" .git/MERGE_MSG
        rm .git/index; ln -s "$base/clean/index" .git/index
        git worktree add -q inner 2>&1; ln -s "$base/home/.bashrc" .git/worktrees/inner/FETCH_HEAD
        true
    "#;
    let rc = house.snapshot("home/.bashrc");
    house.run_in("repo", &git(house, &["repo"]), plant).success();
    let next = r#"
        export HOME=$base/home GIT_CONFIG_NOSYSTEM=1 GIT_EDITOR=true
        cd "$base/repo"; rm -f .git/config.lock
        git rebase --abort; rm -rf .git/rebase-merge; git status; git reset -q; git checkout -q main; git checkout -q b
        git add one; git commit -m next --allow-empty; git commit --amend --no-edit; git branch side/x; git tag t/x
        git fetch . main; git fetch origin; git pull; git diff; git stash; git log -1; git gc -q; git worktree list
        git -C "$base/wt" status; git -C "$base/wt" commit --allow-empty -m wt
        git rev-parse --verify HEAD
    "#;
    let after = house.host(next);
    assert_eq!(after.code, 0, "the repository can be used: {after:?}");
    assert!(!house.at("ran").exists(), "{after:?}");
    assert_eq!(house.snapshot("home/.bashrc"), rc);
    assert_eq!(house.names("clean"), Vec::<String>::new());
}

pub fn what_leads_out_of_a_repository_is_swept(house: &House) {
    build(
        house,
        "repository repo; cd repo; git branch side; ln -s side .git/refs/heads/mine; mkdir -p .git/lfs; ln -s a .git/lfs/b",
    );
    let script = r#"
        for f in index logs/HEAD refs/heads/x packed-refs COMMIT_EDITMSG lfs/c objects/ab objects/pack2; do
            rm -rf .git/$f; ln -s /etc/passwd .git/$f
        done
        mv .git/refs/tags .git/refs/t2; ln -s "$base/outside" .git/refs/tags; rm .git/HEAD; ln -s refs/heads/side .git/HEAD
        mkdir .git/rebase-merge; printf 'pick 1\nexec touch %s/ran\n' "$base" > .git/rebase-merge/git-rebase-todo
    "#;
    house.run_in("repo", &git(house, &["repo"]), script).success();
    let links = house.host("cd $base/repo/.git; find . -type l | sort; cat rebase-merge/git-rebase-todo");
    assert_eq!(links.success(), "./lfs/b\n./refs/heads/mine\npick 1\n");
    // One that ends otherwise is swept as well.
    house.run_in("repo", &git(house, &["repo"]), "ln -s /etc/passwd .git/FETCH_HEAD; kill -9 $$");
    assert!(house.at("repo/.git/FETCH_HEAD").symlink_metadata().is_err());
}

pub fn only_a_repository_of_the_workspace_is_opened(house: &House) {
    build(house, "repository repo; repository other; mkdir plain; repository repo/nested");
    let commit = [("commit", "cd $base/other && git commit -q --allow-empty -m x")];
    // Wherever the command starts, and whatever it says.
    house.refuses_in("repo", &git(house, &["other"]), &commit);
    house.refuses_in("plain", &git(house, &["other", "repo"]), &commit);
    let nested = [("commit in a nested one", "cd nested && git commit -q --allow-empty -m x")];
    house.refuses_in("repo", &git(house, &["repo"]), &nested);
    house.allows_in("repo", &git(house, &["repo/nested"]), &nested);
    house.refuses_in("repo", &git(house, &["repo/nested"]), &[("commit above it", "git commit -q --allow-empty -m x")]);
    house.allows_in(
        "repo",
        &git(house, &["repo/nested", "repo"]),
        &[("commit in both", "git commit -q --allow-empty -m x && cd nested && git commit -q --allow-empty -m x")],
    );
    house.allows_in("other", &git(house, &["other"]), &commit);
}

pub fn a_way_that_a_command_could_have_made_opens_nothing(house: &House) {
    build(
        house,
        r#"
        repository other; cd other; git worktree add -q ../otherwt 2>&1; cd ..
        mkdir pointed linked copied shared
        echo "gitdir: $base/other/.git" > pointed/.git
        ln -s ../other/.git linked/.git
        cp otherwt/.git copied/.git
        git init -q shared; rm -rf shared/.git/objects; echo "$base/other/.git" > shared/.git/commondir
        repository linkedhooks; mv linkedhooks/.git/hooks linkedhooks/hooks; ln -s ../hooks linkedhooks/.git/hooks
        repository included; git -C included config include.path more
        repository bare; git init -q --bare bare/b
        repository foreign
    "#,
    );
    let write = |directory: &str| format!("touch $base/{directory}/x-written");
    for (workspace, directory) in [
        ("pointed", "other/.git"),
        ("linked", "other/.git"),
        ("copied", "other/.git"),
        ("copied", "other/.git/worktrees/otherwt"),
        ("shared", "other/.git"),
        ("shared", "shared/.git"),
        ("linkedhooks", "linkedhooks/.git"),
        ("included", "included/.git"),
    ] {
        house.refuses_in(workspace, &git(house, &[workspace]), &[(workspace, &write(directory))]);
    }
    house.refuses_in("bare", &git(house, &["bare/b"]), &[("a bare one within", &write("bare/.git"))]);
    house.give_away("foreign/.git");
    if rustix::process::geteuid().is_root() {
        house.refuses_in("foreign", &git(house, &["foreign"]), &[("another user's", &write("foreign/.git"))]);
    }
}

pub fn other_commands_write_no_repository(house: &House) {
    build(house, "repository repo");
    let commit = [("commit", "git commit -q --allow-empty -m x"), ("write", "echo x > .git/FETCH_HEAD")];
    let from = house.at("repo").display().to_string();
    // Neither the policy nor the command alone is enough, and nothing else than writing in the workspace.
    for mode in [
        format!("{WORKSPACE_WRITE}+git"),
        format!("{WORKSPACE_WRITE}+from={from}"),
        format!("read-only+git+from={from}"),
    ] {
        house.refuses_in("repo", &mode, &commit);
    }
    house.allows_in("repo", &git(house, &["repo"]), &commit);
}

/// A command of git that lasts until its input ends.
fn lasting(house: &House) -> (std::process::Child, BufReader<std::process::ChildStdout>) {
    let script = "ln -s /etc/passwd .git/FETCH_HEAD; echo ready; read line; exit 0";
    let mut command = house.command("run", "repo", &git(house, &["repo"]), script);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("the helper starts");
    let mut out = BufReader::new(child.stdout.take().expect("it is a pipe"));
    let mut line = String::new();
    out.read_line(&mut line).expect("it speaks");
    assert_eq!(line, "ready\n");
    (child, out)
}

pub fn the_users_git_works_meanwhile(house: &House) {
    build(house, "repository repo");
    let (mut child, _out) = lasting(house);
    assert!(PLACEHOLDERS.iter().all(|name| house.names("repo/.git").contains(&(*name).to_owned())));
    let user = "export HOME=$base/home; cd $base/repo; echo u > u; git add u; git commit -qm u; git status --porcelain; git rev-parse --git-dir; git worktree list | wc -l";
    assert_eq!(house.host(user).success(), ".git\n1\n");
    // Another command of git that ends does not take away what this one relies on.
    house.run_in("repo", &git(house, &["repo"]), "git commit -q --allow-empty -m two").success();
    assert!(PLACEHOLDERS.iter().all(|name| house.names("repo/.git").contains(&(*name).to_owned())));
    child.stdin.take().expect("it is a pipe").write_all(b"end\n").expect("it reads");
    assert_eq!(child.wait().expect("it ends").code(), Some(0));
    has_no_placeholders(house, "repo/.git");
    assert!(house.at("repo/.git/FETCH_HEAD").symlink_metadata().is_err());
}

pub fn a_killed_supervisor_leaves_a_repository_that_works(house: &House) {
    build(house, "repository repo");
    let (mut child, _out) = lasting(house);
    let supervisor = crate::support::pids()
        .find(|pid| crate::support::state(*pid).is_some_and(|(_, parent)| parent == child.id()))
        .expect("the helper has a supervisor");
    let pid = rustix::process::Pid::from_raw(supervisor.cast_signed()).expect("a process id is not zero");
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).expect("it may be killed");
    child.wait().expect("it ends");
    let user = "export HOME=$base/home; cd $base/repo; git commit -q --allow-empty -m user; git status --porcelain";
    assert_eq!(house.host(user).success(), "");
    // A lock that the dead still held would keep them: what was inside is gone as soon as its processes are.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("it can be made");
    runtime.block_on(crate::support::until("they are gone after another command", || {
        house.run_in("repo", &git(house, &["repo"]), "git commit -q --allow-empty -m next").success();
        let names = house.names("repo/.git");
        !PLACEHOLDERS.iter().any(|name| names.contains(&(*name).to_owned()))
            && house.at("repo/.git/FETCH_HEAD").symlink_metadata().is_err()
    }));
}
