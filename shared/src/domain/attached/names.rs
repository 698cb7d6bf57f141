//! Names of the attributes of an attached table's version items, besides the [common](crate::domain::names) ones.

/// `true` on the state with which history begins.
pub const BASELINE: &str = "Baseline";
/// `true` on a state that never reached history by its own record.
pub const MISSED: &str = "Missed";
/// `true` on a state that is older than the version before it.
pub const LATE: &str = "Late";
/// Number of a version before a late one, by place.
pub const AFTER: &str = "After";
/// Number of the last version that is not late, in a late version.
pub const IN_ORDER: &str = "InOrder";
/// `RecordedAt` of that version.
pub const IN_ORDER_AT: &str = "InOrderAt";
/// Why a version has no state, see [`Omission`](super::item::Omission).
pub const OMITTED: &str = "Omitted";
/// Prefix of the sort key of a [late entry](super::item::late_entry).
pub const LATE_PREFIX: &str = "late#";
/// Number of the late version, in its late entry.
pub const VERSION: &str = "Version";
/// Value of the writers' own version attribute.
pub const ITEM_VERSION: &str = "ItemVersion";
/// `true` if the state before a version has the same `Actor`, so that another write can have set it.
pub const ACTOR_UNCHANGED: &str = "ActorUnchanged";
/// `Stream` and `RecordedBy` of a state that a backfill read from the table.
pub const BACKFILL: &str = "backfill";
/// Reason of a deletion by TTL.
pub const TTL_REASON: &str = "TTL";
