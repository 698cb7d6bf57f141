//! The command `vzero`.

use std::process::ExitCode;

fn main() -> ExitCode {
    vzero::main()
}
