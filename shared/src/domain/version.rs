//! Version numbers.

use std::{fmt, num::NonZeroU64};

use serde::{Deserialize, Serialize};

/// Number of a version: 1 for an entity's first version, without gaps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Version(NonZeroU64);

impl Version {
    /// First version of every entity.
    pub const FIRST: Self = Self(NonZeroU64::MIN);

    /// Returns `None` for 0.
    pub fn new(number: u64) -> Option<Self> {
        NonZeroU64::new(number).map(Self)
    }

    /// Returns the number, at least 1.
    pub fn get(self) -> u64 {
        self.0.get()
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
