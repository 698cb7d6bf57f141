//! History: a range of versions, page by page, to its end.

use std::{
    collections::{HashMap, VecDeque},
    fmt,
};

use crate::{
    clock,
    domain::{
        Item, entity::EntityId, keys::sort_key_of, marks::is_expired, version::Version, version_item::latest_of,
        view::VersionView,
    },
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

/// Which versions, and how.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct HistoryQuery {
    /// The first version, default 1.
    pub from: Option<Version>,
    /// The last version, default the latest.
    pub to: Option<Version>,
    /// Whether the oldest comes first.
    pub oldest_first: bool,
    /// The most versions.
    pub limit: Option<usize>,
    /// Whether what was written before is sure to be read.
    pub consistent: bool,
}

/// A history that is being read.
///
/// With keys of the width 1, pages are read by their exact keys, which are known, since versions are dense; with wider
/// keys, by one `Query`. Versions that no longer fit the width are read by their exact keys.
pub struct History<'a> {
    store: &'a Store,
    entity: EntityId,
    query: HistoryQuery,
    segments: VecDeque<Segment>,
    cursor: Option<Cursor>,
    left: usize,
    /// The newest version that was seen, or the one before the first that is wanted.
    last: u64,
    latest: Latest,
    /// The first page, which was read to know whether there is such an entity.
    first: Option<Vec<VersionView>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Segment {
    Query { from: u64, to: u64 },
    Keys { from: u64, to: u64 },
}

/// What is known of the latest item.
enum Latest {
    /// No page has needed it yet.
    Unread,
    /// It answers for its version until that is written down.
    Answers(Version, Item),
    /// It was read, and has no more to say.
    Settled,
    /// There is none.
    Absent,
}

impl Store {
    /// Begins to read the history of an entity: the newest version first, unless asked otherwise. `None` where there is
    /// no such entity.
    ///
    /// Versions that are not written down yet are left out, but for the latest, for which the latest item answers. That is
    /// read before all others, but where the order of the keys is the order of the versions, only if it can make a difference:
    /// a page with as many versions as were asked for, the oldest first, or with the version `to`, is one request. Such a page
    /// may show what an audit calls strays and orphans, which are left out otherwise.
    pub async fn history(&self, entity: &EntityId, query: HistoryQuery) -> Result<Option<History<'_>>, ReadError> {
        let mut history = History {
            store: self,
            entity: entity.clone(),
            query,
            segments: VecDeque::new(),
            cursor: None,
            left: query.limit.unwrap_or(usize::MAX),
            last: query.first() - 1,
            latest: Latest::Unread,
            first: None,
        };
        if let Some(segment) = history.alone() {
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
        let Some((head, latest)) = history.read_latest().await? else {
            return Ok(None);
        };
        history.bound(query.first(), head, latest);
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

    /// The last version, of an entity that has come to `head`.
    fn last(&self, head: Version) -> u64 {
        self.to.map_or(head.get(), |to| to.min(head).get())
    }
}

impl History<'_> {
    /// The next versions, `None` at the end. A page may be short or empty before the end.
    pub async fn next_page(&mut self) -> Result<Option<Vec<VersionView>>, ReadError> {
        match self.first.take() {
            Some(first) => Ok(Some(first)),
            None => self.read_page().await,
        }
    }

    /// All that is left.
    pub async fn collect(mut self) -> Result<Vec<VersionView>, ReadError> {
        let mut all = Vec::new();
        while let Some(page) = self.next_page().await? {
            all.extend(page);
        }
        Ok(all)
    }

    /// What may be read without the latest item: the newest first only from a version that is named.
    fn alone(&self) -> Option<Segment> {
        let widest = self.store.digits.widest()?;
        let (from, to) = (self.query.first(), self.query.to.map(Version::get));
        let to = if self.query.oldest_first {
            to.map_or(widest, |to| to.min(widest))
        } else {
            to.filter(|to| *to <= widest)?
        };
        (self.left > 0 && from <= to).then_some(Segment::Query { from, to })
    }

    /// Whether the first page, read without the latest item, does not stand by itself.
    fn needs_latest(&self, page: &[VersionView]) -> bool {
        match (self.query.oldest_first, page.first()) {
            (true, first) => first.is_none() && matches!(self.latest, Latest::Unread),
            (false, first) => first.map(|view| view.version) != self.query.to,
        }
    }

    async fn read_latest(&self) -> Result<Option<(Version, Item)>, ReadError> {
        let key = self.store.digits.latest_key();
        let latest = self.store.get(&self.entity, &key, self.query.consistent).await?;
        latest.map(|latest| Ok((latest_of(&latest)?, latest))).transpose()
    }

