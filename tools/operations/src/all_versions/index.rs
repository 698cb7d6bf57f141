//! Rows of one segment of the partitions of the index. Versions are read only if the filter needs more than their keys.

use std::collections::BTreeSet;

use shared::{
    domain::{Item, attributes::text, entity::EntityId, keys::partition_key_of, time_index::INSERTED_AT},
    dynamodb::{client::error::ServiceError, read::batch_get_items::MAX_KEYS},
};

use super::{SegmentProgress, filter::VersionFilter, pages::read_versions, row::VersionRow};
use crate::{
    read::paced::Paced,
    segments::scan::Segment,
    time_index::{
        pages::{IndexPages, partitions_of, recorded_at},
        source::Window,
    },
};

/// Reads of a segment.
pub(super) struct IndexRows {
    pages: IndexPages,
    partitions: Vec<String>,
    filter: VersionFilter,
}

impl IndexRows {
    pub(super) fn new(table: Paced, window: Window, segment: Segment, filter: VersionFilter) -> Self {
        Self {
            pages: IndexPages { table, window },
            partitions: partitions_of(segment).flatten().collect(),
            filter,
        }
    }

    /// Reads the next page. Returns its rows; the progress continues after them.
    pub(super) async fn next_page(&mut self, progress: &mut SegmentProgress) -> Result<Vec<VersionRow>, ServiceError> {
        let entries = self.pages.next_page(&self.partitions, progress).await?;
        let (mut rows, mut undated) = (Vec::new(), 0);
        let found: Vec<_> = entries.iter().filter_map(|entry| self.row(entry)).collect();
        for page in found.chunks(MAX_KEYS) {
            if !self.filter.has_texts() {
                rows.extend(page.iter().filter(|row| row.recorded_at.is_some()).cloned());
                undated += page.iter().filter(|row| row.recorded_at.is_none()).count();
                continue;
            }
            let keys: BTreeSet<_> = page.iter().filter_map(VersionRow::key).collect();
            let views = read_versions(&self.pages.table, &keys, false).await?;
            for row in page {
                let view = row.key().and_then(|key| views.get(&key));
                let is_selected = view.map(|view| self.filter.selects(view));
                undated += usize::from(is_selected == Some(None));
                let inserted = row.inserted.clone();
                let view = view.filter(|_| is_selected == Some(Some(true)));
                rows.extend(view.map(|view| VersionRow {
                    inserted,
                    ..VersionRow::of(view)
                }));
            }
        }
        let counts = &mut progress.counts;
        counts.items += entries.len() as u64;
        counts.undated += undated as u64;
        counts.rows += rows.len() as u64;
        Ok(rows)
    }

    /// Returns the row of an entry. `None` if it is not that of a version, or of another entity or time.
    fn row(&self, entry: &Item) -> Option<VersionRow> {
        let (store, recorded_at) = (&self.pages.table.store, recorded_at(entry));
        let entity = EntityId::new(partition_key_of(entry)?).ok()?;
        let is_selected = recorded_at.is_none_or(|time| self.filter.is_in_period(time));
        (is_selected && self.filter.has_entity(store, entity.as_str())).then_some(VersionRow {
            recorded_at: recorded_at.map(|time| time.to_string()),
            entity: entity.as_str().to_owned(),
            version: store.digits().version_of_item(entry)?,
            mark: None,
            actor: None,
            actor_unchanged: false,
            reason: None,
            inserted: text(entry, INSERTED_AT).map(str::to_owned),
        })
    }
}
