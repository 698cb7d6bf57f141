//! Comparison with earlier runs.
//!
//! A figure is compared with the median of the earlier runs, so that a single run changes little, and a slow change is found as well.
//! Figures of different machines differ, and their ratios to a peer in the same run hardly do. So a figure that has a peer is compared by its ratio,
//! and any other by its value. A figure is worse if this number rises although its target is a maximum, or falls although its target is a minimum. A
//! figure without a target is only reported. A figure with a target that this run lacks, although most of the earlier runs have it, is missing,
//! which is as bad.

use std::{collections::BTreeSet, path::PathBuf};

use crate::{
    error::BenchError,
    figure::{self, Figure, median, rounded},
};

/// Maximum relative change for the worse.
const TOLERANCE: f64 = 0.25;
/// Minimum relative change of a figure that is reported.
const REPORTED: f64 = 0.1;

pub(crate) struct Baseline {
    runs: Vec<Vec<Figure>>,
}

/// A figure of this run and of earlier ones.
struct Change<'a> {
    figure: &'a Figure,
    before: f64,
    /// `None` if this run lacks it.
    now: Option<f64>,
}

impl Baseline {
    /// Reads the `results.json` of each earlier run.
    ///
    /// # Errors
    ///
    /// [`BenchError::Results`] if a file cannot be read.
    pub(crate) fn read(paths: &[PathBuf]) -> Result<Self, BenchError> {
        let runs = paths.iter().map(|path| figure::read(path)).collect::<Result<_, _>>()?;
        Ok(Self { runs })
    }

    /// Returns the table of changes, and the number of figures that are worse.
    pub(crate) fn compare(&self, now: &[Figure]) -> (String, usize) {
        let changes = self.changes(now);
        let worse = changes.iter().filter(|change| change.is_worse()).count();
        let lines = changes.iter().filter(|change| change.is_reported()).map(Change::line);
        let text = format!(
            "figures compared with the median of {} earlier runs: {}; changes of more than 10 %:\n{}",
            self.runs.len(),
            changes.len(),
            lines.collect::<String>()
        );
        (text, worse)
    }

    /// Returns the figures that both have, and those with a target that this run lacks.
    fn changes<'a>(&'a self, now: &'a [Figure]) -> Vec<Change<'a>> {
        let mut seen = BTreeSet::new();
        let figures = now.iter().chain(self.runs.iter().flatten());
        let changes = figures.filter(|figure| seen.insert(key(figure))).filter_map(|figure| {
            let before: Vec<_> = self.runs.iter().filter_map(|run| value(run, figure)).collect();
            let is_measured = |now: &Figure| now.name == figure.name && now.origin.quick == figure.origin.quick;
            let is_expected =
                || figure.target.is_some() && before.len() * 2 > self.runs.len() && now.iter().any(is_measured);
            let now = value(now, figure);
            let is_change = !before.is_empty() && (now.is_some() || is_expected());
            is_change.then(|| Change {
                figure,
                before: median(before.iter().copied()),
                now,
            })
        });
        changes.collect()
    }
}

fn key(figure: &Figure) -> (&str, &str, Option<&str>, bool) {
    let Figure {
        name,
        unit,
        peer_name,
        origin,
        ..
    } = figure;
    (name, unit, peer_name.as_deref(), origin.quick)
}

/// Returns the value of the same figure in this run: the ratio to the peer, or our figure without a peer.
fn value(run: &[Figure], figure: &Figure) -> Option<f64> {
    let mut same = run.iter().filter(|other| key(other) == key(figure));
    same.find_map(|figure| {
        figure
            .ratio
            .or_else(|| figure.ours.filter(|_| figure.peer_name.is_none()))
    })
}

