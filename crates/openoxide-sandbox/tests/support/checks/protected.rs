//! What git and agents take orders from is not written, wherever and whatever it is, and not made where it is missing.

use openoxide_sandbox::Backend;

use crate::support::house::{FULL_ACCESS, House, WORKSPACE_WRITE};

pub fn a_repository_is_not_written(house: &House) {
    let (before, nested, other) =
        (house.snapshot("ws/.git"), house.snapshot("ws/nested/.git"), house.snapshot("ws/sub/.GIT"));
    let attempts = [
        ("configure", "echo '# x' >> .git/config"),
        ("hook", "echo x > .git/hooks/pre-commit"),
        ("hook, by another way", "cd sub && echo x > ../.git/hooks/pre-push"),
        ("chmod", "chmod 700 .git"),
        ("rename away", "try rename .git away && try rename away .git"),
        ("exchange", "mkdir -p evil && try exchange .git evil && try exchange .git evil"),
        ("exchange, the other way round", "mkdir -p evil && try exchange evil .git && try exchange .git evil"),
        ("rename its parent away", "try rename $ws $ws-away && try rename $ws-away $ws"),
        ("configure a nested one", "echo '# x' >> nested/.git/config"),
        ("hook in a nested one", "echo x > nested/.git/hooks/pre-commit"),
        ("rename a nested one away", "try rename nested/.git nested/away && try rename nested/away nested/.git"),
        ("in other letters", "echo x > sub/.GIT/hooks/pre-commit"),
        ("rename in other letters", "try rename sub/.GIT sub/away && try rename sub/away sub/.GIT"),
        ("rewrite a pointer in other letters", "echo x > module/.Git"),
        ("remove", "rm .git/HEAD"),
    ];
    house.refuses(WORKSPACE_WRITE, &attempts);
    assert_eq!(house.snapshot("ws/.git"), before);
    assert_eq!(house.snapshot("ws/nested/.git"), nested);
    assert_eq!(house.snapshot("ws/sub/.GIT"), other);
    house.another().allows(FULL_ACCESS, &attempts);
}

pub fn what_is_missing_cannot_be_made(house: &House) {
    let attempts = [
        ("a directory", "mkdir .codex && rmdir .codex"),
        ("a file", "echo x > .openoxide && rm .openoxide"),
        ("a file in it", "mkdir -p .codex && echo x > .codex/config.toml && rm -r .codex"),
        ("a link", "mkdir -p decoy && ln -sT decoy .agents && rm .agents"),
        ("a link in its place", "ln -sfnT decoy .codex && rm .codex"),
        ("by renaming", "mkdir -p decoy && try rename decoy .codex && try rename .codex decoy"),
        (
            "after taking away what stands there",
            "if [ -e .agents ]; then rmdir .agents; fi && mkdir .agents && rmdir .agents",
        ),
        ("a repository", "cd ../bare && mkdir .git && rmdir .git"),
    ];
    house.refuses(WORKSPACE_WRITE, &attempts);
    // What stands for a repository is not a directory; it is as firm.
    let beyond = [
        ("a repository", "git init -q . && echo x > .git/config"),
        ("a pointer file", "echo gitdir: x > .git && rm .git"),
        ("a link", "mkdir -p decoy && ln -sfnT decoy .git"),
        ("by renaming", "mkdir -p decoy && try rename decoy .git"),
        ("by renaming a file", "echo x > decoy2 && try rename decoy2 .git"),
        ("by exchanging", "mkdir -p decoy && try exchange decoy .git"),
        ("by linking", "echo x > decoy2 && try link decoy2 .git"),
        ("after renaming what stands there", "try rename .git away && mkdir .git"),
        ("after taking away what stands there", "rm -rf .git && mkdir .git"),
    ];
    house.refuses_in("bare", WORKSPACE_WRITE, &beyond);
    house.host("rm -r $base/bare/decoy $base/bare/decoy2").success();
    assert_eq!(house.names("bare"), Vec::<String>::new());
    house.another().allows(FULL_ACCESS, &attempts);
}

pub fn settings_that_are_there_are_not_written(house: &House) {
    house
        .host("cd $base/ws; for name in .openoxide .codex .agents; do mkdir $name; echo mine > $name/config.toml; done")
        .success();
    let attempts = [
        ("append", "echo x >> .openoxide/config.toml"),
        ("create", "echo x > .codex/hooks.json"),
        ("replace", "echo x > new && try rename new .agents/config.toml"),
        ("rename away", "try rename .codex away"),
        ("remove", "rm -r .agents"),
    ];
    let before = [".openoxide", ".codex", ".agents"].map(|name| house.snapshot(&format!("ws/{name}")));
    house.refuses(WORKSPACE_WRITE, &attempts);
    assert_eq!(before, [".openoxide", ".codex", ".agents"].map(|name| house.snapshot(&format!("ws/{name}"))));
    house.allows(FULL_ACCESS, &attempts);
}

