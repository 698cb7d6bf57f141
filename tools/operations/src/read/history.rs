//! History of an entity: a range of versions, read page by page.
//!
//! Versions that fit the width of the keys are read by `Query`, all others by their exact keys, which are known because
//! versions are dense; in a wide gap, the existing ones are looked up. The latest item supplies its version until the version
//! item is stored.

use std::{
    collections::{HashMap, VecDeque},
    fmt,
};

use shared::{
    domain::{Item, entity::EntityId, keys::sort_key_of, marks::is_expired, version::Version, view::VersionView},
    dynamodb::{
        Store,
        client::error::ServiceError,
        read::{
            batch_get_items::MAX_KEYS,
            query_items::{Cursor, Range},
            versions::ReadError,
        },
    },
};

use super::sort_keys::stored_versions;

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
    segments: VecDeque<Segment>,
    cursor: Option<Cursor>,
    left: usize,
    /// Newest version that was read, initially the one before the first of the range.
    last: u64,
    latest: Latest,
    /// Number of pages by key since the last one that had a version.
    empty_pages: usize,
    /// First page, if it was read to find out whether the entity exists.
    first: Option<Vec<VersionView>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Segment {
    Query { from: u64, to: u64 },
    Keys { from: u64, to: u64 },
}

enum Latest {
    Unread,
    /// It was read, and is added to the history if its version item is missing.
    Pending(Version, Item),
    /// It was read, and is not needed any more.
    Done,
    Absent,
}

impl<'a> History<'a> {
    /// Starts to read the history of an entity, by default in descending order. `None` if the entity does not exist.
    ///
    /// Versions that are not stored yet are left out, except for the latest one, which the latest item supplies. The latest
    /// item is read first, unless keys sort as versions and the first page is complete without it: it holds `limit` versions
    /// in ascending order, or begins with the version `to`. Only such a page can contain strays. Without a latest item, or
    /// if it does not count its versions, all versions are read.
    ///
    /// # Errors
    ///
    /// Returns [`ReadError::Service`] if a request fails, [`ReadError::Latest`] if the latest item has no valid version.
    pub async fn read(store: &'a Store, entity: &EntityId, query: HistoryQuery) -> Result<Option<Self>, ReadError> {
        let mut history = Self {
            store,
            entity: entity.clone(),
            query,
            segments: VecDeque::new(),
            cursor: None,
            left: query.limit.unwrap_or(usize::MAX),
            last: query.first() - 1,
            latest: Latest::Unread,
            empty_pages: 0,
            first: None,
        };
        if let Some(segment) = history.without_latest() {
            history.segments.push_back(segment);
            let page = history.read_page().await?.unwrap_or_default();
            if matches!(history.latest, Latest::Absent) {
                return Ok(None);
            }
            if !history.needs_latest(&page) {
                history.first = Some(page);
                return Ok(Some(history));
            }
            history.left = query.limit.unwrap_or(usize::MAX);
            history.cursor = None;
        }
        let Some((number, latest)) = history.read_latest().await? else {
            return Ok(None);
        };
        history.bound(query.first(), number, latest);
        Ok(Some(history))
    }
}

impl fmt::Debug for History<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("History")
            .field("query", &self.query)
            .finish_non_exhaustive()
    }
}

impl HistoryQuery {
    fn first(&self) -> u64 {
        self.from.map_or(1, Version::get)
    }

    /// Returns the last version of the range.
    fn last(&self, latest: Version) -> u64 {
        self.to.map_or(latest.get(), |to| to.min(latest).get())
    }
}

