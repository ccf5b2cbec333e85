//! Whether the programs of a command stay what they are: found on the disk once, when the command is prepared, for whoever
//! decides whether it may run outside of the sandbox without being asked for again. Blocks on the disk.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use openoxide_display::quote_path;
use openoxide_sandbox::Confinement;

use super::env::Files;
use crate::rules::approvals::Facts;
use crate::{plain_commands, runs_what_others_wrote};

/// Where programs are looked for without `PATH`.
const DEFAULT_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// The most links that are followed to a program.
const MOST_LINKS: usize = 40;

/// What is known of the programs that the shell's line names.
pub(super) fn facts(files: &Files, argv: &[String], cwd: &Path) -> Facts {
    let changing = |is_swappable, why: String| Facts::ChangingPrograms { is_swappable, why };
    let [shell, flag, line] = argv else { return changing(true, "it is no line of a shell".to_owned()) };
    let Some(confinement) = files.confinement() else {
        return changing(true, "where commands may write is not known".to_owned());
    };
    let Some(commands) = plain_commands(line) else {
        return changing(true, "the line does not say which programs it runs".to_owned());
    };
    let path = files.program_path();
    let look = Look { cwd, path: path.as_deref().unwrap_or(OsStr::new(DEFAULT_PATH)), confinement: &confinement };
    if let Err(why) = look.find(shell) {
        return changing(true, why);
    }
    let mut runs_more = (flag != "-c").then(|| "a login shell runs the files of its user first".to_owned());
    for program in commands.iter().filter_map(|command| command.first()) {
        match look.find(program) {
            Err(why) => return changing(true, why),
            Ok(found) => {
                let names = [Path::new(program), &found].map(|path| path.file_name().and_then(OsStr::to_str));
                if names.into_iter().flatten().any(runs_what_others_wrote) {
                    runs_more.get_or_insert_with(|| format!("{program} runs what others wrote"));
                }
            }
        }
    }
    runs_more.map_or(Facts::FixedPrograms, |why| changing(false, why))
}

struct Look<'a> {
    cwd: &'a Path,
    path: &'a OsStr,
    confinement: &'a Confinement,
}

impl Look<'_> {
    /// The program that a name stands for, where no command could put another in its place.
    fn find(&self, program: &str) -> Result<PathBuf, String> {
        if program.contains('/') {
            return self.follow(&self.cwd.join(program));
        }
        for directory in std::env::split_paths(self.path) {
            if !directory.is_absolute() {
                return Err("PATH has a directory that depends on where a command runs".to_owned());
            }
            let Ok(directory) = directory.canonicalize() else { continue };
            let candidate = directory.join(program);
            // Whatever is put here is found ahead of what follows.
            self.hold(&candidate)?;
            if candidate.metadata().is_ok_and(|metadata| metadata.is_file()) {
                return self.follow(&candidate);
            }
        }
        Err(format!("no program `{program}` is found"))
    }

    /// Goes along the links to a program.
    fn follow(&self, path: &Path) -> Result<PathBuf, String> {
        let mut place = path.to_owned();
        for _ in 0..MOST_LINKS {
            let (Some(directory), Some(name)) = (place.parent(), place.file_name()) else { break };
            let gone = |error| format!("{}: {error}", quote_path(path));
            let real = directory.canonicalize().map_err(gone)?.join(name);
            self.hold(&place)?;
            self.hold(&real)?;
            match std::fs::read_link(&real) {
                Ok(next) => place = real.parent().unwrap_or(Path::new("/")).join(next),
                Err(_) if real.is_file() => return Ok(real),
                Err(_) => return Err(format!("{} is no program", quote_path(path))),
            }
        }
        Err(format!("{} leads nowhere", quote_path(path)))
    }

    fn hold(&self, place: &Path) -> Result<(), String> {
        let place: PathBuf = place.components().collect();
        match self.confinement.may_write(&place) {
            true => Err(format!("commands in the sandbox can change {}", quote_path(&place))),
            false => Ok(()),
        }
    }
}
