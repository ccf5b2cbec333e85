//! What the instruction parser makes of prompts, as a table.

use super::{super::clause::Step, *};

fn run(command: &str) -> Step {
    Step::Run(command.into())
}

fn create(path: &str, content: &str) -> Step {
    Step::Create { path: path.into(), content: content.into() }
}

fn replace(from: &str, to: &str, path: &str) -> Step {
    Step::Replace { from: from.into(), to: to.into(), path: path.into(), first_only: false }
}

fn append(text: &str, path: &str) -> Step {
    Step::Append { text: text.into(), path: path.into() }
}

fn explain(text: &str) -> Step {
    Step::Explain(text.into())
}

fn rename(from: &str, to: &str) -> Step {
    Step::Rename { from: from.into(), to: to.into() }
}

#[test]
fn prompts_become_steps() {
    let table: Vec<(&str, Vec<Step>)> = vec![
        // Commands.
        ("run `cargo test`", vec![run("cargo test")]),
        ("Run: python3 -m unittest", vec![run("python3 -m unittest")]),
        ("execute ls -la | head -3", vec![run("ls -la | head -3")]),
        ("please run the command \"echo hi\".", vec![run("echo hi")]),
        ("run echo \"a; b\" && echo c", vec![run("echo \"a; b\" && echo c")]),
        ("run: for f in *; do cat $f; done", vec![run("for f in *; do cat $f; done")]),
        ("run: if true; then echo yes; fi", vec![run("if true; then echo yes; fi")]),
        ("Run the tests with `npm test`", vec![run("npm test")]),
        ("run the tests", vec![Step::RunTests]),
        ("run `make test`, then run it again", vec![run("make test"), run("make test")]),
        ("run `make test`; run `ls`; run the tests again", vec![run("make test"), run("ls"), run("make test")]),
        ("run this:\n```sh\nset -e\nmake\n```", vec![run("set -e\nmake")]),
        ("```bash\necho hi\n```", vec![run("echo hi")]),
        ("run `ls` and show me the output", vec![run("ls")]),
        // Files.
        ("create notes.txt with: hello world", vec![create("notes.txt", "hello world\n")]),
        ("Create a new file called `a b.md` containing \"x\\ny\"", vec![create("a b.md", "x\ny\n")]),
        ("write \"TEXT\" to out/x.txt", vec![create("out/x.txt", "TEXT\n")]),
        (
            "create hello.py:\n```python\nprint('hi; then run')\n\nx = 1\n```\nthen run `python3 hello.py`",
            vec![create("hello.py", "print('hi; then run')\n\nx = 1\n"), run("python3 hello.py")],
        ),
        ("create a.txt with:\none\ntwo\n\nrun `cat a.txt`", vec![create("a.txt", "one\ntwo\n"), run("cat a.txt")]),
        ("create an empty file x.lock", vec![create("x.lock", "\n")]),
        ("delete old.txt", vec![Step::Delete("old.txt".into())]),
        ("remove the file `tmp`", vec![Step::Delete("tmp".into())]),
        ("remove `debug()` from src/a.js", vec![replace("debug()", "", "src/a.js")]),
        ("rename a.txt to b.txt", vec![rename("a.txt", "b.txt")]),
        ("move src/a.rs to lib/", vec![rename("src/a.rs", "lib/a.rs")]),
        ("append \"bye\" to notes.txt", vec![append("bye\n", "notes.txt")]),
        ("add 'last line' to the end of the file notes.txt.", vec![append("last line\n", "notes.txt")]),
        ("read src/lib.rs", vec![Step::Read("src/lib.rs".into())]),
        ("show me the contents of README", vec![Step::Read("README".into())]),
        ("list src", vec![Step::List("src".into())]),
        ("list the files", vec![Step::List(".".into())]),
        // Replacements.
        ("replace `a - b` by `a + b` in calc.py", vec![replace("a - b", "a + b", "calc.py")]),
        ("replace foo with bar in src/x.c", vec![replace("foo", "bar", "src/x.c")]),
        ("change \"x by y\" to 'it is' in the file t.md.", vec![replace("x by y", "it is", "t.md")]),
        ("In calc.py, replace `a` with `b`.", vec![replace("a", "b", "calc.py")]),
        ("replace `a` by `` in f.txt", vec![replace("a", "", "f.txt")]),
        (
            "replace the first `a` by `b` in f.txt",
            vec![Step::Replace { from: "a".into(), to: "b".into(), path: "f.txt".into(), first_only: true }],
        ),
        // Questions.
        ("find \"TODO\"", vec![Step::Search("TODO".into())]),
        ("search for `fn main` in src", vec![Step::Search("fn main".into())]),
        ("where is the retry delay computed?", vec![explain("where is the retry delay computed?")]),
        ("explain how we build and run the tests", vec![explain("explain how we build and run the tests")]),
        ("does it cache?", vec![explain("does it cache?")]),
        // Several.
        (
            "Run the tests with `python3 -m unittest`, then replace `a - b` by `a + b` in calc.py, and then run them again.",
            vec![run("python3 -m unittest"), replace("a - b", "a + b", "calc.py"), run("python3 -m unittest")],
        ),
        (
            "1. run `a`\n2) delete b.txt\n- read c.txt\n* list d",
            vec![run("a"), Step::Delete("b.txt".into()), Step::Read("c.txt".into()), Step::List("d".into())],
        ),
        (
            "First, run cargo build; then rename x.rs to y.rs. Finally run cargo test",
            vec![run("cargo build"), rename("x.rs", "y.rs"), run("cargo test")],
        ),
        (
            "replace `a, then run` by `b; delete c.txt` in d.txt and run `e`",
            vec![replace("a, then run", "b; delete c.txt", "d.txt"), run("e")],
        ),
        // Not instructions.
        ("hello", vec![Step::Unclear("hello".into())]),
        ("create a function that adds", vec![Step::Unclear("create a function that adds".into())]),
        ("fix the failing test", vec![Step::Unclear("fix the failing test".into())]),
        ("replace a by b", vec![Step::Unclear("replace a by b".into())]),
        ("run it", vec![Step::Unclear("run it".into())]),
        ("don't panic", vec![Step::Unclear("don't panic".into())]),
        ("", vec![]),
        (" \n\n ", vec![]),
    ];
    for (prompt, expected) in table {
        assert_eq!(parse(prompt), expected, "{prompt:?}");
    }
}

proptest::proptest! {
    #[test]
    fn any_prompt_is_read_without_a_panic(prompt in "(run|create|in|replace|`|\"|'|\u{201c}|\u{201d}|;|, then|\\.| and | by | to |a\\.b|é|```|\n|:| ){0,24}") {
        parse(&prompt);
    }
}
