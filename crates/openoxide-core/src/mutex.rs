//! Taking a lock whatever a panic elsewhere has done.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Takes a lock whose data stays valid after any single statement, so that a panic elsewhere need not spread.
pub(crate) fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
