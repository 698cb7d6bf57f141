//! One run: the figures of `results.json`, and where they are written.
//!
//! A run replaces all figures of a comparison that it measures, and keeps the others, which are recognized by their date and commit. Quick and full
//! runs replace each other's figures, because the figures of a quick run are not valid.

use std::{fs, io, path::PathBuf};

use crate::{
    args::Args,
    baseline::Baseline,
    error::BenchError,
    figure::{Figure, Measured, read},
    origin::{self, Origin},
    page, plot, print, print_error, report,
};

pub(crate) struct Run {
    figures: Figures,
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
        fs::create_dir_all(&args.output)?;
        let earlier = args.output.join("results.json");
        let earlier = if earlier.exists() { read(&earlier)? } else { Vec::new() };
        let figures = Figures::new(names, earlier, args.quick);
        if let Some(page) = &args.page {
            page::check(page)?;
            let missing = figures.missing(chosen);
            if !missing.is_empty() {
                let missing = missing.join(", ");
                return Err(BenchError::Usage(format!(
                    "there are no results of {missing}, which the page needs: run these comparisons too"
                )));
            }
        }
        let baseline = (!args.baseline.is_empty()).then(|| Baseline::read(&args.baseline));
        Ok(Self {
            figures,
            measured: chosen.to_vec(),
            origin: Origin::now(args.quick),
            facts: origin::facts(),
            baseline: baseline.transpose()?,
            page: args.page.clone(),
            output: args.output.clone(),
        })
    }

    /// Writes the results of a comparison, so that a later failure does not lose them.
    pub(crate) fn add(&mut self, name: &str, measured: Measured) -> Result<(), BenchError> {
        plot::draw(name, &measured, &self.output)?;
        self.figures.replace(name, measured.figures, &self.origin);
        let json = serde_json::to_string_pretty(&self.figures.all).map_err(io::Error::from)?;
        fs::write(self.output.join("results.json"), json + "\n")?;
        let markdown = report::markdown(&self.figures.all, &self.facts);
        Ok(fs::write(self.output.join("results.md"), markdown)?)
    }

    /// Prints the results of this run, writes the page, and compares the results with the baseline.
    ///
    /// # Errors
    ///
    /// [`BenchError::Regression`] if figures are worse than those of the baseline.
    pub(crate) fn finish(self) -> Result<(), BenchError> {
        let mut figures = self.figures.all.clone();
        figures.retain(|figure| self.measured.contains(&figure.name.as_str()));
        print(&report::table(&figures));
        print_error(&format!("results and plots: {}", self.output.display()));
        if let Some(page) = &self.page {
            let plots = page.file_stem().unwrap_or_default().to_string_lossy();
            let results = report::sections(&self.figures.all, &self.facts, &plots);
            page::write(page, &results, &self.output)?;
        }
        let Some(baseline) = self.baseline else {
            return Ok(());
        };
        let (changes, worse) = baseline.compare(&figures);
        print(&changes);
        if worse > 0 {
            return Err(BenchError::Regression(worse));
        }
        Ok(())
    }
}

/// The figures of this run, and those of comparisons that only earlier runs measured.
struct Figures {
    /// Names of all comparisons, in the order of the results.
    names: Vec<&'static str>,
    all: Vec<Figure>,
}

impl Figures {
    /// Keeps the earlier figures of known comparisons, if they are of a quick run as this run, or not.
    fn new(names: &[&'static str], mut earlier: Vec<Figure>, quick: bool) -> Self {
        earlier.retain(|figure| figure.origin.quick == quick && names.contains(&figure.name.as_str()));
        Self {
            names: names.to_vec(),
            all: earlier,
        }
    }

    fn replace(&mut self, name: &str, figures: Vec<Figure>, origin: &Origin) {
        let Self { names, all } = self;
        all.retain(|figure| figure.name != name);
        all.extend(figures.into_iter().map(|figure| figure.measured(name, origin)));
        all.sort_by_key(|figure| names.iter().position(|name| *name == figure.name));
    }

    /// Returns the comparisons that neither have figures nor are in `measured`.
    fn missing(&self, measured: &[&str]) -> Vec<&'static str> {
        let is_present = |name: &str| measured.contains(&name) || self.all.iter().any(|figure| figure.name == name);
        self.names.iter().copied().filter(|name| !is_present(name)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_comparison_replaces_its_own_figures_only() {
        let origin = Origin::example();
        let stale = ["b", "removed", "a"].map(|name| Figure::new("old", 1.0).measured(name, &origin));
        let mut figures = Figures::new(&["a", "b", "c"], stale.to_vec(), false);
        assert_eq!(figures.missing(&[]), ["c"]);
        assert_eq!(figures.missing(&["c"]), Vec::<&str>::new());
        for name in ["c", "a"] {
            let new = vec![Figure::new("new", 2.0), Figure::new("second", 3.0)];
            figures.replace(name, new, &origin);
        }
        let names: Vec<_> = figures
            .all
            .iter()
            .map(|figure| format!("{} {}", figure.name, figure.unit))
            .collect();
        assert_eq!(names, ["a new", "a second", "b old", "c new", "c second"]);
        // Figures of a quick run and of a full run are never in the same file.
        assert_eq!(Figures::new(&["a", "b"], stale.to_vec(), true).all, []);
    }

    #[test]
    fn a_file_without_figures_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("results.json");
        assert!(read(&path).is_err());
        fs::write(&path, "[{}]").unwrap();
        assert!(read(&path).is_err());
        fs::write(&path, "[]").unwrap();
        assert_eq!(read(&path).unwrap(), []);
    }
}
