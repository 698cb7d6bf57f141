//! Capacity and requests that one update takes.

use shared::{
    domain::recent_requests::Window,
    dynamodb::write::{Idempotency, WriteMode},
};

use super::figures::{
    ENTRY_BYTES, IMAGE_ATTRIBUTES, IMAGE_BYTES, LATEST_BYTES, MARKER_BYTES, RECENT_BYTES, TRANSACTION_LATENCIES,
    TTL_BYTES,
};

/// Table that stores history.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum HistoryTable {
    /// The table of latest items
    Same,
    /// A second table
    Own,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Writing {
    pub(super) history: HistoryTable,
    pub(super) mode: WriteMode,
    pub(super) idempotency: Idempotency,
    /// `true` if stream-fn also runs with modes that write version items themselves.
    pub(super) stream_behind: bool,
    pub(super) pruned: bool,
}

/// Average of one update.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Units {
    pub(super) history: HistoryTable,
    /// Maximum size of the latest item, in bytes.
    pub(super) latest_bytes: u64,
    /// Size of the stored version item, in bytes.
    pub(super) version_bytes: u64,
    /// Write units of the latest item, including rejected requests.
    pub(super) latest: f64,
    /// Write units of the version item.
    pub(super) version: f64,
    /// `true` if writer-fn writes the version item, too.
    pub(super) is_version_by_writer: bool,
    /// Write units of the ledger's marker.
    pub(super) marker: f64,
    /// Write units of the rejected put of stream-fn for a version that already exists.
    pub(super) rejected: f64,
    /// Write units of marking the version when it is pruned.
    pub(super) prune: f64,
    pub(super) reads: f64,
    pub(super) requests: f64,
    /// Latency of these requests, in latencies of one request.
    pub(super) latencies: f64,
    /// Share of updates whose first request is rejected and sent again, which is contained in the requests and latencies.
    pub(super) rejections: f64,
    /// `true` if the latest item is read first, and written on condition that it has not changed.
    pub(super) races: bool,
}

impl Units {
    /// Calculates an update whose version item has `bytes` bytes beside its latest item.
    pub(super) fn of(bytes: u64, writing: Writing) -> Self {
        let version_bytes = match writing.history {
            HistoryTable::Same => bytes,
            HistoryTable::Own => bytes.saturating_add(IMAGE_BYTES + IMAGE_ATTRIBUTES),
        };
        let transacted =
            writing.mode == WriteMode::Transaction || matches!(writing.idempotency, Idempotency::Ledger(_));
        let factor = if transacted { 2.0 } else { 1.0 };
        let item = bytes.saturating_add(LATEST_BYTES);
        let map = match writing.idempotency {
            Idempotency::Recent(window) => Map::of(item, window),
            Idempotency::Ledger(_) => Map::without(item),
        };
        // A writer that reads first prunes a full map in its first request.
        let rejected_first = if transacted { 0.0 } else { map.rejected };
        let inline = if writing.mode == WriteMode::Inline { 1.0 } else { 0.0 };
        let (first, first_latencies, rejections) = if transacted {
            (2.0, 1.0 + TRANSACTION_LATENCIES, 0.0)
        } else {
            (1.0 + map.rejections, 1.0 + map.rejections, map.rejections)
        };
        Self {
            history: writing.history,
            latest_bytes: map.largest,
            version_bytes,
            latest: factor * map.writes + rejected_first,
            version: match writing.mode {
                WriteMode::Transaction => 2.0 * write_units(version_bytes),
                WriteMode::Stream | WriteMode::Inline => write_units(version_bytes),
            },
            is_version_by_writer: writing.mode != WriteMode::Stream,
            marker: match writing.idempotency {
                Idempotency::Ledger(_) => 2.0 * write_units(MARKER_BYTES),
                Idempotency::Recent(_) => 0.0,
            },
            rejected: if writing.stream_behind && writing.mode != WriteMode::Stream {
                write_units(version_bytes)
            } else {
                0.0
            },
            prune: if writing.pruned {
                write_units(version_bytes.saturating_add(TTL_BYTES))
            } else {
                0.0
            },
            reads: if transacted { map.reads } else { 0.0 },
            requests: first + inline,
            latencies: first_latencies + inline,
            rejections,
            races: transacted,
        }
    }

