//! The command line.

use std::path::PathBuf;

use clap::Parser;

/// Compare the functions with their peers, and report which targets are met.
///
/// Prints a table, and writes results.json into target/bench: medians, with the minimum and maximum. Peers that are not installed are
/// omitted; `setup` installs them. Results of comparisons that do not run are kept, with the date and commit of their
/// measurement. Exit codes: 0 the measurement succeeded, with any figures; 1 failure; 2 usage; 3 figures worse than those of --baseline.
#[derive(Debug, Parser)]
#[command(name = "bench", version, after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Comparisons to run; `setup` installs the peers and builds the programs, `all` does this and runs everything [default: all that is
    /// installed]
    #[arg(value_name = "NAME")]
    pub(crate) names: Vec<String>,

    /// Run few and small measurements, as a test of the benchmark; the figures are not valid
    #[arg(long)]
    pub(crate) quick: bool,

    /// List the comparisons and exit
    #[arg(long)]
    pub(crate) list: bool,

    /// Folder with the output of cargo lambda build, such as target/lambda [default: build them with cargo]
    #[arg(long, value_name = "DIR")]
    pub(crate) functions: Option<PathBuf>,

    /// Program vzero [default: build it with cargo]
    #[arg(long, value_name = "FILE")]
    pub(crate) vzero: Option<PathBuf>,

    /// Number of entities of the comparison "whole table", which also measures a third of them, at most 10000, and a tenth, a hundredth and a thousandth [default: 20000, or 1000 with --quick]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1_000..))]
    pub(crate) entities: Option<u64>,

    /// Folder for results and logs
    #[arg(long, value_name = "DIR", default_value = "target/bench")]
    pub(crate) output: PathBuf,

    /// Results of an earlier run, a results.json. Several, the oldest first: each figure is compared with their median. Print the changes, and exit
    /// with code 3 if a figure with a target is more than 25 % worse or missing
    #[arg(long, value_name = "FILE")]
    pub(crate) baseline: Vec<PathBuf>,

    /// Page to update, such as docs/performance.md: replace the results between its two markers
    #[arg(long, value_name = "FILE", conflicts_with = "quick")]
    pub(crate) page: Option<PathBuf>,
}

const EXAMPLES: &str = "\
Examples:
  cargo run --release -p bench -- all                   installs the peers, and runs everything
  cargo run --release -p bench -- start 'cold path'     two comparisons; cold-path is also accepted
  cargo run --release -p bench -- --quick               a short run of everything
  cargo run --release -p bench -- all --page docs/performance.md    everything, and the page with the results";
