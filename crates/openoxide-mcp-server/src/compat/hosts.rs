//! How long a legacy caller is kept waiting, and what is known of hosts by the name they give.
//!
//! A legacy host has no tasks and does not say when it gives up. Most give up after the 60 s of their SDK, so a call is answered
//! `running` before that unless its caller wants progress or is known to be patient. The turn goes on and `openoxide-reply`
//! without a prompt fetches it. A name that is missing here makes an answer come early; no work is lost by it.

use std::time::Duration;

/// A host, the seconds it waits, and whether progress moves that. A name that ends in `*` stands for all that begin so.
///
/// Each wall was met with a call that sent progress throughout or that had no token for it, or is what the host's maintainers
/// say.
const WALLS: [(&str, u64, bool); 11] = [
    // 300 s by default, not extended by progress, then a cancellation.
    ("codex-mcp-client", 300, false),
    // About four minutes.
    ("claude-ai", 240, false),
    // Cancels after five minutes.
    ("Visual Studio Code", 300, false),
    ("Visual Studio Code - Insiders", 300, false),
    // Ten minutes, constant.
    ("gemini-cli-mcp-client", 600, false),
    // 60 s by default.
    ("Zed", 60, false),
    // 60 s despite progress.
    ("inspector-cli", 60, false),
    ("mcp-inspector*", 60, false),
    // 60 s, reset by progress where a token was given.
    ("opencode", 60, true),
    // 60 s; no token is given.
    ("@cline/core", 60, false),
    ("continue-cli-client", 60, false),
];
/// From our answer to the wall.
const MARGIN: u64 = 10;

/// Hosts that wait without progress: calls of 75 s and more came back, or no wall is set unless somebody sets it.
const PATIENT: [&str; 4] = [
    // 28 h by default.
    "claude-code",
    // 75 s were waited for.
    "qwen-cli-*",
    "mcp-use",
    // The Python SDK, which sets none; LangChain's adapters and others leave its name as it is.
    "mcp",
];

/// How long a call of a legacy host of this name is waited for; none to its end. `otherwise` is for hosts of which nothing is
/// known that tells more, neither by their name nor by a wish for progress.
pub(crate) fn wait(name: Option<&str>, gets_progress: bool, otherwise: Option<Duration>) -> Option<Duration> {
    let is = |known: &str| match (name, known.strip_suffix('*')) {
        (None, _) => false,
        (Some(name), Some(beginning)) => name.starts_with(beginning),
        (Some(name), None) => name == known,
    };
    match WALLS.iter().find(|(known, ..)| is(known)) {
        Some((_, _, true)) if gets_progress => None,
        Some((_, wall, _)) => Some(Duration::from_secs(wall - MARGIN)),
        None if gets_progress || PATIENT.into_iter().any(is) => None,
        None => otherwise,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EARLY: Option<Duration> = Some(Duration::from_secs(50));

    #[test]
    fn a_host_that_gives_up_is_answered_before() {
        for otherwise in [EARLY, None] {
            assert_eq!(wait(Some("codex-mcp-client"), true, otherwise), Some(Duration::from_secs(290)));
            assert_eq!(wait(Some("mcp-inspector-tui"), true, otherwise), EARLY);
            assert_eq!(wait(Some("opencode"), false, otherwise), EARLY);
            assert_eq!(wait(Some("continue-cli-client"), false, otherwise), EARLY);
        }
    }

    #[test]
    fn whoever_is_patient_or_wants_progress_is_answered_when_all_is_done() {
        for (name, gets_progress) in [
            (Some("opencode"), true),
            (Some("claude-code"), false),
            (Some("qwen-cli-mcp-client-openoxide"), false),
            (Some("mcp"), false),
            (Some("a host of tomorrow"), true),
            (None, true),
        ] {
            assert_eq!(wait(name, gets_progress, EARLY), None, "{name:?}");
        }
    }

    #[test]
    fn a_host_that_nobody_knows_is_answered_early() {
        for name in [Some("a host of tomorrow"), Some("mcp-of-somebody"), None] {
            assert_eq!((wait(name, false, EARLY), wait(name, false, None)), (EARLY, None), "{name:?}");
        }
    }
}