pub fn what_editors_and_agents_obey_is_not_written_where_it_exists(house: &House) {
    house
        .host("cd $base/ws; mkdir -p .vscode a/.claude real; echo x > .vscode/tasks.json; echo x > .envrc; echo x > a/.claude/s; ln -s real .idea; echo x > AGENTS.md; mkdir -p .github/workflows")
        .success();
    let attempts = [
        ("change", "echo evil > .vscode/tasks.json"),
        ("add", "echo evil > .vscode/launch.json"),
        ("a file", "echo evil >> .envrc"),
        ("rename a file over", "echo evil > new && try rename new .envrc"),
        ("rename away", "try rename .vscode away"),
        ("exchange", "mkdir -p evil && try exchange evil .vscode"),
        ("remove", "rm .envrc"),
        ("further down", "echo evil > a/.claude/s"),
        ("rename what it lies in", "try rename a b"),
        ("what a link leads to", "echo evil > real/x"),
    ];
    house.refuses(WORKSPACE_WRITE, &attempts);
    // What is missing is not kept free, and the rest is the agent's work.
    let script =
        "ls -A; mkdir .zed .cursor && echo x > .mcp.json && echo x >> AGENTS.md && echo x > .github/workflows/ci.yml";
    let text = house.run(WORKSPACE_WRITE, script).success();
    assert!(!text.contains(".zed") && !text.contains(".mcp.json"), "{text}");
    // And from then on it is not written either.
    house.refuses(
        WORKSPACE_WRITE,
        &[("change what was made", "echo x > .zed/x"), ("a file that was made", "rm .mcp.json")],
    );
}

pub fn a_pointer_file_and_what_it_points_to_are_not_written(house: &House) {
    let build = "cd $base && mkdir -p linked/store/worktrees/w linked/store/hooks && cd linked
        echo 'ref: x' > store/HEAD; echo 'ref: x' > store/worktrees/w/HEAD
        echo 'gitdir: store/worktrees/w' > .git; echo ../.. > store/worktrees/w/commondir; echo c > store/config";
    house.host(build).success();
    let (file, store) = (house.snapshot("linked/.git"), house.snapshot("linked/store"));
    let attempts = [
        ("rewrite", "echo 'gitdir: evil' > .git"),
        ("remove", "rm .git"),
        ("rename away", "try rename .git away"),
        ("rename over", "echo x > new && try rename new .git"),
        ("its own directory", "echo x > store/worktrees/w/config.worktree"),
        ("the shared directory", "echo x >> store/config"),
        ("a hook", "echo x > store/hooks/pre-commit"),
        ("rename the directory away", "try rename store away"),
    ];
    house.refuses_in("linked", WORKSPACE_WRITE, &attempts);
    assert_eq!(house.snapshot("linked/.git"), file);
    assert_eq!(house.snapshot("linked/store"), store);
}

pub fn a_link_and_what_it_leads_to_are_not_written(house: &House) {
    house.host("cd $base && mkdir linked && cd linked && git init -q . && mv .git real && ln -s real .git").success();
    let (link, real) = (house.snapshot("linked/.git"), house.snapshot("linked/real"));
    let attempts = [
        ("remove", "rm .git"),
        ("rename away", "try rename .git away"),
        ("replace", "mkdir -p evil && ln -sfnT evil .git"),
        ("rename over", "ln -sfnT evil new && try rename new .git"),
        ("exchange", "mkdir -p evil && try exchange evil .git"),
        ("through it", "echo x >> .git/config"),
        ("what it leads to", "echo x >> real/config"),
        ("rename what it leads to", "try rename real away"),
    ];
    // It has no way to cover a link with itself; what the link leads to is covered all the same.
    let attempts = if house.backend == Backend::Bubblewrap { &attempts[5..] } else { &attempts[..] };
    house.refuses_in("linked", WORKSPACE_WRITE, attempts);
    let text = house.run_in("linked", WORKSPACE_WRITE, "git status --short --branch").success();
    assert!(text.starts_with("## No commits yet"), "{text}");
    assert_eq!(house.snapshot("linked/.git"), link);
    assert_eq!(house.snapshot("linked/real"), real);
}

pub fn what_leads_nowhere_stops_no_command(house: &House) {
    let build = "cd $base && mkdir -p odd/circle odd/dangling odd/through odd/malformed odd/above odd/up odd/closed
        cd odd && echo x > file && ln -s .git circle/.git && ln -s nowhere dangling/.git && ln -s ../file/x through/.git
        head -c 5000 /dev/zero > malformed/.git && echo 'gitdir: ..' > above/.git && ln -s .. up/.git
        mkfifo closed/.agents && ln -s nowhere .codex && mkdir dark && chmod 0 dark";
    house.host(build).success();
    let text =
        house.run_in("odd", WORKSPACE_WRITE, "echo started > new && cat new && git status >/dev/null 2>&1; echo $?");
    assert_eq!(text.success(), "started\n128\n");
    if house.backend != Backend::Bubblewrap {
        let entries = ["circle/.git", "dangling/.git", "through/.git", "malformed/.git", "closed/.agents", ".codex"];
        let attempts: Vec<(String, String)> =
            entries.iter().map(|entry| ((*entry).to_owned(), format!("rm -f {entry}"))).collect();
        let attempts: Vec<_> = attempts.iter().map(|(name, script)| (name.as_str(), script.as_str())).collect();
        house.refuses_in("odd", WORKSPACE_WRITE, &attempts);
    }
}
