//! Programs that run another one, and how their own words end.

use super::word::Word;

/// A program that runs the command that follows its own options.
pub(super) struct Wrapper {
    pub(super) name: &'static str,
    /// Letters of options that take a value.
    valued: &'static str,
    /// Plain words that belong to it, ahead of the command.
    operands: usize,
}

const fn wrapper(name: &'static str, valued: &'static str, operands: usize) -> Wrapper {
    Wrapper { name, valued, operands }
}

const WRAPPERS: [Wrapper; 52] = [
    wrapper("sudo", "ugpCRTDhrtU", 0),
    wrapper("doas", "uC", 0),
    wrapper("pkexec", "", 0),
    wrapper("runuser", "ugGs", 0),
    wrapper("setpriv", "", 0),
    wrapper("env", "uCa", 0),
    wrapper("nohup", "", 0),
    wrapper("nice", "n", 0),
    wrapper("ionice", "cn", 0),
    wrapper("chrt", "TPD", 1),
    wrapper("choom", "n", 0),
    wrapper("prlimit", "", 0),
    wrapper("numactl", "NmCipl", 0),
    wrapper("taskset", "", 1),
    wrapper("timeout", "ks", 1),
    wrapper("gtimeout", "ks", 1),
    wrapper("stdbuf", "ioe", 0),
    wrapper("unbuffer", "", 0),
    wrapper("rlwrap", "", 0),
    wrapper("command", "", 0),
    wrapper("builtin", "", 0),
    wrapper("exec", "a", 0),
    wrapper("time", "fo", 0),
    wrapper("setsid", "", 0),
    wrapper("chroot", "", 1),
    wrapper("busybox", "", 0),
    wrapper("toybox", "", 0),
    wrapper("unshare", "RSG", 0),
    wrapper("nsenter", "tSGrw", 0),
    wrapper("xargs", "IinLPsEda", 0),
    wrapper("parallel", "jIaSN", 0),
    wrapper("strace", "eopsauPE", 0),
    wrapper("ltrace", "eopsanuF", 0),
    wrapper("valgrind", "", 0),
    wrapper("watch", "nq", 0),
    wrapper("flock", "wE", 1),
    wrapper("setarch", "", 1),
    wrapper("linux32", "", 0),
    wrapper("linux64", "", 0),
    wrapper("fakeroot", "lfsib", 0),
    wrapper("firejail", "", 0),
    wrapper("systemd-run", "pEtuMH", 0),
    wrapper("systemd-inhibit", "", 0),
    wrapper("dbus-run-session", "", 0),
    wrapper("ssh-agent", "aEPt", 0),
    wrapper("xvfb-run", "enfpsw", 0),
    wrapper("caffeinate", "tw", 0),
    wrapper("chronic", "", 0),
    wrapper("eatmydata", "", 0),
    wrapper("catchsegv", "", 0),
    wrapper("daemonize", "acepolu", 0),
    wrapper("proxychains", "f", 0),
];

/// The wrapper of this name.
pub(super) fn find(name: &str) -> Option<&'static Wrapper> {
    WRAPPERS.iter().find(|wrapper| wrapper.name == name)
}

pub(super) fn is_assignment(word: &str) -> bool {
    word.split_once('=').is_some_and(|(name, _)| {
        !name.is_empty()
            && !name.starts_with(|c: char| c.is_ascii_digit())
            && name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '+'))
    })
}

impl Wrapper {
    /// Where the command may begin among the words after the name. A long option may or may not take the word after it.
    pub(super) fn starts(&self, words: &[Word]) -> Vec<usize> {
        let mut starts = Vec::new();
        self.walk(words, 0, self.operands, &mut starts);
        starts.sort_unstable();
        starts.dedup();
        starts
    }

    fn walk(&self, words: &[Word], mut at: usize, mut operands: usize, starts: &mut Vec<usize>) {
        const MOST: usize = 16;
        while let Some(word) = words.get(at) {
            let text = word.text.as_str();
            if text == "--" {
                at += 1;
            } else if text.starts_with("--") {
                let next_is_word = words.get(at + 1).is_some_and(|next| !next.text.starts_with('-'));
                if !text.contains('=') && next_is_word && starts.len() < MOST {
                    self.walk(words, at + 2, operands, starts);
                }
                at += 1;
            } else if let Some(letters) = text.strip_prefix('-').filter(|letters| !letters.is_empty()) {
                let last = letters.chars().last();
                let first = letters.chars().next();
                // `-n5` holds its value, `-xn` wants one.
                let takes_next = last.is_some_and(|last| self.valued.contains(last))
                    && (letters.len() == 1 || !first.is_some_and(|first| self.valued.contains(first)));
                at += 1 + usize::from(takes_next);
            } else if is_assignment(text) && self.operands == 0 {
                at += 1;
            } else if operands > 0 {
                operands -= 1;
                at += 1;
            } else {
                break;
            }
        }
        starts.push(at.min(words.len()));
    }
}
