//! The command `vzero` in a process of its own: its exit code, time, CPU time and peak memory.

use std::{
    io::Read as _,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use crate::{
    error::{BenchError, cannot},
    process,
    subject::root,
};

/// Interval between two readings of the CPU clock and of the memory. The last one is at most this long before the end.
const READ_INTERVAL: Duration = Duration::from_millis(5);

/// A finished command.
#[derive(Debug)]
pub(crate) struct Finished {
    pub(crate) elapsed: Duration,
    pub(crate) cpu: Duration,
    /// Peak resident memory, in bytes.
    pub(crate) memory: u64,
}

/// Builds the command as it is released, and returns its path. A prebuilt command is used if it is beside this program.
pub(crate) async fn build(prebuilt: bool) -> Result<PathBuf, BenchError> {
    // Beside this program, or, if this is a debug build, in the folder beside its own.
    let program = std::env::current_exe()?;
    let target = program.ancestors().find(|folder| folder.join("release").is_dir());
    let vzero = target
        .map_or_else(|| root().join("target"), Path::to_owned)
        .join("release/vzero");
    if prebuilt && vzero.is_file() {
        return Ok(vzero);
    }
    let built = tokio::process::Command::new("cargo")
        .args(["build", "--quiet", "--release", "-p", "vzero"])
        .current_dir(root())
        .output()
        .await?;
    match built.status.success() {
        true => Ok(vzero),
        false => Err(BenchError::Build {
            stderr: String::from_utf8_lossy(&built.stderr).into_owned(),
        }),
    }
}

/// Runs the command on a table, and waits for its end.
///
/// # Errors
///
/// Returns [`BenchError::UnexpectedResult`] with the messages of the command if it ends with another exit code.
pub(crate) async fn run(
    program: &Path,
    endpoint: &str,
    table: &str,
    arguments: &[&str],
    code: i32,
) -> Result<Finished, BenchError> {
    let mut command = Command::new(program);
    command
        .env_clear()
        .args(["--endpoint-url", endpoint, "--table", table, "--output", "json"])
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        // The few messages fit the buffer of the pipe.
        .stderr(Stdio::piped());
    let started = Instant::now();
    let child = command.spawn()?;
    let finished = tokio::task::spawn_blocking(move || wait(child, started, code));
    finished.await.map_err(cannot("join the command"))?
}

fn wait(mut child: Child, started: Instant, code: i32) -> Result<Finished, BenchError> {
    let (mut cpu, mut memory) = (Duration::ZERO, 0);
    let status = loop {
        cpu = process::cpu_time(child.id()).unwrap_or(cpu);
        memory = process::peak_memory(child.id()).unwrap_or(memory);
        if let Some(status) = child.try_wait()? {
            break status;
        }
        std::thread::sleep(READ_INTERVAL);
    };
    if status.code() == Some(code) {
        return Ok(Finished {
            elapsed: started.elapsed(),
            cpu,
            memory,
        });
    }
    let mut messages = String::new();
    if let Some(mut errors) = child.stderr.take() {
        errors.read_to_string(&mut messages)?;
    }
    Err(BenchError::UnexpectedResult(format!("{status} of vzero: {messages}")))
}
