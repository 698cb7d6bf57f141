//! The command line.

use std::path::PathBuf;

use clap::Parser;

/// Measures the functions side by side with their peers, and says where a target is met.
///
/// Prints a table, and writes target/bench/results.json, the same as results.md, and a plot for each comparison. Peers that are not installed are
/// left out; tools/bench/peers/install installs them. Exit codes: 0 measured, whatever the figures; 1 something failed;
/// 2 usage.
#[derive(Debug, Parser)]
#[command(name = "bench", version, after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The comparisons to run, by name [default: all]
    #[arg(value_name = "NAME")]
    pub(crate) names: Vec<String>,

    /// Few and small runs, to see that it works; the figures mean little
    #[arg(long)]
    pub(crate) quick: bool,

    /// List the comparisons and exit
    #[arg(long)]
    pub(crate) list: bool,

    /// A folder of functions that cargo lambda build made, such as target/lambda [default: built by cargo]
    #[arg(long, value_name = "DIR")]
    pub(crate) functions: Option<PathBuf>,

    /// The folder for results and plots
    #[arg(long, value_name = "DIR", default_value = "target/bench")]
    pub(crate) output: PathBuf,
}

const EXAMPLES: &str = "\
Examples:
  cargo run --release -p bench                          everything
  cargo run --release -p bench -- start 'cold path'     two comparisons; cold-path will do, too
  cargo run --release -p bench -- --quick               all of it, in short";

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn the_command_line_is_sound() {
        Args::command().debug_assert();
    }
}
