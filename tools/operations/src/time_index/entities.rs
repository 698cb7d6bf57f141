//! Entities of a segment: those of a scan, or those that have a version in a window of the index.
//!
//! The index has an entity once for each version, so the entities of two partitions are sorted on disk. They are returned in the order
//! of their keys, so that a run continues after the last one.

use shared::{
    domain::{Item, attributes::text, entity::EntityId, keys::partition_key_of, names, time_index::PARTITION},
    dynamodb::read::batch_get_items::MAX_KEYS,
};

use super::{
    pages::{IndexPages, Partitions, partitions_of, place, recorded_at},
    source::{Source, Window},
};
use crate::{
    all_versions::sorted_files::SortedFiles,
    error::OperationError,
    read::paced::Paced,
    segments::{entities::SegmentEntities, progress::Progress, scan::Segment},
};

/// Entities of a segment.
pub(crate) enum Entities {
    Scan(SegmentEntities),
    Index(IndexEntities),
}

/// Entities of the partitions of a segment.
pub(crate) struct IndexEntities {
    pages: IndexPages,
    window: Window,
    /// Partitions that are left.
    partitions: Vec<Partitions>,
    /// Entities of the first two partitions that are left, if these were read.
    found: Option<Found>,
}

/// Entities in the order of their keys, each once.
type Found = Box<dyn Iterator<Item = Result<String, OperationError>>>;

impl Entities {
    /// Starts at the beginning of a segment, or continues after the last entity of an earlier run.
    pub(crate) fn new<C, D>(table: Paced, source: &Source, segment: Segment, progress: &Progress<C, D>) -> Self {
        let Source::Index(window) = source else {
            return Self::Scan(SegmentEntities::new(table, segment, progress));
        };
        let mut partitions: Vec<_> = partitions_of(segment).collect();
        let started = progress.after.as_ref().and_then(|after| text(after, PARTITION));
        let started = partitions.iter().position(|[first, _]| Some(first.as_str()) == started);
        partitions.drain(..started.unwrap_or_default());
        Self::Index(IndexEntities {
            pages: IndexPages {
                table,
                window: Some(*window),
            },
            window: *window,
            partitions,
            found: None,
        })
    }

    /// Returns the next entities that have a version, and the number of items that were read for them. The progress continues after them.
    ///
    /// # Errors
    ///
    /// Returns [`OperationError`] if a request or a temporary file fails.
    pub(crate) async fn next_page<C, D>(
        &mut self,
        progress: &mut Progress<C, D>,
    ) -> Result<(Vec<EntityId>, u64), OperationError> {
        let entities = match self {
            Self::Scan(entities) => entities,
            Self::Index(entities) => return entities.next_page(progress).await,
        };
        let seen = entities.next_page(progress).await?;
        let items = seen.iter().map(|seen| seen.items).sum();
        let versioned = seen.into_iter().filter(|seen| {
            // Versions without a latest item are a history, too.
            seen.summary.latest_version().is_some() || !seen.summary.versions.is_empty()
        });
        Ok((versioned.map(|seen| seen.entity).collect(), items))
    }
}

impl IndexEntities {
    async fn next_page<C, D>(&mut self, progress: &mut Progress<C, D>) -> Result<(Vec<EntityId>, u64), OperationError> {
        let Some(pair) = self.partitions.first().cloned() else {
            progress.done = true;
            return Ok((Vec::new(), 0));
        };
        let (mut found, items) = match self.found.take() {
            Some(found) => (found, 0),
            None => Box::pin(self.read(&pair, progress.after.as_ref())).await?,
        };
        let page: Vec<_> = found.by_ref().take(MAX_KEYS).collect::<Result<_, _>>()?;
        if let Some(last) = page.last() {
            progress.after = Some(place(&[(PARTITION, &pair[0]), (names::PK, last)]));
            self.found = Some(found);
        } else {
            self.partitions.remove(0);
            let next = self.partitions.first();
            progress.after = next.map(|[first, _]| place(&[(PARTITION, first)]));
        }
        Ok((
            page.into_iter().filter_map(|id| EntityId::new(id).ok()).collect(),
            items,
        ))
    }

    /// Reads two partitions, and returns their entities after the one of an earlier run, and the number of entries.
    async fn read(&self, pair: &Partitions, after: Option<&Item>) -> Result<(Found, u64), OperationError> {
        let (mut entities, mut items) = (SortedFiles::default(), 0);
        for partition in pair {
            let mut cursor = None;
            loop {
                let (page, next) = self.pages.page(partition, cursor).await?;
                items += page.len() as u64;
                let in_window = page.iter().filter(|entry| self.window.has(recorded_at(entry)));
                for id in in_window.filter_map(partition_key_of) {
                    entities.push(id.to_owned())?;
                }
                cursor = next;
                if cursor.is_none() {
                    break;
                }
            }
        }
        let mut last = after.and_then(partition_key_of).map(str::to_owned);
        let entities = entities.sorted()?.filter(move |id| {
            let Ok(id) = id else { return true };
            let is_next = last.as_ref().is_none_or(|last| last < id);
            last = Some(id.clone()).filter(|_| is_next).or(last.take());
            is_next
        });
        Ok((Box::new(entities), items))
    }
}
