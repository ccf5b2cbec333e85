//! `openoxide login` and `logout`: keys of providers for those who do not want them in the environment.

use std::io::{BufRead as _, IsTerminal as _, Write as _};
use std::process::ExitCode;

use anyhow::{Context as _, bail};
use openoxide_providers::Preset;

use crate::config::{self, auth};

/// Arguments of `openoxide login`.
/// The longest key, far above what providers give out; the file of all keys is read up to a bound.
const MAX_KEY: usize = 16 << 10;

#[derive(Debug, clap::Args)]
pub(crate) struct LoginArgs {
    /// The provider's id, as in model_provider. The key is read from standard input, and not from the command line, where
    /// other programs could see it.
    #[arg(value_name = "PROVIDER", default_value = "openai")]
    provider: String,
}

/// Arguments of `openoxide logout`.
#[derive(Debug, clap::Args)]
pub(crate) struct LogoutArgs {
    /// The provider's id.
    #[arg(value_name = "PROVIDER", default_value = "openai")]
    provider: String,
}

/// Reads a key and stores it.
pub(crate) fn login(args: &LoginArgs) -> anyhow::Result<ExitCode> {
    if openoxide_redact::redact(&args.provider) != args.provider {
        bail!(
            "PROVIDER looks like a key, which is read from standard input; give the provider's id: openoxide login openai"
        );
    }
    let home = config::home().context("there is no home directory; set OPENOXIDE_HOME")?;
    // Before anybody types a key that could not be kept.
    config::home::prepare(&home)?;
    let input = std::io::stdin();
    let key = if input.is_terminal() {
        let name = Preset::find(&args.provider).map_or(args.provider.as_str(), |preset| preset.name);
        rpassword::prompt_password(format!("Key for {name}: ")).context("the key cannot be read from the terminal")?
    } else {
        let mut line = String::new();
        input.lock().read_line(&mut line).context("the key cannot be read from standard input")?;
        line
    };
    let key = key.trim();
    if key.is_empty() {
        bail!("no key was given; type it, or pipe it in: openoxide login {} < FILE", args.provider);
    }
    if key.len() > MAX_KEY {
        bail!("the key has {} bytes, at most {MAX_KEY} are allowed; nothing was stored", key.len());
    }
    if !key.chars().all(|c| c.is_ascii_graphic()) {
        bail!("the key holds characters that no key has (blanks or letters beyond ASCII); nothing was stored");
    }
    auth::store(&home, &args.provider, Some(key.to_owned()))?;
    say(&format!("the key of {} is stored in {}", args.provider, home.join("auth.json").display()))
}

/// Forgets a key.
pub(crate) fn logout(args: &LogoutArgs) -> anyhow::Result<ExitCode> {
    let home = config::home().context("there is no home directory; set OPENOXIDE_HOME")?;
    config::home::check(&home)?;
    match auth::store(&home, &args.provider, None)? {
        true => say(&format!("the key of {} is forgotten", args.provider)),
        false => say(&format!("no key of {} is stored", args.provider)),
    }
}

fn say(text: &str) -> anyhow::Result<ExitCode> {
    writeln!(std::io::stdout(), "{text}")?;
    Ok(ExitCode::SUCCESS)
}
