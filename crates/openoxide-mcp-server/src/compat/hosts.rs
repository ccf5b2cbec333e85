//! What is known of hosts by the name they give: how long they wait for an answer, whatever progress they are told.
//!
//! A legacy host has no tasks and does not say when it gives up. A call that lasts longer than its host waits would be lost,
//! so it is answered `running` shortly before; the turn goes on and `openoxide-reply` without a prompt fetches it.

use std::time::Duration;

/// A host, the seconds it waits, and whether progress moves that. A name that ends in `*` stands for all that begin so.
///
/// Each wall was met with a call that sent progress throughout, or is what the host's maintainers say.
const WALLS: [(&str, u64, bool); 9] = [
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
];
/// From our answer to the wall.
const MARGIN: u64 = 10;

/// How long a legacy host of this name waits, less a margin; none where no wall is known.
pub(crate) fn wait(name: Option<&str>, gets_progress: bool) -> Option<Duration> {
    let name = name?;
    let is = |known: &str| match known.strip_suffix('*') {
        Some(beginning) => name.starts_with(beginning),
        None => name == known,
    };
    let (_, wall, is_moved) = WALLS.iter().find(|(known, ..)| is(known))?;
    (!(gets_progress && *is_moved)).then(|| Duration::from_secs(wall - MARGIN))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_known_host_is_answered_before_it_gives_up_and_others_when_all_is_done() {
        assert_eq!(wait(Some("codex-mcp-client"), true), Some(Duration::from_secs(290)));
        assert_eq!(wait(Some("mcp-inspector-tui"), true), Some(Duration::from_secs(50)));
        assert_eq!(wait(Some("opencode"), false), Some(Duration::from_secs(50)));
        assert_eq!(wait(Some("opencode"), true), None);
        assert_eq!(wait(Some("claude-code"), false), None);
        assert_eq!(wait(None, false), None);
    }
}