    /// Returns all write units.
    pub(super) fn writes(&self) -> f64 {
        self.latest + self.version + self.marker + self.rejected + self.prune
    }

    /// Returns the write units of writer-fn's requests in the partition of the latest item. If the partition has fewer, these requests
    /// are throttled, and their messages fail.
    pub(super) fn writer_writes(&self) -> f64 {
        let version = match self.history {
            HistoryTable::Same if self.is_version_by_writer => self.version,
            HistoryTable::Same | HistoryTable::Own => 0.0,
        };
        self.latest + self.marker + version
    }

    /// Returns the write units in the table of latest items. They have the same partition key.
    pub(super) fn latest_writes(&self) -> f64 {
        self.writes() - self.history_writes()
    }

    /// Returns the write units in the history table, 0 without one. They have the same partition key.
    pub(super) fn history_writes(&self) -> f64 {
        match self.history {
            HistoryTable::Same => 0.0,
            HistoryTable::Own => self.version + self.rejected + self.prune,
        }
    }

    /// Returns the write units in the partition that gets more of them.
    pub(super) fn partition_writes(&self) -> f64 {
        self.latest_writes().max(self.history_writes())
    }
}

/// Average effect of the map of recent requests on the latest item, over one round. In a round, the map grows from the window to its maximum,
/// and the request that finds it full is rejected and sent again.
struct Map {
    largest: u64,
    writes: f64,
    reads: f64,
    /// Write units of the rejected requests.
    rejected: f64,
    rejections: f64,
}

impl Map {
    fn without(item: u64) -> Self {
        Self {
            largest: item,
            writes: write_units(item),
            reads: read_units(item),
            rejected: 0.0,
            rejections: 0.0,
        }
    }

    fn of(item: u64, window: Window) -> Self {
        let bytes = |entries: usize| item.saturating_add(RECENT_BYTES + ENTRY_BYTES * entries as u64);
        let (min, full) = (window.get(), window.full());
        // The first update of a round prunes the map. It costs as much as the item before it, which is larger.
        let (mut writes, mut reads) = (write_units(bytes(full)), read_units(bytes(full)));
        for entries in min + 1..=full {
            writes += write_units(bytes(entries));
            reads += read_units(bytes(entries - 1));
        }
        let updates = window.full().saturating_sub(min) as f64 + 1.0;
        Self {
            largest: bytes(full),
            writes: writes / updates,
            reads: reads / updates,
            rejected: write_units(bytes(full)) / updates,
            rejections: 1.0 / updates,
        }
    }
}

/// Returns one unit for each KB, rounded up.
fn write_units(bytes: u64) -> f64 {
    bytes.div_ceil(1024).max(1) as f64
}

/// Returns one unit of a consistent read for each 4 KB, rounded up.
fn read_units(bytes: u64) -> f64 {
    bytes.div_ceil(4096).max(1) as f64
}

#[cfg(test)]
mod tests {
    use shared::domain::ledger::Retention;

    use super::*;

    fn writing(mode: &str, idempotency: &str) -> Writing {
        Writing {
            history: HistoryTable::Same,
            mode: mode.parse().unwrap(),
            idempotency: match idempotency.parse() {
                Ok(window) => Idempotency::Recent(window),
                Err(_) => Idempotency::Ledger(Retention::default()),
            },
            stream_behind: true,
            pruned: false,
        }
    }

