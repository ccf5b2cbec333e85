//! `fs/*` but handles. What is read is opened by the sandbox crate's view of files, which shows what commands may see; what is
//! changed is changed by a worker in the sandbox.

use std::ffi::OsStr;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use openoxide_rpc::RpcError;
use openoxide_sandbox::{EntryKind, FileView, OpenError, Opened, OpenedDirectory, OpenedFile, SandboxMode, Workspace};
use rustix::fs::Stat;
use serde_json::Value;

use super::error::{not_found, of_answer, of_io, of_open, refused};
use super::methods::Call;
use super::path::{Form, Given};
use super::policy::{Authority, Reach};
use super::worker::Worker;
use crate::protocol::{
    CanonicalizeResult, CopyParams, CreateDirectoryParams, DirectoryEntry, Done, Metadata, PathParams,
    ReadDirectoryResult, ReadFileResult, RemoveParams, WalkEntry, WalkError, WalkParams, WalkResult, WriteFileParams,
};
use crate::relay::Order;

/// Bytes of a file that is read or written whole: what fits a message in base64.
pub(super) const MOST_WHOLE: u64 = 11 << 20;
/// Entries of one directory.
const MOST_ENTRIES: usize = 100_000;
/// Bounds of a walk, whatever its options say.
const MOST_WALKED: usize = 100_000;

/// The view under a caller's sandbox object. Blocks on the disk.
fn view(authority: &Authority, sandbox: Option<&Value>) -> Result<FileView, RpcError> {
    let reach = authority.for_files(sandbox)?;
    let at = authority.first_root();
    let workspace = Workspace::resolve(at).map_err(|error| refused(error.to_string()))?;
    Ok(FileView::new(Arc::new(workspace), reach.policy.hidden(reach.launcher.host_paths())))
}

/// Reads on a thread that may block.
pub(super) async fn reading<T: Send + 'static>(
    call: &Call,
    sandbox: Option<Value>,
    read: impl FnOnce(&FileView) -> Result<T, RpcError> + Send + 'static,
) -> Result<T, RpcError> {
    let _place = call.session.reading.acquire().await;
    let shared = Arc::clone(&call.shared);
    let read = tokio::task::spawn_blocking(move || read(&view(&shared.authority, sandbox.as_ref())?));
    read.await.map_err(|error| RpcError::internal(error.to_string()))?
}

/// How far a change of this path reaches. Nobody changes a directory that callers are held in, or one above it.
pub(super) fn changing(authority: &Authority, given: &Given, sandbox: Option<&Value>) -> Result<Reach, RpcError> {
    let reach = authority.for_files(sandbox)?;
    match reach.policy.mode {
        SandboxMode::ReadOnly => {
            return Err(refused(format!(
                "{}: denied: the sandbox is read-only; nothing can be written",
                given.shown()
            )));
        }
        // What the sandbox does not hold is held here.
        SandboxMode::DangerFullAccess => authority.check_write(&given.path)?,
        SandboxMode::WorkspaceWrite => {}
    }
    Ok(reach)
}

async fn change(call: &Call, given: &Given, sandbox: Option<&Value>, order: Order) -> Result<Done, RpcError> {
    let authority = &call.shared.authority;
    let reach = changing(authority, given, sandbox)?;
    let _place = call.session.changing.acquire().await;
    let answer = Worker::start(authority, &reach).await?.obey(&order).await?;
    of_answer(&given.shown(), answer).map(|()| Done {})
}

pub(super) async fn read_file(call: Call, params: PathParams) -> Result<ReadFileResult, RpcError> {
    let given = Given::parse("path", &params.path)?;
    let room = call.out.room_to_answer().await;
    let data = reading(&call, params.sandbox, move |view| {
        let file = open_file(view, &given)?;
        let whole = file.read_whole(MOST_WHOLE).map_err(|error| of_io(&given.shown(), &error))?;
        whole.ok_or_else(|| {
            refused(format!(
                "{} has {} bytes, and at most {MOST_WHOLE} fit an answer; read it by fs/open and fs/readBlock",
                given.shown(),
                file.len()
            ))
        })
    });
    let data_base64 = STANDARD.encode(data.await?);
    drop(room);
    Ok(ReadFileResult { data_base64 })
}

