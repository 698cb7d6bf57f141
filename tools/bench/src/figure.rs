//! Figures: ours, a peer's, and the target.

use std::time::Duration;

#[derive(Debug)]
pub(crate) struct Comparison {
    pub(crate) name: &'static str,
    pub(crate) figures: Vec<Figure>,
    pub(crate) plot: Plot,
}

#[derive(Debug)]
pub(crate) enum Plot {
    /// A bar for each figure and its peer.
    Bars,
    /// Lines over a growing quantity.
    Lines {
        x: &'static str,
        y: &'static str,
        series: Vec<(String, Vec<(f64, f64)>)>,
    },
}

#[derive(Debug, Clone)]
pub(crate) struct Figure {
    /// Unit, and the measured quantity.
    pub(crate) unit: String,
    pub(crate) ours: f64,
    /// Name of the peer, and its figure.
    pub(crate) peer: Option<(String, f64)>,
    pub(crate) target: Option<Target>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Target {
    /// Maximum ratio to the peer's figure.
    RatioAtMost(f64),
    /// Minimum ratio to the peer's figure.
    RatioAtLeast(f64),
    AtMost(f64),
}

impl Figure {
    pub(crate) fn new(unit: impl Into<String>, ours: f64) -> Self {
        Self {
            unit: unit.into(),
            ours,
            peer: None,
            target: None,
        }
    }

    pub(crate) fn compared_with(self, peer: impl Into<String>, figure: f64) -> Self {
        Self {
            peer: Some((peer.into(), figure)),
            ..self
        }
    }

    pub(crate) fn with_target(self, target: Target) -> Self {
        Self {
            target: Some(target),
            ..self
        }
    }

    /// Returns our figure divided by the peer's.
    pub(crate) fn ratio(&self) -> Option<f64> {
        self.peer.as_ref().map(|(_, peer)| self.ours / peer)
    }

    /// Returns `true` if the target is met, or `None` without a target or without the peer that it needs.
    pub(crate) fn met(&self) -> Option<bool> {
        match self.target? {
            Target::RatioAtMost(most) => Some(self.ratio()? <= most),
            Target::RatioAtLeast(least) => Some(self.ratio()? >= least),
            Target::AtMost(most) => Some(self.ours <= most),
        }
    }
}

impl std::fmt::Display for Target {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::RatioAtMost(most) => write!(f, "≤ {most} ×"),
            Self::RatioAtLeast(least) => write!(f, "≥ {least} ×"),
            Self::AtMost(most) => write!(f, "≤ {most}"),
        }
    }
}

/// Rounds to four significant digits.
pub(crate) fn rounded(figure: f64) -> f64 {
    format!("{figure:.3e}").parse().unwrap_or(figure)
}

/// Returns the smallest value that is not less than this share of the values.
pub(crate) fn percentile(values: &[f64], share: f64) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    #[allow(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "an index into a few thousand values"
    )]
    let index = (share * sorted.len() as f64).ceil() as usize;
    sorted.get(index.saturating_sub(1)).copied().unwrap_or(f64::NAN)
}

pub(crate) fn median(values: &[f64]) -> f64 {
    percentile(values, 0.5)
}

#[allow(clippy::cast_precision_loss, reason = "a few thousand values")]
pub(crate) fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

pub(crate) fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_measured_values() {
        let values = [4.0, 1.0, 3.0, 2.0];
        let check = |values: &[f64], share, expected: f64| {
            assert!(
                (percentile(values, share) - expected).abs() < f64::EPSILON,
                "{values:?} {share}"
            );
        };
        check(&values, 0.5, 2.0);
        check(&values, 0.99, 4.0);
        check(&[7.0], 0.5, 7.0);
        assert!(median(&[]).is_nan());
    }

    #[test]
    fn a_target_is_met_or_missed_or_has_no_peer() {
        let figure = |ours: f64, peer: Option<f64>, target| Figure {
            peer: peer.map(|peer| ("Python".to_owned(), peer)),
            target: Some(target),
            ..Figure::new("ms", ours)
        };
        for (ours, peer, target, met) in [
            (1.0, Some(10.0), Target::RatioAtMost(0.1), Some(true)),
            (1.1, Some(10.0), Target::RatioAtMost(0.1), Some(false)),
            (50.0, Some(1.0), Target::RatioAtLeast(50.0), Some(true)),
            (49.0, Some(1.0), Target::RatioAtLeast(50.0), Some(false)),
            (1.0, None, Target::RatioAtLeast(50.0), None),
            (4.0, None, Target::AtMost(4.0), Some(true)),
            (4.1, Some(9.0), Target::AtMost(4.0), Some(false)),
        ] {
            assert_eq!(figure(ours, peer, target).met(), met, "{ours} {peer:?} {target}");
        }
    }
}
