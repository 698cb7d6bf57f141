//! The number of a version.

use std::{fmt, num::NonZeroU64};

use serde::{Deserialize, Serialize};

/// The number of a version: 1 for an entity's first, without gaps from there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Version(NonZeroU64);

impl Version {
    /// The first version of every entity.
    pub const FIRST: Self = Self(NonZeroU64::MIN);

    /// `None` for 0, which is no version.
    pub fn new(number: u64) -> Option<Self> {
        NonZeroU64::new(number).map(Self)
    }

    /// The number itself, from 1.
    pub fn get(self) -> u64 {
        self.0.get()
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
