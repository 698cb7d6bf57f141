//! History of an entity: a [range of versions](super::version_run), read page by page.
//!
//! Versions that fit the width of the keys are queried, all others are read by their keys; in a wide gap, the existing ones are
//! looked up. The latest item supplies its version until the version item is stored.

use std::collections::VecDeque;

use shared::{
    domain::{Item, entity::EntityId, keys::VersionDigits, marks::is_expired, version::Version, view::VersionView},
    dynamodb::{Store, client::error::ServiceError, read::versions::ReadError},
};

use super::{items::stored_versions, version_run::VersionRange};

/// Number of pages of missing versions after which the existing ones are looked up. The lookup reads all items of the entity.
const MAX_EMPTY_PAGES: usize = 10;

/// Range and order of versions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct HistoryQuery {
    /// First version, default 1.
    pub from: Option<Version>,
    /// Last version, default the latest.
    pub to: Option<Version>,
    /// `true` for ascending order.
    pub oldest_first: bool,
    /// Maximum number of versions.
    pub limit: Option<usize>,
    /// `true` for strongly consistent reads.
    pub consistent: bool,
}

/// Reader of a history.
pub struct History<'a> {
    store: &'a Store,
    entity: EntityId,
    query: HistoryQuery,
    /// Versions that are still to be read.
    ranges: VecDeque<VersionRange>,
    left: usize,
    /// The latest item, until its version item was read or left out: it is added to its end of the history.
    latest: Option<(Version, Item)>,
    /// Number of pages by key since the last one that had a version.
    empty_pages: usize,
    /// First page, if it was read to find out whether the last version exists.
    first: Option<Vec<VersionView>>,
}

impl<'a> History<'a> {
    /// Starts to read the history of an entity, by default in descending order. `None` if the entity does not exist.
    ///
    /// Versions that are not stored yet are left out, except for the latest one, which the latest item supplies. The latest item is
    /// read first, unless keys sort as versions and the first page begins with the version `to`. Only such a page can contain
    /// versions beyond the latest item. Without a latest item, or if it does not count its versions, all versions are read.
    ///
    /// # Errors
    ///
    /// Returns [`ReadError::Service`] if a request fails, [`ReadError::Latest`] if the latest item has no valid version.
    pub async fn read(store: &'a Store, entity: &EntityId, query: HistoryQuery) -> Result<Option<Self>, ReadError> {
        let (from, digits) = (query.from.map_or(1, Version::get), store.digits());
        let mut history = Self {
            store,
            entity: entity.clone(),
            query,
            ranges: VecDeque::new(),
            left: query.limit.unwrap_or(usize::MAX),
            latest: None,
            empty_pages: 0,
            first: None,
        };
        let fits = |to: &Version| digits.widest().is_some_and(|widest| to.get() <= widest);
        if let Some(to) = query.to.filter(|to| !query.oldest_first && fits(to)) {
            history.ranges = ranges(from, to.get(), query, digits);
            let page = history.next_page().await?.unwrap_or_default();
            if page.first().is_some_and(|view| view.version == to) {
                history.first = Some(page);
                return Ok(Some(history));
            }
        }
        let Some((number, latest)) = store.newest(entity, query.consistent).await? else {
            return Ok(None);
        };
        let to = query.to.map_or(number, |to| to.min(number)).get();
        history.ranges = ranges(from, to, query, digits);
        history.left = query.limit.unwrap_or(usize::MAX);
        history.latest = (from..=to).contains(&number.get()).then_some((number, latest));
        Ok(Some(history))
    }

    /// Reads the next versions, `None` at the end. A page before the end can be short or empty.
    ///
    /// # Errors
    ///
    /// Returns [`ReadError`] as [`Self::read`] does.
    pub async fn next_page(&mut self) -> Result<Option<Vec<VersionView>>, ReadError> {
        if self.first.is_some() {
            return Ok(self.first.take());
        }
        let Some(range) = self.ranges.front_mut().filter(|_| self.left > 0) else {
            return Ok(None);
        };
        let is_queried = range.is_queried(self.store.digits());
        // Many versions in a row can be missing.
        let limit = match is_queried || self.empty_pages == 0 {
            true => self.left,
            false => usize::MAX,
        };
        let items = range.next_page(self.store, &self.entity, limit).await?;
        if range.is_empty() {
            self.ranges.pop_front();
        }
        if !is_queried {
            self.empty_pages = if items.is_empty() { self.empty_pages + 1 } else { 0 };
            if self.empty_pages == MAX_EMPTY_PAGES {
                self.skip_missing().await?;
            }
        }
        let now = self.store.clock().now();
        let items = items.into_iter().filter(|(_, item)| !is_expired(item, now));
        let view = |(number, item)| Some(self.store.view(&self.entity, Version::new(number)?, item));
        let mut views: Vec<_> = items.filter_map(view).collect();
        self.latest
            .take_if(|(latest, _)| views.iter().any(|view| view.version == *latest));
        if (!self.query.oldest_first || self.ranges.is_empty())
            && let Some((version, item)) = self.latest.take()
        {
            views.push(self.store.view(&self.entity, version, item));
        }
        if !self.query.oldest_first {
            views.reverse();
        }
        views.truncate(self.left);
        self.left -= views.len();
        Ok(Some(views))
    }

