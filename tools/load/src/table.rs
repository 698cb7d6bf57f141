//! Write capacity of a table: a token bucket for the table and one for each partition.

use crate::parameters::SECOND;

/// Cause of a throttled request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Throttle {
    Partition,
    Table,
}

#[derive(Debug, Clone, Copy)]
struct Bucket {
    tokens: f64,
    at: u64,
}

impl Bucket {
    /// Adds the capacity since the last request, up to `burst`.
    #[allow(clippy::cast_precision_loss, reason = "times are below 2^52 µs")]
    fn fill(&mut self, now: u64, rate: f64, burst: f64) {
        let elapsed = now.saturating_sub(self.at) as f64 / SECOND as f64;
        self.tokens = (self.tokens + elapsed * rate).min(burst);
        self.at = self.at.max(now);
    }
}

pub(crate) struct Table {
    /// Write units per second of the table, and of a partition.
    rates: (f64, f64),
    burst_seconds: f64,
    whole: Bucket,
    partitions: Vec<Bucket>,
    /// Write units of each partition since the last reset.
    consumed: Vec<f64>,
}

impl Table {
    pub(crate) fn new(partitions: u32, table: f64, partition: f64, burst_seconds: f64) -> Self {
        let full = |rate: f64| Bucket {
            tokens: rate * burst_seconds,
            at: 0,
        };
        Self {
            rates: (table, partition),
            burst_seconds,
            whole: full(table),
            partitions: vec![full(partition); partitions as usize],
            consumed: vec![0.0; partitions as usize],
        }
    }

    /// Consumes write units.
    ///
    /// # Errors
    ///
    /// The table or the partition has too few. Then nothing is consumed.
    pub(crate) fn write(&mut self, now: u64, partition: usize, units: f64) -> Result<(), Throttle> {
        let (table, rate) = self.rates;
        let bucket = &mut self.partitions[partition];
        bucket.fill(now, rate, rate * self.burst_seconds);
        self.whole.fill(now, table, table * self.burst_seconds);
        if bucket.tokens < units {
            return Err(Throttle::Partition);
        }
        if self.whole.tokens < units {
            return Err(Throttle::Table);
        }
        bucket.tokens -= units;
        self.whole.tokens -= units;
        self.consumed[partition] += units;
        Ok(())
    }

    pub(crate) fn reset(&mut self) {
        self.consumed.fill(0.0);
    }

    /// Returns the write units of all partitions, and of the one that consumed most.
    pub(crate) fn consumed(&self) -> (f64, f64) {
        let hottest = self.consumed.iter().copied().fold(0.0, f64::max);
        (self.consumed.iter().sum(), hottest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_has_its_rate_after_its_burst() {
        let mut table = Table::new(2, 1_000.0, 1_000.0, 2.0);
        let mut writes = |seconds: u64, partition| {
            let times = (0..10_000).map(|write| seconds * SECOND + write * 100);
            let written = times.filter(|now| table.write(*now, partition, 1.0).is_ok());
            written.count()
        };
        let first = writes(0, 0);
        assert!((2_999..=3_001).contains(&first), "{first}");
        let next = writes(1, 0);
        assert!((999..=1_001).contains(&next), "{next}");
        // The other partition has its burst, but the table has none left.
        let other = writes(2, 1);
        assert!((999..=1_001).contains(&other), "{other}");
    }
}
