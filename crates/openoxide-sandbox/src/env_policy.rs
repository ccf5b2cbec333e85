//! Which environment a command gets: a pure function of a policy and the parent's variables. Reading those is the
//! command line's part; the result goes into [`crate::CommandSpec`]. What looks like a secret is judged by
//! `openoxide-redact`.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;

use openoxide_redact::{holds_secret, looks_secret};

/// Where a command's environment starts from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Inherit {
    /// Every variable of the parent.
    #[default]
    All,
    /// Those that ordinary programs do not run well without: who, where, which language.
    Core,
    /// Nothing.
    None,
}

/// The rules, in the order they act: inherit, exclude, set.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct EnvPolicy {
    /// What is taken from the parent.
    pub inherit: Inherit,
    /// Names to leave out, where `*` stands for any characters and `?` for one; case does not matter. `None` stands for what is
    /// built in: names that look secret, values with a login in a URL, functions that a shell has exported, and names that reach
    /// agents of the user or load code into every program.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exclude: Option<Vec<String>>,
    /// Variables that are set last, whatever was excluded.
    pub set: BTreeMap<String, String>,
    /// Whether commands get the PATH of the login shell where the parent's is nobody's choice.
    pub login_path: bool,
}

/// Names that reach agents of the user or load code into every program, as patterns. `BASH_FUNC_ls%%` is a function that takes the
/// place of `ls`.
const EXCLUDED: [&str; 7] = ["SSH_AUTH_SOCK", "DBUS_*", "DOCKER_HOST", "LD_*", "BASH_ENV", "BASH_FUNC_*", "ENV"];

/// How a shell of before 2014 exports a function, whatever its name.
const FUNCTION: &[u8] = b"() {";

/// Settings of git that say together what they say: git refuses a count without its keys, so all of these pass or none.
const GIT_SETTINGS: [&str; 4] = ["GIT_CONFIG_COUNT", "GIT_CONFIG_KEY_*", "GIT_CONFIG_VALUE_*", "GIT_CONFIG_PARAMETERS"];

/// Parts of git's settings that hold a secret: `http.<url>.extraHeader`, `credential.helper`. Lower case.
const GIT_SECRETS: [&str; 2] = ["extraheader", "credential"];

/// Output is read by a program: nothing waits at a pager or colours its lines.
const SET: [(&str, &str); 8] = [
    ("GH_PAGER", "cat"),
    ("GIT_PAGER", "cat"),
    ("MANPAGER", "cat"),
    ("NO_COLOR", "1"),
    ("OPENOXIDE", "1"),
    ("PAGER", "cat"),
    ("SYSTEMD_PAGER", "cat"),
    ("TERM", "dumb"),
];

/// [`Inherit::Core`], as patterns.
const CORE: [&str; 14] = [
    "HOME", "LANG", "LANGUAGE", "LC_*", "LOGNAME", "PATH", "SHELL", "TEMP", "TERM", "TMP", "TMPDIR", "TZ", "USER",
    "USERNAME",
];

/// They tell of the parent's directory and last command, not of the child's.
const STALE: [&str; 3] = ["PWD", "OLDPWD", "_"];

impl Default for EnvPolicy {
    fn default() -> Self {
        Self {
            inherit: Inherit::All,
            exclude: None,
            set: SET.map(|(name, value)| (name.to_owned(), value.to_owned())).into(),
            login_path: true,
        }
    }
}

impl EnvPolicy {
    /// The environment of a command below a parent with these variables.
    ///
    /// Names that cannot be passed on (empty, or with `=` in them) are left out. Of git's settings in variables all pass or none.
    pub fn apply(&self, parent: impl Iterator<Item = (OsString, OsString)>) -> BTreeMap<OsString, OsString> {
        let (git, others): (Vec<_>, Vec<_>) =
            parent.filter(|(name, _)| self.inherits(name)).partition(|(name, _)| fits_any(&GIT_SETTINGS, name));
        let mut env: BTreeMap<OsString, OsString> =
            others.into_iter().filter(|(name, value)| !self.excludes(name, value)).collect();
        if !git.iter().any(|(name, value)| self.excludes_git(name, value)) {
            env.extend(git);
        }
        for (name, value) in &self.set {
            env.insert(name.into(), value.into());
        }
        env
    }

    fn inherits(&self, name: &OsStr) -> bool {
        let bytes = name.as_bytes();
        let is_inherited = match self.inherit {
            Inherit::All => true,
            Inherit::Core => fits_any(&CORE, name),
            Inherit::None => false,
        };
        is_inherited
            && !bytes.is_empty()
            && !bytes.contains(&b'=')
            && !STALE.iter().any(|stale| stale.as_bytes() == bytes)
    }

