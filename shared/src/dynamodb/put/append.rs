//! Appends versions to the histories of an attached table's items: `BatchExecuteStatement` with one `INSERT` per item.
//!
//! The number of a version is the one after the newest version that was read. If another writer appends first, the key is taken,
//! and the caller reads history and decides again. So versions are dense, and none is overwritten.
//!
//! A late version is inserted with its [late entry](item::late_entry) in one transaction: a read by time finds both or none.

use std::{collections::VecDeque, ops::Range};

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
        keys::partition_key_of,
        recorded_at::RecordedAt,
        size, time_index,
        version::Version,
    },
    dynamodb::{
        Store,
        client::error::{ErrorKind, ServiceError},
        put::{
            batch,
            insert_versions::{Insert, Inserted},
        },
    },
};

/// Version that is appended to the history of an entity.
#[derive(Clone)]
pub struct Append {
    item: Item,
    late_entry: Option<Item>,
    omission: Option<Omission>,
    bytes: usize,
}

impl Append {
    /// Creates the append of a state as this version. A state that does not fit is compressed, also without
    /// `HistoryCompression`; if that is not sufficient, it is [omitted](Omission).
    ///
    /// # Errors
    ///
    /// Returns [`ServiceError`] of the kind `Rejected` if the version item is larger than DynamoDB allows without the state.
    pub fn new(
        table: &AttachedTable,
        entity: &EntityId,
        version: Version,
        state: &State,
        compression: Compression,
    ) -> Result<Self, ServiceError> {
        let of = |state: &State, compression| {
            let append = Self::of_item(item::stored(table, entity, version, state.clone(), compression))?;
            Ok(Self {
                omission: state.omission,
                ..append
            })
        };
        let fitting = of(state, compression).or_else(|_| of(state, Compression::Deflate));
        let append = fitting.or_else(|error| {
            let mut omitted = state.clone();
            match omitted.omit(table, OmissionReason::TooLarge) {
                true => of(&omitted, compression),
                false => Err(error),
            }
        })?;
        Ok(Self {
            late_entry: item::late_entry(entity, version, state),
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
    ) -> Result<Self, ServiceError> {
        Self::of_item(item::baseline(table, entity, image, read_at, compression))
    }

    fn of_item(item: Option<Item>) -> Result<Self, ServiceError> {
        let rejected =
            |reason| ServiceError::not_built("BatchExecuteStatement").with_reason(ErrorKind::Rejected, reason, None);
        let item = item.ok_or_else(|| rejected("an item that cannot be serialized"))?;
        let bytes = size::of_item(&item) + time_index::BYTES;
        size::check_version_bytes(bytes).map_err(|_| rejected("a version item above 400 KB"))?;
        Ok(Self {
            bytes,
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
crate::domain::redacted::redacted!(Append, bytes);

/// Returns consecutive batches, each no larger than a request accepts.
pub fn batches(appends: &[Append]) -> Vec<Range<usize>> {
    batch::ranges(
        appends
            .iter()
            .map(|append| (partition_key_of(&append.item), append.bytes)),
    )
}

impl Store {
    /// Appends the versions of one batch, and returns for each `true` if it was written, `false` if there is a version with its number,
    /// and `None` if the deadline passed before. A statement has as many attempts as the client's settings allow for a request.
    /// Versions that DynamoDB rejects together are sent again one by one.
    pub async fn append_versions(&self, appends: &[Append], deadline: Deadline) -> Vec<Option<Inserted>> {
        let table = self.history_table();
        let mut items = Vec::with_capacity(appends.len());
        for append in appends {
            match self.indexed(&append.item).await {
                Ok(item) => items.push(item),
                Err(error) => return vec![Some(Err(error)); appends.len()],
            }
        }
        // The names of the attributes around the image are short.
        let inserts = appends.iter().zip(&items).map(|(append, item)| {
            let items = std::iter::once(&**item).chain(&append.late_entry);
            items.filter_map(|item| Insert::new(item, table)).collect::<Vec<_>>()
        });
        let inserts: Vec<_> = inserts.collect();
        let mut outcomes = vec![None; appends.len()];
        // A late version is one transaction, all others are one batch.
        let (late, others): (Vec<_>, Vec<_>) = (0..appends.len()).partition(|index| inserts[*index].len() > 1);
        let mut groups = VecDeque::from([others]);
        groups.extend(late.into_iter().map(|index| vec![index]));
        while let Some(group) = groups.pop_front() {
            let statements: Vec<_> = group.iter().map(|index| &inserts[*index][..]).collect();
            let inserted = self.insert_in_time(&statements, deadline).await;
            for (index, inserted) in group.iter().zip(inserted) {
                match inserted {
                    Some(Err(error)) if error.kind == ErrorKind::Rejected && group.len() > 1 => {
                        groups.push_back(vec![*index]);
                    }
                    inserted => outcomes[*index] = inserted,
                }
            }
        }
        outcomes
    }
}
