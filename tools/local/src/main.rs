//! The command `local`. The same program runs each function that it starts.

use std::process::ExitCode;

use local::{args::Args, function, run};

fn main() -> ExitCode {
    if let Some(binary) = function::requested() {
        return function::main(&binary);
    }
    let args: Args = terminal::arguments();
    match tokio::runtime::Runtime::new() {
        Ok(runtime) => runtime.block_on(run::main(args, function::this_program())),
        Err(_) => ExitCode::FAILURE,
    }
}
