//! Starts a function process and serves its Runtime API.

use std::{
    collections::BTreeMap,
    io,
    net::{Ipv4Addr, SocketAddr},
    path::PathBuf,
    process::Stdio,
    sync::Arc,
    time::Instant,
};

use tokio::process::{Child, Command};

use super::{output::Output, process::Process, runtime_api};
use crate::{
    dynamodb::endpoint::{ACCESS_KEY, access_key},
    listener,
    template::{Function, resolve::REGION},
};

/// Settings of function processes.
#[derive(Debug, Clone)]
pub struct Host {
    /// Program of all functions without a bootstrap.
    pub program: PathBuf,
    /// Arguments of `program` before the name of the function's binary.
    pub arguments: Vec<String>,
    /// Bootstraps, by the name of the function's binary. They take no arguments.
    pub bootstraps: BTreeMap<String, PathBuf>,
    /// Environment variables of all functions. They override the variables of a function.
    pub environment: BTreeMap<String, String>,
    /// Maximum number of processes of one function.
    pub concurrency: usize,
    /// Folder of the logs, one file per function.
    pub logs: PathBuf,
}

/// Starts a process, with a Runtime API on a port of its own.
pub(super) fn start(function: &Function, host: &Host) -> io::Result<Arc<Process>> {
    let listener = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let address = listener.local_addr()?;
    let output = Output::open(host.logs.join(format!("{}.log", function.binary)))?;
    let mut command = command(function, host, address, &output)?;
    let started = Instant::now();
    let child = command.spawn()?;
    let pid = child.id().unwrap_or_default();
    let process = Arc::new(Process::new(function.clone(), pid, started, output));
    let server = listener::serve(listener, runtime_api::router(process.clone(), address))?;
    let watched = process.clone();
    tokio::spawn(async move {
        watch(&watched, child).await;
        watched.exited();
        server.abort();
    });
    Ok(process)
}

/// Waits until the process exits, or kills it on request.
async fn watch(process: &Process, mut child: Child) {
    // `wait` closes the standard input of the child, which would end it.
    let _stdin = child.stdin.take();
    tokio::select! {
        _ = child.wait() => {}
        () = process.killed() => {
            let _ = child.kill().await;
        }
    }
}

fn command(function: &Function, host: &Host, runtime_api: SocketAddr, output: &Output) -> io::Result<Command> {
    let mut command = if let Some(bootstrap) = host.bootstraps.get(&function.binary) {
        Command::new(bootstrap)
    } else {
        let mut command = Command::new(&host.program);
        command.args(&host.arguments).arg(&function.binary);
        command
    };
    command
        .env_clear()
        .envs(&function.environment)
        .envs([
            ("AWS_LAMBDA_RUNTIME_API", runtime_api.to_string().as_str()),
            ("AWS_LAMBDA_FUNCTION_NAME", function.binary.as_str()),
            ("AWS_LAMBDA_FUNCTION_VERSION", "$LATEST"),
            ("AWS_LAMBDA_FUNCTION_MEMORY_SIZE", &function.memory.to_string()),
            ("AWS_LAMBDA_LOG_FORMAT", "JSON"),
            ("AWS_REGION", REGION),
            ("AWS_DEFAULT_REGION", REGION),
            ("AWS_ACCESS_KEY_ID", &access_key(&function.binary)),
            ("AWS_SECRET_ACCESS_KEY", ACCESS_KEY),
        ])
        // Last, because they may override the credentials and the Region.
        .envs(&host.environment)
        // The pipe closes when the stack ends, even if it is killed; the process then exits.
        .stdin(Stdio::piped())
        .stdout(output.stdio()?)
        .stderr(output.stdio()?)
        .kill_on_drop(true);
    Ok(command)
}
