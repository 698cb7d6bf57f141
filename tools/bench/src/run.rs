//! One run: measures the chosen comparisons, and writes their figures.
//!
//! A run replaces all figures of a comparison that it measures, and keeps the others, which are recognized by their date and commit. Quick and full
//! runs replace each other's figures, because the figures of a quick run are not valid.

use std::{fs, io, time::Instant};

use crate::{
    args::Args,
    baseline, comparisons,
    error::BenchError,
    figure::{Figure, read},
    harness::Bench,
    origin::{self, Origin},
    page, print, print_error, report, subject,
};

/// Name of a run that only installs the peers and builds the programs.
const SETUP: &str = "setup";

/// Checks the files that the run needs, measures, and writes the results after each comparison, so that a later failure loses none. Then prints the
/// results of this run, writes the page, and compares the results with the earlier runs.
///
/// # Errors
///
/// An earlier result that cannot be read, a page without markers, results for a page that remain incomplete, a measurement that fails, and
/// [`BenchError::Regression`] if figures are worse than in the baseline.
pub(crate) async fn run(args: &Args) -> Result<(), BenchError> {
    let names = comparisons::names();
    if args.list {
        print(&names.join("\n"));
        return Ok(());
    }
    if args
        .names
        .iter()
        .any(|name| [SETUP, comparisons::ALL].contains(&name.as_str()))
    {
        subject::setup(args).await?;
    }
    if args.names == [SETUP] {
        return Ok(());
    }
    let chosen = comparisons::chosen(&args.names)?;
    let is_chosen = |name: &str| chosen.iter().any(|(chosen, _)| *chosen == name);
    fs::create_dir_all(&args.output)?;
    let results = args.output.join("results.json");
    let mut all = if results.exists() { read(&results)? } else { Vec::new() };
    retain_valid(&mut all, &names, args.quick);
    if let Some(page) = &args.page {
        page::check(page)?;
        let is_missing = |name: &&str| !is_chosen(name) && all.iter().all(|figure| figure.name != *name);
        let missing: Vec<_> = names.into_iter().filter(is_missing).collect();
        if !missing.is_empty() {
            let missing = missing.join(", ");
            return Err(BenchError::Usage(format!(
                "there are no results of {missing}, which the page needs: run these comparisons too"
            )));
        }
    }
    let earlier = args.baseline.iter().map(|path| read(path));
    let earlier = earlier.collect::<Result<Vec<_>, _>>()?;
    let (origin, facts) = (Origin::now(args.quick), origin::facts());
    let bench = Bench::new(args).await?;
    for (name, measure) in &chosen {
        print_error(name);
        let started = Instant::now();
        let figures = measure(&bench).await?;
        print_error(&format!("  {} s", started.elapsed().as_secs()));
        replace(&mut all, &names, name, figures, &origin);
        let json = serde_json::to_string_pretty(&all).map_err(io::Error::from)?;
        fs::write(&results, json + "\n")?;
    }
    let mut measured = all.clone();
    measured.retain(|figure| is_chosen(&figure.name));
    print(&report::table(&measured));
    print_error(&format!("results: {}", args.output.display()));
    if let Some(page) = &args.page {
        page::write(page, &report::sections(&all, &facts))?;
    }
    if earlier.is_empty() {
        return Ok(());
    }
    let (changes, worse) = baseline::compare(&earlier, &measured);
    print(&changes);
    if worse > 0 {
        return Err(BenchError::Regression(worse));
    }
    Ok(())
}

/// Keeps the figures of known comparisons, if they are of a quick run as this run, or not.
fn retain_valid(figures: &mut Vec<Figure>, names: &[&str], quick: bool) {
    figures.retain(|figure| figure.origin.quick == quick && names.contains(&figure.name.as_str()));
}

/// Replaces the figures of a comparison, in the order of all names.
fn replace(all: &mut Vec<Figure>, names: &[&str], name: &str, figures: Vec<Figure>, origin: &Origin) {
    all.retain(|figure| figure.name != name);
    all.extend(figures.into_iter().map(|figure| figure.measured(name, origin)));
    all.sort_by_key(|figure| names.iter().position(|name| *name == figure.name));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_comparison_replaces_its_own_figures_only() {
        let (origin, names) = (Origin::example(), ["a", "b", "c"]);
        let stale = ["b", "removed", "a"].map(|name| Figure::new("old", 1.0).measured(name, &origin));
        let mut figures = stale.to_vec();
        retain_valid(&mut figures, &names, false);
        for name in ["c", "a"] {
            let new = vec![Figure::new("new", 2.0), Figure::new("second", 3.0)];
            replace(&mut figures, &names, name, new, &origin);
        }
        let found = figures.iter().map(|figure| format!("{} {}", figure.name, figure.unit));
        let found: Vec<_> = found.collect();
        assert_eq!(found, ["a new", "a second", "b old", "c new", "c second"]);
        // Figures of a quick run and of a full run are never in the same file.
        retain_valid(&mut figures, &names, true);
        assert_eq!(figures, []);
    }
}