    /// Reads all remaining versions.
    ///
    /// # Errors
    ///
    /// Returns [`ReadError`] as [`Self::read`] does.
    pub async fn collect(mut self) -> Result<Vec<VersionView>, ReadError> {
        let mut all = Vec::new();
        while let Some(page) = self.next_page().await? {
            all.extend(page);
        }
        Ok(all)
    }

    /// Leaves out the versions that do not exist, so that the time of a read does not depend on the width of a gap.
    async fn skip_missing(&mut self) -> Result<(), ServiceError> {
        let stored = stored_versions(self.store, &self.entity).await?;
        for range in std::mem::take(&mut self.ranges) {
            if range.is_queried(self.store.digits()) {
                self.ranges.push_back(range);
                continue;
            }
            let stored = stored.within(range.from, range.to);
            let existing = stored.ranges();
            let existing = existing.map(|(from, to)| VersionRange::new(from, to, range.reversed, range.consistent));
            match range.reversed {
                true => self.ranges.extend(existing.collect::<Vec<_>>().into_iter().rev()),
                false => self.ranges.extend(existing),
            }
        }
        Ok(())
    }
}

/// Returns the ranges to query and to read by keys, in the order of the query.
fn ranges(from: u64, to: u64, query: HistoryQuery, digits: VersionDigits) -> VecDeque<VersionRange> {
    let from = from.max(1);
    let fits = digits.widest().map_or(0, |widest| to.min(widest));
    let range = |from, to| VersionRange::new(from, to, !query.oldest_first, query.consistent);
    let mut ranges = VecDeque::from([range(from, fits), range(from.max(fits + 1), to)]);
    ranges.retain(|range| !range.is_empty());
    if !query.oldest_first {
        ranges.make_contiguous().reverse();
    }
    ranges
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use serde_json::json;
    use shared::{clock::Clock, domain::keys::VersionDigits};
    use testkit::replay::Replay;

    use super::*;

    #[test]
    fn versions_that_fit_the_width_are_queried() {
        let digits = |digits| VersionDigits::new(digits).unwrap();
        for (from, to, width, expected) in [
            (1, 20, 1, vec![(1, 20, false)]),
            (0, 20, 2, vec![(1, 20, true)]),
            (90, 101, 2, vec![(90, 99, true), (100, 101, false)]),
            (100, 101, 2, vec![(100, 101, false)]),
            (5, 4, 2, vec![]),
            (5, 4, 1, vec![]),
        ] {
            let ranges = ranges(from, to, HistoryQuery::default(), digits(width))
                .into_iter()
                .rev();
            let found = ranges.map(|range| (range.from, range.to, range.is_queried(digits(width))));
            assert_eq!(found.collect::<Vec<_>>(), expected);
        }
    }

    #[tokio::test]
    async fn versions_expire_by_the_clock_of_the_store() {
        const TTL: u64 = 100;
        let latest = json!({"Item": {"PK": {"S": "E"}, "SK": {"S": "v0"}, "Latest": {"N": "2"}}});
        let first = json!({"PK": {"S": "E"}, "SK": {"S": "v1"}, "TTL": {"N": TTL.to_string()}});
        let batch =
            json!({"Responses": {"Table": [{"PK": {"S": "E"}, "SK": {"S": "v2"}}, first]}, "UnprocessedKeys": {}});
        for (second, versions) in [(TTL - 1, vec![2, 1]), (TTL, vec![2])] {
            let replay = Replay::new([latest.clone(), batch.clone(), json!({}), json!({})]);
            let clock = Clock::new(move || Duration::from_secs(second));
            let store = Store::new(replay.client(), "Table", VersionDigits::default()).with_clock(clock);
            let entity = EntityId::new("E").unwrap();
            let history = History::read(&store, &entity, HistoryQuery::default()).await;
            let read = history.unwrap().unwrap().collect().await;
            // The last page is missing if a version is.
            let read: Vec<_> = read.iter().flatten().map(|view| view.version.get()).collect();
            assert_eq!(read, versions, "at {second}");
        }
    }
}
