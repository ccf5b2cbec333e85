//! `process/*`: from parameters to a [`Process`], and its answers.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use openoxide_rpc::RpcError;
use openoxide_sandbox::{EnvPolicy, Inherit, Workspace};

use super::error::refused;
use super::link::{self, RelaySpec};
use super::methods::Call;
use super::path::Given;
use super::policy::{Authority, Reach};
use super::process::{Process, Source};
use super::session::Session;
use crate::protocol::{
    Done, EnvPolicyParams, ReadParams, ReadResult, Signal, SignalParams, StartParams, StartResult, TerminateParams,
    TerminateResult, WriteParams, WriteResult, WriteStatus,
};
use crate::relay::frames::FromRelay;
use crate::relay::{RELAY_ARG, role};

/// The id is taken from now on, so that what follows in the same breath meets the process.
pub(super) fn start(call: Call, params: StartParams) -> impl Future<Output = Result<StartResult, RpcError>> + Send {
    let prepared = prepare(&call, &params);
    async move {
        let (reach, cwd, process) = prepared?;
        let id = params.process_id.clone();
        let sandbox_type = reach.sandbox_type().to_owned();
        let start = async {
            // An error is a semaphore that was closed, and this one never is.
            let _place = call.session.starting.acquire().await;
            launch(&call.shared.authority, &reach, &cwd, params).await
        };
        // What was begun is ended by being dropped.
        let started = tokio::select! {
            biased;
            started = start => started,
            () = process.ending() => Err(refused("the process was terminated before it ran")),
        };
        match started {
            Ok(source) => {
                process.run(&Arc::downgrade(&call.session), source);
                Ok(StartResult { process_id: id, sandbox_type })
            }
            Err(error) => {
                call.session.remove(&id);
                Err(error)
            }
        }
    }
}

fn prepare(call: &Call, params: &StartParams) -> Result<(Reach, Arc<Workspace>, Arc<Process>), RpcError> {
    if params.argv.first().is_none_or(String::is_empty) {
        return Err(RpcError::invalid_params("argv must not be empty; name a program"));
    }
    if params.process_id.is_empty() {
        return Err(RpcError::invalid_params("processId must not be empty"));
    }
    if params.enforce_managed_network {
        return Err(refused(
            "a network that goes through the client's proxy (enforceManagedNetwork) cannot be enforced here, so nothing is \
             run",
        ));
    }
    let authority = &call.shared.authority;
    let cwd = authority.directory(&Given::parse("cwd", &params.cwd)?)?;
    let reach = authority.for_command(&cwd, params.sandbox.as_ref())?;
    let takes_input = params.tty || params.pipe_stdin;
    let process = Process::new(params.process_id.clone(), reach.policy.mode, takes_input);
    call.session.add(&params.process_id, &process)?;
    Ok((reach, cwd, process))
}

async fn launch(
    authority: &Authority,
    reach: &Reach,
    cwd: &Workspace,
    params: StartParams,
) -> Result<Source, RpcError> {
    let StartParams { argv, env, env_policy, tty, pipe_stdin, arg0, .. } = params;
    let env = environment(&authority.env, env_policy, env)?;
    let (program, cwd) = (&authority.program, cwd.path().to_path_buf());
    if tty {
        let argv = match arg0 {
            None => argv,
            Some(arg0) => {
                let own = [link::text(program)?, RELAY_ARG.to_owned(), role::EXEC.to_owned(), arg0];
                own.into_iter().chain(argv).collect()
            }
        };
        let command = link::spawn(reach, argv, cwd, env, true).await?;
        return Ok(Source::Terminal(Arc::new(command)));
    }
    let name = argv[0].clone();
    let input = if pipe_stdin { "pipe" } else { "null" };
    let arguments = [input.to_owned(), arg0.unwrap_or_default()].into_iter().chain(argv).collect();
    let spec = RelaySpec { reach, authority, role: role::RUN, arguments, cwd, env };
    let (mut reader, writer) = link::start_relay(spec).await?;
    match reader.next().await {
        Some(FromRelay::Ready) => Ok(Source::Relay(reader, writer)),
        Some(FromRelay::Failed(errno)) => {
            let why = std::io::Error::from_raw_os_error(errno);
            Err(RpcError::invalid_params(format!(
                "command `{name}` cannot be run: {why}; name a program in the PATH of env or give its path"
            )))
        }
        _ => Err(RpcError::internal(format!("command `{name}` was not started: the relay ended before"))),
    }
}

