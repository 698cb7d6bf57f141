//! The figures of `results.json`: those of this run, and those of comparisons that only earlier runs measured.
//!
//! A run replaces all figures of a comparison that it measures, and keeps the others, which are recognized by their date and commit. Quick and full
//! runs replace each other's figures, because those of a quick run are not valid.

use std::{fs, io, path::Path};

use serde::{Deserialize, Serialize};

use crate::{
    error::BenchError,
    figure::{Comparison, Figure, rounded},
    origin::Origin,
};

/// One figure, rounded to four significant digits.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Row {
    /// Name of the comparison.
    pub(crate) name: String,
    pub(crate) unit: String,
    pub(crate) ours: Option<f64>,
    pub(crate) peer: Option<f64>,
    pub(crate) peer_name: Option<String>,
    pub(crate) ratio: Option<f64>,
    pub(crate) target: Option<String>,
    pub(crate) met: Option<bool>,
    /// `None` in files of earlier versions.
    #[serde(default)]
    pub(crate) date: Option<String>,
    #[serde(default)]
    pub(crate) commit: Option<String>,
    #[serde(default)]
    pub(crate) quick: bool,
}

impl Row {
    fn new(name: &str, figure: &Figure, origin: &Origin) -> Self {
        let (peer_name, peer) = figure.peer.clone().unzip();
        Self {
            name: name.to_owned(),
            unit: figure.unit.clone(),
            ours: Some(rounded(figure.ours)),
            peer: peer.map(rounded),
            peer_name,
            ratio: figure.ratio().map(rounded),
            target: figure.target.map(|target| target.to_string()),
            met: figure.met(),
            date: Some(origin.date.clone()),
            commit: Some(origin.commit.clone()),
            quick: origin.quick,
        }
    }
}

#[derive(Debug)]
pub(crate) struct Results {
    /// Names of all comparisons, in the order of the results.
    names: Vec<&'static str>,
    pub(crate) rows: Vec<Row>,
}

impl Results {
    /// Returns these rows without those of unknown comparisons, and without those of quick runs, or of full runs in a quick run.
    pub(crate) fn new(names: &[&'static str], rows: Vec<Row>, quick: bool) -> Self {
        let is_kept = |row: &Row| row.quick == quick && names.contains(&row.name.as_str());
        Self {
            names: names.to_vec(),
            rows: rows.into_iter().filter(is_kept).collect(),
        }
    }

    /// Replaces all rows of this comparison.
    pub(crate) fn replace(&mut self, comparison: &Comparison, origin: &Origin) {
        self.rows.retain(|row| row.name != comparison.name);
        let figures = comparison.figures.iter();
        self.rows
            .extend(figures.map(|figure| Row::new(comparison.name, figure, origin)));
        let names = &self.names;
        self.rows
            .sort_by_key(|row| names.iter().position(|name| *name == row.name));
    }

    /// Returns the rows of these comparisons.
    pub(crate) fn of(&self, measured: &[&str]) -> Vec<Row> {
        let rows = self.rows.iter().filter(|row| measured.contains(&row.name.as_str()));
        rows.cloned().collect()
    }

    /// Returns the comparisons that are neither in the results nor in `measured`.
    pub(crate) fn missing(&self, measured: &[&str]) -> Vec<&'static str> {
        let is_present = |name: &str| measured.contains(&name) || self.rows.iter().any(|row| row.name == name);
        self.names.iter().copied().filter(|name| !is_present(name)).collect()
    }
}

/// Reads the rows of a results file.
///
/// # Errors
///
/// [`BenchError::Results`] if the file cannot be read or has no rows of this form.
pub(crate) fn read(path: &Path) -> Result<Vec<Row>, BenchError> {
    let unreadable = |source| BenchError::Results {
        path: path.to_owned(),
        source,
    };
    let text = fs::read(path).map_err(|error| unreadable(error.into()))?;
    serde_json::from_slice(&text).map_err(|error| unreadable(error.into()))
}

