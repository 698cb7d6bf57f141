//! Capacity and requests of one update, on average.

use shared::dynamodb::write::{Idempotency, WriteMode};

use super::{
    figures::{
        ENTRY_BYTES, IMAGE_ATTRIBUTES, IMAGE_BYTES, LATEST_BYTES, MARKER_BYTES, RECENT_BYTES, TRANSACTION_LATENCIES,
        TTL_BYTES,
    },
    load::Inputs,
};

#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Units {
    /// Maximum size of the latest item, in bytes.
    pub(super) latest_bytes: u64,
    /// Size of the stored version item, in bytes.
    pub(super) version_bytes: u64,
    /// Write units of the latest item, including rejected requests, and of the ledger's marker.
    pub(super) latest: f64,
    /// Write units of the version item, of stream-fn's rejected put if writer-fn stores the version item, and of pruning.
    pub(super) version: f64,
    pub(super) reads: f64,
    pub(super) requests: f64,
    /// Latency of these requests, in latencies of one request.
    pub(super) latencies: f64,
    /// Share of updates whose first request is rejected and sent again, which is contained in the requests and latencies.
    pub(super) rejections: f64,
}

impl Units {
    pub(super) fn of(inputs: &Inputs) -> Self {
        let bytes = inputs.item_bytes;
        let version_bytes = match inputs.has_own_history {
            true => bytes + IMAGE_BYTES + IMAGE_ATTRIBUTES,
            false => bytes,
        };
        let (min, full, map_bytes, marker) = match inputs.idempotency {
            Idempotency::Recent(window) => (window.get(), window.full(), RECENT_BYTES, 0.0),
            Idempotency::Ledger(_) => (0, 0, 0, 2.0 * write_units(MARKER_BYTES)),
        };
        // A writer that reads first writes in a transaction, and prunes a full map in its first request.
        let reads_first = marker > 0.0 || inputs.mode == WriteMode::Transaction;
        // In a round, the map of recent requests grows from its minimum until it is full, and the request that finds it full is rejected.
        let size = |entries: usize| bytes + LATEST_BYTES + map_bytes + ENTRY_BYTES * entries as u64;
        let round = (min..=full).count() as f64;
        let reads = (min..=full).map(|entries| read_units(size(entries))).sum::<f64>() / round;
        // The first update of a round prunes the map. It costs as much as the item before it, which is larger.
        let pruning = write_units(size(full));
        let growing: f64 = (min + 1..=full).map(|entries| write_units(size(entries))).sum();
        let writes = (growing + pruning) / round;
        let inline = if inputs.mode == WriteMode::Inline { 1.0 } else { 0.0 };
        let (factor, rejections) = if reads_first { (2.0, 0.0) } else { (1.0, 1.0 / round) };
        let (requests, latencies) = match reads_first {
            true => (2.0, 1.0 + TRANSACTION_LATENCIES),
            false => (1.0 + rejections, 1.0 + rejections),
        };
        let version = write_units(version_bytes);
        let stored = match inputs.mode {
            WriteMode::Stream => version,
            WriteMode::Inline => 2.0 * version,
            WriteMode::Transaction => 3.0 * version,
        };
        let pruned = match inputs.is_pruned {
            true => write_units(version_bytes + TTL_BYTES),
            false => 0.0,
        };
        Self {
            latest_bytes: size(full),
            version_bytes,
            latest: factor * writes + rejections * pruning + marker,
            version: stored + pruned,
            reads: if reads_first { reads } else { 0.0 },
            requests: requests + inline,
            latencies: latencies + inline,
            rejections,
        }
    }

    /// Returns all write units.
    pub(super) fn writes(&self) -> f64 {
        self.latest + self.version
    }
}

/// Returns one unit for each KB, rounded up.
pub(super) fn write_units(bytes: u64) -> f64 {
    bytes.div_ceil(1024).max(1) as f64
}

/// Returns one unit of a consistent read for each 4 KB, rounded up.
pub(super) fn read_units(bytes: u64) -> f64 {
    bytes.div_ceil(4096).max(1) as f64
}

#[cfg(test)]
mod tests {
    use shared::domain::ledger::Retention;

    use super::{super::load::tests::inputs, *};

    /// Bytes, mode, window or ledger, history table; in ninths: write units of `latest` and `version`, read units, requests, latencies.
    /// - Windows: one rejected request in a round of 9, from 16 entries to 24.
    /// - Modes: two units of the marker; the rejected put of stream-fn behind `inline` and `transaction`.
    /// - 995: `Latest` and `RecordedVersion` take 29 bytes, to the last byte of a KB.
    /// - 530: 86 bytes, and 17 for each of up to 24 requests. The full map just fits the KB. With one byte more, the write that fills it
    ///   and the two that find it full take two units.
    /// - 1006: the map `Image` takes 18 bytes, to the last byte of a KB.
    const CASES: &str = "
        500 stream 16 same 10 9 0 10 10
        100 stream 1 same 10 9 0 10 10
        500 inline 16 same 10 18 0 19 19
        500 transaction 16 same 18 27 9 18 27
        500 stream ledger same 36 9 9 18 27
        500 inline ledger same 36 18 9 27 36
        500 transaction ledger same 36 27 9 18 27
        995 stream ledger same 36 9 9 18 27
        996 stream ledger same 54 9 9 18 27
        1025 stream ledger same 54 18 9 18 27
        530 stream 16 same 10 9 0 10 10
        531 stream 16 same 13 9 0 10 10
        2000 transaction 1 same 54 54 9 18 27
        4087 transaction 1 same 90 108 18 18 27
        1006 stream ledger own 54 9 9 18 27
        1007 stream ledger own 54 18 9 18 27";

    #[test]
    fn units_match_manual_calculation() {
        for case in CASES.trim().lines() {
            let cells: Vec<_> = case.split_whitespace().collect();
            let units = Units::of(&Inputs {
                item_bytes: cells[0].parse().unwrap(),
                mode: cells[1].parse().unwrap(),
                idempotency: match cells[2].parse() {
                    Ok(window) => Idempotency::Recent(window),
                    Err(_) => Idempotency::Ledger(Retention::default()),
                },
                has_own_history: cells[3] == "own",
                ..inputs()
            });
            let found = [
                units.latest,
                units.version,
                units.reads,
                units.requests,
                units.latencies,
            ];
            let expected = cells[4..].iter().map(|ninths| ninths.parse::<f64>().unwrap() / 9.0);
            let is_close = found.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-9);
            assert!(is_close, "{case}: {found:?}");
        }
    }
}
