//! Appends versions to the histories of an attached table's items: `BatchExecuteStatement` with one `INSERT` per item.
//!
//! The number of a version is the one after the newest version that was read. If another writer appends first, the key is taken,
//! and the caller reads history and decides again. So versions are dense, and none is overwritten.
//!
//! A late version is inserted with its [late entry](item::late_entry) in one transaction: a read by time finds both or none.

use std::collections::BTreeSet;

use aws_sdk_dynamodb::{
    error::BuildError,
    operation::execute_transaction::{ExecuteTransactionError, builders::ExecuteTransactionInputBuilder},
};
use tokio::time::{Instant, sleep_until, timeout_at};

use crate::{
    clock::Deadline,
    domain::{
        Item,
        attached::{
            AttachedTable,
            item::{self, Omission, OmissionReason, State},
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
const TRANSACTION: &str = "ExecuteTransaction";

/// Version that is appended to the history of an entity.
#[derive(Clone)]
pub struct Append {
    item: Item,
    late_entry: Option<Item>,
    omission: Option<Omission>,
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
    /// Creates the append of a state as this version. A state that does not fit is compressed, also without
    /// `HistoryCompression`; if that is not sufficient, it is [omitted](Omission).
    ///
    /// # Errors
    ///
    /// Returns [`PutError`] of the kind `Rejected` if the version item is larger than DynamoDB allows without the state.
    pub fn new(
        table: &AttachedTable,
        entity: &EntityId,
        version: Version,
        state: &State,
        compression: Compression,
    ) -> Result<Self, PutError> {
        let plain = Self::of_item(item::stored(table, entity, version, state.clone(), compression));
        let fitting = plain.or_else(|_| {
            let compressed = item::stored(table, entity, version, state.clone(), Compression::Deflate);
            Self::of_item(compressed)
        });
        let (append, omission) = match fitting {
            Ok(append) => (append, state.omission),
            Err(error) => {
                let mut omitted = state.clone();
                if !omitted.omit(table, OmissionReason::TooLarge) {
                    return Err(error);
                }
                let omission = omitted.omission;
                (
                    Self::of_item(item::stored(table, entity, version, omitted, compression))?,
                    omission,
                )
            }
        };
        Ok(Self {
            late_entry: item::late_entry(entity, version, state),
            omission,
            ..append
        })
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
            late_entry: None,
            omission: None,
        })
    }

    /// Returns the reason why the version has no state.
    pub fn omission(&self) -> Option<Omission> {
        self.omission
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
        let (late, others): (Vec<usize>, Vec<usize>) =
            indexes.iter().partition(|index| appends[**index].late_entry.is_some());
        // The names of the attributes around the image are short.
        let inserts: Vec<_> = others
            .iter()
            .filter_map(|index| Some((*index, Insert::new(&appends[*index].item, self.history_table())?)))
            .collect();
        let statements: Vec<_> = inserts.iter().map(|(_, insert)| insert).collect();
        let mut outcomes = Vec::new();
        if !statements.is_empty()
            && let Ok(inserted) = timeout_at(deadline.finish_by, self.insert(&statements)).await
        {
            outcomes.extend(inserts.iter().map(|(index, _)| *index).zip(inserted));
        }
        for index in late {
            if let Ok(inserted) = timeout_at(deadline.finish_by, self.insert_late(&appends[index])).await {
                outcomes.push((index, inserted));
            }
        }
        outcomes
    }

    /// Inserts a late version and its late entry.
    async fn insert_late(&self, append: &Append) -> Inserted {
        let Ok(request) = late_request(append, self.history_table()) else {
            return Inserted::Failed(ServiceError::not_built(TRANSACTION));
        };
        let Err(error) = request.send_with(&self.client).await else {
            return Inserted::Recorded;
        };
        let reasons: Vec<_> = match error.as_service_error() {
            Some(ExecuteTransactionError::TransactionCanceledException(cancelled)) => {
                let reasons = cancelled.cancellation_reasons().iter();
                reasons.filter_map(|reason| reason.code()).collect()
            }
            _ => Vec::new(),
        };
        let is = |code: &str| reasons.contains(&code);
        let error = ServiceError::new(TRANSACTION, &error);
        match error.kind {
            _ if is("DuplicateItem") || is("ConditionalCheckFailed") => Inserted::Taken,
            _ if is("ValidationError") => Inserted::Rejected,
            // Without reasons, the client has tried again.
            _ if !reasons.is_empty() => Inserted::Retry(error),
            ErrorKind::Rejected => Inserted::Rejected,
            _ => Inserted::Failed(error),
        }
    }
}

/// Builds the request that inserts a late version and its late entry.
///
/// # Errors
///
/// Returns [`BuildError`] if the SDK rejects a statement.
pub fn late_request(append: &Append, table: &str) -> Result<ExecuteTransactionInputBuilder, BuildError> {
    let mut request = ExecuteTransactionInputBuilder::default();
    for item in [Some(&append.item), append.late_entry.as_ref()].into_iter().flatten() {
        // The names of its attributes are short.
        if let Some(insert) = Insert::new(item, table) {
            request = request.transact_statements(insert.in_transaction()?);
        }
    }
    Ok(request)
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
