//! What this program shows of itself to the processes beside it: nothing of its environment, and not its memory.
//!
//! The server is started with keys in its environment, and a command in full access runs as the same user. The kernel keeps the
//! environment that a program was started with in `/proc/PID/environ`, and lets every process of the user read the memory of a
//! process that is dumpable. Only the crate that may use `unsafe` can change the first, so both live here.

/// Clears the block of the environment that this program was started with, and has the kernel refuse this process's memory
/// to others (`PR_SET_DUMPABLE`, which also turns core dumps off), unless `stays_dumpable`, for a debugger.
///
/// The variables stay what they are for this process and for what it starts: they are copied first. Root may read the memory
/// of any process; its `/proc/PID/environ` is empty all the same.
///
/// It has to run in `main` before a second thread is there and before anything reads the environment, right after
/// [`crate::dispatch_helper`]. On systems without `/proc` it does nothing.
pub fn hide_own_process(stays_dumpable: bool) {
    #[cfg(target_os = "linux")]
    {
        clear_environment_block();
        if !stays_dumpable {
            // The kernel refuses values that it does not know, which this is none of.
            let _ = rustix::process::set_dumpable_behavior(rustix::process::DumpableBehavior::NotDumpable);
        }
    }
    #[cfg(not(target_os = "linux"))]
    let _ = stays_dumpable;
}

/// Makes a copy of this process that is about to become a supervisor dumpable again: an ordinary user's process that is not
/// cannot write its own `/proc/self/uid_map`.
#[cfg(target_os = "linux")]
pub(crate) fn become_dumpable() {
    let _ = rustix::process::set_dumpable_behavior(rustix::process::DumpableBehavior::Dumpable);
}

/// Copies all variables to fresh memory, points the C library there, and overwrites the originals.
#[cfg(target_os = "linux")]
fn clear_environment_block() {
    use std::ffi::{CStr, c_char};

    // SAFETY: it is the C library's own variable, declared with its type.
    #[allow(unsafe_code)]
    unsafe extern "C" {
        static mut environ: *mut *mut c_char;
    }

    // SAFETY: `environ` is null or a list of strings that ends with a null, each ending with a zero byte. This process has one
    // thread, so that nobody reads the list or a string meanwhile. The copies are never freed. The originals lie in the block
    // that the kernel made, which is writable, and nothing points to them any more.
    #[allow(unsafe_code)]
    unsafe {
        let original = environ;
        if original.is_null() {
            return;
        }
        let mut copies = Vec::new();
        let mut at = original;
        while !(*at).is_null() {
            copies.push(CStr::from_ptr(*at).to_owned().into_raw());
            at = at.add(1);
        }
        copies.push(std::ptr::null_mut());
        environ = Box::leak(copies.into_boxed_slice()).as_mut_ptr();
        let mut at = original;
        while !(*at).is_null() {
            let length = CStr::from_ptr(*at).count_bytes();
            std::ptr::write_bytes(*at, 0, length);
            at = at.add(1);
        }
    }
}
