//! Comparison with earlier runs.
//!
//! A figure is compared with the median of the earlier runs, so that a single run changes little, and a slow change is found as well.
//! Figures of different machines differ, and their ratios to a peer in the same run hardly do. So a figure that has a peer is compared by its ratio,
//! and any other by its value. A figure is worse if this number rises although its target is a maximum, or falls although its target is a minimum. A
//! figure without a target is only reported. A figure with a target that this run lacks, although most of the earlier runs have it, is missing,
//! which is as bad.

use std::collections::BTreeSet;

use crate::figure::{Figure, median, rounded};

/// Maximum relative change for the worse.
const TOLERANCE: f64 = 0.25;
/// Minimum relative change of a figure that is reported.
const REPORTED: f64 = 0.1;

/// Compares the figures that both have, and those with a target that this run lacks. Returns the table of changes, with lines such as
/// `writer, ms, Python: 0.1 → 0.15 (+50 %) WORSE`, and the number of figures that are worse.
pub(crate) fn compare(runs: &[Vec<Figure>], now: &[Figure]) -> (String, usize) {
    let (mut seen, mut lines) = (BTreeSet::new(), Vec::new());
    let (mut compared, mut all_worse) = (0, 0);
    let figures = now.iter().chain(runs.iter().flatten());
    for figure in figures.filter(|figure| seen.insert(key(figure))) {
        let before: Vec<_> = runs.iter().filter_map(|run| value(run, figure)).collect();
        let (target, current) = (figure.target.as_deref(), value(now, figure));
        let is_measured = |now: &Figure| now.name == figure.name && now.origin.quick == figure.origin.quick;
        let is_expected = target.is_some() && before.len() * 2 > runs.len() && now.iter().any(is_measured);
        if before.is_empty() || current.is_none() && !is_expected {
            continue;
        }
        let before = median(before);
        let is_worse = current.is_none_or(|now| match target.and_then(|target| target.chars().next()) {
            Some('≤') => now > before * (1.0 + TOLERANCE),
            Some('≥') => now < before * (1.0 - TOLERANCE),
            _ => false,
        });
        (compared, all_worse) = (compared + 1, all_worse + usize::from(is_worse));
        let now = match current {
            None => "MISSING".to_owned(),
            Some(now) if is_worse || (now - before).abs() > before.abs() * REPORTED => {
                let mark = if is_worse { " WORSE" } else { "" };
                format!("{} ({:+.0} %){mark}", rounded(now), (now / before - 1.0) * 100.0)
            }
            Some(_) => continue,
        };
        let (name, unit, peer, _) = key(figure);
        let peer = peer.map(|peer| format!(", {peer}")).unwrap_or_default();
        lines.push(format!("{name}, {unit}{peer}: {} → {now}\n", rounded(before)));
    }
    let (runs, lines) = (runs.len(), lines.concat());
    let text = format!(
        "figures compared with the median of {runs} earlier runs: {compared}; changes of more than 10 %:\n{lines}"
    );
    (text, all_worse)
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
        let runs: Vec<_> = runs.iter().map(|run| run.to_vec()).collect();
        let (text, worse) = compare(&runs, now);
        let (_, compared) = text.split_once(" runs: ").unwrap();
        let (compared, _) = compared.split_once(';').unwrap();
        [compared.parse().unwrap(), text.lines().count() - 1, worse]
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
        // A run with worse figures, and its repetition; then a quarter worse in each run.
        for (before, now, worse) in [
            (&[1.0, 1.1, 1.0, 2.0][..], 2.0, 1),
            (&[1.0, 1.2, 1.44], 1.73, 1),
            (&[1.0, 1.2, 1.44], 1.3, 0),
        ] {
            let runs: Vec<_> = before.iter().map(|ours| vec![ratio(*ours, 10.0)]).collect();
            let runs: Vec<_> = runs.iter().map(Vec::as_slice).collect();
            assert_eq!(counts(&runs, &[ratio(now, 10.0)])[2], worse, "{before:?} {now}");
        }
    }

    #[test]
    fn a_missing_figure_with_a_target_is_worse_and_other_figures_are_not_compared() {
        let (with, without) = (ratio(1.0, 10.0), figure("ms, other", 1.0));
        let (old, new, both) = ([with.clone()], [without.clone()], [with.clone(), without.clone()]);
        let worse = ratio(9.0, 10.0);
        let (mut of_node, mut in_seconds, mut without_value) = (worse.clone(), worse.clone(), worse.clone());
        of_node.peer_name = Some("Node".to_owned());
        in_seconds.unit = "s".to_owned();
        (without_value.ratio, without_value.peer) = (None, None);
        // The comparison is not part of this run.
        let (mut of_start, mut quick) = (worse.clone(), worse);
        of_start.name = "start".to_owned();
        quick.origin.quick = true;
        for (runs, now, expected) in [
            (&[&old[..]][..], of_node, [1, 1, 1]),
            (&[&old], in_seconds, [1, 1, 1]),
            (&[&old], without_value, [1, 1, 1]),
            (&[&old], of_start, [0, 0, 0]),
            (&[&old], quick, [0, 0, 0]),
            (&[&both], without.clone(), [2, 1, 1]),
            (&[&both], with, [1, 0, 0]),
            // After a change of the figures, until most runs have the new ones.
            (&[&both, &new, &new], without, [1, 0, 0]),
        ] {
            assert_eq!(counts(runs, std::slice::from_ref(&now)), expected, "{now:?}");
        }
    }

    #[test]
    fn a_line_marks_what_is_worse() {
        let mut missing = ratio(1.0, 10.0);
        missing.unit = "s".to_owned();
        let (text, worse) = compare(&[vec![ratio(1.0, 10.0), missing]], &[ratio(1.5, 10.0)]);
        let expected = "figures compared with the median of 1 earlier runs: 2; changes of more than 10 %:\n\
                        writer, ms, Python: 0.1 → 0.15 (+50 %) WORSE\nwriter, s, Python: 0.1 → MISSING\n";
        assert_eq!((text.as_str(), worse), (expected, 2));
    }
}