    /// What is left to be read from a version on, now that the latest item is known.
    fn bound(&mut self, from: u64, head: Version, latest: Item) {
        let to = self.query.last(head);
        let mut segments = segments(from, to, self.store.digits.widest());
        if !self.query.oldest_first {
            segments.reverse();
        }
        self.segments = segments.into();
        self.latest = if (self.query.first()..=to).contains(&head.get()) {
            Latest::Answers(head, latest)
        } else {
            Latest::Settled
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
        // Between `v10` and `v11` there is `v100`, which is of another segment.
        views.retain(|view| (from..=to).contains(&view.version.get()));
        if self.query.oldest_first {
            self.go_on(&mut views).await?;
        }
        self.add_latest(&mut views);
        views.truncate(self.left);
        self.left -= views.len();
        Ok(Some(views))
    }

    /// At the end of what could be read without the latest item, that says whether there is more.
    async fn go_on(&mut self, views: &mut Vec<VersionView>) -> Result<(), ReadError> {
        let newest = |views: &[VersionView]| views.last().map(|view| view.version.get());
        let before = self.last;
        self.last = newest(views).unwrap_or(before);
        let is_unread = matches!(self.latest, Latest::Unread);
        let is_all = views.len() == self.left || self.query.to.map(Version::get) == Some(self.last);
        if !is_unread || is_all || !self.segments.is_empty() {
            return Ok(());
        }
        let Some((head, latest)) = self.read_latest().await? else {
            self.latest = Latest::Absent;
            return Ok(());
        };
        views.retain(|view| view.version <= head);
        self.last = newest(views).unwrap_or(before);
        self.bound(self.last + 1, head, latest);
        // Nothing lies between what was seen and the version that the latest item answers for.
        if matches!(self.latest, Latest::Answers(..)) && self.last + 1 >= head.get() {
            self.segments.clear();
        }
        Ok(())
    }

    async fn query_page(&mut self, from: u64, to: u64) -> Result<Vec<Item>, ServiceError> {
        let key = |number| Version::new(number).map(|version| self.store.digits.version_key(version));
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
        let count = (MAX_KEYS as u64).min(self.left as u64).min(to - from + 1);
        let (page, rest) = if self.query.oldest_first {
            ((from, from + count - 1), (from + count, to))
        } else {
            ((to + 1 - count, to), (from, to - count))
        };
        let keys = self.store.digits.version_keys(page.0..=page.1);
        let items = self.store.batch_get(&self.entity, &keys, self.query.consistent).await?;
        self.segments.pop_front();
        if rest.0 <= rest.1 && rest.1 > 0 {
            self.segments.push_front(Segment::Keys {
                from: rest.0,
                to: rest.1,
            });
        }
        // A batch comes back in any order.
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

    /// `None` for an item that is no version, with a key between those of versions, and for one whose time is over.
    fn view(&self, item: Item) -> Option<VersionView> {
        if is_expired(&item, clock::since_epoch()) {
            return None;
        }
        let version = self.store.digits.version_of_item(&item)?;
        Some(VersionView::new(self.entity.clone(), version, item))
    }

    /// Puts the latest item at its end of the history, where its version is not written down yet.
    fn add_latest(&mut self, views: &mut Vec<VersionView>) {
        let at_its_end = !self.query.oldest_first || self.segments.is_empty();
        if !at_its_end || !matches!(self.latest, Latest::Answers(..)) {
            return;
        }
        if let Latest::Answers(version, item) = std::mem::replace(&mut self.latest, Latest::Settled)
            && self.last < version.get()
            && !views.iter().any(|view| view.version == version)
        {
            let view = VersionView::new(self.entity.clone(), version, item);
            let index = if self.query.oldest_first { views.len() } else { 0 };
            views.insert(index, view);
        }
    }
}

/// What one `Query` brings in order, and what has to be read by keys, oldest first. `widest` is the greatest number that
/// fits the width, `None` for the width 1, whose keys have no useful order.
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
    use super::*;

    #[test]
    fn what_fits_the_width_is_queried_and_the_rest_is_read_by_keys() {
        let query = |from, to| Segment::Query { from, to };
        let keys = |from, to| Segment::Keys { from, to };
        assert_eq!(segments(1, 20, None), [keys(1, 20)]);
        assert_eq!(segments(0, 20, Some(99)), [query(1, 20)]);
        assert_eq!(segments(90, 101, Some(99)), [query(90, 99), keys(100, 101)]);
        assert_eq!(segments(100, 101, Some(99)), [keys(100, 101)]);
        assert_eq!(segments(5, 4, Some(99)), []);
        assert_eq!(segments(5, 4, None), []);
    }
}
