//! Settings of writes: order, write mode, and strategy for detecting duplicates.

use std::time::Duration;

use crate::domain::setting::choice;

/// Order in which updates of one entity apply.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Ordering {
    /// Last writer wins.
    #[default]
    Arrival,
    /// An update that is older than the latest item is stale.
    Time,
}

choice!(Ordering, "the ordering is \"arrival\" or \"time\"", "arrival" => Self::Arrival, "time" => Self::Time);

/// Write mode.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum WriteMode {
    /// Writes only the latest item; stream-fn puts the version item.
    #[default]
    Stream,
    /// Writes the latest item, then the version item.
    Inline,
    /// Writes both items in one transaction.
    Transaction,
}

choice!(
    WriteMode, "the write mode is \"stream\", \"inline\" or \"transaction\"",
    "stream" => Self::Stream, "inline" => Self::Inline, "transaction" => Self::Transaction
);

/// Strategy for detecting duplicate requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Idempotency {
    /// The latest item holds at least this many of its last requests.
    Recent(Window),
    /// Every request has a marker, with the retention [`MARKER_RETENTION`].
    Ledger,
}

impl Default for Idempotency {
    fn default() -> Self {
        Self::Recent(Window::default())
    }
}

choice!(
    Idempotency, "the idempotency is \"recent\" or \"ledger\"",
    "recent" => Self::default(), "ledger" => Self::Ledger
);

/// Retention of markers: longer than the
/// [maximum retention](https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/quotas-messages.html)
/// of a queue, 14 days.
pub const MARKER_RETENTION: Duration = Duration::from_hours(15 * 24);

/// Options of a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct WriteOptions {
    /// Write mode.
    pub mode: WriteMode,
    /// Strategy for detecting duplicate requests.
    pub idempotency: Idempotency,
    /// `true` if an update that changes nothing creates no version. It requires a read.
    pub skip_unchanged: bool,
}

/// Minimum number of an entity's last requests that its latest item holds, from 1 to 100.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Window(u8);

impl Window {
    /// Largest window, which limits the size of the map.
    pub const MAX: u8 = 100;
    /// Number of requests that the map can hold in addition to a window, so that not every update has to remove the oldest.
    const SLACK: usize = 8;
    /// Number of requests that concurrent updates can add until one of them removes the oldest, if the window is not larger.
    const RACE: usize = 24;

    /// Returns `None` outside 1 to [`Self::MAX`].
    pub fn new(requests: u8) -> Option<Self> {
        (1..=Self::MAX).contains(&requests).then_some(Self(requests))
    }

    /// Returns the minimum number of requests.
    pub fn get(self) -> usize {
        usize::from(self.0)
    }

    /// Returns the number of entries from which the map is pruned. With the default window the map has at most 18 entries of
    /// about 16 bytes.
    pub fn full(self) -> usize {
        self.get() + Self::SLACK
    }

    /// Returns the maximum number of entries of the map, which concurrent updates can reach: 42 with the default window.
    pub fn max_entries(self) -> usize {
        self.full() + self.get().max(Self::RACE)
    }
}

impl Default for Window {
    fn default() -> Self {
        Self(10)
    }
}
