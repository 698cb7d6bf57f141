//! One run: its results, and where they are written.

use std::path::PathBuf;

use crate::{
    args::Args,
    baseline::Baseline,
    error::BenchError,
    figure::Comparison,
    machine,
    origin::Origin,
    output, page, plot, report,
    results::{self, Results},
};

pub(crate) struct Run {
    results: Results,
    /// Names of the comparisons of this run.
    measured: Vec<&'static str>,
    origin: Origin,
    /// Lines about the machine.
    facts: Vec<String>,
    baseline: Option<Baseline>,
    page: Option<PathBuf>,
    output: PathBuf,
}

impl Run {
    /// Checks the files that the run needs, before it measures. `names` are all comparisons, `chosen` those of this run.
    ///
    /// # Errors
    ///
    /// An earlier result that cannot be read, a page without markers, or results for a page that remain incomplete.
    pub(crate) fn prepare(args: &Args, names: &[&'static str], chosen: &[&'static str]) -> Result<Self, BenchError> {
        std::fs::create_dir_all(&args.output)?;
        let earlier = results::read_if_exists(&args.output.join("results.json"))?;
        let results = Results::new(names, earlier, args.quick);
        if let Some(page) = &args.page {
            page::check(page)?;
            let missing = results.missing(chosen);
            if !missing.is_empty() {
                return Err(BenchError::IncompletePage(missing.join(", ")));
            }
        }
        Ok(Self {
            results,
            measured: chosen.to_vec(),
            origin: Origin::now(args.quick),
            facts: machine::facts(),
            baseline: (!args.baseline.is_empty())
                .then(|| Baseline::read(&args.baseline))
                .transpose()?,
            page: args.page.clone(),
            output: args.output.clone(),
        })
    }

    /// Writes the results of a comparison, so that a later failure does not lose them.
    pub(crate) fn add(&mut self, comparison: &Comparison) -> Result<(), BenchError> {
        plot::draw(comparison, &self.output)?;
        self.results.replace(comparison, &self.origin);
        report::write(&self.results.rows, &self.facts, &self.output)
    }

    /// Prints the results of this run, writes the page, and compares the results with the baseline.
    ///
    /// # Errors
    ///
    /// [`BenchError::Regression`] if figures are worse than those of the baseline.
    pub(crate) fn finish(self) -> Result<(), BenchError> {
        let rows = self.results.of(&self.measured);
        output::print(&report::table(&rows));
        output::print_error(&format!("results and plots: {}", self.output.display()));
        if let Some(page) = &self.page {
            let plots = page.file_stem().unwrap_or_default().to_string_lossy();
            let results = report::sections(&self.results.rows, &self.facts, &plots);
            page::write(page, &results, &self.output)?;
        }
        let Some(baseline) = self.baseline else {
            return Ok(());
        };
        let (changes, worse) = baseline.compare(&rows);
        output::print(&changes);
        if worse > 0 {
            return Err(BenchError::Regression(worse));
        }
        Ok(())
    }
}
