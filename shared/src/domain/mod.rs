//! Entities, versions and updates: pure values and rules.
//!
//! This module uses no SDK client, clock, environment or async code. Time and request ids are arguments.

pub mod attached;
pub mod attributes;
pub mod attribution;
pub mod change;
pub mod compression;
pub mod entity;
pub mod erase;
pub mod erased;
pub mod incarnation;
pub mod keys;
pub mod layout;
pub mod marks;
pub mod number;
pub mod plain;
pub mod purge_marker;
pub mod quarantine;
pub mod recorded_at;
pub(crate) mod redacted;
pub mod request_id;
pub mod sequence;
pub mod setting;
pub mod size;
#[cfg(test)]
pub(crate) mod test_values;
pub mod time;
pub mod time_index;
pub mod tombstone;
pub mod version;
pub mod version_item;
pub mod view;

pub use serde_dynamo::{AttributeValue, Item};

/// Names of the attributes with a special meaning, see the data model in `ARCHITECTURE.md`.
pub mod names {
    /// Partition key: the entity.
    pub const PK: &str = "PK";
    /// Sort key: the item within the entity.
    pub const SK: &str = "SK";
    /// Number of the latest version, on the latest item only.
    pub const LATEST: &str = "Latest";
    /// Time to live, in epoch seconds.
    pub const TTL: &str = "TTL";
    /// State that a tombstone has on the latest item: a map of the attributes that the deletion itself set.
    pub const TOMBSTONE_STATE: &str = "TombstoneState";
    /// Token of a restore that has put attributes on a tombstone before the update that keeps them.
    pub const TOMBSTONE_STAGED: &str = "TombstoneStaged";
    /// Idempotency key of the update that created a version.
    pub const REQUEST_ID: &str = "RequestId";
    /// Requests that created the last versions, on the latest item only.
    pub const RECENT_REQUESTS: &str = "RecentRequests";
    /// Number of items of a version in [parts](super::layout), on its version item.
    pub const PARTS: &str = "Parts";
    /// `true` on a version item that pruning keeps.
    pub const PINNED: &str = "Pinned";
    /// Members that were [erased](super::erased) from a version, on its version item.
    pub const ERASED: &str = "Erased";
    /// Erasures from the versions of an entity, on a [purge marker](super::purge_marker).
    pub const ERASURES: &str = "Erasures";
    /// First version of history, on the item [`floor`](crate::domain::keys::FLOOR_KEY). Older versions were pruned.
    pub const FLOOR: &str = "Floor";
    /// `true` on a tombstone.
    pub const DELETED: &str = "Deleted";
    /// Time of an update, as the client wrote it.
    pub const TIME: &str = "Time";
    /// Time of an update in epoch milliseconds, if updates are ordered by time.
    pub const TIMESTAMP: &str = "Timestamp";
    /// Author of an update, as the client names it.
    pub const ACTOR: &str = "Actor";
    /// Reason of an update, as the client names it.
    pub const REASON: &str = "Reason";
    /// Set of changes to which an update belongs, as the client names it.
    pub const CHANGE_SET: &str = "ChangeSet";
    /// Number of entities that an update changed together, as one change set.
    pub const CHANGE_SET_SIZE: &str = "ChangeSetSize";
    /// Sender of an update, as the platform reports it: the `SenderId` of a queue message, the `source` of an event.
    pub const SENDER: &str = "Sender";
    /// Version whose attributes a restore copied.
    pub const RESTORED_FROM: &str = "RestoredFrom";
    /// Time at which a version was [recorded](super::recorded_at).
    pub const RECORDED_AT: &str = "RecordedAt";
    /// Time of a purge, on a [purge marker](super::purge_marker).
    pub const PURGED_AT: &str = "PurgedAt";
    /// `stream` on a version item whose `RecordedAt` comes from its stream record: another program wrote the version.
    pub const RECORDED_BY: &str = "RecordedBy";
    /// Ticks after the `RecordedAt` of the latest item.
    pub const RECORDED_TICK: &str = "RecordedTick";
    /// Version to which the `RecordedAt` of the latest item belongs. If it is not `Latest`, another program wrote the item.
    pub const RECORDED_VERSION: &str = "RecordedVersion";
    /// First version of the latest sequence of times, after a repair of a `RecordedAt` that was far ahead. Absent before.
    pub const RECORDED_SINCE: &str = "RecordedSince";
    /// Token of the latest item's [incarnation](super::incarnation), on each of its versions.
    pub const INCARNATION: &str = "V0Id";
    /// Last purged version of each incarnation, on a [purge marker](super::purge_marker).
    pub const PURGED: &str = "Purged";
    /// Hash of the update that created a version.
    pub const REQUEST_PAYLOAD: &str = "RequestPayload";
    /// Time in epoch milliseconds: the latest item's recent requests have each request that was sent later.
    pub const REQUESTS_SINCE: &str = "RequestsSince";
    /// Latest time in epoch milliseconds that the sender of an update claimed when it was in the future, on the latest item only.
    pub const REQUESTS_AHEAD: &str = "RequestsAhead";
    /// Newest version whose request has left the latest item's recent requests.
    pub const REQUESTS_DROPPED: &str = "RequestsDropped";
}
