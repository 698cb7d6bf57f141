//! Row of a version: what orders it, and who made it, without its attributes.

use std::cmp::Reverse;

use item_diff::line::text_of;
use serde::{Deserialize, Serialize};
use shared::domain::{entity::EntityId, version::Version, view::VersionView};

/// Version, in the order of its time, then entity, then version. A version without a known time is the oldest.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct VersionRow {
    /// `RecordedAt`, as text: texts sort as times.
    pub recorded_at: Option<String>,
    /// Partition key of the entity.
    pub entity: String,
    pub version: Version,
    /// `Late`, `Missed` or `Baseline`.
    pub mark: Option<String>,
    pub actor: Option<String>,
    /// `true` if the version before has the same actor, so that it is uncertain.
    pub actor_unchanged: bool,
    pub reason: Option<String>,
    /// Time of insertion and `RecordedAt` of a row from the index, as text.
    pub inserted: Option<String>,
}

/// Row in one of two orders. All rows of a sort have the same.
#[derive(PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum OrderedRow {
    OldestFirst(VersionRow),
    NewestFirst(Reverse<VersionRow>),
}

impl VersionRow {
    pub(super) fn of(view: &VersionView) -> Self {
        let mark = view.change.as_ref().and_then(|change| change.origin.mark());
        Self {
            recorded_at: view.recorded_at.map(|time| time.to_string()),
            entity: view.entity.as_str().to_owned(),
            version: view.version,
            mark: mark.map(str::to_owned),
            actor: view.actor.as_ref().map(text_of),
            actor_unchanged: view.actor_unchanged,
            reason: view.reason.as_ref().map(text_of),
            inserted: None,
        }
    }

    /// Returns the entity and the version. `None` if the partition key is not that of an entity.
    pub fn key(&self) -> Option<(EntityId, Version)> {
        Some((EntityId::new(self.entity.as_str()).ok()?, self.version))
    }

    pub fn ordered(self, oldest_first: bool) -> OrderedRow {
        match oldest_first {
            true => OrderedRow::OldestFirst(self),
            false => OrderedRow::NewestFirst(Reverse(self)),
        }
    }
}

impl From<OrderedRow> for VersionRow {
    fn from(row: OrderedRow) -> Self {
        match row {
            OrderedRow::OldestFirst(row) | OrderedRow::NewestFirst(Reverse(row)) => row,
        }
    }
}
