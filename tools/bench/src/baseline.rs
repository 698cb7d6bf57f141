//! Comparison with an earlier run.
//!
//! Figures of different machines differ, and their ratios to a peer in the same run hardly do. So a figure that has a peer is compared by its ratio,
//! and any other by its value. A figure is worse if this number rises although its target is a maximum, or falls although its target is a minimum. A
//! figure without a target is only reported.

use std::path::{Path, PathBuf};

use crate::{
    error::BenchError,
    figure::rounded,
    report::terminal_table,
    results::{self, Row},
};

/// Maximum relative change for the worse.
const TOLERANCE: f64 = 0.25;
/// Minimum relative change of a figure that is reported.
const REPORTED: f64 = 0.1;

pub(crate) struct Baseline {
    path: PathBuf,
    rows: Vec<Row>,
}

/// A figure in both runs.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Change<'a> {
    row: &'a Row,
    before: f64,
    now: f64,
    is_worse: bool,
}

impl Baseline {
    /// Reads the `results.json` of an earlier run.
    ///
    /// # Errors
    ///
    /// [`BenchError::Results`] if the file cannot be read.
    pub(crate) fn read(path: &Path) -> Result<Self, BenchError> {
        Ok(Self {
            path: path.to_owned(),
            rows: results::read(path)?,
        })
    }

    /// Returns the table of changes, and the number of figures that are worse.
    pub(crate) fn compare(&self, now: &[Row]) -> (String, usize) {
        let changes = changes(&self.rows, now);
        let worse = changes.iter().filter(|change| change.is_worse).count();
        let reported = changes.iter().filter(|change| change.is_reported());
        let table = terminal_table(
            &["comparison", "unit", "peer", "before", "now", "change", ""],
            &[3, 4, 5],
            reported.map(Change::cells),
        );
        let text = format!(
            "figures compared with {}: {}; changes of more than 10 %:\n{table}",
            self.path.display(),
            changes.len()
        );
        (text, worse)
    }

    /// Returns the error for this number of figures that are worse.
    pub(crate) fn regression(&self, worse: usize) -> BenchError {
        BenchError::Regression {
            worse,
            path: self.path.clone(),
        }
    }
}

fn changes<'a>(before: &[Row], now: &'a [Row]) -> Vec<Change<'a>> {
    let change = |row: &'a Row| {
        let earlier = before.iter().find(|earlier| is_same_figure(earlier, row))?;
        let (before, now) = (compared(earlier)?, compared(row)?);
        Some(Change {
            row,
            before,
            now,
            is_worse: is_worse(row.target.as_deref(), before, now),
        })
    };
    now.iter().filter_map(change).collect()
}

fn is_same_figure(one: &Row, other: &Row) -> bool {
    let key = |row: &Row| (row.name.clone(), row.unit.clone(), row.peer_name.clone(), row.quick);
    key(one) == key(other)
}

/// Returns the ratio to the peer, or our figure without a peer.
fn compared(row: &Row) -> Option<f64> {
    row.ratio.or_else(|| row.ours.filter(|_| row.peer_name.is_none()))
}

fn is_worse(target: Option<&str>, before: f64, now: f64) -> bool {
    match target.and_then(|target| target.chars().next()) {
        Some('≤') => now > before * (1.0 + TOLERANCE),
        Some('≥') => now < before * (1.0 - TOLERANCE),
        _ => false,
    }
}

