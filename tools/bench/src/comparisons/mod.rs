//! The comparisons, and the run of those that the command line names.

mod cold_path;
mod cost;
mod cpu_share;
mod growth;
mod large_items;
mod memory;
mod memory_size;
mod package;
mod start;
mod stream;
mod writer;

use futures::future::{FutureExt as _, LocalBoxFuture};

use crate::{
    args::Args,
    error::BenchError,
    figure::Comparison,
    harness::{Bench, Measured},
    output,
    run::Run,
};

type Measure = for<'a> fn(&'a Bench) -> LocalBoxFuture<'a, Result<Measured, BenchError>>;

/// Every comparison by its name, in the order of the results.
const COMPARISONS: [(&str, Measure); 12] = [
    ("start", |bench| start::measure(bench).boxed_local()),
    ("cold path", |bench| cold_path::measure(bench).boxed_local()),
    ("CPU share", |bench| cpu_share::measure(bench).boxed_local()),
    ("memory size", |bench| memory_size::measure(bench).boxed_local()),
    ("stream throughput", |bench| stream::throughput(bench).boxed_local()),
    ("stream CPU", |bench| stream::cpu(bench).boxed_local()),
    ("writer", |bench| writer::measure(bench).boxed_local()),
    ("memory", |bench| memory::measure(bench).boxed_local()),
    ("large items", |bench| large_items::measure(bench).boxed_local()),
    ("package", |bench| package::measure(bench).boxed_local()),
    ("cost", |bench| cost::measure(bench).boxed_local()),
    ("growth", |bench| growth::measure(bench).boxed_local()),
];

/// Runs the chosen comparisons, and writes the results after each of them, so that a later failure loses none.
pub(crate) async fn run(args: &Args) -> Result<(), BenchError> {
    if args.list {
        output::print(&names().join("\n"));
        return Ok(());
    }
    let chosen = chosen(&args.names)?;
    let measured: Vec<_> = chosen.iter().map(|(name, _)| *name).collect();
    let mut run = Run::prepare(args, &names(), &measured)?;
    let bench = Bench::new(args, chosen.len()).await?;
    for (name, measure) in chosen {
        bench.progress.show(name);
        let Measured { figures, plot } = measure(&bench).await?;
        run.add(&Comparison { name, figures, plot })?;
        bench.progress.advance();
    }
    drop(bench);
    run.finish()
}

fn names() -> [&'static str; COMPARISONS.len()] {
    COMPARISONS.map(|(name, _)| name)
}

/// Returns the named comparisons in the order of the list, or all. `cold-path` is `cold path`.
fn chosen(wanted: &[String]) -> Result<Vec<(&'static str, Measure)>, BenchError> {
    let normalized = |name: &str| name.replace(['-', '_'], " ").to_lowercase();
    let is = |known: &str, name: &String| normalized(known) == normalized(name);
    if let Some(unknown) = wanted.iter().find(|name| !names().iter().any(|known| is(known, name))) {
        return Err(BenchError::UnknownComparison {
            name: unknown.clone(),
            known: names().join(", "),
        });
    }
    let is_wanted = |known: &str| wanted.is_empty() || wanted.iter().any(|name| is(known, name));
    let chosen = COMPARISONS.into_iter().filter(|(known, _)| is_wanted(known));
    Ok(chosen.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_found_with_any_separator_and_case() {
        let check = |wanted: &[&str], expected: Option<&[&str]>| {
            let wanted: Vec<_> = wanted.iter().map(|name| (*name).to_owned()).collect();
            let names = chosen(&wanted).map(|chosen| chosen.into_iter().map(|(name, _)| name).collect::<Vec<_>>());
            assert_eq!(names.ok().as_deref(), expected, "{wanted:?}");
        };
        check(&[], Some(&names()));
        check(&["writer", "start"], Some(&["start", "writer"]));
        check(&["Stream-CPU", "cold path"], Some(&["cold path", "stream CPU"]));
        check(&["start", "stream"], None);
    }
}
