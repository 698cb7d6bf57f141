//! The comparisons, and the choice of those that the command line names.

mod cpu_share;
mod diff;
mod instructions;
mod package;
mod processes;
mod sealing;
mod stack;
mod whole_table;

use futures::future::{FutureExt as _, LocalBoxFuture, ready};

use crate::{error::BenchError, figure::Figure, harness::Bench};

/// Name and measurement of a comparison.
type Comparison = (
    &'static str,
    for<'a> fn(&'a Bench) -> LocalBoxFuture<'a, Result<Vec<Figure>, BenchError>>,
);

/// Every comparison, in the order of the results.
const COMPARISONS: [Comparison; 15] = [
    ("start", |bench| processes::start(bench).boxed_local()),
    ("cold path", |bench| processes::cold_path(bench).boxed_local()),
    ("CPU share", |bench| cpu_share::measure(bench).boxed_local()),
    ("stream throughput", |bench| processes::stream(bench).boxed_local()),
    ("stream CPU", |bench| processes::stream_cpu(bench).boxed_local()),
    ("writer", |bench| processes::writer(bench).boxed_local()),
    ("attached tables", |bench| processes::attached(bench).boxed_local()),
    ("change sets", |bench| processes::change_sets(bench).boxed_local()),
    ("memory", |bench| processes::memory(bench).boxed_local()),
    ("instructions", |bench| instructions::measure(bench).boxed_local()),
    ("package", |bench| ready(package::measure(bench)).boxed_local()),
    ("sealing", |bench| ready(sealing::measure(bench)).boxed_local()),
    ("whole table", |bench| whole_table::measure(bench).boxed_local()),
    ("local stack", |bench| stack::measure(bench).boxed_local()),
    ("diff", |bench| ready(diff::measure(bench)).boxed_local()),
];

pub(crate) fn names() -> [&'static str; COMPARISONS.len()] {
    COMPARISONS.map(|(name, _)| name)
}

/// Name of all comparisons.
pub(crate) const ALL: &str = "all";

/// Returns the named comparisons in the order of the list, or all. `cold-path` is `cold path`.
///
/// # Errors
///
/// [`BenchError::Usage`] for an unknown name.
pub(crate) fn chosen(wanted: &[String]) -> Result<Vec<Comparison>, BenchError> {
    let normalized = |name: &str| name.replace(['-', '_'], " ").to_lowercase();
    let is = |known: &str, name: &String| name == ALL || normalized(known) == normalized(name);
    if let Some(unknown) = wanted.iter().find(|name| !names().iter().any(|known| is(known, name))) {
        let known = names().join(", ");
        return Err(BenchError::Usage(format!(
            "there is no comparison \"{unknown}\"; there are: {known}"
        )));
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
        for (wanted, expected) in [
            (&[][..], Some(&names()[..])),
            (&["all"], Some(&names()[..])),
            (&["writer", "start"], Some(&["start", "writer"])),
            (&["Stream-CPU", "cold path"], Some(&["cold path", "stream CPU"])),
            (&["start", "stream"], None),
        ] {
            let wanted: Vec<_> = wanted.iter().map(|name| (*name).to_owned()).collect();
            let names = chosen(&wanted).map(|chosen| chosen.into_iter().map(|(name, _)| name).collect::<Vec<_>>());
            assert_eq!(names.ok().as_deref(), expected, "{wanted:?}");
        }
    }
}
