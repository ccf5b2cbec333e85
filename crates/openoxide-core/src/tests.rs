//! Threads from outside: operations in, events out, with a scripted model and commands that are not started.

mod approvals;
mod attaching;
mod boxed_reads;
mod budgets;
mod commands;
mod coverage;
mod edits;
mod exchanges;
mod faults;
mod lasting;
mod listing;
mod patches;
mod reading;
mod shares;
mod sharing;
mod support;
mod turns;