    fn excludes(&self, name: &OsStr, value: &OsStr) -> bool {
        match &self.exclude {
            Some(patterns) => fits_any(patterns, name),
            None => {
                fits_any(&EXCLUDED, name)
                    || looks_secret(&name.to_string_lossy())
                    || holds_secret(&value.to_string_lossy())
                    || value.as_bytes().starts_with(FUNCTION)
            }
        }
    }

    /// Whether one of [`GIT_SETTINGS`] is to stay behind, and all others with it. `KEY` in their names says nothing.
    fn excludes_git(&self, name: &OsStr, value: &OsStr) -> bool {
        match &self.exclude {
            Some(patterns) => fits_any(patterns, name),
            None => {
                let value = value.to_string_lossy();
                let lower = value.to_ascii_lowercase();
                holds_secret(&value) || GIT_SECRETS.iter().any(|part| lower.contains(part))
            }
        }
    }
}

fn fits_any(patterns: &[impl AsRef<str>], name: &OsStr) -> bool {
    patterns.iter().any(|pattern| matches(pattern.as_ref().as_bytes(), name.as_bytes()))
}

/// Whether a name fits a pattern of letters, `*` and `?`, in time linear in the name for each star.
fn matches(pattern: &[u8], name: &[u8]) -> bool {
    let (mut p, mut n) = (0, 0);
    // The last star, and where the name went on when it was met; after a mismatch the star takes one byte more.
    let mut star: Option<(usize, usize)> = None;
    while n < name.len() {
        match pattern.get(p) {
            Some(b'*') => {
                star = Some((p, n));
                p += 1;
            }
            Some(c) if *c == b'?' || c.eq_ignore_ascii_case(&name[n]) => {
                p += 1;
                n += 1;
            }
            _ => match star {
                Some((at, taken)) => {
                    star = Some((at, taken + 1));
                    p = at + 1;
                    n = taken + 1;
                }
                None => return false,
            },
        }
    }
    pattern[p..].iter().all(|c| *c == b'*')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn vars(names: &[&str]) -> impl Iterator<Item = (OsString, OsString)> {
        names.iter().map(|name| (OsString::from(name), OsString::from("v"))).collect::<Vec<_>>().into_iter()
    }

    fn kept(policy: &EnvPolicy, names: &[&str]) -> Vec<String> {
        let env = policy.apply(vars(names));
        env.keys()
            .map(|name| name.to_string_lossy().into_owned())
            .filter(|name| !policy.set.contains_key(name))
            .collect()
    }

    #[test]
    fn secrets_and_loaders_are_left_out_whatever_their_case() {
        let secrets = [
            "OPENAI_API_KEY",
            "github_token",
            "AWS_SECRET_ACCESS_KEY",
            "DB_PASSWORD",
            "MY_PASSWD",
            "Google_Credentials",
            "SESSION_COOKIE",
            "SSH_AUTH_SOCK",
            "DBUS_SESSION_BUS_ADDRESS",
            "DOCKER_HOST",
            "LD_PRELOAD",
            "LD_LIBRARY_PATH",
            "BASH_ENV",
            "BASH_FUNC_ls%%",
            "ENV",
            "MYSQL_PWD",
            "PGPASSFILE",
            "GITLAB_PAT",
            "SERVICE_JWT",
            "BEARER",
            "MY_SESSION",
            "DATABASE_URL",
            "SLACK_WEBHOOK",
        ];
        assert_eq!(kept(&EnvPolicy::default(), &secrets), Vec::<String>::new());
    }

    #[test]
    fn ordinary_variables_stay() {
        let ordinary = [
            "CARGO_HOME",
            "DESKTOP_SESSION",
            "ENVIRONMENT",
            "GIT_AUTHOR_NAME",
            "HOME",
            "LANG",
            "MY_ENV",
            "PATH",
            "SESSION_MANAGER",
            "VIRTUAL_ENV",
            "XDG_SESSION_ID",
        ];
        assert_eq!(kept(&EnvPolicy::default(), &ordinary), ordinary);
    }

    fn kept_of(policy: &EnvPolicy, variables: &[(&str, &str)]) -> Vec<String> {
        let env = policy.apply(variables.iter().map(|(name, value)| (OsString::from(name), OsString::from(value))));
        let names = env.keys().map(|name| name.to_string_lossy().into_owned());
        names.filter(|name| !policy.set.contains_key(name)).collect()
    }

    #[test]
    fn values_with_a_login_and_functions_stay_behind_whatever_their_name() {
        let variables = [
            ("HTTP_PROXY", "http://user:pw@proxy:3128"),
            ("PIP_INDEX_URL", "https://__token__:abc@pypi.example/simple"),
            ("greet", "() { echo hello; }"),
            ("https_proxy", "http://proxy:3128"),
            ("UV_INDEX_URL", "https://pypi.example/simple"),
            ("NOTE", "() is a pair of parentheses"),
        ];
        assert_eq!(kept_of(&EnvPolicy::default(), &variables), ["NOTE", "UV_INDEX_URL", "https_proxy"]);
        let all = EnvPolicy { exclude: Some(vec!["NOTE".to_owned()]), ..EnvPolicy::default() };
        assert_eq!(kept_of(&all, &variables).len(), 5, "what is given takes the place of what is built in");
    }

    #[test]
    fn gits_settings_pass_all_or_none() {
        let of = |key: &'static str, value: &'static str| {
            [
                ("GIT_CONFIG_COUNT", "2"),
                ("GIT_CONFIG_KEY_0", "safe.directory"),
                ("GIT_CONFIG_VALUE_0", "*"),
                ("GIT_CONFIG_KEY_1", key),
                ("GIT_CONFIG_VALUE_1", value),
                ("GIT_CONFIG_GLOBAL", "/etc/gitconfig"),
            ]
        };
        let policy = EnvPolicy::default();
        assert_eq!(kept_of(&policy, &of("core.pager", "cat")).len(), 6);
        for (key, value) in [
            ("http.https://github.com/.extraheader", "AUTHORIZATION: basic abc"),
            ("credential.helper", "!echo password=x"),
            ("url.https://user:pw@host/.insteadOf", "https://host/"),
        ] {
            assert_eq!(kept_of(&policy, &of(key, value)), ["GIT_CONFIG_GLOBAL"], "{key}");
        }
        assert_eq!(kept_of(&policy, &[("GIT_CONFIG_PARAMETERS", "'http.extraHeader=x'")]), Vec::<String>::new());
        let without = EnvPolicy { exclude: Some(vec!["*KEY*".to_owned()]), ..policy };
        assert_eq!(
            kept_of(&without, &of("core.pager", "cat")),
            ["GIT_CONFIG_GLOBAL"],
            "a count without keys breaks git"
        );
    }

    #[test]
    fn the_parents_directory_and_names_that_cannot_be_passed_on_stay_behind() {
        assert_eq!(kept(&EnvPolicy::default(), &["PWD", "OLDPWD", "_", "A=B", ""]), Vec::<String>::new());
    }

    #[test]
    fn output_is_made_for_a_program() {
        let env = EnvPolicy::default().apply(vars(&["TERM", "PAGER"]));
        for (name, value) in SET {
            assert_eq!(env.get(OsStr::new(name)), Some(&OsString::from(value)), "{name}");
        }
    }

    #[test]
    fn what_is_set_wins_over_what_is_excluded() {
        let mut policy = EnvPolicy::default();
        policy.set.insert("DEPLOY_TOKEN".to_owned(), "given on purpose".to_owned());
        let env = policy.apply(vars(&["DEPLOY_TOKEN"]));
        assert_eq!(env.get(OsStr::new("DEPLOY_TOKEN")), Some(&"given on purpose".into()));
    }

    #[test]
    fn core_and_none_inherit_less() {
        let mut policy = EnvPolicy { inherit: Inherit::Core, ..EnvPolicy::default() };
        assert_eq!(
            kept(&policy, &["EDITOR", "HOME", "LC_ALL", "PATH", "RUSTFLAGS", "USER"]),
            ["HOME", "LC_ALL", "PATH", "USER"]
        );
        policy.inherit = Inherit::None;
        assert_eq!(kept(&policy, &["HOME", "PATH"]), Vec::<String>::new());
    }

    #[test]
    fn patterns() {
        for (pattern, name, fits) in [
            ("*KEY*", "KEY", true),
            ("*key*", "A_KEYRING", true),
            ("LD_*", "OLD_X", false),
            ("A?C", "abc", true),
            ("A?C", "ac", false),
            ("*a*b*c", "xxaxxbxbc", true),
            ("*a*b*c", "xxaxxbxb", false),
            ("ENV", "ENVY", false),
            ("", "", true),
            ("**", "x", true),
        ] {
            assert_eq!(matches(pattern.as_bytes(), name.as_bytes()), fits, "{pattern} {name}");
        }
    }

    #[test]
    fn names_that_are_not_utf8_are_judged_by_their_bytes() {
        use std::os::unix::ffi::OsStringExt;
        let odd = OsString::from_vec(b"\xff_TOKEN".to_vec());
        let env = EnvPolicy::default().apply(std::iter::once((odd.clone(), "v".into())));
        assert!(!env.contains_key(&odd));
    }

    proptest::proptest! {
        #[test]
        fn a_substring_pattern_fits_what_contains_it(name in "[A-Za-z_]{0,20}", part in "[A-Za-z_]{1,3}") {
            let fits = matches(format!("*{part}*").as_bytes(), name.as_bytes());
            proptest::prop_assert_eq!(fits, name.to_ascii_lowercase().contains(&part.to_ascii_lowercase()));
        }
    }
}
