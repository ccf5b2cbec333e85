//! Who is let in by a listener: tokens, and the names and pages that may call.

use std::collections::HashMap;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use openoxide_mcp_server::{Authority, Origin, Token};

/// Whose token it is where no name is given.
const UNNAMED: &str = "default";

/// Arguments of every listener.
#[derive(Debug, clap::Args)]
pub(crate) struct GuardArgs {
    /// Bearer tokens, one a line: NAME TOKEN. Each name owns its threads. Only the user may read the file.
    #[arg(long, value_name = "FILE", requires = "listen")]
    token_file: Option<PathBuf>,
    /// The environment variable that holds a bearer token.
    #[arg(long, value_name = "VARIABLE", requires = "listen")]
    token_env: Option<String>,
    /// A name that Host may hold, beside the loopback's own. Repeatable.
    #[arg(long, value_name = "NAME", requires = "listen", value_parser = parse_host)]
    pub(crate) allow_host: Vec<String>,
    /// A page that may call from a browser, such as `https://ide.example`. Repeatable.
    #[arg(long, value_name = "ORIGIN", requires = "listen", value_parser = parse_origin)]
    pub(crate) allow_origin: Vec<Origin>,
    /// Requests a second that each caller may send.
    #[arg(long, value_name = "COUNT", requires = "listen", default_value_t = 200, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) rate_limit: u32,
}

impl GuardArgs {
    /// Whether whoever connects is let in.
    pub(crate) fn is_tokenless(&self) -> bool {
        self.token_file.is_none() && self.token_env.is_none()
    }

    /// Files that the agent's commands must not see.
    pub(crate) fn secret_files(&self) -> Vec<PathBuf> {
        self.token_file.iter().cloned().collect()
    }

    /// The variable that they must not see.
    pub(crate) fn secret_variable(&self) -> Option<String> {
        self.token_env.clone()
    }

    /// The tokens.
    ///
    /// # Errors
    /// They cannot be read or used.
    pub(crate) fn tokens(&self) -> anyhow::Result<Vec<Token>> {
        tokens(self.token_env.as_deref(), self.token_file.as_deref())
    }
}

/// The tokens of an environment variable and of a file.
///
/// # Errors
/// One that is not there, can be read by others, or could be guessed.
pub(crate) fn tokens(variable: Option<&str>, file: Option<&Path>) -> anyhow::Result<Vec<Token>> {
    let mut tokens = Vec::new();
    if let Some(variable) = variable {
        let secret = crate::config::variable(variable).context("--token-env")?;
        tokens.push(token(UNNAMED, secret.trim()).with_context(|| format!("--token-env {variable}"))?);
    }
    if let Some(file) = file {
        tokens.extend(tokens_in(file).with_context(|| format!("--token-file {}", file.display()))?);
    }
    Ok(tokens)
}

pub(crate) fn parse_host(text: &str) -> Result<String, String> {
    match Authority::parse(text)? {
        Authority { host, port: None } => Ok(host),
        Authority { host, port: Some(port) } => {
            Err(format!("it names port {port}; give {host}, which fits every port"))
        }
    }
}

fn parse_origin(text: &str) -> Result<Origin, String> {
    Origin::parse(text.trim_end_matches('/')).map_err(|why| format!("{why}; give it as https://ide.example"))
}

fn tokens_in(file: &Path) -> anyhow::Result<Vec<Token>> {
    let mode = std::fs::metadata(file)?.permissions().mode();
    if mode & 0o077 != 0 {
        bail!("others may read it (mode {:o}); run `chmod 600` on it", mode & 0o777);
    }
    let text = std::fs::read_to_string(file)?;
    let (mut tokens, mut lines) = (Vec::new(), HashMap::new());
    for (number, line) in (1..).zip(text.lines()) {
        let (name, secret) = match line.split_whitespace().collect::<Vec<_>>()[..] {
            [] => continue,
            [first, ..] if first.starts_with('#') => continue,
            [secret] => (UNNAMED, secret),
            [name, secret] => (name, secret),
            _ => bail!("line {number} has more than a name and a token"),
        };
        // Whose it is would be whoever stands first.
        if let Some(first) = lines.insert(secret, number) {
            bail!("lines {first} and {number} have the same token; give each caller a token of its own");
        }
        tokens.push(token(name, secret).with_context(|| format!("line {number}"))?);
    }
    if tokens.is_empty() {
        bail!("it holds no token; a line is NAME TOKEN");
    }
    Ok(tokens)
}

fn token(name: &str, secret: &str) -> anyhow::Result<Token> {
    Token::new(name, secret).map_err(anyhow::Error::msg)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_would_never_fit_are_refused() {
        assert_eq!(parse_host("Agent.example"), Ok("agent.example".to_owned()));
        assert!(parse_host("agent.example:80").unwrap_err().contains("give agent.example"));
        assert!(parse_host("http://agent.example").is_err());
        assert!(parse_origin("https://ide.example/").is_ok());
        assert!(parse_origin("ide.example").unwrap_err().contains("https://ide.example"));
    }

    #[test]
    fn a_token_file_is_private_and_names_who() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("tokens");
        let secret = "0123456789abcdefghijklmnop";
        std::fs::write(&file, format!("# who may\n\nada {secret}\n{secret}x\n")).unwrap();
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o640)).unwrap();
        assert!(tokens_in(&file).unwrap_err().to_string().contains("chmod 600"));
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).unwrap();
        assert_eq!(tokens_in(&file).unwrap().len(), 2);
        let twice = format!("ada {secret}\n\nbob {secret}\n");
        for (text, why) in [
            ("", "no token"),
            ("\na b c", "line 2 has more than"),
            ("ada short", "random"),
            (&twice, "lines 1 and 3 have the same token"),
        ] {
            std::fs::write(&file, text).unwrap();
            let error = format!("{:#}", tokens_in(&file).unwrap_err());
            assert!(error.contains(why) && !error.contains(secret), "{text}: {error}");
        }
    }
}
