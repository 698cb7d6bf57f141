//! One run: measures the chosen comparisons, and writes their figures.

use std::{fs, io};

use crate::{
    args::Args,
    baseline, comparisons,
    error::BenchError,
    figure::read,
    harness::Bench,
    origin::{self, Origin},
    page, print, print_error, report,
};

/// Checks the files that the run needs, measures, and writes the results after each comparison, so that a later failure loses none. Then prints the
/// results, writes the page, and compares the results with the earlier runs.
///
/// # Errors
///
/// An earlier result that cannot be read, a page without markers, a measurement that fails, and [`BenchError::Regression`] if figures are worse than
/// in the baseline.
pub(crate) async fn run(args: &Args) -> Result<(), BenchError> {
    if args.list {
        print(&comparisons::names().join("\n"));
        return Ok(());
    }
    let chosen = comparisons::chosen(&args.names)?;
    fs::create_dir_all(&args.output)?;
    if let Some(page) = &args.page {
        page::check(page)?;
    }
    let earlier = args.baseline.iter().map(|path| read(path));
    let earlier = earlier.collect::<Result<Vec<_>, _>>()?;
    let (origin, facts) = (Origin::now(args.quick), origin::facts());
    let bench = Bench::new(args).await?;
    let mut measured = Vec::new();
    for (name, measure) in chosen {
        print_error(name);
        let figures = measure(&bench).await?.into_iter();
        measured.extend(figures.map(|figure| figure.measured(name, &origin)));
        let json = serde_json::to_string_pretty(&measured).map_err(io::Error::from)?;
        fs::write(args.output.join("results.json"), json + "\n")?;
    }
    print(&report::table(&measured));
    print_error(&format!("results: {}", args.output.display()));
    if let Some(page) = &args.page {
        page::write(page, &report::sections(&measured, &origin, &facts))?;
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
