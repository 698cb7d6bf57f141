//! Options of an undo.

use item_diff::undo::OnConflict;
use shared::config::{Ordering, WriteOptions};

use super::selection::Selection;
use crate::segments::progress::counts;

/// Treatment of an entity with conflicts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Conflicts {
    /// It stays as it is.
    #[default]
    Leave,
    /// Its other paths are undone.
    SkipPath,
    /// The values from before the selected changes are restored.
    Overwrite,
}

/// Selection of the changes to undo, and how they are undone.
#[derive(Debug, Clone, Default)]
pub struct Options {
    pub selection: Selection,
    pub conflicts: Conflicts,
    /// Author and reason of the new versions. On an attached table, its items need attributes for them.
    pub actor: Option<String>,
    pub reason: Option<String>,
    /// Set of changes to which the new versions belong.
    pub change_set: Option<String>,
    pub ordering: Ordering,
    pub write: WriteOptions,
    /// `true` to restore a time to live that has passed.
    pub allow_expired: bool,
}

impl Conflicts {
    pub(super) fn of_merge(self) -> OnConflict {
        match self {
            Self::Leave | Self::SkipPath => OnConflict::Keep,
            Self::Overwrite => OnConflict::Overwrite,
        }
    }
}

counts! {
    /// Counts of versions and entities.
    pub struct Counts {
        /// Items read, of all kinds.
        pub items: u64,
        /// Versions that are undone.
        pub versions: u64,
        /// Those of them whose author is uncertain.
        pub uncertain: u64,
        /// Versions that are not selected because they are late, missed or a baseline.
        pub marked: u64,
        /// Deletions that are not selected because they name no author.
        pub unattributed: u64,
    }
}

impl Counts {
    pub(super) fn add(&mut self, other: &Self) {
        *self = [&*self, other].into_iter().sum();
    }
}
