//! Appends versions to the histories of an attached table's items: `BatchExecuteStatement` with one `INSERT` per item.
//!
//! The number of a version is the one after the newest version that was read. If another writer appends first, the key is taken,
//! and the caller reads history and decides again. So versions are dense, and none is overwritten.

use std::collections::BTreeSet;

use tokio::time::{Instant, sleep_until, timeout_at};

use crate::{
    clock::Deadline,
    domain::{
        Item,
        attached::{
            AttachedTable,
            item::{self, State},
        },
        compression::Compression,
        entity::EntityId,
        recorded_at::RecordedAt,
        size,
        version::Version,
    },
    dynamodb::{
        Store,
        client::error::{ErrorKind, ServiceError},
        put::{
            insert_versions::{Insert, Inserted, MAX_STATEMENTS},
            put_version::PutError,
            put_versions::{MAX_TEXT, text_of_item},
        },
    },
};

const OPERATION: &str = "BatchExecuteStatement";

/// Version that is appended to the history of an entity.
#[derive(Clone)]
pub struct Append {
    item: Item,
    text: usize,
}

/// Outcome of an append.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Appended {
    /// The version was written.
    Recorded,
    /// There is a version with this number.
    Taken,
    /// The deadline passed before it was written.
    NotReached,
    /// The request failed.
    Failed(PutError),
}

impl Append {
    /// Creates the append of a state as this version.
    ///
    /// # Errors
    ///
    /// Returns [`PutError`] of the kind `Rejected` if the version item is larger than DynamoDB allows.
    pub fn new(
        table: &AttachedTable,
        entity: &EntityId,
        version: Version,
        state: State,
        compression: Compression,
    ) -> Result<Self, PutError> {
        Self::of_item(item::stored(table, entity, version, state, compression))
    }

    /// Creates the append of an item that was read from the table as version 1, see [`item::baseline`].
    ///
    /// # Errors
    ///
    /// As [`Self::new`].
    pub fn baseline(
        table: &AttachedTable,
        entity: &EntityId,
        image: Item,
        read_at: RecordedAt,
        compression: Compression,
    ) -> Result<Self, PutError> {
        Self::of_item(item::baseline(table, entity, image, read_at, compression))
    }

    fn of_item(item: Option<Item>) -> Result<Self, PutError> {
        let rejected = |reason| {
            let error = ServiceError::not_built(OPERATION);
            PutError(error.with_reason(ErrorKind::Rejected, reason, None))
        };
        let item = item.ok_or_else(|| rejected("an item that cannot be serialized"))?;
        size::check_version_item(&item).map_err(|_| rejected("a version item above 400 KB"))?;
        Ok(Self {
            text: text_of_item(&item),
            item,
        })
    }

    /// Returns the stored item.
    pub fn item(&self) -> &Item {
        &self.item
    }
}

// The item holds attribute values, which logs must not contain.
impl std::fmt::Debug for Append {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Append")
            .field("text", &self.text)
            .finish_non_exhaustive()
    }
}

/// Returns the ends of consecutive batches, each with at most [`MAX_STATEMENTS`] versions and no more text than a request
/// accepts. No two versions may be of the same entity.
pub fn batch_ends(appends: &[Append]) -> Vec<usize> {
    let (mut ends, mut start, mut text) = (Vec::new(), 0, 0);
    for (index, append) in appends.iter().enumerate() {
        if index > start && (index - start == MAX_STATEMENTS || text + append.text > MAX_TEXT) {
            ends.push(index);
            (start, text) = (index, 0);
        }
        text += append.text;
    }
    if start < appends.len() {
        ends.push(appends.len());
    }
    ends
}

impl Store {
    /// Appends the versions of one batch, and returns the outcome of each. A statement has as many attempts as the client's
    /// settings allow for a request. Versions that DynamoDB rejects together are sent again one by one.
    pub async fn append_versions(&self, appends: &[Append], deadline: Deadline) -> Vec<Appended> {
        let mut outcomes = vec![Appended::NotReached; appends.len()];
        let mut open: BTreeSet<usize> = (0..appends.len()).collect();
        for failures in 0..self.max_attempts() {
            if open.is_empty() {
                break;
            }
            if failures > 0 {
                sleep_until((Instant::now() + self.backoff(failures)).min(deadline.finish_by)).await;
            }
            let indexes: Vec<_> = open.iter().copied().collect();
            let mut rejected = Vec::new();
            for (index, inserted) in self.insert_appends(appends, &indexes, deadline).await {
                if inserted == Inserted::Rejected && indexes.len() > 1 {
                    rejected.push(index);
                } else if settle(&mut outcomes[index], inserted) {
                    open.remove(&index);
                }
            }
            for index in rejected {
                for (index, inserted) in self.insert_appends(appends, &[index], deadline).await {
                    if settle(&mut outcomes[index], inserted) {
                        open.remove(&index);
                    }
                }
            }
            if !deadline.allows_start() {
                break;
            }
        }
        outcomes
    }

    /// Sends one request, and returns the outcomes by index. Nothing if there is no time left.
    async fn insert_appends(
        &self,
        appends: &[Append],
        indexes: &[usize],
        deadline: Deadline,
    ) -> Vec<(usize, Inserted)> {
        if !deadline.allows_start() {
            return Vec::new();
        }
        // The names of the attributes around the image are short.
        let inserts: Vec<_> = indexes
            .iter()
            .filter_map(|index| Some((*index, Insert::new(&appends[*index].item, self.history_table())?)))
            .collect();
        let statements: Vec<_> = inserts.iter().map(|(_, insert)| insert).collect();
        match timeout_at(deadline.finish_by, self.insert(&statements)).await {
            Ok(inserted) => inserts.iter().map(|(index, _)| *index).zip(inserted).collect(),
            Err(_) => Vec::new(),
        }
    }
}

/// Sets the outcome of a version. Returns `true` if it is final.
fn settle(outcome: &mut Appended, inserted: Inserted) -> bool {
    let (next, is_final) = match inserted {
        Inserted::Recorded => (Appended::Recorded, true),
        Inserted::Taken => (Appended::Taken, true),
        Inserted::Rejected => {
            let error = ServiceError::of_statement(OPERATION, "ValidationException");
            (Appended::Failed(PutError(error)), true)
        }
        Inserted::Failed(error) => (Appended::Failed(PutError(error)), true),
        Inserted::Retry(error) => (Appended::Failed(PutError(error)), false),
    };
    *outcome = next;
    is_final
}
