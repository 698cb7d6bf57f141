//! Histogram of durations with a relative error below 3 %.

/// Buckets of a power of two.
const STEPS: f64 = 24.0;

#[derive(Debug, Clone, Default)]
pub(crate) struct Histogram {
    counts: Vec<u64>,
    total: u64,
    max: u64,
}

#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    clippy::cast_sign_loss,
    reason = "durations are below 2^52 µs, and a quantile is below the number of values"
)]
impl Histogram {
    /// Adds a duration in microseconds.
    pub(crate) fn add(&mut self, micros: u64) {
        let bucket = ((micros.max(1) as f64).log2() * STEPS) as usize;
        if self.counts.len() <= bucket {
            self.counts.resize(bucket + 1, 0);
        }
        self.counts[bucket] += 1;
        self.total += 1;
        self.max = self.max.max(micros);
    }

    /// Returns a quantile in seconds, 0 without values.
    pub(crate) fn quantile(&self, quantile: f64) -> f64 {
        let rank = (self.total as f64 * quantile).ceil().max(1.0) as u64;
        let mut seen = 0;
        let bucket = self.counts.iter().position(|count| {
            seen += count;
            seen >= rank
        });
        bucket.map_or(0.0, |bucket| ((bucket as f64 + 0.5) / STEPS).exp2() / 1e6)
    }

    /// Returns the maximum in seconds.
    pub(crate) fn max(&self) -> f64 {
        self.max as f64 / 1e6
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_close() {
        let mut histogram = Histogram::default();
        (1..=100_000).for_each(|micros| histogram.add(micros));
        for quantile in [0.01, 0.5, 0.99] {
            let found = histogram.quantile(quantile) / (quantile * 0.1);
            assert!((found - 1.0).abs() < 0.03, "{quantile}: {found}");
        }
        assert!((histogram.max() - 0.1).abs() < 1e-9);
        assert!(Histogram::default().quantile(0.5).abs() < 1e-9);
    }
}
