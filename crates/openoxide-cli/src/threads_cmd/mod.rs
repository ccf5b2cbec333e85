//! `openoxide threads`: the threads that are kept on disk, for the person who wants to look back, go on elsewhere, or clean
//! up. Works beside running servers: what one of them uses at this moment is read, and never written; what is idle may be
//! undone, put aside and deleted, which the server notices.

mod page;

use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context as _, bail};
use clap::Subcommand;
use openoxide_core::{
    JsonlStore, ThreadId, ThreadStore as _, ThreadSummary, Transcript, TurnId, fork_rollout, remove_temporary,
    summaries, undo_turn, visible_text,
};
use serde_json::json;

use crate::config;

/// Arguments of `openoxide threads`.
#[derive(Debug, clap::Args)]
pub(crate) struct ThreadsArgs {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// List threads, the one used last first.
    List(ListArgs),
    /// Show what was said and done on a thread.
    Show(ShowArgs),
    /// Copy a thread to a new one, whole or up to a turn; prints the new id.
    Fork(ForkArgs),
    /// Take back what a turn changed in files that nobody has changed since.
    Undo(UndoArgs),
    /// Put a thread aside: it is neither listed nor continued until it is taken back.
    Archive(ArchiveArgs),
    /// Delete a thread for good.
    Delete(DeleteArgs),
    /// Print a thread's lines as they are kept, or as a page with --html.
    Export(ShowArgs),
}

