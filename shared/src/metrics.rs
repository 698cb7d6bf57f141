//! Metrics in CloudWatch's
//! [embedded metric format](https://docs.aws.amazon.com/AmazonCloudWatch/latest/monitoring/CloudWatch_Embedded_Metric_Format.html):
//! one line per invocation on standard output.

use std::{
    collections::BTreeMap,
    io::Write as _,
    sync::{Mutex, MutexGuard, OnceLock, PoisonError},
};

pub use metrics::Unit;
use metrics_cloudwatch_embedded::{Builder, Collector};

use crate::{config, printable};

/// Maximum number of values of one metric in a line.
const MAX_VALUES: usize = 100;

static COLLECTOR: OnceLock<&'static Collector> = OnceLock::new();

/// Sets up the metrics of a function: the dimension `Function`, and the names of each unit, separated by spaces. Without a namespace
/// in the environment, there are no metrics.
pub fn init(function: &'static str, units: &[(Unit, &'static str)]) {
    let Some((namespace, service)) = config::metrics() else {
        return;
    };
    let collector = Builder::new()
        .cloudwatch_namespace(namespace)
        .with_dimension("Service", service)
        .with_dimension("Function", function)
        .init();
    match collector {
        Ok(collector) => {
            for (unit, name) in each_name(units) {
                // The collector stores units by name, for all kinds of metrics.
                metrics::describe_counter!(name, unit, "");
            }
            let _ = COLLECTOR.set(collector);
        }
        Err(error) => tracing::warn!(error = %error, "no metrics"),
    }
}

/// Returns each name with its unit.
pub fn each_name(units: &[(Unit, &'static str)]) -> impl Iterator<Item = (Unit, &'static str)> {
    units
        .iter()
        .flat_map(|(unit, names)| names.split_whitespace().map(|name| (*unit, name)))
}

/// Metrics of one invocation.
#[derive(Debug, Default)]
pub struct Tally(Mutex<Measured>);

#[derive(Debug, Default)]
struct Measured {
    counts: BTreeMap<String, u64>,
    values: BTreeMap<&'static str, Vec<f64>>,
}

impl Tally {
    /// Increments a counter.
    pub fn count(&self, name: impl Into<String>) {
        *self.measured().counts.entry(name.into()).or_default() += 1;
    }

    /// Adds a value.
    pub fn measure(&self, name: &'static str, value: f64) {
        self.measured().values.entry(name).or_default().push(value);
    }

    /// Returns the counters by name.
    pub fn counts(&self) -> BTreeMap<String, u64> {
        self.measured().counts.clone()
    }

    /// Returns the values by name.
    pub fn values(&self) -> BTreeMap<&'static str, Vec<f64>> {
        self.measured().values.clone()
    }

    /// Writes the line of the invocation with this request id.
    pub fn emit(&self, request_id: &str) {
        let Some(collector) = COLLECTOR.get() else { return };
        let measured = std::mem::take(&mut *self.measured());
        for (name, count) in measured.counts {
            metrics::counter!(name).increment(count);
        }
        for (name, values) in measured.values {
            let histogram = metrics::histogram!(name);
            for value in thinned(values) {
                histogram.record(value);
            }
        }
        let mut line = Vec::new();
        let written = collector
            .set_property("requestId", &*printable::shortened(request_id))
            .flush(&mut line);
        // One write, so that no log line is written in between.
        if let Err(error) = written.and_then(|()| std::io::stdout().lock().write_all(&line)) {
            tracing::warn!(error = %error, "metrics were not written");
        }
    }

    fn measured(&self) -> MutexGuard<'_, Measured> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Reduces values to the maximum number of a line: minimum, maximum, and evenly spaced ranks between them.
fn thinned(mut values: Vec<f64>) -> Vec<f64> {
    let last = values.len().saturating_sub(1);
    if last < MAX_VALUES {
        return values;
    }
    values.sort_unstable_by(f64::total_cmp);
    (0..MAX_VALUES)
        .map(|place| values[place * last / (MAX_VALUES - 1)])
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn too_many_values_are_thinned_and_keep_their_shape() {
        let values = |count: u32| thinned((0..count).rev().map(f64::from).collect());
        for count in [0, 1, 99, 100] {
            assert_eq!(values(count).len(), count as usize);
        }
        for count in [101, 199, 1000, 9999] {
            let kept = values(count);
            assert_eq!(kept.len(), MAX_VALUES, "{count}");
            assert!(kept.is_sorted(), "{count}");
            assert_eq!((kept[0], kept[99]), (0.0, f64::from(count - 1)), "{count}");
            assert!(
                (kept[50] - f64::from(count) / 2.0).abs() < f64::from(count) / 50.0,
                "{count}"
            );
        }
    }
}