impl Change<'_> {
    fn is_reported(&self) -> bool {
        self.is_worse || (self.now - self.before).abs() > self.before.abs() * REPORTED
    }

    fn cells(&self) -> [String; 7] {
        let change = if self.before == 0.0 {
            String::new()
        } else {
            format!("{:+.0} %", (self.now / self.before - 1.0) * 100.0)
        };
        [
            self.row.name.clone(),
            self.row.unit.clone(),
            self.row.peer_name.clone().unwrap_or_default(),
            rounded(self.before).to_string(),
            rounded(self.now).to_string(),
            change,
            if self.is_worse { "WORSE" } else { "" }.to_owned(),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::row;

    #[test]
    fn a_change_is_worse_in_the_direction_of_the_target() {
        for (target, before, now, worse) in [
            (Some("≤ 0.03 ×"), 0.02, 0.0249, false),
            (Some("≤ 0.03 ×"), 0.02, 0.0251, true),
            (Some("≤ 0.03 ×"), 0.02, 0.001, false),
            (Some("≥ 50 ×"), 100.0, 76.0, false),
            (Some("≥ 50 ×"), 100.0, 74.0, true),
            (Some("≥ 50 ×"), 100.0, 1000.0, false),
            (Some("≤ 4"), 2.0, 3.0, true),
            (Some("≤ 4"), 0.0, 0.0, false),
            (Some("≤ 4"), 0.0, 1.0, true),
            (None, 1.0, 100.0, false),
        ] {
            assert_eq!(is_worse(target, before, now), worse, "{target:?} {before} {now}");
        }
    }

    fn compared_with(peer: &str, ours: f64, figure: f64, target: &str) -> Row {
        Row {
            ours: Some(ours),
            peer: Some(figure),
            peer_name: Some(peer.to_owned()),
            ratio: Some(ours / figure),
            target: Some(target.to_owned()),
            ..row("writer", "ms")
        }
    }

    /// Returns the number of compared figures, of those reported and of those that are worse.
    fn counts(before: &[Row], now: &[Row]) -> [usize; 3] {
        let changes = changes(before, now);
        let reported = changes.iter().filter(|change| change.is_reported()).count();
        let worse = changes.iter().filter(|change| change.is_worse).count();
        [changes.len(), reported, worse]
    }

    #[test]
    fn the_same_figures_are_compared_by_their_ratio() {
        let before = [compared_with("Python", 1.0, 10.0, "≤ 0.2 ×")];
        // The machine is half as fast.
        assert_eq!(
            counts(&before, &[compared_with("Python", 2.0, 20.0, "≤ 0.2 ×")]),
            [1, 0, 0]
        );
        // The target is still met.
        assert_eq!(
            counts(&before, &[compared_with("Python", 1.3, 10.0, "≤ 0.2 ×")]),
            [1, 1, 1]
        );
        // Another peer, another unit, another comparison, a quick run.
        let figure = || compared_with("Python", 9.0, 10.0, "≤ 0.2 ×");
        let others = [
            compared_with("Node", 9.0, 10.0, "≤ 0.2 ×"),
            Row {
                unit: "s".to_owned(),
                ..figure()
            },
            Row {
                name: "start".to_owned(),
                ..figure()
            },
            Row {
                quick: true,
                ..figure()
            },
        ];
        assert_eq!(counts(&before, &others), [0, 0, 0]);
    }

    #[test]
    fn a_figure_without_a_peer_is_compared_by_its_value() {
        let figure = |ours: f64, target: Option<&str>| Row {
            ours: Some(ours),
            target: target.map(str::to_owned),
            ..row("package", "MB")
        };
        let before = [figure(3.0, Some("≤ 4"))];
        assert_eq!(counts(&before, &[figure(3.9, Some("≤ 4"))]), [1, 1, 1]);
        assert_eq!(counts(&before, &[figure(3.9, None)]), [1, 1, 0]);
        assert_eq!(counts(&before, &[figure(3.1, Some("≤ 4"))]), [1, 0, 0]);
    }

    #[test]
    fn the_table_marks_what_is_worse() {
        let baseline = Baseline {
            path: "earlier.json".into(),
            rows: vec![compared_with("Python", 1.0, 10.0, "≤ 0.2 ×")],
        };
        let (text, worse) = baseline.compare(&[compared_with("Python", 1.5, 10.0, "≤ 0.2 ×")]);
        assert_eq!(worse, 1);
        for part in ["figures compared with earlier.json: 1;", "0.15", "+50 %", "WORSE"] {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert_eq!(baseline.regression(worse).exit_code(), 3);
    }
}