pub(super) fn open_file(view: &FileView, given: &Given) -> Result<OpenedFile, RpcError> {
    match view.open_file(&given.path) {
        Err(OpenError::IsDirectory) => Err(refused(format!("path `{}` is not a file", given.shown()))),
        opened => opened.map_err(|error| of_open(&given.shown(), &error)),
    }
}

pub(super) async fn write_file(call: Call, params: WriteFileParams) -> Result<Done, RpcError> {
    let given = Given::parse("path", &params.path)?;
    super::process_methods::decode("dataBase64", &params.data_base64)?;
    let order = Order::Write { path: given.path.clone(), data: params.data_base64 };
    change(&call, &given, params.sandbox.as_ref(), order).await
}

pub(super) async fn create_directory(call: Call, params: CreateDirectoryParams) -> Result<Done, RpcError> {
    let given = Given::parse("path", &params.path)?;
    let order = Order::MakeDirectory { path: given.path.clone(), recursive: params.recursive.unwrap_or(false) };
    change(&call, &given, params.sandbox.as_ref(), order).await
}

pub(super) async fn remove(call: Call, params: RemoveParams) -> Result<Done, RpcError> {
    let given = Given::parse("path", &params.path)?;
    call.shared.authority.check_removal(&given.path)?;
    let (recursive, force) = (params.recursive.unwrap_or(false), params.force.unwrap_or(false));
    let order = Order::Remove { path: given.path.clone(), recursive, force };
    change(&call, &given, params.sandbox.as_ref(), order).await
}

pub(super) async fn copy(call: Call, params: CopyParams) -> Result<Done, RpcError> {
    let source = Given::parse("sourcePath", &params.source_path)?;
    let given = Given::parse("destinationPath", &params.destination_path)?;
    // What is not shown is not copied; the sandbox says so as well.
    let looked = source.clone();
    reading(&call, params.sandbox.clone(), move |view| {
        view.open(&looked.path).map(drop).map_err(|error| of_open(&looked.shown(), &error))
    })
    .await?;
    let (from, to) = (source.path.clone(), given.path.clone());
    let order = Order::Copy { source: from, destination: to, recursive: params.recursive };
    change(&call, &given, params.sandbox.as_ref(), order).await
}

pub(super) async fn get_metadata(call: Call, params: PathParams) -> Result<Metadata, RpcError> {
    let given = Given::parse("path", &params.path)?;
    reading(&call, params.sandbox, move |view| metadata(view, &given)).await
}

fn metadata(view: &FileView, given: &Given) -> Result<Metadata, RpcError> {
    let is_symlink = own_stat(view, &given.path)?.is_some_and(|stat| is_link(&stat));
    match view.open(&given.path) {
        Ok(Opened::File(file)) => {
            let created = file.file().metadata().ok().and_then(|metadata| metadata.created().ok());
            let since = created.and_then(|created| created.duration_since(std::time::UNIX_EPOCH).ok());
            let created_at_ms = since.and_then(|since| i64::try_from(since.as_millis()).ok()).unwrap_or(0);
            Ok(Metadata { created_at_ms, ..of_stat(file.stat(), is_symlink) })
        }
        Ok(Opened::Directory(directory)) => {
            let stat = directory.stat(OsStr::new(".")).map_err(|error| of_io(&given.shown(), &error))?;
            let stat = stat.ok_or_else(|| not_found(format!("{}: there is no such file", given.shown())))?;
            Ok(of_stat(&stat, is_symlink))
        }
        // It is there, and nobody reads it.
        Err(OpenError::Special { .. }) => match own_stat(view, &given.path)? {
            Some(stat) => Ok(Metadata { is_file: false, is_directory: false, ..of_stat(&stat, is_symlink) }),
            None => Err(not_found(format!("{}: there is no such file", given.shown()))),
        },
        Err(error) => Err(of_open(&given.shown(), &error)),
    }
}