    #[test]
    fn write_units_match_manual_calculation() {
        for (bytes, mode, idempotency, latest, version, marker, rejected, reads) in [
            // One rejected request in a round of 9: from 16 entries to 24.
            (500, "stream", "16", 1.0 + 1.0 / 9.0, 1.0, 0.0, 0.0, 0.0),
            (500, "inline", "16", 1.0 + 1.0 / 9.0, 1.0, 0.0, 1.0, 0.0),
            (500, "transaction", "16", 2.0, 2.0, 0.0, 1.0, 1.0),
            (500, "stream", "ledger", 2.0, 1.0, 2.0, 0.0, 1.0),
            (500, "inline", "ledger", 2.0, 1.0, 2.0, 1.0, 1.0),
            (500, "transaction", "ledger", 2.0, 2.0, 2.0, 1.0, 1.0),
            // `Latest` and `RecordedVersion` take 29 bytes: to the last byte of a KB, and past it.
            (995, "stream", "ledger", 2.0, 1.0, 2.0, 0.0, 1.0),
            (996, "stream", "ledger", 4.0, 1.0, 2.0, 0.0, 1.0),
            (1025, "stream", "ledger", 4.0, 2.0, 2.0, 0.0, 1.0),
            // 86 bytes, and 17 for each of up to 24 requests: at 530 bytes, the full map just fits the KB.
            (530, "stream", "16", 1.0 + 1.0 / 9.0, 1.0, 0.0, 0.0, 0.0),
            // One more: the write that fills it and the two that find it full take two units.
            (531, "stream", "16", (7.0 + 2.0 + 2.0 + 2.0) / 9.0, 1.0, 0.0, 0.0, 0.0),
            (100, "stream", "1", 1.0 + 1.0 / 9.0, 1.0, 0.0, 0.0, 0.0),
            (2000, "transaction", "1", 6.0, 4.0, 0.0, 2.0, 1.0),
            (4087, "transaction", "1", 10.0, 8.0, 0.0, 4.0, 2.0),
        ] {
            let units = Units::of(bytes, writing(mode, idempotency));
            let measured = [units.latest, units.version, units.marker, units.rejected, units.reads];
            let expected = [latest, version, marker, rejected, reads];
            let close = measured.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-9);
            assert!(
                close,
                "{bytes} {mode} {idempotency}: {measured:?} instead of {expected:?}"
            );
        }
    }

    #[test]
    fn a_history_table_takes_the_units_of_versions() {
        for (bytes, mode, idempotency, latest, history) in [
            (500, "stream", "16", 1.0 + 1.0 / 9.0, 1.0),
            // The rejected put of stream-fn.
            (500, "inline", "16", 1.0 + 1.0 / 9.0, 2.0),
            (500, "transaction", "16", 2.0, 3.0),
            (500, "stream", "ledger", 4.0, 1.0),
            (500, "transaction", "ledger", 4.0, 3.0),
            // The map `Image` takes 18 bytes: to the last byte of a KB, and past it.
            (1006, "stream", "ledger", 6.0, 1.0),
            (1007, "stream", "ledger", 6.0, 2.0),
        ] {
            let mut writing = writing(mode, idempotency);
            writing.history = HistoryTable::Own;
            let units = Units::of(bytes, writing);
            let found = [units.latest_writes(), units.history_writes(), units.partition_writes()];
            let expected = [latest, history, f64::max(latest, history)];
            let close = found.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-9);
            assert!(close, "{bytes} {mode} {idempotency}: {found:?} instead of {expected:?}");
        }
    }

    #[test]
    fn requests_and_latencies_match_manual_calculation() {
        for (mode, idempotency, requests, latencies) in [
            ("stream", "1", 1.0 + 1.0 / 9.0, 1.0 + 1.0 / 9.0),
            ("inline", "1", 2.0 + 1.0 / 9.0, 2.0 + 1.0 / 9.0),
            ("transaction", "16", 2.0, 3.0),
            ("stream", "ledger", 2.0, 3.0),
            ("inline", "ledger", 3.0, 4.0),
            ("transaction", "ledger", 2.0, 3.0),
        ] {
            let units = Units::of(500, writing(mode, idempotency));
            assert_eq!(
                (units.requests, units.latencies),
                (requests, latencies),
                "{mode} {idempotency}"
            );
        }
    }
}
