//! Runs a Lambda function in this program: the stack starts its own executable again, so that no other program is built.

use std::{
    io::{Read as _, Write as _},
    path::PathBuf,
    process::ExitCode,
};

use crate::seal;

/// Hidden argument before the name of the function to run.
pub const ARGUMENT: &str = "__function";

/// Returns the binary of the function that this process must run, if any.
pub fn requested() -> Option<String> {
    let mut arguments = std::env::args().skip(1);
    (arguments.next().as_deref() == Some(ARGUMENT)).then(|| arguments.next().unwrap_or_default())
}

pub fn main(binary: &str) -> ExitCode {
    // The stack holds the other end of this pipe. When the stack ends, even if it is killed, its functions exit.
    std::thread::spawn(|| {
        let _ = std::io::stdin().read_to_end(&mut Vec::new());
        std::process::exit(0);
    });
    let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_all().build() else {
        return ExitCode::FAILURE;
    };
    let ended = match binary {
        "writer-fn" => runtime.block_on(writer_fn::run()),
        "stream-fn" => runtime.block_on(stream_fn::run()),
        seal::BINARY => runtime.block_on(Box::pin(sealing::run())),
        _ => return ExitCode::from(2),
    };
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // The function's own program also writes it to the log.
            let _ = writeln!(std::io::stderr(), "Error: {error:?}");
            ExitCode::FAILURE
        }
    }
}

/// Returns the path of this program. `/proc/self/exe` stays valid when the file is rebuilt.
pub fn this_program() -> PathBuf {
    let itself = PathBuf::from("/proc/self/exe");
    if itself.exists() {
        return itself;
    }
    std::env::current_exe().unwrap_or(itself)
}
