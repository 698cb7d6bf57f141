//! Figures: ours, a peer's, and the target, in the form of `results.json`.

use std::{fs, io, path::Path, time::Duration};

use serde::{Deserialize, Serialize};

use crate::{error::BenchError, origin::Origin};

/// One figure. JSON has no NaN, so a figure without a value is read as `None`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Figure {
    /// Name of the comparison.
    pub(crate) name: String,
    /// Unit, and the measured quantity.
    pub(crate) unit: String,
    /// Median of several measurements, unless the unit names another percentile.
    pub(crate) ours: Option<f64>,
    /// Minimum and maximum of several measurements.
    pub(crate) range: Option<[f64; 2]>,
    pub(crate) peer: Option<f64>,
    pub(crate) peer_range: Option<[f64; 2]>,
    pub(crate) peer_name: Option<String>,
    /// Our figure divided by the peer's.
    pub(crate) ratio: Option<f64>,
    pub(crate) target: Option<String>,
    /// `None` without a target, or without the peer that it needs.
    pub(crate) met: Option<bool>,
    #[serde(flatten)]
    pub(crate) origin: Origin,
}

/// Reads the figures of a results file.
///
/// # Errors
///
/// [`BenchError::Usage`] if the file cannot be read or has no figures of this form.
pub(crate) fn read(path: &Path) -> Result<Vec<Figure>, BenchError> {
    let text = fs::read(path);
    let figures = text.and_then(|text| serde_json::from_slice(&text).map_err(io::Error::from));
    figures.map_err(|error| BenchError::Usage(format!("cannot read the results in {}: {error}", path.display())))
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Target {
    /// Maximum ratio to the peer's figure.
    RatioAtMost(f64),
    /// Minimum ratio to the peer's figure.
    RatioAtLeast(f64),
    AtMost(f64),
    AtLeast(f64),
}

impl Figure {
    pub(crate) fn new(unit: impl Into<String>, ours: f64) -> Self {
        Self {
            unit: unit.into(),
            ours: Some(ours),
            ..Self::default()
        }
    }

    /// Creates a figure of several measurements: their median, with minimum and maximum.
    pub(crate) fn of_several(unit: impl Into<String>, values: &[f64]) -> Self {
        let [least, middle, most] = [0.0, 0.5, 1.0].map(|share| percentile(values.iter().copied(), share));
        Self {
            range: Some([least, most]),
            ..Self::new(unit, middle)
        }
    }

    pub(crate) fn compared_with(self, name: impl Into<String>, peer: f64) -> Self {
        Self {
            ratio: self.ours.map(|ours| ours / peer),
            peer: Some(peer),
            peer_name: Some(name.into()),
            ..self
        }
    }

    /// Adds a target. A target that is a ratio requires the peer first.
    pub(crate) fn with_target(self, target: Target) -> Self {
        let (value, text) = match target {
            Target::RatioAtMost(most) => (self.ratio.map(|ratio| ratio <= most), format!("≤ {most} ×")),
            Target::RatioAtLeast(least) => (self.ratio.map(|ratio| ratio >= least), format!("≥ {least} ×")),
            Target::AtMost(most) => (self.ours.map(|ours| ours <= most), format!("≤ {most}")),
            Target::AtLeast(least) => (self.ours.map(|ours| ours >= least), format!("≥ {least}")),
        };
        Self {
            met: value,
            target: Some(text),
            ..self
        }
    }

    /// Returns the figure of a comparison, rounded to four significant digits.
    pub(crate) fn measured(self, name: &str, origin: &Origin) -> Self {
        Self {
            name: name.to_owned(),
            ours: self.ours.map(rounded),
            range: self.range.map(|range| range.map(rounded)),
            peer: self.peer.map(rounded),
            peer_range: self.peer_range.map(|range| range.map(rounded)),
            ratio: self.ratio.map(rounded),
            origin: origin.clone(),
            ..self
        }
    }
}

/// Rounds to four significant digits.
pub(crate) fn rounded(figure: f64) -> f64 {
    format!("{figure:.3e}").parse().unwrap_or(figure)
}

/// Returns the smallest value that is not less than this share of the values, or NaN without any.
pub(crate) fn percentile(values: impl IntoIterator<Item = f64>, share: f64) -> f64 {
    let mut sorted: Vec<_> = values.into_iter().collect();
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

pub(crate) fn median(values: impl IntoIterator<Item = f64>) -> f64 {
    percentile(values, 0.5)
}

pub(crate) fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

#[allow(clippy::cast_precision_loss, reason = "a few million")]
pub(crate) fn megabytes(bytes: u64) -> f64 {
    bytes as f64 / 1e6
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn percentiles_are_measured_values() {
        for (values, share, expected) in [
            (&[4.0, 1.0, 3.0, 2.0][..], 0.5, "2"),
            (&[4.0, 1.0, 3.0, 2.0], 0.99, "4"),
            (&[7.0], 0.5, "7"),
            (&[], 0.5, "NaN"),
        ] {
            assert_eq!(percentile(values.iter().copied(), share).to_string(), expected);
        }
    }

    #[test]
    fn a_target_is_met_or_missed_or_has_no_peer() {
        for (ours, peer, target, met) in [
            (1.0, Some(10.0), Target::RatioAtMost(0.1), Some(true)),
            (1.1, Some(10.0), Target::RatioAtMost(0.1), Some(false)),
            (50.0, Some(1.0), Target::RatioAtLeast(50.0), Some(true)),
            (49.0, Some(1.0), Target::RatioAtLeast(50.0), Some(false)),
            (1.0, None, Target::RatioAtLeast(50.0), None),
            (4.0, None, Target::AtMost(4.0), Some(true)),
            (4.1, Some(9.0), Target::AtMost(4.0), Some(false)),
        ] {
            let mut figure = Figure::new("ms", ours);
            if let Some(peer) = peer {
                figure = figure.compared_with("Python", peer);
            }
            assert_eq!(figure.with_target(target).met, met, "{ours} {peer:?} {target:?}");
        }
    }

    #[test]
    fn a_figure_as_json() {
        let origin = Origin::example();
        let figure = Figure::new("ms, p50", 6.123_45)
            .compared_with("Python", 200.0)
            .with_target(Target::RatioAtMost(0.03));
        let figure = Figure {
            range: Some([6.0, 7.123_45]),
            ..figure
        };
        let (figure, alone) = (
            figure.measured("start", &origin),
            Figure::new("MB", f64::NAN).measured("x", &origin),
        );
        let expected = json!([{
            "name": "start", "unit": "ms, p50", "ours": 6.123, "range": [6.0, 7.123], "peer": 200.0, "peer_range": null,
            "peer_name": "Python", "ratio": 0.03062, "target": "≤ 0.03 ×", "met": false,
            "date": "2026-11-23", "commit": "0123456789ab", "quick": false,
        }, {
            "name": "x", "unit": "MB", "ours": null, "range": null, "peer": null, "peer_range": null, "peer_name": null, "ratio": null, "target": null,
            "met": null, "date": "2026-11-23", "commit": "0123456789ab", "quick": false,
        }]);
        assert_eq!(serde_json::to_value([&figure, &alone]).unwrap(), expected);
        let path = tempfile::NamedTempFile::new().unwrap().into_temp_path();
        for (text, is_read) in [("", false), ("[{}]", false), (&expected.to_string(), true)] {
            fs::write(&path, text).unwrap();
            assert_eq!(read(&path).is_ok(), is_read, "{text}");
        }
        assert_eq!(read(&path).unwrap(), [figure, Figure { ours: None, ..alone }]);
    }
}
