//! Directories of temporary files: nothing that git or agents take orders from is made or changed in them, and what stands in
//! for missing names changes nothing that a program finds.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::support::house::{FULL_ACCESS, House, WORKSPACE_WRITE};

/// With a directory of temporary files in the house and no other.
fn mode(house: &House) -> String {
    format!("{WORKSPACE_WRITE}+without-tmp+tmpdir={}", house.at("tmp").display())
}

pub fn nothing_that_is_obeyed_is_made_at_the_top(house: &House) {
    let attempts = [
        ("a repository", "cd $base/tmp && git init -q . && test -e .git/HEAD && rm -r .git"),
        ("a directory", "mkdir $base/tmp/.git && rmdir $base/tmp/.git"),
        ("settings", "echo x > $base/tmp/.codex && rm $base/tmp/.codex"),
        ("a link", "mkdir -p $base/tmp/d && ln -sT d $base/tmp/.agents && rm $base/tmp/.agents"),
        (
            "by renaming",
            "mkdir -p $base/tmp/d && try rename $base/tmp/d $base/tmp/.git && try rename $base/tmp/.git $base/tmp/d",
        ),
        (
            "after taking away what stands there",
            "rm -rf $base/tmp/.openoxide && mkdir $base/tmp/.openoxide && rmdir $base/tmp/.openoxide",
        ),
    ];
    house.refuses(&mode(house), &attempts);
    assert_eq!(house.names("tmp"), ["d"], "nothing is left");
    house.another().allows(FULL_ACCESS, &attempts[1..5]);
    // The thread's own is no exception, wherever it lies.
    let own = format!("{WORKSPACE_WRITE}+without-tmp+own={}", house.at("outside").display());
    let attempts = [("a repository", "mkdir $TMPDIR/.git"), ("settings", "echo x > $TMPDIR/.codex")];
    house.refuses(&own, &attempts);
    house.allows(&own, &[("a file", "echo x > $TMPDIR/new"), ("a directory", "mktemp -d >/dev/null")]);
}

pub fn repositories_beneath_are_protected(house: &House) {
    house
        .host(
            "mkdir -p $base/tmp/a/proj && cd $base/tmp/a/proj && git init -q . && mkdir -p .git/hooks && echo x > file",
        )
        .success();
    let before = house.snapshot("tmp/a/proj/.git");
    let attempts = [
        ("a hook", "echo x > $base/tmp/a/proj/.git/hooks/pre-commit"),
        ("its configuration", "git -C $base/tmp/a/proj config core.fsmonitor evil"),
        ("rename it", "try rename $base/tmp/a/proj/.git $base/tmp/a/proj/away"),
        (
            "rename what it lies in",
            "try rename $base/tmp/a/proj $base/tmp/a/away && try rename $base/tmp/a/away $base/tmp/a/proj",
        ),
        ("rename above", "try rename $base/tmp/a $base/tmp/away && try rename $base/tmp/away $base/tmp/a"),
    ];
    house.refuses(&mode(house), &attempts);
    assert_eq!(house.snapshot("tmp/a/proj/.git"), before);
    house.allows(&mode(house), &[("write beside it", "echo x >> $base/tmp/a/proj/file && mkdir $base/tmp/a/new")]);
}

/// Placeholders of other threads' commands do so in directories that both may write.
pub fn what_comes_and_goes_in_them_stops_no_command(house: &House) {
    // So many that some go between the look at them and their being mounted on.
    house.host("cd $base/tmp && for n in $(seq 12); do git init -q $n; done").success();
    let names: Vec<_> = (1..=12).map(|number| house.at(&format!("tmp/{number}/.agents"))).collect();
    let stop = Arc::new(AtomicBool::new(false));
    let stopped = Arc::clone(&stop);
    let other = std::thread::spawn(move || {
        while !stopped.load(Ordering::Relaxed) {
            // Where a command has made one itself, it stays that one's.
            names.iter().for_each(|name| drop(std::fs::create_dir(name)));
            names.iter().for_each(|name| drop(std::fs::remove_dir(name)));
        }
    });
    let outcomes: Vec<_> = (0..40).map(|_| house.run(&mode(house), "echo done")).collect();
    stop.store(true, Ordering::Relaxed);
    other.join().unwrap();
    for outcome in outcomes {
        assert_eq!(outcome.success(), "done\n");
    }
}

pub fn what_leads_nowhere_in_them_stops_no_command(house: &House) {
    house.host("cd $base/tmp && ln -s .codex .codex && ln -s nowhere .git && mkdir d && ln -s .git d/.git && mkdir -m 0 dark").success();
    assert_eq!(house.run(&mode(house), "echo x > $base/tmp/new && cat $base/tmp/new").success(), "x\n");
}

pub fn links_of_others_close_nothing(house: &House) {
    house.host("mkdir -p $base/ws/src $base/tmp/d && ln -s $base/ws/src $base/tmp/.codex && ln -s ../../ws/src $base/tmp/d/.agents").success();
    house.give_away("tmp/.codex");
    house.give_away("tmp/d/.agents");
    if rustix::process::geteuid().is_root() {
        house.allows(&mode(house), &[("write where they lead", "echo x > src/new")]);
    } else {
        // There is nobody to give them to: these are the user's own orders.
        house.refuses(&mode(house), &[("write where they lead", "echo x > src/new")]);
    }
}

pub fn the_same_repository_is_found(house: &House) {
    house.host("mkdir -p $base/ws/sub/deep $base/tmp/x").success();
    let ws = house.at("ws");
    let look = "git rev-parse --show-toplevel; python3 -c 'import os; print(os.path.exists(\".git\"))'
        node -e 'console.log(require(\"fs\").existsSync(\".git\"))'; test -e .git || echo none
        python3 -c 'import os; print(os.path.isdir(\".git\") or os.path.isfile(\".git\"))'";
    let text = house.run_in("ws/sub/deep", &mode(house), look).success();
    assert_eq!(text, format!("{}\nFalse\nfalse\nnone\nFalse\n", ws.display()));
    // Neither does a question leave anything to be found, however short.
    for mode in house.modes() {
        let before = house.snapshot("ws/sub");
        let ran =
            house.program(&house.at("bin/helper")).arg("probe").args(house.confined("ws/sub", mode)).arg("x").output();
        assert!(ran.unwrap().status.success());
        assert_eq!(house.snapshot("ws/sub"), before);
    }
}