/// Reads the rows of a results file, or none if it does not exist.
///
/// # Errors
///
/// As [`read`].
pub(crate) fn read_if_exists(path: &Path) -> Result<Vec<Row>, BenchError> {
    match fs::metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        _ => read(path),
    }
}

#[cfg(test)]
pub(crate) fn row(name: &str, unit: &str) -> Row {
    let origin = Origin {
        date: "2026-11-23".to_owned(),
        commit: "0123456789ab".to_owned(),
        quick: false,
    };
    Row::new(name, &Figure::new(unit, 1.0), &origin)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::figure::{Plot, Target};

    fn origin(date: &str, quick: bool) -> Origin {
        Origin {
            date: date.to_owned(),
            commit: "0123456789ab-dirty".to_owned(),
            quick,
        }
    }

    #[test]
    fn a_figure_as_json() {
        let figure = Figure::new("ms, p50", 6.123_45)
            .compared_with("Python", 200.0)
            .with_target(Target::RatioAtMost(0.03));
        let expected = json!({
            "name": "start", "unit": "ms, p50", "ours": 6.123, "peer": 200.0, "peer_name": "Python",
            "ratio": 0.03062, "target": "≤ 0.03 ×", "met": false,
            "date": "2026-11-23", "commit": "0123456789ab-dirty", "quick": false,
        });
        let row = Row::new("start", &figure, &origin("2026-11-23", false));
        assert_eq!(serde_json::to_value(&row).unwrap(), expected);
        let alone = Row::new("x", &Figure::new("MB", 1.0), &origin("2026-11-23", true));
        let expected = json!({
            "name": "x", "unit": "MB", "ours": 1.0, "peer": null, "peer_name": null, "ratio": null, "target": null,
            "met": null, "date": "2026-11-23", "commit": "0123456789ab-dirty", "quick": true,
        });
        assert_eq!(serde_json::to_value(alone).unwrap(), expected);
    }

    #[test]
    fn a_file_without_origin_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("results.json");
        assert_eq!(read_if_exists(&path).unwrap(), []);
        assert!(read(&path).is_err());
        let earlier = json!([{
            "name": "x", "unit": "MB", "ours": 1.0, "peer": null, "peer_name": null, "ratio": null, "target": null,
            "met": null,
        }]);
        fs::write(&path, earlier.to_string()).unwrap();
        let rows = read(&path).unwrap();
        assert_eq!((rows.len(), &rows[0].date, rows[0].quick), (1, &None, false));
        fs::write(&path, "[").unwrap();
        assert!(read_if_exists(&path).is_err());
    }

    #[test]
    fn a_comparison_replaces_its_own_figures_only() {
        let stale = ["b", "removed", "a"].map(|name| row(name, "old")).to_vec();
        let mut results = Results::new(&["a", "b", "c"], stale.clone(), false);
        assert_eq!(results.missing(&[]), ["c"]);
        assert_eq!(results.missing(&["c"]), Vec::<&str>::new());
        let comparison = |name| Comparison {
            name,
            figures: vec![Figure::new("new", 2.0), Figure::new("second", 3.0)],
            plot: Plot::Bars,
        };
        results.replace(&comparison("c"), &origin("2026-11-24", false));
        results.replace(&comparison("a"), &origin("2026-11-24", false));
        let rows: Vec<_> = results
            .rows
            .iter()
            .map(|row| (row.name.as_str(), row.unit.as_str()))
            .collect();
        let expected = [
            ("a", "new"),
            ("a", "second"),
            ("b", "old"),
            ("c", "new"),
            ("c", "second"),
        ];
        assert_eq!(rows, expected);
        assert_eq!(results.of(&["b"]), [row("b", "old")]);
        // Figures of a quick run and of a full run are never in the same file.
        assert_eq!(Results::new(&["a", "b"], stale, true).rows, []);
    }
}
