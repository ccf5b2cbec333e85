//! The families of direct attempts, each as a check.

use crate::support::attempts::{
    none_changes_protected, none_gets_through, they_change_protected_without, they_get_through_without,
};
use crate::support::house::House;

/// Changes to files outside, by each call and each way to name them.
pub fn files(house: &House) {
    none_gets_through(house, "files");
}

/// Changes to files outside, by mounts and by other tables of calls.
pub fn writes(house: &House) {
    none_gets_through(house, "writes");
}

/// Calls, settings and devices that are judged by the kernel's answer.
pub fn answers(house: &House) {
    none_gets_through(house, "answers");
}

/// Calls that this kernel may be too old to have.
pub fn newer_calls(house: &House) {
    none_gets_through(house, "newer");
}

/// Devices that are read.
pub fn devices(house: &House) {
    none_gets_through(house, "devices");
}

/// Credentials that are read.
pub fn secrets(house: &House) {
    none_gets_through(house, "secrets");
}

/// Names of credentials, processes and shared memory, where they are out of sight.
pub fn names(house: &House) {
    none_gets_through(house, "names");
}

/// A process outside: memory, descriptors, signals, settings, namespaces.
pub fn processes(house: &House) {
    none_gets_through(house, "processes");
}

/// Memory, messages and semaphores that are shared by number or name.
pub fn shared(house: &House) {
    none_gets_through(house, "shared");
}

/// The terminal of a process outside.
pub fn terminals(house: &House) {
    none_gets_through(house, "terminals");
}

/// Listeners outside.
pub fn network(house: &House) {
    none_gets_through(house, "network");
}

/// Protected names: what they hold, and what pointer files lead to.
pub fn protected(house: &House) {
    none_changes_protected(house, "protected");
}

/// A link of a protected name, and what it leads to.
pub fn links(house: &House) {
    none_changes_protected(house, "links");
}

/// Protected names that are not there.
pub fn missing(house: &House) {
    none_changes_protected(house, "missing");
}

/// The directories in which protected names stand.
pub fn parents(house: &House) {
    none_changes_protected(house, "parents");
}

/// All of them get through without a sandbox.
pub fn controls(house: &House) {
    for family in ["files", "answers", "secrets", "names", "processes", "shared", "terminals", "network"] {
        they_get_through_without(house, family);
    }
    for family in ["protected", "links", "missing", "parents"] {
        they_change_protected_without(house, family);
    }
}