/// The state of the path itself, not of what it links to; none for the root, and where what is above cannot be opened.
fn own_stat(view: &FileView, path: &Path) -> Result<Option<Stat>, RpcError> {
    let (Some(above), Some(name)) = (path.parent(), path.file_name()) else { return Ok(None) };
    match view.open_directory(above) {
        Ok(directory) => directory.stat(name).map_err(|error| of_io(&path.to_string_lossy(), &error)),
        Err(_) => Ok(None),
    }
}

fn is_link(stat: &Stat) -> bool {
    rustix::fs::FileType::from_raw_mode(stat.st_mode).is_symlink()
}

fn of_stat(stat: &Stat, is_symlink: bool) -> Metadata {
    let kind = rustix::fs::FileType::from_raw_mode(stat.st_mode);
    #[allow(clippy::useless_conversion, clippy::unnecessary_cast, reason = "the types differ between systems")]
    let modified_at_ms = i64::from(stat.st_mtime) * 1000 + stat.st_mtime_nsec as i64 / 1_000_000;
    Metadata {
        is_directory: kind.is_dir(),
        is_file: kind.is_file(),
        is_symlink,
        size: u64::try_from(stat.st_size).unwrap_or(0),
        created_at_ms: 0,
        modified_at_ms,
    }
}

pub(super) async fn canonicalize(call: Call, params: PathParams) -> Result<CanonicalizeResult, RpcError> {
    let given = Given::parse("path", &params.path)?;
    reading(&call, params.sandbox, move |view| {
        let opened = view.open(&given.path).map_err(|error| of_open(&given.shown(), &error))?;
        let path = match &opened {
            Opened::Directory(directory) => directory.path().to_path_buf(),
            Opened::File(file) => real_path(file).map_err(|error| of_io(&given.shown(), &error))?,
        };
        Ok(CanonicalizeResult { path: given.form.write(&path) })
    })
    .await
}

/// Where a file lies that is open.
#[cfg(target_os = "linux")]
fn real_path(file: &OpenedFile) -> std::io::Result<PathBuf> {
    use std::os::fd::AsRawFd as _;
    std::fs::read_link(format!("/proc/self/fd/{}", file.file().as_raw_fd()))
}

#[cfg(not(target_os = "linux"))]
fn real_path(file: &OpenedFile) -> std::io::Result<PathBuf> {
    use std::os::unix::ffi::OsStringExt as _;
    let path = rustix::fs::getpath(file.file())?;
    Ok(std::ffi::OsString::from_vec(path.into_bytes()).into())
}

pub(super) async fn read_directory(call: Call, params: PathParams) -> Result<ReadDirectoryResult, RpcError> {
    let given = Given::parse("path", &params.path)?;
    let room = call.out.room_to_answer().await;
    let entries = reading(&call, params.sandbox, move |view| {
        let directory = view.open_directory(&given.path).map_err(|error| of_open(&given.shown(), &error))?;
        let listed = directory.entries(MOST_ENTRIES).map_err(|error| of_io(&given.shown(), &error))?;
        let (entries, has_more) = listed;
        if has_more {
            return Err(refused(format!(
                "{} has more than {MOST_ENTRIES} entries; list it by a command",
                given.shown()
            )));
        }
        let entries = entries.into_iter().map(|entry| {
            let kind = match entry.kind {
                EntryKind::Link => led_to(view, &directory, &entry.name),
                kind => kind,
            };
            DirectoryEntry {
                file_name: entry.name.to_string_lossy().into_owned(),
                is_directory: kind == EntryKind::Directory,
                is_file: kind == EntryKind::File,
            }
        });
        Ok(entries.collect())
    });
    let entries = entries.await?;
    drop(room);
    Ok(ReadDirectoryResult { entries })
}

/// What a link leads to, as far as it is shown.
fn led_to(view: &FileView, directory: &OpenedDirectory, name: &OsStr) -> EntryKind {
    match view.open(&directory.path().join(name)) {
        Ok(Opened::Directory(_)) => EntryKind::Directory,
        Ok(Opened::File(_)) => EntryKind::File,
        Err(_) => EntryKind::Other,
    }
}