/// What is inherited, and then what is given. What looks like a secret is never inherited.
fn environment(
    own: &BTreeMap<OsString, OsString>,
    policy: Option<EnvPolicyParams>,
    given: BTreeMap<String, String>,
) -> Result<BTreeMap<OsString, OsString>, RpcError> {
    let mut env = BTreeMap::new();
    if let Some(policy) = policy {
        let inherit = match policy.inherit.as_deref() {
            Some("all") | None => Inherit::All,
            Some("core") => Inherit::Core,
            Some("none") => Inherit::None,
            Some(other) => {
                let message = format!("envPolicy.inherit is {other:?}; allowed: all, core, none");
                return Err(RpcError::invalid_params(message));
            }
        };
        let mut rules = EnvPolicy::default();
        (rules.inherit, rules.set) = (inherit, BTreeMap::new());
        env = rules.apply(own.clone().into_iter());
        if !policy.exclude.is_empty() {
            (rules.inherit, rules.exclude) = (Inherit::All, Some(policy.exclude));
            env = rules.apply(env.into_iter());
        }
        env.extend(policy.set.into_iter().map(|(name, value)| (name.into(), value.into())));
        if !policy.include_only.is_empty() {
            // What fits is what would be left out.
            (rules.inherit, rules.exclude) = (Inherit::All, Some(policy.include_only));
            let others = rules.apply(env.clone().into_iter());
            env.retain(|name, _| !others.contains_key(name));
        }
    }
    env.extend(given.into_iter().map(|(name, value)| (name.into(), value.into())));
    Ok(env)
}

fn find(session: &Session, id: &str) -> Result<Arc<Process>, RpcError> {
    session.process(id).ok_or_else(|| refused(format!("unknown process id {id}")))
}

pub(super) async fn read(call: Call, params: ReadParams) -> Result<ReadResult, RpcError> {
    let process = find(&call.session, &params.process_id)?;
    let read = process.read(&params, call.is_ended).await;
    drop(call.out.room_to_answer().await);
    Ok(read)
}

/// Writes are in the order of their requests.
pub(super) fn write(call: Call, params: WriteParams) -> impl Future<Output = Result<WriteResult, RpcError>> + Send {
    std::future::ready(write_now(&call.session, &params))
}

fn write_now(session: &Session, params: &WriteParams) -> Result<WriteResult, RpcError> {
    let bytes = decode("chunk", &params.chunk)?;
    let status = match session.process(&params.process_id) {
        Some(process) => process.write(params.write_id.as_deref(), &bytes)?,
        None => WriteStatus::UnknownProcess,
    };
    // Whoever numbers its writes wants to be told by a status.
    if params.write_id.is_some() || status == WriteStatus::Accepted {
        return Ok(WriteResult { status });
    }
    let id = &params.process_id;
    Err(refused(match status {
        WriteStatus::UnknownProcess => format!("unknown process id {id}"),
        _ => format!("stdin of process {id} is closed: it has exited, or was started without tty and pipeStdin"),
    }))
}

pub(super) fn decode(field: &str, text: &str) -> Result<Vec<u8>, RpcError> {
    STANDARD.decode(text).map_err(|error| RpcError::invalid_params(format!("{field} is not base64: {error}")))
}

pub(super) fn signal(call: Call, params: SignalParams) -> impl Future<Output = Result<Done, RpcError>> + Send {
    let Signal::Interrupt = params.signal;
    if let Some(process) = call.session.process(&params.process_id) {
        process.interrupt();
    }
    std::future::ready(Ok(Done {}))
}

pub(super) fn terminate(
    call: Call,
    params: TerminateParams,
) -> impl Future<Output = Result<TerminateResult, RpcError>> + Send {
    let process = call.session.process(&params.process_id);
    let running = process.is_some_and(|process| process.terminate());
    std::future::ready(Ok(TerminateResult { running }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn os(pairs: &[(&str, &str)]) -> BTreeMap<OsString, OsString> {
        pairs.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect()
    }

    #[test]
    fn nothing_is_inherited_unasked_and_no_secret_ever() {
        let own = os(&[("PATH", "/bin"), ("OPENAI_API_KEY", "sk-x"), ("LANG", "C"), ("FOO", "1")]);
        let given = || BTreeMap::from([("FOO".to_owned(), "2".to_owned())]);
        assert_eq!(environment(&own, None, given()).unwrap(), os(&[("FOO", "2")]));
        let policy =
            |inherit: &str| EnvPolicyParams { inherit: Some(inherit.to_owned()), ..EnvPolicyParams::default() };
        let all = environment(&own, Some(policy("all")), given()).unwrap();
        assert_eq!(all, os(&[("FOO", "2"), ("LANG", "C"), ("PATH", "/bin")]));
        let core = environment(&own, Some(policy("core")), BTreeMap::new()).unwrap();
        assert_eq!(core, os(&[("LANG", "C"), ("PATH", "/bin")]));
        let without = EnvPolicyParams { exclude: vec!["LA*".to_owned()], ..policy("all") };
        assert_eq!(environment(&own, Some(without), BTreeMap::new()).unwrap(), os(&[("FOO", "1"), ("PATH", "/bin")]));
        let only = EnvPolicyParams { include_only: vec!["F*".to_owned()], ..policy("all") };
        assert_eq!(environment(&own, Some(only), BTreeMap::new()).unwrap(), os(&[("FOO", "1")]));
        assert!(environment(&own, Some(policy("some")), BTreeMap::new()).unwrap_err().message.contains("some"));
    }
}
