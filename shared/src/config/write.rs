//! Settings of writes: order, write mode, and strategy for detecting duplicates.

use std::{fmt, str::FromStr, time::Duration};

use thiserror::Error;

/// Order in which updates of one entity apply.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Ordering {
    /// Last writer wins.
    #[default]
    Arrival,
    /// An update that is older than the latest item is stale.
    Time,
}

impl FromStr for Ordering {
    type Err = InvalidOrdering;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "arrival" => Ok(Self::Arrival),
            "time" => Ok(Self::Time),
            _ => Err(InvalidOrdering),
        }
    }
}

/// The text is neither `arrival` nor `time`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("the ordering is \"arrival\" or \"time\"")]
pub struct InvalidOrdering;

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

impl FromStr for WriteMode {
    type Err = InvalidWriteMode;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "stream" => Ok(Self::Stream),
            "inline" => Ok(Self::Inline),
            "transaction" => Ok(Self::Transaction),
            _ => Err(InvalidWriteMode),
        }
    }
}

/// The text is neither `stream`, `inline` nor `transaction`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("the write mode is \"stream\", \"inline\" or \"transaction\"")]
pub struct InvalidWriteMode;

/// Strategy for detecting duplicate requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Idempotency {
    /// The latest item holds at least this many of its last requests.
    Recent(Window),
    /// Every request has a marker with this retention.
    Ledger(Retention),
}

impl Default for Idempotency {
    fn default() -> Self {
        Self::Recent(Window::default())
    }
}

impl Idempotency {
    /// Returns the strategy with this name, `recent` or `ledger`.
    ///
    /// # Errors
    ///
    /// Returns [`InvalidIdempotency`] for any other name.
    pub fn named(name: &str, window: Window, retention: Retention) -> Result<Self, InvalidIdempotency> {
        match name {
            "recent" => Ok(Self::Recent(window)),
            "ledger" => Ok(Self::Ledger(retention)),
            _ => Err(InvalidIdempotency),
        }
    }
}

/// The name is neither `recent` nor `ledger`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("the idempotency is \"recent\" or \"ledger\"")]
pub struct InvalidIdempotency;

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
    /// Largest window: the number of entries that one expression can remove.
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

impl fmt::Display for Window {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for Window {
    type Err = InvalidWindow;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        text.parse().ok().and_then(Self::new).ok_or(InvalidWindow)
    }
}

/// The text is not a number from 1 to [`Window::MAX`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("the window is a number from 1 to {max}", max = Window::MAX)]
pub struct InvalidWindow;

/// Retention of markers, in days.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Retention(u16);

impl Retention {
    /// Returns `None` outside 1 day to 10 years.
    pub fn days(days: u16) -> Option<Self> {
        (1..=3650).contains(&days).then_some(Self(days))
    }

    /// Returns the retention as a duration.
    pub fn duration(self) -> Duration {
        Duration::from_secs(u64::from(self.0) * 86_400)
    }
}

impl Default for Retention {
    /// Returns 15 days: longer than the
    /// [maximum retention](https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/quotas-messages.html)
    /// of a queue, 14 days.
    fn default() -> Self {
        Self(15)
    }
}

impl fmt::Display for Retention {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for Retention {
    type Err = InvalidRetention;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        text.parse().ok().and_then(Self::days).ok_or(InvalidRetention)
    }
}

/// The text is not a number from 1 to 3650.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("markers are kept for 1 to 3650 days")]
pub struct InvalidRetention;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_has_bounds() {
        for (text, expected) in [
            ("1", Some(1)),
            ("16", Some(16)),
            ("100", Some(100)),
            ("0", None),
            ("101", None),
            ("256", None),
            ("-1", None),
            ("", None),
            ("many", None),
        ] {
            assert_eq!(text.parse::<Window>().ok().map(Window::get), expected, "{text}");
        }
    }

    #[test]
    fn retention_is_in_days() {
        let seconds = |text: &str| text.parse::<Retention>().ok().map(|kept| kept.duration().as_secs());
        assert_eq!(seconds("8"), Some(691_200));
        assert_eq!(Retention::default().duration().as_secs(), 1_296_000);
        for invalid in ["0", "3651", "-1", "1.5", ""] {
            assert_eq!(seconds(invalid), None, "{invalid}");
        }
    }
}
