//! Progress of a segment: the state needed to continue.

use serde::{Deserialize, Serialize};
use shared::domain::Item;

/// Progress of a segment, with what a run counts and defers.
#[derive(Clone, Default, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct Progress<C, D = ()> {
    /// Key after which the segment continues: of the last item that was processed.
    pub(crate) after: Option<Item>,
    /// `true` in the second of two scans, that of latest items.
    pub(crate) is_latest: bool,
    /// `true` if the whole segment was read.
    pub(crate) done: bool,
    /// Findings and items that the end of the run decides.
    pub(crate) deferred: D,
    /// Counts so far.
    pub(crate) counts: C,
}

/// Defines counts that are summed over the segments.
macro_rules! counts {
    ($(#[$doc:meta])* pub struct Counts { $($(#[$of_field:meta])* pub $field:ident: u64,)* }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
        #[serde(rename_all = "PascalCase")]
        pub struct Counts {
            $($(#[$of_field])* pub $field: u64,)*
        }

        impl<'a> std::iter::Sum<&'a Self> for Counts {
            fn sum<I: Iterator<Item = &'a Self>>(all: I) -> Self {
                all.fold(Self::default(), |sum, counts| Self {
                    $($field: sum.$field + counts.$field,)*
                })
            }
        }
    };
}
pub(crate) use counts;