pub(super) async fn walk(call: Call, params: WalkParams) -> Result<WalkResult, RpcError> {
    let given = Given::parse("path", &params.path)?;
    let room = call.out.room_to_answer().await;
    let options = params.options;
    let walked = reading(&call, params.sandbox, move |view| {
        let first = view.open_directory(&given.path).map_err(|error| of_open(&given.shown(), &error))?;
        let bound = |asked: u64| usize::try_from(asked).unwrap_or(MOST_WALKED).min(MOST_WALKED);
        let walk = Walk {
            view,
            form: given.form,
            most_entries: bound(options.max_entries),
            most_directories: bound(options.max_directories),
            deepest: bound(options.max_depth),
            follows: options.follow_directory_symlinks,
            result: WalkResult::default(),
        };
        Ok(walk.run(first, given.path))
    });
    let walked = walked.await?;
    drop(room);
    Ok(walked)
}

/// A walk, breadth first, sorted by name in each directory.
struct Walk<'a> {
    view: &'a FileView,
    form: Form,
    most_entries: usize,
    most_directories: usize,
    deepest: usize,
    follows: bool,
    result: WalkResult,
}

impl Walk<'_> {
    fn run(mut self, first: OpenedDirectory, path: PathBuf) -> WalkResult {
        // Where each was met, and how deep: what is open at the same time is one directory.
        let mut waiting = std::collections::VecDeque::from([(path, 1)]);
        let mut entered = std::collections::HashSet::from([first.path().to_path_buf()]);
        let mut opened = Some(first);
        let mut directories = 0;
        while let Some((path, depth)) = waiting.pop_front() {
            if directories == self.most_directories {
                self.result.truncated = true;
                break;
            }
            directories += 1;
            let directory = match opened.take().map_or_else(|| self.view.open_directory(&path), Ok) {
                Ok(directory) => directory,
                Err(error) => {
                    self.fail(&path, &error);
                    continue;
                }
            };
            let entries = match directory.entries(self.most_entries.saturating_add(1)) {
                Ok((entries, has_more)) => {
                    self.result.truncated |= has_more;
                    entries
                }
                Err(error) => {
                    self.fail(&path, &error);
                    continue;
                }
            };
            for entry in entries {
                let met = path.join(&entry.name);
                let kind = match entry.kind {
                    EntryKind::Link if self.follows => match self.view.open_directory(&met) {
                        // One that was entered is not entered again: links go in circles.
                        Ok(led_to) if entered.insert(led_to.path().to_path_buf()) => EntryKind::Directory,
                        _ => continue,
                    },
                    EntryKind::Link | EntryKind::Other => continue,
                    kind => kind,
                };
                if self.result.entries.len() == self.most_entries {
                    self.result.truncated = true;
                    return self.result;
                }
                let is_directory = kind == EntryKind::Directory;
                let kind = if is_directory { "directory" } else { "file" };
                self.result.entries.push(WalkEntry { path: self.form.write(&met), kind: kind.to_owned() });
                if is_directory && depth < self.deepest {
                    waiting.push_back((met, depth + 1));
                }
            }
        }
        self.result
    }

    fn fail(&mut self, path: &Path, error: &dyn std::fmt::Display) {
        if self.result.errors.len() < self.most_entries {
            self.result.errors.push(WalkError { path: self.form.write(path), message: error.to_string() });
        }
    }
}

/// The path without `.` and `..`, as far as it is there without links, for judging where a change would be.
pub(super) fn settled(path: &Path) -> PathBuf {
    let mut rest = Vec::new();
    let mut at = path;
    loop {
        if let Ok(real) = at.canonicalize() {
            return rest.iter().rev().fold(real, |path: PathBuf, part: &std::ffi::OsString| path.join(part));
        }
        match (at.parent(), at.components().next_back()) {
            (Some(above), Some(Component::Normal(name))) => {
                rest.push(name.to_owned());
                at = above;
            }
            (Some(above), _) => at = above,
            (None, _) => return path.to_path_buf(),
        }
    }
}
