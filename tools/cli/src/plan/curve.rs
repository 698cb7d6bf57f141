//! Duration of an invocation for each memory size, as measured.

/// Latency of the requests while the durations were measured: "ms of a request" of the benchmark "memory size".
const LATENCY_MEASURED_MS: f64 = 6.236;

/// Duration of the invocations of a function with this memory: a part of each invocation, and a part of each record or update. Neither
/// contains the latency of requests.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Duration {
    pub(super) memory_mb: f64,
    pub(super) invocation_ms: f64,
    pub(super) item_micros: f64,
}

impl Duration {
    /// Calculates the parts from the measured durations of two batches, in milliseconds, with the rounds of requests that each batch waits for.
    pub(super) const fn measured(memory_mb: f64, small: (f64, f64, f64), large: (f64, f64, f64)) -> Self {
        let (small_items, small_rounds, small_ms) = small;
        let (large_items, large_rounds, large_ms) = large;
        let (small_ms, large_ms) = (
            small_ms - small_rounds * LATENCY_MEASURED_MS,
            large_ms - large_rounds * LATENCY_MEASURED_MS,
        );
        let item_ms = (large_ms - small_ms) / (large_items - small_items);
        let invocation_ms = small_ms - small_items * item_ms;
        Self {
            memory_mb,
            invocation_ms: if invocation_ms > 0.0 { invocation_ms } else { 0.0 },
            item_micros: item_ms * 1_000.0,
        }
    }

    /// Returns the duration for a memory size. Between two measured sizes, it is proportional to the CPU share. Above the largest, it does not
    /// change, because the functions use one vCPU.
    pub(super) fn of(curve: &[Self], memory_mb: f64) -> Self {
        let above = curve.partition_point(|point| point.memory_mb < memory_mb);
        match (
            above.checked_sub(1).and_then(|below| curve.get(below)),
            curve.get(above),
        ) {
            (Some(below), Some(above)) => {
                let weight =
                    (1.0 / memory_mb - 1.0 / above.memory_mb) / (1.0 / below.memory_mb - 1.0 / above.memory_mb);
                let between = |below: f64, above: f64| above + weight * (below - above);
                Self {
                    memory_mb,
                    invocation_ms: between(below.invocation_ms, above.invocation_ms),
                    item_micros: between(below.item_micros, above.item_micros),
                }
            }
            (Some(point), None) | (None, Some(point)) => Self { memory_mb, ..*point },
            (None, None) => Self {
                memory_mb,
                invocation_ms: 0.0,
                item_micros: 0.0,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{
        super::figures::{STREAM_CURVE, WRITER_CURVE},
        *,
    };

    #[test]
    fn a_duration_has_a_part_of_each_invocation_and_of_each_item() {
        // 2 ms and 0.1 ms for each of 1 and 101 items; one and two rounds of requests.
        let point = Duration::measured(
            128.0,
            (1.0, 1.0, 2.1 + LATENCY_MEASURED_MS),
            (101.0, 2.0, 12.1 + 2.0 * LATENCY_MEASURED_MS),
        );
        assert!((point.invocation_ms - 2.0).abs() < 1e-9, "{point:?}");
        assert!((point.item_micros - 100.0).abs() < 1e-9, "{point:?}");
    }

    #[test]
    fn a_duration_between_two_sizes_is_proportional_to_the_share() {
        let point = |memory_mb, item_micros| Duration {
            memory_mb,
            invocation_ms: 1.0,
            item_micros,
        };
        // Twice the CPU share, half the time.
        let curve = [point(100.0, 400.0), point(400.0, 100.0)];
        for (memory, micros) in [
            (50.0, 400.0),
            (100.0, 400.0),
            (200.0, 200.0),
            (400.0, 100.0),
            (800.0, 100.0),
        ] {
            let item_micros = Duration::of(&curve, memory).item_micros;
            assert!((item_micros - micros).abs() < 1e-6, "{memory}: {item_micros}");
        }
    }

    #[test]
    fn more_memory_is_never_slower() {
        for curve in [STREAM_CURVE, WRITER_CURVE] {
            let slower = |pair: &[Duration]| pair[0].item_micros >= pair[1].item_micros;
            assert!(
                curve
                    .windows(2)
                    .all(|pair| pair[0].memory_mb < pair[1].memory_mb && slower(pair)),
                "{curve:?}"
            );
        }
    }
}
