//! Options of a console.

use std::{num::NonZeroU32, time::Duration};

use operations::rate_limit::Limits;
use shared::config::{Ordering, WriteOptions};

use crate::hosts::Hosts;

#[derive(Debug)]
pub struct Options {
    /// Access token. Default: a random one.
    pub token: Option<String>,
    /// Options of writes, or `None` for a read-only console.
    pub writes: Option<WriteOptions>,
    pub ordering: Ordering,
    /// Time in which a missing version may still arrive.
    pub lag: Duration,
    /// Maximum number of read units a second of an audit.
    pub max_read_units: Option<NonZeroU32>,
    /// Returns the cost of read and write units on demand, in USD.
    pub cost: Option<fn(f64, f64) -> f64>,
    pub hosts: Hosts,
}

impl Options {
    /// Returns the limits of long reads.
    pub(crate) fn limits(&self) -> Limits {
        let read = self.max_read_units;
        Limits { read, write: None }
    }

    /// Returns the cost of units for a text, nothing if it is not known: `, USD 0.25 on demand`.
    pub(crate) fn price(&self, read: f64, write: f64) -> String {
        let price = self
            .cost
            .map(|cost| format!(", USD {:.2} on demand", cost(read, write)));
        price.unwrap_or_default()
    }
}

impl Default for Options {
    fn default() -> Self {
        Self {
            token: None,
            writes: None,
            ordering: Ordering::default(),
            lag: Duration::from_secs(60),
            max_read_units: None,
            cost: None,
            hosts: Hosts::default(),
        }
    }
}