impl Change<'_> {
    fn is_worse(&self) -> bool {
        let Some(now) = self.now else { return true };
        match self.figure.target.as_deref().and_then(|target| target.chars().next()) {
            Some('≤') => now > self.before * (1.0 + TOLERANCE),
            Some('≥') => now < self.before * (1.0 - TOLERANCE),
            _ => false,
        }
    }

    fn is_reported(&self) -> bool {
        let is_changed = |now: f64| (now - self.before).abs() > self.before.abs() * REPORTED;
        self.is_worse() || self.now.is_some_and(is_changed)
    }

    /// Returns a line such as `writer, ms, Python: 0.1 → 0.15 (+50 %) WORSE`.
    fn line(&self) -> String {
        let Figure {
            name, unit, peer_name, ..
        } = self.figure;
        let now = match self.now {
            None => "MISSING".to_owned(),
            Some(now) => {
                let mark = if self.is_worse() { " WORSE" } else { "" };
                format!("{} ({:+.0} %){mark}", rounded(now), (now / self.before - 1.0) * 100.0)
            }
        };
        let peer = peer_name.as_ref().map(|peer| format!(", {peer}")).unwrap_or_default();
        format!("{name}, {unit}{peer}: {} → {now}\n", rounded(self.before))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{figure::Target, origin::Origin};

    fn figure(unit: &str, ours: f64) -> Figure {
        Figure::new(unit, ours).measured("writer", &Origin::example())
    }

    /// A figure with a peer and the target of at most 0.2 times the peer's.
    fn ratio(ours: f64, peer: f64) -> Figure {
        figure("ms", ours)
            .compared_with("Python", peer)
            .with_target(Target::RatioAtMost(0.2))
    }

    /// Returns the number of compared figures, of those reported and of those that are worse.
    fn counts(runs: &[&[Figure]], now: &[Figure]) -> [usize; 3] {
        let baseline = Baseline {
            runs: runs.iter().map(|run| run.to_vec()).collect(),
        };
        let changes = baseline.changes(now);
        let reported = changes.iter().filter(|change| change.is_reported()).count();
        [
            changes.len(),
            reported,
            changes.iter().filter(|change| change.is_worse()).count(),
        ]
    }

    #[test]
    fn a_figure_is_worse_in_the_direction_of_its_target() {
        let (most, least, value) = (
            Target::RatioAtMost(0.03),
            Target::RatioAtLeast(50.0),
            Target::AtMost(4.0),
        );
        for (target, before, now, expected) in [
            (Some(most), 0.02, 0.0249, [1, 1, 0]),
            (Some(most), 0.02, 0.0251, [1, 1, 1]),
            (Some(most), 0.02, 0.001, [1, 1, 0]),
            (Some(least), 100.0, 76.0, [1, 1, 0]),
            (Some(least), 100.0, 74.0, [1, 1, 1]),
            (Some(least), 100.0, 1000.0, [1, 1, 0]),
            (Some(value), 3.0, 3.9, [1, 1, 1]),
            (Some(value), 3.0, 3.1, [1, 0, 0]),
            (Some(value), 0.0, 0.0, [1, 0, 0]),
            (Some(value), 0.0, 1.0, [1, 1, 1]),
            (None, 1.0, 100.0, [1, 1, 0]),
        ] {
            // Of a machine that is half as fast: a figure with a peer is compared by its ratio.
            let figure = |value: f64, speed: f64| match target {
                Some(target @ Target::AtMost(_)) => figure("ms", value).with_target(target),
                Some(target) => figure("ms", value * speed)
                    .compared_with("Python", speed)
                    .with_target(target),
                None => figure("ms", value),
            };
            let counted = counts(&[&[figure(before, 1.0)]], &[figure(now, 2.0)]);
            assert_eq!(counted, expected, "{target:?} {before} {now}");
        }
    }

    #[test]
    fn other_figures_are_not_compared() {
        let before = [ratio(1.0, 10.0)];
        let changes: [(fn(&mut Figure), _); 4] = [
            // The figure of the earlier run is missing.
            (|figure| figure.peer_name = Some("Node".to_owned()), [1, 1, 1]),
            (|figure| figure.unit = "s".to_owned(), [1, 1, 1]),
            // The comparison is not part of this run.
            (|figure| figure.name = "start".to_owned(), [0, 0, 0]),
            (|figure| figure.origin.quick = true, [0, 0, 0]),
        ];
        for (change, expected) in changes {
            let mut figure = ratio(9.0, 10.0);
            change(&mut figure);
            assert_eq!(counts(&[&before], &[figure]), expected);
        }
    }

    #[test]
    fn a_figure_is_compared_with_the_median_of_the_earlier_runs() {
        let runs = |ratios: &[f64]| ratios.iter().map(|ours| vec![ratio(*ours, 10.0)]).collect::<Vec<_>>();
        for (before, now, worse) in [
            // A run with worse figures, and its repetition.
            (&[1.0, 1.1, 1.0, 2.0][..], 2.0, 1),
            // A quarter worse in each run.
            (&[1.0, 1.2, 1.44], 1.73, 1),
            (&[1.0, 1.2, 1.44], 1.3, 0),
        ] {
            let runs = runs(before);
            let runs: Vec<_> = runs.iter().map(Vec::as_slice).collect();
            assert_eq!(counts(&runs, &[ratio(now, 10.0)])[2], worse, "{before:?} {now}");
        }
    }

    #[test]
    fn a_missing_figure_with_a_target_is_worse() {
        let (with, without) = (ratio(1.0, 10.0), figure("ms, other", 1.0));
        let before: &[Figure] = &[with.clone(), without.clone()];
        assert_eq!(counts(&[before], std::slice::from_ref(&without)), [2, 1, 1]);
        assert_eq!(counts(&[before], std::slice::from_ref(&with)), [1, 0, 0]);
        // After a change of the figures, until most runs have the new ones.
        let changed = std::slice::from_ref(&without);
        assert_eq!(counts(&[before, changed, changed], changed), [1, 0, 0]);
        let nan = Figure {
            ratio: None,
            peer: None,
            ..with
        };
        assert_eq!(counts(&[before], &[nan]), [1, 1, 1]);
    }

    #[test]
    fn a_line_marks_what_is_worse() {
        let mut missing = ratio(1.0, 10.0);
        missing.unit = "s".to_owned();
        let baseline = Baseline {
            runs: vec![vec![ratio(1.0, 10.0), missing]],
        };
        let (text, worse) = baseline.compare(&[ratio(1.5, 10.0)]);
        let expected = "figures compared with the median of 1 earlier runs: 2; changes of more than 10 %:\n\
                        writer, ms, Python: 0.1 → 0.15 (+50 %) WORSE\nwriter, s, Python: 0.1 → MISSING\n";
        assert_eq!((text.as_str(), worse), (expected, 2));
    }
}
