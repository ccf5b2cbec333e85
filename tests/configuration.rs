//! Configuration as its user meets it: where a value came from, keys that are stored, profiles, and what is wrong.

#![allow(clippy::disallowed_methods, clippy::unwrap_used, reason = "a test starts programs, and fails by panicking")]

mod support;

use std::io::Write as _;
use std::path::Path;
use std::process::{Output, Stdio};

use serde_json::Value;

fn run(home: &Path, arguments: &[&str], input: &str) -> Output {
    let mut command = support::openoxide(home);
    for variable in ["OPENAI_API_KEY", "ANTHROPIC_API_KEY", "OPENROUTER_API_KEY"] {
        command.env_remove(variable);
    }
    let command = command.args(arguments).current_dir(home);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
    child.wait_with_output().unwrap()
}

fn out(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn err(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn config_tells_each_value_and_where_it_came_from() {
    let home = tempfile::tempdir().unwrap();
    let file = home.path().join("config.toml");
    let text = "model = \"user\"\n[profiles.fast]\nmodel = \"fast\"\n[model_providers.x]\nbase_url = \"http://h/v1\"\n\
                http_headers = { authorization = \"Bearer sk-1\" }\n";
    std::fs::write(&file, text).unwrap();
    let shown = out(&run(home.path(), &["config", "-c", "max_steps=3", "--profile", "fast"], ""));
    assert!(shown.contains("model = \"fast\"    # profile fast\n"), "{shown}");
    assert!(shown.contains("max_steps = 3    # the command line\n"), "{shown}");
    assert!(shown.contains(&format!("base_url = \"http://h/v1\"    # {}\n", file.display())), "{shown}");
    assert!(!shown.contains("sk-1"), "{shown}");
    let json: Value = serde_json::from_slice(&run(home.path(), &["config", "--json", "model"], "").stdout).unwrap();
    assert_eq!(json["model"]["value"], "user");
}

#[test]
fn no_secret_of_the_configuration_is_shown() {
    let home = tempfile::tempdir().unwrap();
    let text = "openai_api_key = \"hunter2\"\nmodel_provider = \"x\"\nmodel = \"m\"\n\
                [model_providers.x]\nbase_url = \"http://user:hunter2@127.0.0.1:9/v1?key=hunter2\"\n\
                api_key = \"hunter2\"\nexperimental_bearer_token = \"hunter2\"\nenv_key = \"gsk_hunter2hunter2\"\n\
                query_params = { sig = \"hunter2\" }\n\
                [shell_environment_policy.set]\nGITHUB_TOKEN = \"hunter2\"\nEDITOR = \"vi\"\n\
                [profiles.p.model_providers.y]\ntoken = \"hunter2\"\n";
    std::fs::write(home.path().join("config.toml"), text).unwrap();
    for arguments in [&["config"][..], &["config", "--json"], &["config", "-v", "-v"], &["doctor", "--providers"]] {
        let output = run(home.path(), arguments, "");
        let shown = out(&output) + &err(&output);
        assert!(!shown.contains("hunter2"), "{arguments:?}: {shown}");
        assert!(shown.contains("[redacted]@127.0.0.1:9"), "{arguments:?}: {shown}");
        assert!(arguments[0] == "doctor" || shown.contains("vi"), "{arguments:?}: {shown}");
    }
    for (text, part) in [
        ("[model_providers.x]\nbase_url = \"http://h\"\nenv_key = \"sk-hunter2\"\n", "env_key"),
        ("[model_providers.x]\nhttp_headers = \"hunter2\"\n", "line 2, column 16"),
        ("[model_providers.x]\napi_key = \"hunter2\n", "line 2"),
    ] {
        std::fs::write(home.path().join("config.toml"), text).unwrap();
        for arguments in [&["config"][..], &["doctor"], &["mcp-server"]] {
            let output = run(home.path(), arguments, "");
            let shown = out(&output) + &err(&output);
            assert!(!output.status.success() && shown.contains(part) && !shown.contains("hunter2"), "{shown}");
        }
    }
}

#[test]
fn a_key_does_not_go_over_plain_http_to_another_host() {
    let home = tempfile::tempdir().unwrap();
    // Nothing is asked of this address (RFC 5737): it is refused before.
    let text = "model_provider = \"x\"\nmodel = \"m\"\n[model_providers.x]\nbase_url = \"http://192.0.2.1:9/v1\"\n";
    std::fs::write(home.path().join("config.toml"), text).unwrap();
    assert!(run(home.path(), &["login", "x"], "sk-hunter2\n").status.success());
    let output = run(home.path(), &["doctor", "--providers", "--json"], "");
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let finding = report["findings"].as_array().unwrap().last().unwrap();
    let detail = finding["detail"].as_str().unwrap();
    assert_eq!(finding["state"], "fail");
    assert!(detail.contains("the API key of provider `x` would go to 192.0.2.1 over http://"), "{detail}");
    assert!(detail.contains("model_providers.x.allow_plain_http = true") && !detail.contains("hunter2"), "{detail}");
}

#[test]
fn what_is_wrong_is_told_with_its_place() {
    let home = tempfile::tempdir().unwrap();
    let file = home.path().join("config.toml");
    std::fs::write(&file, "modle = \"x\"\n").unwrap();
    let output = run(home.path(), &["config", "-v"], "");
    assert!(output.status.success());
    let told = format!("{}:1:1: unknown key \"modle\" is ignored; the nearest known key is \"model\"", file.display());
    assert!(err(&output).contains(&told), "{}", err(&output));
    std::fs::write(&file, "\nmax_steps = \"many\"\n").unwrap();
    let output = run(home.path(), &["mcp-server"], "");
    assert!(!output.status.success() && err(&output).contains("line 2, column 13"), "{}", err(&output));
    let output = run(home.path(), &["config", "--profile", "none"], "");
    assert!(!output.status.success());
}

#[test]
fn a_stored_key_chooses_its_provider_and_shows_nowhere() {
    let home = tempfile::tempdir().unwrap();
    let chosen = |home: &Path| {
        let output = run(
            home,
            &["doctor", "--json", "--providers", "-c", "model_providers.anthropic.base_url=\"http://127.0.0.1:9\""],
            "",
        );
        let report: Value = serde_json::from_slice(&output.stdout).unwrap();
        report["findings"].as_array().unwrap().last().unwrap().clone()
    };
    assert_eq!(chosen(home.path())["what"], "model of provider offline");
    let stored = run(home.path(), &["login", "anthropic"], "sk-secret\n");
    assert!(stored.status.success(), "{}", err(&stored));
    let finding = chosen(home.path());
    assert_eq!((&finding["what"], &finding["state"]), (&"model of provider anthropic".into(), &"fail".into()));
    let detail = finding["detail"].as_str().unwrap();
    assert!(detail.contains("stored key") && detail.contains("127.0.0.1:9"), "{detail}");
    assert!(!finding.to_string().contains("sk-secret"));
    assert!(!run(home.path(), &["login"], "\n").status.success(), "an empty key is none");
    let mistaken = run(home.path(), &["login", "sk-secret-sk-secret"], "sk-secret\n");
    assert!(!mistaken.status.success() && !err(&mistaken).contains("secret-"), "{}", err(&mistaken));
    assert!(out(&run(home.path(), &["logout", "anthropic"], "")).contains("forgotten"));
    assert_eq!(chosen(home.path())["what"], "model of provider offline");
}

#[test]
fn a_gateways_address_goes_with_the_key_and_doctor_says_which_model_answers_and_why() {
    let home = tempfile::tempdir().unwrap();
    let model = |set: &[(&str, &str)], arguments: &[&str]| {
        let mut command = support::openoxide(home.path());
        for name in ["OPENAI_API_KEY", "OPENAI_BASE_URL", "ANTHROPIC_API_KEY", "OPENROUTER_API_KEY"] {
            command.env_remove(name);
        }
        let output = command.args(["doctor", "--json"]).args(arguments).envs(set.iter().copied()).output().unwrap();
        let report: Value = serde_json::from_slice(&output.stdout).unwrap();
        let finding = report["findings"].as_array().unwrap().last().unwrap().clone();
        assert!(!finding.to_string().contains("sk-gateway"), "{finding}");
        (finding["state"].as_str().unwrap().to_owned(), finding["detail"].as_str().unwrap().to_owned())
    };
    let (state, detail) = model(&[], &[]);
    assert!(state == "note" && detail.contains("no built-in provider has a key"), "{detail}");
    for (key, address, given, asked) in [
        ("ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL", "http://127.0.0.1:9/anthropic", "http://127.0.0.1:9/anthropic/v1"),
        ("OPENAI_API_KEY", "OPENAI_BASE_URL", "http://127.0.0.1:9/openai", "http://127.0.0.1:9/openai"),
    ] {
        let set = [(key, "sk-gateway-0123456789"), (address, given)];
        let (state, detail) = model(&set, &[]);
        assert!(state == "ok" && detail.contains(&format!("at {asked} ")), "{detail}");
        assert!(
            detail.contains(&format!("address from {address}")) && detail.contains(&format!("{key} is set")),
            "{detail}"
        );
        // The key goes nowhere else.
        let (state, detail) = model(&set, &["--providers"]);
        assert!(state == "fail" && detail.contains("127.0.0.1:9"), "{detail}");
    }
    let set = [("OPENAI_API_KEY", "sk-gateway-0123456789")];
    for (name, told) in [("gpt-9-sol", "it reads 272000 tokens"), ("mine", "set model_context_window")] {
        let (_, detail) = model(&set, &["-m", name]);
        assert!(detail.contains(told), "{detail}");
    }
    let set = [("ANTHROPIC_BASE_URL", "http://127.0.0.1:9")];
    let configured =
        ["-c", "model_provider=\"anthropic\"", "-c", "model_providers.anthropic.base_url=\"http://127.0.0.1:8\""];
    let (state, detail) = model(&set, &configured);
    assert!(state == "note" && detail.contains("http://127.0.0.1:8 "), "what is configured goes before: {detail}");
}

/// A program that a desktop started has the system's directories alone; what a version manager adds is in a profile.
#[test]
fn commands_have_the_path_of_the_login_shell_where_nobody_chose_another() {
    let (home, user) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    std::fs::write(user.path().join(".bash_profile"), "echo hello; export PATH=/opt/mine/bin:$PATH\n").unwrap();
    let path_of = |path: &str, arguments: &[&str]| {
        let mut server = support::Server::start_as(home.path(), serde_json::json!({}), arguments, |command| {
            command.env("PATH", path).env("SHELL", "/bin/bash").env("HOME", user.path());
        });
        let call = server.call("openoxide", serde_json::json!({ "prompt": "run `echo $PATH`", "cwd": user.path() }));
        server.result(call)["content"].as_str().unwrap().to_owned()
    };
    let system = "/usr/local/bin:/usr/bin:/bin";
    let found = path_of(system, &[]);
    assert!(found.contains("/opt/mine/bin:/"), "{found}");
    let chosen = path_of(&format!("/opt/venv/bin:{system}"), &[]);
    assert!(chosen.contains("/opt/venv/bin") && !chosen.contains("/opt/mine"), "{chosen}");
    let off = path_of(system, &["-c", "shell_environment_policy.login_path=false"]);
    assert!(off.contains(system) && !off.contains("/opt/mine"), "{off}");
    let mut doctor = support::openoxide(home.path());
    doctor.args(["doctor", "--json"]).env("PATH", system).env("SHELL", "/bin/bash").env("HOME", user.path());
    let told = out(&doctor.output().unwrap());
    assert!(told.contains("that of the login shell: /opt/mine/bin:"), "{told}");
}
