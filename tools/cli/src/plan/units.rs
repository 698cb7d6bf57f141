//! What one update takes of DynamoDB.

use shared::{
    domain::recent_requests::Window,
    dynamodb::write::{Idempotency, WriteMode},
};

use super::figures::{ENTRY_BYTES, LATEST_BYTES, MARKER_BYTES, RECENT_BYTES, TRANSACTION_LATENCIES, TTL_BYTES};

/// How updates are written.
#[derive(Debug, Clone, Copy)]
pub(super) struct Writing {
    pub(super) mode: WriteMode,
    pub(super) idempotency: Idempotency,
    /// Whether stream-fn runs behind a mode that writes version items itself.
    pub(super) stream_behind: bool,
    /// Whether versions are pruned after some time.
    pub(super) pruned: bool,
}

/// One update, on the average of many.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Units {
    /// The largest that the latest item gets, in bytes.
    pub(super) latest_bytes: u64,
    /// Write units of the latest item, with the requests that it refuses.
    pub(super) latest: f64,
    /// Write units of the version item.
    pub(super) version: f64,
    /// Write units of the ledger's marker.
    pub(super) marker: f64,
    /// Write units of the put that stream-fn tries again.
    pub(super) refused: f64,
    /// Write units of marking the version when it is pruned.
    pub(super) prune: f64,
    /// Read units.
    pub(super) reads: f64,
    /// Requests of writer-fn.
    pub(super) requests: f64,
    /// How many times the latency of one request they take, one after the other.
    pub(super) latencies: f64,
    /// Whether the latest item is read first, and written only if it is still the same.
    pub(super) races: bool,
}

impl Units {
    /// Of an update whose version item has so many bytes.
    pub(super) fn of(bytes: u64, writing: Writing) -> Self {
        let transacted =
            writing.mode == WriteMode::Transaction || matches!(writing.idempotency, Idempotency::Ledger(_));
        let factor = if transacted { 2.0 } else { 1.0 };
        let item = bytes.saturating_add(LATEST_BYTES);
        let map = match writing.idempotency {
            Idempotency::Recent(window) if window != Window::LAST => Map::of(item, window),
            _ => Map::without(item),
        };
        // Who reads first knows that the map is full.
        let refused_first = if transacted { 0.0 } else { map.refused };
        let inline = if writing.mode == WriteMode::Inline { 1.0 } else { 0.0 };
        let (first, first_latencies) = if transacted {
            (2.0, 1.0 + TRANSACTION_LATENCIES)
        } else {
            (1.0 + map.refusals, 1.0 + map.refusals)
        };
        Self {
            latest_bytes: map.largest,
            latest: factor * map.writes + refused_first,
            version: match writing.mode {
                WriteMode::Transaction => 2.0 * write_units(bytes),
                WriteMode::Stream | WriteMode::Inline => write_units(bytes),
            },
            marker: match writing.idempotency {
                Idempotency::Ledger(_) => 2.0 * write_units(MARKER_BYTES),
                Idempotency::Recent(_) => 0.0,
            },
            refused: if writing.stream_behind && writing.mode != WriteMode::Stream {
                write_units(bytes)
            } else {
                0.0
            },
            prune: if writing.pruned {
                write_units(bytes.saturating_add(TTL_BYTES))
            } else {
                0.0
            },
            reads: if transacted { map.reads } else { 0.0 },
            requests: first + inline,
            latencies: first_latencies + inline,
            races: transacted,
        }
    }

    /// All write units, which meet the same partition key.
    pub(super) fn writes(&self) -> f64 {
        self.latest + self.version + self.marker + self.refused + self.prune
    }
}

/// What the map of recent requests makes of a latest item, over one round: it grows from the window to the size at which
/// it is pruned, and the request that finds it full is refused and sent again.
struct Map {
    largest: u64,
    writes: f64,
    reads: f64,
    refused: f64,
    refusals: f64,
}

impl Map {
    fn without(item: u64) -> Self {
        Self {
            largest: item,
            writes: write_units(item),
            reads: read_units(item),
            refused: 0.0,
            refusals: 0.0,
        }
    }