impl History<'_> {
    /// Reads the next versions, `None` at the end. A page before the end can be short or empty.
    ///
    /// # Errors
    ///
    /// Returns [`ReadError`] as [`Self::read`] does.
    pub async fn next_page(&mut self) -> Result<Option<Vec<VersionView>>, ReadError> {
        match self.first.take() {
            Some(first) => Ok(Some(first)),
            None => self.read_page().await,
        }
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

    /// Returns the range that can be read before the latest item. In descending order it must begin with a given version.
    fn without_latest(&self) -> Option<Segment> {
        let widest = self.store.digits().widest()?;
        let (from, to) = (self.query.first(), self.query.to.map(Version::get));
        let to = if self.query.oldest_first {
            to.map_or(widest, |to| to.min(widest))
        } else {
            to.filter(|to| *to <= widest)?
        };
        (self.left > 0 && from <= to).then_some(Segment::Query { from, to })
    }

    /// Returns `true` if the first page is incomplete without the latest item.
    fn needs_latest(&self, page: &[VersionView]) -> bool {
        match (self.query.oldest_first, page.first()) {
            (true, first) => first.is_none() && matches!(self.latest, Latest::Unread),
            (false, first) => first.map(|view| view.version) != self.query.to,
        }
    }

    async fn read_latest(&self) -> Result<Option<(Version, Item)>, ReadError> {
        self.store.newest(&self.entity, self.query.consistent).await
    }

    /// Sets the ranges to read from a version on, after the latest item was read.
    fn bound(&mut self, from: u64, number: Version, latest: Item) {
        let to = self.query.last(number);
        let mut segments = segments(from, to, self.store.digits().widest());
        if !self.query.oldest_first {
            segments.reverse();
        }
        self.segments = segments.into();
        self.latest = if (self.query.first()..=to).contains(&number.get()) {
            Latest::Pending(number, latest)
        } else {
            Latest::Done
        };
    }

    async fn read_page(&mut self) -> Result<Option<Vec<VersionView>>, ReadError> {
        if self.left == 0 {
            return Ok(None);
        }
        let Some(segment) = self.segments.front().copied() else {
            return Ok(None);
        };
        let items = match segment {
            Segment::Query { from, to } => self.query_page(from, to).await?,
            Segment::Keys { from, to } => self.keys_page(from, to).await?,
        };
        let (Segment::Query { from, to } | Segment::Keys { from, to }) = segment;
        let mut views: Vec<_> = items.into_iter().filter_map(|item| self.view(item)).collect();
        // `v100` sorts between `v10` and `v11`, but belongs to another segment.
        views.retain(|view| (from..=to).contains(&view.version.get()));
        if self.query.oldest_first {
            self.continue_to_latest(&mut views).await?;
        }
        self.add_latest(&mut views);
        views.truncate(self.left);
        self.left -= views.len();
        Ok(Some(views))
    }

    /// Reads the latest item at the end of the range that was read without it, to find out whether there are more versions.
    async fn continue_to_latest(&mut self, views: &mut Vec<VersionView>) -> Result<(), ReadError> {
        let newest = |views: &[VersionView]| views.last().map(|view| view.version.get());
        let before = self.last;
        self.last = newest(views).unwrap_or(before);
        let is_unread = matches!(self.latest, Latest::Unread);
        let is_all = views.len() == self.left || self.query.to.map(Version::get) == Some(self.last);
        if !is_unread || is_all || !self.segments.is_empty() {
            return Ok(());
        }
        let Some((number, latest)) = self.read_latest().await? else {
            self.latest = Latest::Absent;
            return Ok(());
        };
        views.retain(|view| view.version <= number);
        self.last = newest(views).unwrap_or(before);
        self.bound(self.last + 1, number, latest);
        // There are no versions between the last one and that of the latest item.
        if matches!(self.latest, Latest::Pending(..)) && self.last + 1 >= number.get() {
            self.segments.clear();
        }
        Ok(())
    }

    async fn query_page(&mut self, from: u64, to: u64) -> Result<Vec<Item>, ServiceError> {
        let key = |number| Version::new(number).map(|version| self.store.digits().version_key(version));
        let range = Range {
            from: key(from).unwrap_or_default(),
            to: key(to).unwrap_or_default(),
            reversed: !self.query.oldest_first,
            limit: i32::try_from(self.left).ok(),
            consistent: self.query.consistent,
        };
        let (items, next) = self.store.query_page(&self.entity, &range, self.cursor.take()).await?;
        self.cursor = next;
        if self.cursor.is_none() {
            self.segments.pop_front();
        }
        Ok(items)
    }

    async fn keys_page(&mut self, from: u64, to: u64) -> Result<Vec<Item>, ServiceError> {
        let wanted = if self.empty_pages == 0 {
            self.left as u64
        } else {
            u64::MAX
        };
        let count = (MAX_KEYS as u64).min(wanted).min(to - from + 1);
        let (page, rest) = if self.query.oldest_first {
            ((from, from + count - 1), (from + count, to))
        } else {
            ((to + 1 - count, to), (from, to - count))
        };
        let keys = self.store.digits().version_keys(page.0..=page.1);
        let items = self.store.batch_get(&self.entity, &keys, self.query.consistent).await?;
        self.segments.pop_front();
        if rest.0 <= rest.1 && rest.1 > 0 {
            self.segments.push_front(Segment::Keys {
                from: rest.0,
                to: rest.1,
            });
        }
        self.empty_pages = if items.is_empty() { self.empty_pages + 1 } else { 0 };
        if self.empty_pages == MAX_EMPTY_PAGES {
            self.skip_missing().await?;
        }
        // The order of a batch is undefined.
        let mut by_key: HashMap<_, _> = items
            .into_iter()
            .filter_map(|item| Some((sort_key_of(&item)?.to_owned(), item)))
            .collect();
        let mut items: Vec<_> = keys.iter().filter_map(|key| by_key.remove(key)).collect();
        if !self.query.oldest_first {
            items.reverse();
        }
        Ok(items)
    }

    /// Leaves out the versions that do not exist, so that the time of a read does not depend on the width of a gap.
    async fn skip_missing(&mut self) -> Result<(), ServiceError> {
        let stored = stored_versions(self.store, &self.entity).await?;
        let existing = |segment: Segment| match segment {
            Segment::Query { .. } => vec![segment],
            Segment::Keys { from, to } => {
                let stored = stored.within(from, to);
                let mut ranges: Vec<_> = stored.ranges().map(|(from, to)| Segment::Keys { from, to }).collect();
                if !self.query.oldest_first {
                    ranges.reverse();
                }
                ranges
            }
        };
        self.segments = std::mem::take(&mut self.segments)
            .into_iter()
            .flat_map(existing)
            .collect();
        Ok(())
    }

    /// Returns `None` for an expired item, or one that is not a version.
    fn view(&self, item: Item) -> Option<VersionView> {
        if is_expired(&item, self.store.clock().now()) {
            return None;
        }
        let version = self.store.digits().version_of_item(&item)?;
        Some(self.store.view(&self.entity, version, item))
    }

    /// Adds the latest item to its end of the history, if its version item is missing.
    fn add_latest(&mut self, views: &mut Vec<VersionView>) {
        let is_at_end = !self.query.oldest_first || self.segments.is_empty();
        if !is_at_end || !matches!(self.latest, Latest::Pending(..)) {
            return;
        }
        if let Latest::Pending(version, item) = std::mem::replace(&mut self.latest, Latest::Done)
            && self.last < version.get()
            && !views.iter().any(|view| view.version == version)
        {
            let view = self.store.view(&self.entity, version, item);
            let index = if self.query.oldest_first { views.len() } else { 0 };
            views.insert(index, view);
        }
    }
}

/// Returns the ranges to query and to read by keys, in ascending order. `widest` is the greatest version that fits the width
/// of the keys, `None` for width 1.
fn segments(from: u64, to: u64, widest: Option<u64>) -> Vec<Segment> {
    let from = from.max(1);
    let mut segments = Vec::new();
    let fits = widest.map_or(0, |widest| to.min(widest));
    if from <= fits {
        segments.push(Segment::Query { from, to: fits });
    }
    let beyond = from.max(fits + 1);
    if beyond <= to {
        segments.push(Segment::Keys { from: beyond, to });
    }
    segments
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
        let query = |from, to| Segment::Query { from, to };
        let keys = |from, to| Segment::Keys { from, to };
        assert_eq!(segments(1, 20, None), [keys(1, 20)]);
        assert_eq!(segments(0, 20, Some(99)), [query(1, 20)]);
        assert_eq!(segments(90, 101, Some(99)), [query(90, 99), keys(100, 101)]);
        assert_eq!(segments(100, 101, Some(99)), [keys(100, 101)]);
        assert_eq!(segments(5, 4, Some(99)), []);
        assert_eq!(segments(5, 4, None), []);
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