#[derive(Debug, clap::Args)]
struct ListArgs {
    /// How many to list.
    #[arg(long, default_value_t = 20, value_name = "N")]
    limit: usize,
    /// List those that were put aside instead.
    #[arg(long)]
    archived: bool,
    /// Print one JSON object for each.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, clap::Args)]
struct ShowArgs {
    /// The thread's id, or as much of its beginning as is unique.
    #[arg(value_name = "ID")]
    id: String,
    /// Print a page for a browser, with nothing to fetch.
    #[arg(long)]
    html: bool,
}

#[derive(Debug, clap::Args)]
struct ForkArgs {
    /// The thread's id, or as much of its beginning as is unique.
    #[arg(value_name = "ID")]
    id: String,
    /// The last turn to take along, by its id.
    #[arg(long, value_name = "TURN")]
    turn: Option<TurnId>,
    /// The directory in which the copy goes on; by default the original's.
    #[arg(long, value_name = "DIR")]
    cwd: Option<PathBuf>,
}

#[derive(Debug, clap::Args)]
struct UndoArgs {
    /// The thread's id, or as much of its beginning as is unique.
    #[arg(value_name = "ID")]
    id: String,
    /// The turn, by its id. Default: the last one that changed something.
    #[arg(long, value_name = "TURN")]
    turn: Option<TurnId>,
    /// Only say what would be done.
    #[arg(long)]
    dry_run: bool,
}

#[derive(Debug, clap::Args)]
struct ArchiveArgs {
    /// The thread's id, or as much of its beginning as is unique.
    #[arg(value_name = "ID")]
    id: String,
    /// Take it back.
    #[arg(long)]
    undo: bool,
}

#[derive(Debug, clap::Args)]
struct DeleteArgs {
    /// The threads' ids, or as much of their beginnings as is unique.
    #[arg(value_name = "ID", required = true)]
    ids: Vec<String>,
}

/// Does what is asked.
pub(crate) fn run(args: ThreadsArgs) -> anyhow::Result<ExitCode> {
    let home = config::home().context("there is no home directory; set OPENOXIDE_HOME")?;
    config::home::check(&home)?;
    let (store, aside) = (JsonlStore::new(&home), JsonlStore::archived(&home));
    let mut out = std::io::stdout().lock();
    match args.what {
        What::List(args) => list(&mut out, if args.archived { &aside } else { &store }, &args)?,
        What::Show(args) => {
            let transcript = Transcript::of(store.load(find(&store, &args.id)?)?);
            let text = if args.html { page::render(&transcript) } else { transcript.text() };
            out.write_all(text.as_bytes())?;
        }
        What::Export(args) => {
            let id = find(&store, &args.id)?;
            if args.html {
                out.write_all(page::render(&Transcript::of(store.load(id)?)).as_bytes())?;
            } else {
                std::io::copy(&mut std::fs::File::open(store.path_of(id)?)?, &mut out)?;
            }
        }
        What::Fork(args) => {
            let fork = {
                let cwd = args.cwd.map(std::path::absolute).transpose()?;
                let host_paths = config::places(None).host_paths();
                let to = cwd.as_deref().map(|cwd| (cwd, &host_paths));
                fork_rollout(&store, find(&store, &args.id)?, args.turn, to).map_err(told)?
            };
            writeln!(out, "{fork}")?;
        }
        What::Undo(args) => {
            let undone = undo_turn(&store, find(&store, &args.id)?, args.turn, args.dry_run).map_err(told)?;
            let verb = if args.dry_run { "would restore" } else { "restored" };
            for path in &undone.restored {
                writeln!(out, "{verb} {}", visible_text(&path.to_string_lossy()))?;
            }
            for (path, why) in &undone.left {
                writeln!(out, "left alone {}: {}", visible_text(&path.to_string_lossy()), visible_text(why))?;
            }
        }
        What::Archive(args) => {
            let (from, to) = if args.undo { (&aside, &store) } else { (&store, &aside) };
            let id = find(from, &args.id)?;
            from.move_to(id, to).map_err(|error| busy(&store, id, error))?;
        }
        What::Delete(args) => {
            let host_paths = config::places(None).host_paths();
            for id in &args.ids {
                let id = find(&store, id)?;
                store.delete(id).map_err(|error| busy(&store, id, error))?;
                remove_temporary(&host_paths, id);
            }
        }
    }
    out.flush()?;
    Ok(ExitCode::SUCCESS)
}

fn told(error: openoxide_core::CoreError) -> anyhow::Error {
    match error.hint() {
        Some(hint) => anyhow::anyhow!("{error}; {hint}"),
        None => error.into(),
    }
}

fn busy(store: &JsonlStore, id: ThreadId, error: std::io::Error) -> anyhow::Error {
    if error.kind() != std::io::ErrorKind::WouldBlock {
        return anyhow::Error::new(error).context(format!("thread {id}"));
    }
    let holder = store.holder(id).map_or_else(|| "another process".to_owned(), |holder| holder.to_string());
    anyhow::anyhow!(
        "thread {id} is in use by {holder}; wait until that is done, or interrupt or close the thread there"
    )
}

/// The thread whose id begins so.
fn find(store: &JsonlStore, wanted: &str) -> anyhow::Result<ThreadId> {
    if let Ok(id) = wanted.parse::<ThreadId>() {
        if !store.contains(id) {
            bail!("there is no thread {id}; `openoxide threads list` shows those that are kept");
        }
        return Ok(id);
    }
    let wanted = wanted.to_ascii_lowercase();
    let all = store.list().context("the threads cannot be listed")?;
    let fitting: Vec<ThreadId> =
        all.iter().map(|thread| thread.id).filter(|id| id.to_string().starts_with(&wanted)).collect();
    match fitting.as_slice() {
        [one] if !wanted.is_empty() => Ok(*one),
        [] => bail!("no thread's id begins with {wanted:?}; `openoxide threads list` shows those that are kept"),
        many => bail!("{} threads' ids begin with {wanted:?}; give more of it", many.len()),
    }
}

fn list(out: &mut impl std::io::Write, store: &JsonlStore, args: &ListArgs) -> anyhow::Result<()> {
    let found = summaries(store, args.limit).context("the threads cannot be listed")?;
    for ThreadSummary { id, bytes, modified, cwd, prompt, owner } in found {
        let when = time::OffsetDateTime::from(modified);
        if args.json {
            let when = when.format(&time::format_description::well_known::Rfc3339)?;
            let id = id.to_string();
            let object =
                json!({ "id": id, "modified": when, "bytes": bytes, "cwd": cwd, "prompt": prompt, "owner": owner });
            writeln!(out, "{object}")?;
            continue;
        }
        let when = when.format(time::macros::format_description!("[year]-[month]-[day] [hour]:[minute]"))?;
        let prompt: String = visible_text(&prompt).chars().take(60).collect();
        writeln!(out, "{id}  {when}  {}  {prompt}", visible_text(&cwd.to_string_lossy()))?;
    }
    Ok(())
}
