//! A program that is a function of the stack: it starts itself again, so that nothing else has to be built.

use std::{
    io::{Read as _, Write as _},
    path::PathBuf,
    process::ExitCode,
};

/// The hidden argument behind which the program is a function.
pub const ARGUMENT: &str = "__function";

/// The function that this process is to be, by its binary's name.
pub fn asked_for() -> Option<String> {
    let mut arguments = std::env::args().skip(1);
    (arguments.next().as_deref() == Some(ARGUMENT)).then(|| arguments.next().unwrap_or_default())
}

/// Is this function until the process ends.
pub fn main(binary: &str) -> ExitCode {
    // The stack holds the other end of this pipe. However it goes, even killed, its functions go with it.
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
        _ => return ExitCode::from(2),
    };
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // As the function's own program does: into its log.
            let _ = writeln!(std::io::stderr(), "Error: {error:?}");
            ExitCode::FAILURE
        }
    }
}

/// This program's own file. The kernel's name for it stays good when the file is built anew.
pub fn this_program() -> PathBuf {
    let itself = PathBuf::from("/proc/self/exe");
    if itself.exists() {
        return itself;
    }
    std::env::current_exe().unwrap_or(itself)
}
