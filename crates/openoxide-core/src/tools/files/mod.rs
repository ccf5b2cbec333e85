//! Reading the thread's files for the model: trees ([`walk`]) by the rules of ignore files ([`rules`]), and project
//! documents up to the root of the repository ([`repository`]).
//!
//! Everything is opened through [`FileView`], and nothing in this crate opens a caller's file by another way. All of it
//! blocks on the disk and runs on threads for that, with a [`super::output::StopFlag`] or bounds of its own.

pub(crate) mod repository;
pub(crate) mod rules;
pub(crate) mod walk;

pub(crate) use openoxide_sandbox::{EntryKind, FileView, Links, OpenError, Opened, OpenedDirectory, OpenedFile};
