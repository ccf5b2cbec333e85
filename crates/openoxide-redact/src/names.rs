//! Names that look like those of secrets.

/// Parts of names that hold secrets, wherever they stand in a name; upper case.
const PARTS: [&str; 15] = [
    "BEARER",
    "CONNECTION_STRING",
    "COOKIE",
    "CREDENTIAL",
    "DATABASE_URL",
    "JWT",
    "KEY",
    "MNEMONIC",
    "PASSCODE",
    "PASSPHRASE",
    "PASSW",
    "PGPASS",
    "SECRET",
    "TOKEN",
    "WEBHOOK",
];

/// Words that make a name secret where they stand for themselves; upper case.
const WORDS: [&str; 5] = ["AUTHORIZATION", "CRED", "CREDS", "PAT", "PWD"];

/// Words that make a name secret where they are its last; upper case. A name that goes on tells of a session or of a means of
/// authentication and holds neither: `XDG_SESSION_ID`, `SESSION_MANAGER`, `GIT_AUTH_TYPE`.
const LAST_WORDS: [&str; 2] = ["AUTH", "SESSION"];

/// Words that end in `PASS` and name no password; upper case. `ASKPASS` is a program that asks for one.
const NO_PASSWORDS: [&str; 4] = ["ASKPASS", "BYPASS", "COMPASS", "TRESPASS"];

/// Whole names that are secret and that no rule above tells; upper case.
const WHOLE: [&str; 2] = ["SESSIONID", "SESSION_ID"];

/// First words of names that speak of a desktop's, a terminal's or a shell's session; upper case.
const DESKTOPS: [&str; 12] =
    ["ATUIN", "DBUS", "DESKTOP", "GDM", "GNOME", "KDE", "KONSOLE", "SSH", "TERM", "TMUX", "WT", "XDG"];

/// Names of a directory, which end in a word of the list all the same; upper case.
const DIRECTORIES: [&str; 3] = ["INIT_PWD", "OLD_PWD", "PWD"];

/// Whether a variable, a key or a header of this name is likely to hold a secret. Case does not matter; words are separated by
/// whatever is no letter or digit.
///
/// It errs towards secret: a variable that is missed is a nuisance, a key that is shown has to be replaced.
#[must_use]
pub fn looks_secret(name: &str) -> bool {
    let name: String = name.chars().map(|c| if c.is_alphanumeric() { c.to_ascii_uppercase() } else { '_' }).collect();
    if DIRECTORIES.contains(&name.as_str()) {
        return false;
    }
    if WHOLE.contains(&name.as_str()) || PARTS.iter().any(|part| name.contains(part)) {
        return true;
    }
    let words: Vec<&str> = name.split('_').filter(|word| !word.is_empty()).collect();
    let is_of_desktop = words.len() > 1 && words.first().is_some_and(|first| DESKTOPS.contains(first));
    let is_last = words.last().is_some_and(|last| LAST_WORDS.contains(last));
    let is_password = |word: &str| word.ends_with("PASS") && !NO_PASSWORDS.contains(&word);
    words.iter().any(|word| WORDS.contains(word) || is_password(word)) || (is_last && !is_of_desktop)
}

/// Whether a text can be the name of an environment variable and does not rather look like a key that was put in its place.
#[must_use]
pub fn is_variable_name(text: &str) -> bool {
    /// From here on, letters and digits in one word are rather a key.
    const LONG: usize = 12;
    let is_name = text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
        && text.bytes().next().is_some_and(|first| !first.is_ascii_digit());
    let is_key = |word: &str| word.len() >= LONG && word.bytes().any(|byte| byte.is_ascii_digit());
    is_name && !text.split('_').any(is_key)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_secrets_are_told() {
        for name in [
            "OPENAI_API_KEY",
            "github_token",
            "AWS_SECRET_ACCESS_KEY",
            "DB_PASSWORD",
            "MY_PASSWD",
            "Google_Credentials",
            "SESSION_COOKIE",
            "MYSQL_PWD",
            "PGPASSFILE",
            "PGPASSWORD",
            "DB_PASS",
            "SSHPASS",
            "AWS_CREDS",
            "MNEMONIC",
            "GITLAB_PAT",
            "PAT",
            "JWT",
            "APP_JWT_V2",
            "BEARER",
            "SESSION",
            "LEETCODE_SESSION",
            "SESSION_ID",
            "DATABASE_URL",
            "TEST_DATABASE_URL",
            "SLACK_WEBHOOK",
            "DISCORD_WEBHOOK_URL",
            "AZURE_STORAGE_CONNECTION_STRING",
            "REDISCLI_AUTH",
            "npm_config__auth",
            "authorization",
            "Proxy-Authorization",
            "x-api-key",
            "GPG_PASSPHRASE",
        ] {
            assert!(looks_secret(name), "{name}");
        }
    }

    #[test]
    fn other_names_are_left_alone() {
        for name in [
            "PATH",
            "MANPATH",
            "PATTERN",
            "COMPAT",
            "PWD",
            "OLDPWD",
            "SESSION_MANAGER",
            "XDG_SESSION_ID",
            "XDG_SESSION_TYPE",
            "DESKTOP_SESSION",
            "DBUS_SESSION_BUS_ADDRESS",
            "GDMSESSION",
            "GNOME_DESKTOP_SESSION_ID",
            "KDE_FULL_SESSION",
            "TERM_SESSION_ID",
            "WT_SESSION",
            "AUTHOR",
            "GIT_AUTHOR_NAME",
            "HTTP_PROXY",
            "CARGO_HOME",
            "BYPASS",
            "COMPASS",
            "GIT_ASKPASS",
            "SSH_ASKPASS",
            "SCREDIT",
            "PASSES",
            "HOME",
            "LANG",
            "VIRTUAL_ENV",
            "user-agent",
        ] {
            assert!(!looks_secret(name), "{name}");
        }
    }

    #[test]
    fn a_key_is_no_variable_name() {
        for name in [
            "OPENAI_API_KEY",
            "my_key",
            "K",
            "_X",
            "AZURE_OPENAI_API_KEY_2",
            "AnthropicKey",
            "MYCOMPANYINTERNALGATEWAYKEY",
        ] {
            assert!(is_variable_name(name), "{name}");
        }
        for key in [
            "",
            "1X",
            "sk-1",
            "a b",
            "gsk_AbCdEf0123456789ABCDEF",
            "ghp_16C7e42F292c6912E7710c838347Ae178B4a",
            "0123456789abcdef0123456789abcdef",
            "f123456789abcdef0123456789abcdef",
            "key=value",
        ] {
            assert!(!is_variable_name(key), "{key}");
        }
    }
}
