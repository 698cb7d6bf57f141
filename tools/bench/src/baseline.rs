//! Comparison with earlier runs.
//!
//! A figure is compared with the median of the earlier runs, so that a single run changes little, and a slow change is found as well.
//! Figures of different machines differ, and their ratios to a peer in the same run hardly do. So a figure that has a peer is compared by its ratio,
//! and any other by its value. A figure is worse if this number rises although its target is a maximum, or falls although its target is a minimum. A
//! figure without a target is only reported. A figure with a target that this run lacks, although most of the earlier runs have it, is missing,
//! which is as bad.

use std::path::PathBuf;

use crate::{
    error::BenchError,
    figure::{median, rounded},
    report::terminal_table,
    results::{self, Row},
};

/// Maximum relative change for the worse.
const TOLERANCE: f64 = 0.25;
/// Minimum relative change of a figure that is reported.
const REPORTED: f64 = 0.1;

pub(crate) struct Baseline {
    runs: Vec<Vec<Row>>,
}

/// A figure of this run and of earlier ones.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Change<'a> {
    row: &'a Row,
    before: f64,
    /// `None` if this run lacks it.
    now: Option<f64>,
    is_worse: bool,
}

impl Baseline {
    /// Reads the `results.json` of each earlier run.
    ///
    /// # Errors
    ///
    /// [`BenchError::Results`] if a file cannot be read.
    pub(crate) fn read(paths: &[PathBuf]) -> Result<Self, BenchError> {
        let runs = paths.iter().map(|path| results::read(path)).collect::<Result<_, _>>()?;
        Ok(Self { runs })
    }

    /// Returns the table of changes, and the number of figures that are worse.
    pub(crate) fn compare(&self, now: &[Row]) -> (String, usize) {
        let changes = changes(&self.runs, now);
        let worse = changes.iter().filter(|change| change.is_worse).count();
        let reported = changes.iter().filter(|change| change.is_reported());
        let table = terminal_table(
            &["comparison", "unit", "peer", "before", "now", "change", ""],
            &[3, 4, 5],
            reported.map(Change::cells),
        );
        let text = format!(
            "figures compared with the median of {} earlier runs: {}; changes of more than 10 %:\n{table}",
            self.runs.len(),
            changes.len()
        );
        (text, worse)
    }
}

fn changes<'a>(runs: &'a [Vec<Row>], now: &'a [Row]) -> Vec<Change<'a>> {
    let before = |row: &Row| {
        let same = runs.iter().flatten().filter(|earlier| is_same_figure(earlier, row));
        let values: Vec<_> = same.filter_map(compared).collect();
        (!values.is_empty()).then(|| median(&values))
    };
    let change = |row: &'a Row| {
        let (before, now) = (before(row)?, compared(row)?);
        Some(Change {
            row,
            before,
            now: Some(now),
            is_worse: is_worse(row.target.as_deref(), before, now),
        })
    };
    // Figures with a target that most of the earlier runs have, and this one does not.
    let has = |run: &[Row], row: &Row| {
        run.iter()
            .any(|other| is_same_figure(row, other) && compared(other).is_some())
    };
    let is_missing = |row: &&Row| {
        let is_measured = now
            .iter()
            .any(|other| other.name == row.name && other.quick == row.quick);
        row.target.is_some()
            && is_measured
            && !has(now, row)
            && runs.iter().filter(|run| has(run, row)).count() * 2 > runs.len()
    };
    // Each figure once: from the first run that has it.
    let earlier = runs.iter().enumerate().flat_map(|(index, run)| {
        let is_first = move |row: &&Row| !runs[..index].iter().any(|earlier| has(earlier, row));
        run.iter().filter(is_first)
    });
    let missing = earlier.filter(is_missing).filter_map(|row| {
        Some(Change {
            row,
            before: before(row)?,
            now: None,
            is_worse: true,
        })
    });
    now.iter().filter_map(change).chain(missing).collect()
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
        let is_changed = |now: f64| (now - self.before).abs() > self.before.abs() * REPORTED;
        self.is_worse || self.now.is_some_and(is_changed)
    }

    fn cells(&self) -> [String; 7] {
        let change = self.now.filter(|_| self.before != 0.0);
        let change = change.map(|now| format!("{:+.0} %", (now / self.before - 1.0) * 100.0));
        let mark = match (self.now, self.is_worse) {
            (None, _) => "MISSING",
            (Some(_), true) => "WORSE",
            (Some(_), false) => "",
        };
        [
            self.row.name.clone(),
            self.row.unit.clone(),
            self.row.peer_name.clone().unwrap_or_default(),
            rounded(self.before).to_string(),
            self.now.map(|now| rounded(now).to_string()).unwrap_or_default(),
            change.unwrap_or_default(),
            mark.to_owned(),
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
        let runs = [before.to_vec()];
        let changes = changes(&runs, now);
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
        for other in others {
            let is_measured = other.name == "writer" && !other.quick;
            // Then the figure of the earlier run is missing.
            let expected = if is_measured { [1, 1, 1] } else { [0, 0, 0] };
            assert_eq!(counts(&before, &[other]), expected);
        }
    }

    #[test]
    fn a_figure_is_compared_with_the_median_of_the_earlier_runs() {
        let run = |ours| vec![compared_with("Python", ours, 10.0, "≤ 0.2 ×")];
        // A run with worse figures, and its repetition.
        let runs = [run(1.0), run(1.1), run(1.0), run(2.0)];
        assert!(changes(&runs, &run(2.0))[0].is_worse);
        // A quarter worse in each run.
        let runs = [run(1.0), run(1.2), run(1.44)];
        assert!(changes(&runs, &run(1.73))[0].is_worse);
        assert!(!changes(&runs, &run(1.3))[0].is_worse);
    }

    #[test]
    fn a_missing_figure_with_a_target_is_worse() {
        let with = || compared_with("Python", 1.0, 10.0, "≤ 0.2 ×");
        let without = || row("writer", "ms, other");
        let before = [with(), without()];
        assert_eq!(counts(&before, &[without()]), [2, 1, 1]);
        // Without a target, and of another comparison.
        assert_eq!(counts(&before, &[with()]), [1, 0, 0]);
        assert_eq!(counts(&before, &[row("start", "ms")]), [0, 0, 0]);
        // After a change of the figures, until most runs have the new ones.
        let runs = [vec![with(), without()], vec![without()], vec![without()]];
        assert_eq!(changes(&runs, &[without()]).len(), 1);
        let nan = Row {
            ratio: None,
            peer: None,
            ..with()
        };
        assert_eq!(counts(&before, &[nan]), [1, 1, 1]);
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
        let missing = Row {
            unit: "s".to_owned(),
            ..compared_with("Python", 1.0, 10.0, "≤ 0.2 ×")
        };
        let baseline = Baseline {
            runs: vec![vec![compared_with("Python", 1.0, 10.0, "≤ 0.2 ×"), missing]],
        };
        let (text, worse) = baseline.compare(&[compared_with("Python", 1.5, 10.0, "≤ 0.2 ×")]);
        assert_eq!(worse, 2);
        for part in ["the median of 1 earlier runs: 2;", "0.15", "+50 %", "WORSE", "MISSING"] {
            assert!(text.contains(part), "{part}: {text}");
        }
    }
}
