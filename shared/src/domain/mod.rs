//! What an entity, a version and an update are: pure values and rules.
//!
//! Nothing here knows an SDK client, a clock, the environment or async.

pub mod attributes;
pub mod audit;
pub mod backfill;
pub mod decision;
pub mod entity;
pub mod keys;
pub mod ledger;
pub mod marks;
pub mod number;
pub mod payload;
pub mod plain;
pub mod prune;
pub mod recent;
pub mod repair;
pub mod request_id;
pub mod sequence;
pub mod size;
pub mod time;
pub mod update;
pub mod version;
pub mod version_item;
pub mod version_set;
pub mod view;

pub use serde_dynamo::{AttributeValue, Item};

/// The names of the attributes that have a meaning of their own, see the data model in `ARCHITECTURE.md`.
pub mod names {
    /// The partition key: the entity.
    pub const PK: &str = "PK";
    /// The sort key: which of the entity's items.
    pub const SK: &str = "SK";
    /// The number of the latest version, on the latest item only.
    pub const LATEST: &str = "Latest";
    /// Time to live, in epoch seconds.
    pub const TTL: &str = "TTL";
    /// The idempotency key of the update that made a version.
    pub const REQUEST_ID: &str = "RequestId";
    /// The requests that made the last versions, on the latest item only.
    pub const RECENT_REQUESTS: &str = "RecentRequests";
    /// `true` on a version item that pruning leaves alone.
    pub const PINNED: &str = "Pinned";
    /// Where history begins, on the item [`floor`](crate::domain::keys::FLOOR_KEY): every version below was pruned.
    pub const FLOOR: &str = "Floor";
    /// `true` on a tombstone.
    pub const DELETED: &str = "Deleted";
    /// The time of an update, as upstream wrote it.
    pub const TIME: &str = "Time";
    /// The time of an update in epoch milliseconds, where updates are ordered by time.
    pub const TIMESTAMP: &str = "Timestamp";
}
