//! History: a range of versions, page by page, to its end.

use std::collections::{HashMap, VecDeque};

use super::{
    Store,
    batch_get_items::MAX_KEYS,
    error::ServiceError,
    query_items::{Cursor, Range},
    reads::ReadError,
};
use crate::{
    clock,
    domain::{AttributeValue, Item, entity::EntityId, marks::is_expired, names, version::Version, view::VersionView},
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
#[derive(Debug)]
pub struct History<'a> {
    store: &'a Store,
    entity: EntityId,
    query: HistoryQuery,
    segments: VecDeque<Segment>,
    cursor: Option<Cursor>,
    left: usize,
    /// The latest item answers for its version until that is written down.
    latest: Option<(Version, Item)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Segment {
    Query { from: u64, to: u64 },
    Keys { from: u64, to: u64 },
}

impl Store {
    /// Begins to read the history of an entity: the newest version first, unless asked otherwise. `None` where there is
    /// no such entity.
    ///
    /// Versions that are not written down yet are left out, but for the latest, for which the latest item answers.
    pub async fn history(&self, entity: &EntityId, query: HistoryQuery) -> Result<Option<History<'_>>, ReadError> {
        let Some(latest) = self.get(entity, &self.digits.latest_key(), query.consistent).await? else {
            return Ok(None);
        };
        let head = crate::domain::version_item::latest_of(&latest)?;
        let from = query.from.map_or(1, Version::get);
        let to = query.to.map_or(head.get(), Version::get).min(head.get());
        let mut segments = segments(from, to, self.digits.widest());
        if !query.oldest_first {
            segments.reverse();
        }
        Ok(Some(History {
            store: self,
            entity: entity.clone(),
            query,
            segments: segments.into(),
            cursor: None,
            left: query.limit.unwrap_or(usize::MAX),
            latest: Some((head, latest)).filter(|_| (from..=to).contains(&head.get())),
        }))
    }
}

impl History<'_> {
    /// The next versions, `None` at the end. A page may be short or empty before the end.
    pub async fn next_page(&mut self) -> Result<Option<Vec<VersionView>>, ReadError> {
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
        self.add_latest(&mut views);
        views.truncate(self.left);
        self.left -= views.len();
        Ok(Some(views))
    }

    /// All that is left.
    pub async fn collect(mut self) -> Result<Vec<VersionView>, ReadError> {
        let mut all = Vec::new();
        while let Some(page) = self.next_page().await? {
            all.extend(page);
        }
        Ok(all)
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
        let keys: Vec<_> = (page.0..=page.1)
            .filter_map(Version::new)
            .map(|version| self.store.digits.version_key(version))
            .collect();
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
            .filter_map(|item| Some((sort_key(&item)?, item)))
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
        let version = self.store.digits.version_of(&sort_key(&item)?)?;
        Some(VersionView::new(self.entity.clone(), version, item))
    }

    /// Puts the latest item at its end of the history, where its version is not written down yet.
    fn add_latest(&mut self, views: &mut Vec<VersionView>) {
        let at_its_end = if self.query.oldest_first {
            self.segments.is_empty()
        } else {
            true
        };
        if !at_its_end {
            return;
        }
        if let Some((version, item)) = self.latest.take()
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

fn sort_key(item: &Item) -> Option<String> {
    match item.get(names::SK) {
        Some(AttributeValue::S(key)) => Some(key.clone()),
        _ => None,
    }
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
