//! Rows of one segment of the partitions of the index. Versions are read only if the filter needs more than their keys.

use std::collections::BTreeSet;

use shared::{
    domain::{
        Item,
        attributes::text,
        entity::EntityId,
        keys::partition_key_of,
        names,
        time_index::{INSERTED_AT, PARTITION},
        version::Version,
    },
    dynamodb::{client::error::ServiceError, read::batch_get_items::MAX_KEYS, read::query_items::Cursor},
};

use super::{SegmentProgress, filter::VersionFilter, pages::read_versions, row::VersionRow};
use crate::{
    read::paced::Paced,
    segments::scan::Segment,
    time_index::{
        pages::{IndexPages, partitions_of, place, recorded_at},
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
        let window = Some(window);
        Self {
            pages: IndexPages { table, window },
            partitions: partitions_of(segment).flatten().collect(),
            filter,
        }
    }

    /// Reads the next page. Returns its rows; the progress continues after them.
    pub(super) async fn next_page(&mut self, progress: &mut SegmentProgress) -> Result<Vec<VersionRow>, ServiceError> {
        let after = progress.after.take();
        let started = after.as_ref().and_then(|after| text(after, PARTITION));
        let started = self.partitions.iter().position(|name| Some(name.as_str()) == started);
        let number = started.unwrap_or_default();
        let Some(partition) = self.partitions.get(number) else {
            progress.done = true;
            return Ok(Vec::new());
        };
        // Only the cursor of a page has the key of an item.
        let start = after.filter(|after| after.contains_key(names::PK)).map(Cursor::from);
        let (entries, next) = self.pages.page(partition, start).await?;
        progress.counts.items += entries.len() as u64;
        let rows = self.rows(&entries, progress).await?;
        progress.counts.rows += rows.len() as u64;
        progress.after = match (next, self.partitions.get(number + 1)) {
            (Some(next), _) => Some(next.into()),
            (None, Some(next)) => Some(place(&[(PARTITION, next)])),
            (None, None) => None,
        };
        progress.done = progress.after.is_none();
        Ok(rows)
    }

    async fn rows(&self, entries: &[Item], progress: &mut SegmentProgress) -> Result<Vec<VersionRow>, ServiceError> {
        let store = &self.pages.table.store;
        let mut found: Vec<_> = entries.iter().filter_map(|entry| self.row(entry)).collect();
        found.retain(|row| self.filter.has_entity(store, &row.entity));
        // A version without a time is counted only if the filter selects the rest of it.
        found.retain(|row| row.time().is_none_or(|time| self.filter.is_in_period(time)));
        if self.filter.has_texts() {
            let mut selected = Vec::new();
            for rows in found.chunks(MAX_KEYS) {
                let keys: BTreeSet<_> = rows.iter().filter_map(VersionRow::key).collect();
                let views = read_versions(&self.pages.table, &keys, false).await?;
                for row in rows {
                    let view = row.key().and_then(|key| views.get(&key));
                    match view.map(|view| (view, self.filter.selects(view))) {
                        Some((view, Some(true))) => selected.push(VersionRow {
                            inserted: row.inserted.clone(),
                            ..VersionRow::of(view)
                        }),
                        Some((_, None)) => progress.counts.undated += 1,
                        _ => {}
                    }
                }
            }
            return Ok(selected);
        }
        let all = found.len();
        found.retain(|row| row.recorded_at.is_some());
        progress.counts.undated += (all - found.len()) as u64;
        Ok(found)
    }

    /// Returns the row of an entry. `None` if it is not that of a version.
    fn row(&self, entry: &Item) -> Option<VersionRow> {
        let version: Version = self.pages.table.store.digits().version_of_item(entry)?;
        let entity = EntityId::new(partition_key_of(entry)?).ok()?;
        let inserted = text(entry, INSERTED_AT).map(str::to_owned);
        Some(VersionRow::of_entry(&entity, version, recorded_at(entry), inserted))
    }
}