    fn of(item: u64, window: Window) -> Self {
        let bytes = |entries: usize| item.saturating_add(RECENT_BYTES + ENTRY_BYTES * entries as u64);
        let (least, full) = (window.get(), window.full());
        // The first update of a round prunes, and costs what the larger item does, which is the one before.
        let (mut writes, mut reads) = (write_units(bytes(full)), read_units(bytes(full)));
        for entries in least + 1..=full {
            writes += write_units(bytes(entries));
            reads += read_units(bytes(entries - 1));
        }
        let updates = window.full().saturating_sub(least) as f64 + 1.0;
        Self {
            largest: bytes(full),
            writes: writes / updates,
            reads: reads / updates,
            refused: write_units(bytes(full)) / updates,
            refusals: 1.0 / updates,
        }
    }
}

/// One for each KB begun.
fn write_units(bytes: u64) -> f64 {
    bytes.div_ceil(1024).max(1) as f64
}

/// One for each 4 KB begun, of a consistent read.
fn read_units(bytes: u64) -> f64 {
    bytes.div_ceil(4096).max(1) as f64
}

#[cfg(test)]
mod tests {
    use shared::domain::ledger::Retention;

    use super::*;

    fn writing(mode: &str, idempotency: &str) -> Writing {
        Writing {
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
    fn write_units_by_hand() {
        for (bytes, mode, idempotency, latest, version, marker, refused, reads) in [
            (500, "stream", "1", 1.0, 1.0, 0.0, 0.0, 0.0),
            // One refused request in a round of 9: from 16 entries to 24.
            (500, "stream", "16", 1.0 + 1.0 / 9.0, 1.0, 0.0, 0.0, 0.0),
            (500, "inline", "16", 1.0 + 1.0 / 9.0, 1.0, 0.0, 1.0, 0.0),
            (500, "transaction", "16", 2.0, 2.0, 0.0, 1.0, 1.0),
            (500, "stream", "ledger", 2.0, 1.0, 2.0, 0.0, 1.0),
            (500, "inline", "ledger", 2.0, 1.0, 2.0, 1.0, 1.0),
            (500, "transaction", "ledger", 2.0, 2.0, 2.0, 1.0, 1.0),
            // `Latest` takes 10 bytes: to the last byte of a KB, and past it.
            (1014, "stream", "1", 1.0, 1.0, 0.0, 0.0, 0.0),
            (1015, "stream", "1", 2.0, 1.0, 0.0, 0.0, 0.0),
            (1025, "stream", "1", 2.0, 2.0, 0.0, 0.0, 0.0),
            // 27 bytes, and 16 for each of up to 24 requests: at 613 bytes, the full map just fits the KB.
            (613, "stream", "16", 1.0 + 1.0 / 9.0, 1.0, 0.0, 0.0, 0.0),
            // One more: the write that fills it and the two that find it full take two units.
            (614, "stream", "16", (7.0 + 2.0 + 2.0 + 2.0) / 9.0, 1.0, 0.0, 0.0, 0.0),
            // A window of 2 is pruned at 3: every other update.
            (100, "stream", "2", 1.5, 1.0, 0.0, 0.0, 0.0),
            (2000, "transaction", "1", 4.0, 4.0, 0.0, 2.0, 1.0),
            (4087, "transaction", "1", 10.0, 8.0, 0.0, 4.0, 2.0),
        ] {
            let units = Units::of(bytes, writing(mode, idempotency));
            let measured = [units.latest, units.version, units.marker, units.refused, units.reads];
            let expected = [latest, version, marker, refused, reads];
            let close = measured.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-9);
            assert!(close, "{bytes} {mode} {idempotency}: {measured:?} and not {expected:?}");
        }
    }

    #[test]
    fn requests_and_latencies_by_hand() {
        for (mode, idempotency, requests, latencies) in [
            ("stream", "1", 1.0, 1.0),
            ("inline", "1", 2.0, 2.0),
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
