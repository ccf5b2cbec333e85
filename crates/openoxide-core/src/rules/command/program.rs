//! What a program is called.

/// A program by the name that decides: without the directories in which the system keeps its own.
pub(super) fn system_name(program: &str) -> Option<&str> {
    let name =
        ["/usr/bin/", "/bin/"].into_iter().find_map(|directory| program.strip_prefix(directory)).unwrap_or(program);
    (!name.is_empty() && !name.contains('/')).then_some(name)
}

/// The last component of a program's path.
pub(super) fn base_name(program: &str) -> &str {
    program.rsplit('/').next().unwrap_or(program)
}
