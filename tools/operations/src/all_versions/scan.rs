//! Rows of one segment: `Scan`, page by page, eventually consistent.

use shared::{
    domain::{
        Item,
        attribution::WrittenBy,
        entity::EntityId,
        keys::{LATEST_KEY, partition_key_of, sort_key_of},
        marks::is_expired,
        quarantine::{self, records_of},
        version::Version,
        version_item::latest_of,
        view::VersionView,
    },
    dynamodb::{Store, client::error::ServiceError, read::query_items::Cursor},
};

use super::{Counts, SegmentProgress, filter::VersionFilter, missing, row::VersionRow};
use crate::{
    quarantine::quarantined,
    read::{paced::Paced, versions_in_history::versions_in_history},
    segments::scan::{self, Segment, page},
};

/// Scan of a segment.
pub(super) struct SegmentScan {
    table: Paced,
    segment: Segment,
    filter: VersionFilter,
    cursor: Option<Cursor>,
}

impl SegmentScan {
    pub(super) fn new(table: Paced, segment: Segment, filter: VersionFilter, after: Option<Item>) -> Self {
        Self {
            table,
            segment,
            filter,
            cursor: after.map(Cursor::from),
        }
    }

    /// Reads the next page. Returns its rows; the progress continues after them.
    pub(super) async fn next_page(&mut self, progress: &mut SegmentProgress) -> Result<Vec<VersionRow>, ServiceError> {
        let (store, start) = (&self.table.store, self.cursor.take());
        let (table, limit) = match progress.is_latest {
            true => (store.latest_table(), self.table.limiter.page_limit()),
            false => (store.history_table(), self.table.limiter.page_limit()),
        };
        let scan = async |store: &Store| {
            let request = scan::request(Some(self.segment), start.clone(), limit, table);
            page(store, request.consistent_read(false), Some).await
        };
        let found = self.table.send(scan).await?;
        let (counts, now) = (&mut progress.counts, store.clock().now());
        counts.items += found.read;
        let (mut versions, mut latest, mut ended) = (Vec::new(), Vec::new(), Vec::new());
        let is_end = found.next.is_none();
        for item in found.items {
            if store.attached_table().is_none() {
                ended.extend(progress.deferred.add(&item, store.digits()));
            }
            let key = sort_key_of(&item).unwrap_or_default();
            let is_version = !progress.is_latest && store.digits().version_of(key).is_some();
            if quarantine::is_first(key) && !progress.is_latest {
                self.add_quarantined(item, counts).await?;
            } else if partition_key_of(&item).is_some_and(|id| self.filter.has_entity(store, id)) {
                if is_version && !is_expired(&item, now) && self.filter.can_select(&item) {
                    versions.push(item);
                } else if key == LATEST_KEY && store.attached_table().is_none() {
                    latest.extend(latest_of(&item).ok().map(|version| (version, item)));
                }
            }
        }
        let versions = store.flat_all(versions, table).await?.into_iter();
        let versions = versions.filter_map(|item| Some((store.digits().version_of_item(&item)?, item)));
        let mut views: Vec<_> = versions.filter_map(|found| self.view(found)).collect();
        views.extend(self.latest_views(latest).await?);
        let selected = views.iter().filter(|view| {
            let is_selected = self.filter.selects(view);
            counts.undated += u64::from(is_selected.is_none());
            is_selected == Some(true)
        });
        let rows: Vec<_> = selected.map(VersionRow::of).collect();
        counts.rows += rows.len() as u64;
        missing::add_entities(&self.table, ended, progress, is_end).await?;
        if is_end {
            let has_second_scan = store.has_own_history() && store.attached_table().is_none();
            progress.done = progress.is_latest || !has_second_scan;
            progress.is_latest = has_second_scan;
        }
        progress.after = found.next.clone().map(Item::from);
        self.cursor = found.next;
        Ok(rows)
    }

    fn view(&self, (version, item): (Version, Item)) -> Option<VersionView> {
        let entity = EntityId::new(partition_key_of(&item)?).ok()?;
        Some(self.table.store.view(&entity, version, item))
    }

    /// Returns the versions of latest items. If another program wrote one, its version is left out if history has it, because only history
    /// has its time.
    async fn latest_views(&self, latest: Vec<(Version, Item)>) -> Result<Vec<VersionView>, ServiceError> {
        let is_own = |(version, item): &(Version, Item)| WrittenBy::of(item, *version) == WrittenBy::Own;
        let (own, others): (Vec<_>, Vec<_>) = latest.into_iter().partition(is_own);
        let others: Vec<_> = others.into_iter().filter_map(|found| self.view(found)).collect();
        let keys: Vec<_> = others.iter().map(|view| (view.entity.clone(), view.version)).collect();
        let find = async |store: &Store| versions_in_history(store, &keys, false).await;
        let stored = self.table.send(find).await?;
        let others = others.into_iter().filter(|view| !stored.contains(&view.entity));
        Ok(own
            .into_iter()
            .filter_map(|found| self.view(found))
            .chain(others)
            .collect())
    }

    /// Adds the times that the record of an item in quarantine names.
    async fn add_quarantined(&self, item: Item, counts: &mut Counts) -> Result<(), ServiceError> {
        let entity = partition_key_of(&item).and_then(|id| EntityId::new(id).ok());
        let mut records = records_of([item]);
        // A long record has further items.
        if let Some(entity) = entity.filter(|_| records.is_empty()) {
            records = self.table.send(async |store| quarantined(store, &entity).await).await?;
        }
        let digits = self.table.store.digits();
        for record in records {
            counts.quarantined.add(&record.record, digits);
        }
        Ok(())
    }
}
