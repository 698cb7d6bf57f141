//! The comparisons, by name.

mod cold_path;
mod console;
mod cost;
mod growth;
mod history_lag;
mod memory;
mod package;
mod scaling;
mod seed;
mod start;
mod stream_cpu;
mod stream_throughput;
mod turns;
mod writer;

use std::{path::PathBuf, time::Duration};

use tempfile::TempDir;

use crate::{
    args::Args, certificate::Certificate, error::BenchError, figure::Comparison, machine, plot, progress::Progress,
    report, subject::Subjects,
};

/// How long the stub takes for a call, where it takes any time.
const CALL: Duration = Duration::from_millis(5);

/// What a comparison works with.
pub(crate) struct Bench {
    /// Few and small runs.
    pub(crate) quick: bool,
    pub(crate) subjects: Subjects,
    pub(crate) certificate: Certificate,
    pub(crate) progress: Progress,
    /// Where functions log to.
    pub(crate) logs: PathBuf,
    /// Holds the certificate's files.
    _folder: TempDir,
}

impl Bench {
    /// The first, or, in a quick run, the second.
    pub(crate) fn size<T>(&self, whole: T, quick: T) -> T {
        if self.quick { quick } else { whole }
    }
}

const NAMES: [&str; 12] = [
    "start",
    "cold path",
    "stream throughput",
    "stream CPU",
    "writer",
    "memory",
    "package",
    "scaling",
    "cost",
    "history lag",
    "growth",
    "console",
];

async fn measure(name: &'static str, bench: &Bench) -> Result<Comparison, BenchError> {
    match name {
        "start" => start::measure(bench).await,
        "cold path" => cold_path::measure(bench).await,
        "stream throughput" => stream_throughput::measure(bench).await,
        "stream CPU" => stream_cpu::measure(bench).await,
        "writer" => writer::measure(bench).await,
        "memory" => memory::measure(bench).await,
        "package" => package::measure(bench),
        "cost" => cost::measure(bench).await,
        "history lag" => history_lag::measure(bench).await,
        "growth" => growth::measure(bench).await,
        "console" => console::measure(bench).await,
        _ => scaling::measure(bench).await,
    }
}

/// Runs what is asked for.
pub(crate) async fn run(args: &Args) -> Result<(), BenchError> {
    if args.list {
        report::print(&NAMES.join("\n"));
        return Ok(());
    }
    let names = chosen(&args.names)?;
    std::fs::create_dir_all(&args.output)?;
    let progress = Progress::new(names.len() as u64);
    let folder = TempDir::with_prefix("bench-")?;
    let bench = Bench {
        quick: args.quick,
        subjects: Subjects::find(args.functions.as_deref(), &progress).await?,
        certificate: Certificate::make(folder.path())?,
        logs: args.output.join("logs"),
        progress,
        _folder: folder,
    };
    let facts = machine::facts();
    let mut done = Vec::new();
    for name in names {
        bench.progress.doing(name);
        let comparison = measure(name, &bench).await?;
        plot::draw(&comparison, &args.output)?;
        bench.progress.advance();
        done.push(comparison);
        // What was measured is kept, whatever comes behind it.
        report::write(&done, &facts, &args.output)?;
    }
    drop(bench);
    report::print(&report::table(&done));
    report::say(&format!("results and plots: {}", args.output.display()));
    Ok(())
}

/// The names that are meant, in the order of the list. `cold-path` is `cold path`.
fn chosen(wanted: &[String]) -> Result<Vec<&'static str>, BenchError> {
    if wanted.is_empty() {
        return Ok(NAMES.to_vec());
    }
    let plain = |name: &str| name.replace(['-', '_'], " ").to_lowercase();
    for name in wanted {
        if !NAMES.iter().any(|known| plain(known) == plain(name)) {
            return Err(BenchError::Unknown {
                name: name.clone(),
                known: NAMES.join(", "),
            });
        }
    }
    let is_wanted = |known: &&str| wanted.iter().any(|name| plain(name) == plain(known));
    Ok(NAMES.into_iter().filter(is_wanted).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_found_however_they_are_joined() {
        let check = |wanted: &[&str], expected: Option<&[&str]>| {
            let wanted: Vec<_> = wanted.iter().map(|name| (*name).to_owned()).collect();
            assert_eq!(chosen(&wanted).ok().as_deref(), expected, "{wanted:?}");
        };
        check(&[], Some(&NAMES));
        check(&["writer", "start"], Some(&["start", "writer"]));
        check(&["Stream-CPU", "cold path"], Some(&["cold path", "stream CPU"]));
        check(&["start", "stream"], None);
    }
}
