//! Pager: shows long output on a terminal page by page, as git does.
//!
//! The pager starts with the first line of output, so that a command that fails shows only its error. Without a terminal, or if
//! the pager does not start, the output goes to standard output.

use std::{
    io::{self, IsTerminal as _, Write as _},
    process::{Child, Command, Stdio},
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

static PAGER: Mutex<State> = Mutex::new(State::None);
/// `true` after the reader of standard output closed the pipe.
static IS_CLOSED: AtomicBool = AtomicBool::new(false);

enum State {
    None,
    /// Command to start with the first line.
    Prepared(String),
    Started(Child),
}

/// Uses a pager for all text that follows, if standard output is a terminal.
pub(crate) fn prepare(command: &str) {
    let is_none = ["", "cat"].contains(&command.trim());
    if !is_none && io::stdout().is_terminal() {
        set(State::Prepared(command.to_owned()));
    }
}

/// Writes text without hidden characters, and a line feed, to the pager, or to standard output.
///
/// # Errors
///
/// Returns the error of the stream; `BrokenPipe` if the pager was closed.
pub(crate) fn write(text: &str) -> io::Result<()> {
    let mut state = PAGER.lock().unwrap_or_else(PoisonError::into_inner);
    if let State::Prepared(command) = &*state {
        *state = start(command).map_or(State::None, State::Started);
    }
    match &mut *state {
        State::Started(Child { stdin: Some(stdin), .. }) => writeln!(stdin, "{text}"),
        _ => match writeln!(io::stdout(), "{text}") {
            // The reader closed the pipe, as `head` does.
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {
                IS_CLOSED.store(true, Ordering::Relaxed);
                Ok(())
            }
            written => written,
        },
    }
}

/// Returns `true` if a write found that the reader of standard output has closed the pipe.
pub(crate) fn is_closed() -> bool {
    IS_CLOSED.load(Ordering::Relaxed)
}

/// Ends the output, and waits until the pager is closed.
pub(crate) fn close() {
    if let State::Started(mut pager) = set(State::None) {
        drop(pager.stdin.take());
        let _ = pager.wait();
    }
}

fn set(state: State) -> State {
    let mut current = PAGER.lock().unwrap_or_else(PoisonError::into_inner);
    std::mem::replace(&mut current, state)
}

/// Starts the pager with a shell, because the command can have options.
fn start(command: &str) -> io::Result<Child> {
    let program = command.split_whitespace().next().unwrap_or_default();
    // Without the program, print as usual. less: exit if the output fits one screen, show colors, keep the screen; the options of
    // the user take precedence.
    let script = format!(
        "command -v {program} >/dev/null 2>&1 || exec cat\nLESS=\"${{LESS-FRX}}\"; export LESS\nexec {command}"
    );
    let pager = Command::new("sh").arg("-c").arg(script).stdin(Stdio::piped()).spawn()?;
    // An interrupt is for the pager. Otherwise the command would end, and the pager would lose the terminal.
    tokio::spawn(async { while tokio::signal::ctrl_c().await.is_ok() {} });
    Ok(pager)
}
