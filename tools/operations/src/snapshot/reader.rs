//! The entities of a segment, and the state of each at a time.

use futures::{StreamExt as _, TryStreamExt as _, stream};
use shared::{
    domain::{entity::EntityId, recorded_at::RecordedAt, view::VersionView},
    dynamodb::{Store, read::versions::ReadError},
    logging::chain,
};

use crate::{
    as_of::as_of, error::OperationError, read::paced::Paced, segments::progress::Progress,
    time_index::entities::Entities,
};

/// Maximum number of entities of a segment that are read at the same time.
const CONCURRENCY: usize = 16;

/// State of an entity at a time.
pub(super) enum State {
    Exists(Box<VersionView>),
    /// The entity was deleted, as of this tombstone.
    Deleted(Box<VersionView>),
    /// The entity did not exist yet.
    Absent,
    /// History does not tell the state, for this reason.
    Unknown(String),
}

impl State {
    /// Returns the version of an entity that existed.
    pub(super) fn existing(self) -> Option<Box<VersionView>> {
        match self {
            Self::Exists(view) => Some(view),
            _ => None,
        }
    }
}

#[derive(Clone)]
pub(super) struct Reader {
    pub(super) table: Paced,
    pub(super) consistent: bool,
}

impl Reader {
    /// Reads the state at a time. A failed request is an error; a version that is pruned or missing makes the state unknown.
    pub(super) async fn state(&self, entity: &EntityId, time: RecordedAt) -> Result<State, OperationError> {
        let read = async |store: &Store| as_of(store, entity, time, self.consistent).await;
        Ok(match self.table.send(read).await {
            Ok(None) => State::Absent,
            Ok(Some(view)) if view.deleted => State::Deleted(Box::new(view)),
            Ok(Some(view)) if view.is_omitted() => State::Unknown(OperationError::Omitted.to_string()),
            Ok(Some(view)) => State::Exists(Box::new(view)),
            Err(ReadError::Service(error)) => return Err(error.into()),
            Err(error) => State::Unknown(chain(&error)),
        })
    }

    /// Calls `read` for each entity of the next page, for several at the same time. Returns their results, in any order,
    /// and the number of items of the page. `None` at the end of the segment.
    pub(super) async fn page<C, T>(
        entities: &mut Entities,
        progress: &mut Progress<C>,
        read: impl AsyncFn(EntityId) -> Result<T, OperationError>,
    ) -> Result<Option<(Vec<T>, u64)>, OperationError> {
        if progress.done {
            return Ok(None);
        }
        let (versioned, items) = entities.next_page(progress).await?;
        let results = stream::iter(versioned)
            .map(async |(entity, _)| read(entity).await)
            .buffer_unordered(CONCURRENCY)
            .try_collect();
        Ok(Some((results.await?, items)))
    }
}
