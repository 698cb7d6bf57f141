//! Entities of a segment: those of a scan, or those that have a version in a window of the index.
//!
//! The index has an entity once for each version, so the entities of two partitions are sorted on disk. A run that resumes reads them again.

use std::iter::Peekable;

use shared::{
    domain::{attributes::text, entity::EntityId, keys::partition_key_of, time_index::PARTITION, version::Version},
    dynamodb::read::batch_get_items::MAX_KEYS,
};

use super::{
    pages::{IndexPages, beginning, partitions_of, recorded_at},
    source::Source,
};
use crate::{
    all_versions::sorted_files::SortedFiles,
    error::OperationError,
    read::paced::Paced,
    segments::{
        entities::{SegmentEntities, Watched},
        progress::Progress,
        scan::Segment,
    },
};

/// Entities of a segment.
pub(crate) enum Entities {
    Scan(Box<SegmentEntities>),
    Index(Box<IndexEntities>),
}

/// Entities of the partitions of a segment.
pub(crate) struct IndexEntities {
    pages: IndexPages,
    /// Partitions that are left.
    partitions: Vec<[String; 2]>,
    /// Entities of the first two partitions that are left, if these were read.
    found: Option<Found>,
}

/// Sorted entities, once for each version.
type Found = Peekable<Box<dyn Iterator<Item = Result<String, OperationError>>>>;

impl Entities {
    /// Starts at the beginning of a segment, or continues after an earlier run.
    /// Of a scan, with `watched` only those that can have such a version.
    pub(crate) fn new<C, D>(
        table: Paced,
        source: &Source,
        segment: Segment,
        progress: &Progress<C, D>,
        watched: Option<Watched>,
    ) -> Self {
        let Source::Index(window) = *source else {
            return Self::Scan(Box::new(SegmentEntities::new(table, segment, progress, watched)));
        };
        let started = progress.after.as_ref().and_then(|after| text(after, PARTITION));
        let partitions = partitions_of(segment)
            .skip_while(|[first, _]| started.is_some_and(|started| started != first))
            .collect();
        Self::Index(Box::new(IndexEntities {
            pages: IndexPages { table, window },
            partitions,
            found: None,
        }))
    }

    /// Returns the next entities that have a version, each with the first one that is watched, if it is known, and the number of items that were read for them. The progress continues after them.
    ///
    /// # Errors
    ///
    /// Returns [`OperationError`] if a request or a temporary file fails.
    pub(crate) async fn next_page<C, D>(
        &mut self,
        progress: &mut Progress<C, D>,
    ) -> Result<(Vec<(EntityId, Option<Version>)>, u64), OperationError> {
        let entities = match self {
            Self::Scan(entities) => entities,
            Self::Index(entities) => {
                let (page, items) = Box::pin(entities.next_page(progress)).await?;
                return Ok((page.into_iter().map(|entity| (entity, None)).collect(), items));
            }
        };
        let seen = entities.next_page(progress).await?;
        let items = seen.iter().map(|seen| seen.items).sum();
        let is_watched = entities.is_watched();
        let versioned = seen.into_iter().filter_map(|seen| match (seen.first, seen.has_gap()) {
            _ if !seen.is_versioned() => None,
            // A version that is missing can be one that is watched.
            (_, true) => Some((seen.entity, None)),
            (None, false) if is_watched => None,
            (first, false) => Some((seen.entity, first)),
        });
        Ok((versioned.collect(), items))
    }
}

impl IndexEntities {
    async fn next_page<C, D>(&mut self, progress: &mut Progress<C, D>) -> Result<(Vec<EntityId>, u64), OperationError> {
        let Some(pair) = self.partitions.first() else {
            progress.done = true;
            return Ok((Vec::new(), 0));
        };
        let mut items = 0;
        let mut found = if let Some(found) = self.found.take() {
            found
        } else {
            let mut entities = SortedFiles::default();
            for partition in pair {
                let add = |entry| {
                    items += 1;
                    let is_in_window = self.pages.window.has(recorded_at(&entry));
                    let id = partition_key_of(&entry).filter(|_| is_in_window);
                    id.map_or(Ok(()), |id| entities.push(id.to_owned()))
                };
                self.pages.each(partition, add).await?;
            }
            let sorted: Box<dyn Iterator<Item = _>> = Box::new(entities.sorted()?);
            sorted.peekable()
        };
        let mut page = Vec::new();
        while page.len() < MAX_KEYS
            && let Some(id) = found.next().transpose()?
        {
            while found
                .next_if(|next| next.as_ref().is_ok_and(|next| *next == id))
                .is_some()
            {}
            page.extend(EntityId::new(id).ok());
        }
        if found.peek().is_some() {
            self.found = Some(found);
        } else {
            self.partitions.remove(0);
        }
        progress.after = self.partitions.first().map(|[first, _]| beginning(first));
        progress.done = self.partitions.is_empty();
        Ok((page, items))
    }
}
