//! Newest version of an entity, also if its latest item is missing, has expired, or does not count its versions.

use crate::{
    domain::{
        Item,
        entity::EntityId,
        keys::{FLOOR_KEY, LATEST_KEY, Widths, floor_of, sort_key_of},
        marks::is_expired,
        names,
        version::Version,
        version_item::latest_of,
        view::VersionView,
    },
    dynamodb::{
        Store,
        client::error::ServiceError,
        read::{layout_error::LayoutError, query_items::Range, versions::ReadError},
    },
};

/// Number of items of the first page. An entity without versions needs no second one.
const FIRST_PAGE: i32 = 4;

impl Store {
    /// Reads the newest version with its item: the latest item, or the highest version in history if there is none. `None` if
    /// the entity has never existed. In the history of an attached table, it is the highest version, which can be late.
    ///
    /// # Errors
    ///
    /// Returns [`ReadError::Service`] if a request fails, [`ReadError::Latest`] or [`ReadError::Uncounted`] if the latest item
    /// has no valid version.
    pub async fn newest(&self, entity: &EntityId, consistent: bool) -> Result<Option<(Version, Item)>, ReadError> {
        if self.attached.is_some() {
            return Ok(Box::pin(self.attached_newest(entity, consistent)).await?);
        }
        let latest = self.get(entity, LATEST_KEY, consistent).await?;
        match latest {
            Some(latest) if latest.contains_key(names::LATEST) => Ok(Some((latest_of(&latest)?, latest))),
            // Boxed, to keep the future of a read small.
            uncounted => match Box::pin(self.newest_in_history(entity, consistent)).await? {
                Some(newest) => Ok(Some(newest)),
                None if uncounted.is_some() => Err(ReadError::Uncounted),
                None => Ok(None),
            },
        }
    }

    /// Reads the newest version as a view, see [`Self::newest`].
    ///
    /// # Errors
    ///
    /// Returns [`ReadError`] if a request fails.
    pub async fn newest_view(&self, entity: &EntityId, consistent: bool) -> Result<Option<VersionView>, ReadError> {
        let newest = self.newest(entity, consistent).await?;
        Ok(newest.map(|(version, item)| self.view(entity, version, item)))
    }

    /// Returns `true` if history has a version, if it had one that was pruned, or if there is a latest item at a padded key such
    /// as `v00`. Keys of another width are an error.
    ///
    /// Without any such item it is one request. Items of other programs between the floor and the versions take a second one.
    ///
    /// # Errors
    ///
    /// Returns [`LayoutError::Service`] if a request fails, and [`LayoutError::OtherWidth`] if another program has written versions with
    /// other keys.
    pub async fn has_history(&self, entity: &EntityId, consistent: bool) -> Result<bool, LayoutError> {
        let now = self.clock.now();
        let padded = self.digits.padded_latest_key();
        let is_history = |item: &Item| {
            let is_padded = padded.is_some() && padded.as_deref() == sort_key_of(item);
            let is_version = || self.digits.version_of_item(item).is_some() && !is_expired(item, now);
            is_padded || is_version() || floor_of_item(item).is_some()
        };
        let range = Range {
            consistent,
            ..Range::from_floor(Some(FIRST_PAGE))
        };
        let mut widths = Widths::default();
        let mut examine = |items: &[Item]| {
            items.iter().filter_map(sort_key_of).for_each(|key| widths.add(key));
            self.check_widths(&widths).map(|()| items.iter().any(is_history))
        };
        let (items, next) = self.query_page(entity, &range, None).await?;
        let mut has_history = examine(&items);
        if has_history != Ok(false) || next.is_none() {
            return has_history;
        }
        // The floor is in the first page. Items of other programs are skipped.
        let range = Range {
            consistent,
            ..Range::all_versions(None)
        };
        self.each_page(entity, range, |items| {
            has_history = examine(&items);
            has_history == Ok(false)
        })
        .await?;
        has_history
    }

    /// Reads the highest version in history, `None` if there is none. The order of keys is not that of versions, so it reads
    /// all versions, and one page if there is none.
    ///
    /// # Errors
    ///
    /// Returns [`ServiceError`] if a request fails.
    pub async fn newest_in_history(
        &self,
        entity: &EntityId,
        consistent: bool,
    ) -> Result<Option<(Version, Item)>, ServiceError> {
        let now = self.clock.now();
        let range = Range {
            consistent,
            ..Range::all_versions(Some(FIRST_PAGE))
        };
        let mut newest = None;
        self.each_page(entity, range, |items| {
            let versions = items.into_iter().filter(|item| !is_expired(item, now));
            let versions = versions.filter_map(|item| Some((self.digits.version_of_item(&item)?, item)));
            newest = newest
                .take()
                .into_iter()
                .chain(versions)
                .max_by_key(|(version, _)| *version);
            true
        })
        .await?;
        Ok(newest)
    }

    /// Reads the pages of a range, the first one with its limit, until a function returns `false`.
    ///
    /// # Errors
    ///
    /// Returns [`ServiceError`] if a request fails.
    pub async fn each_page(
        &self,
        entity: &EntityId,
        mut range: Range,
        mut read: impl FnMut(Vec<Item>) -> bool,
    ) -> Result<(), ServiceError> {
        let mut cursor = None;
        loop {
            let (items, next) = self.query_page(entity, &range, cursor).await?;
            if !read(items) || next.is_none() {
                return Ok(());
            }
            (cursor, range.limit) = (next, None);
        }
    }
}

/// Returns the floor in the item `floor`, `None` for any other item.
fn floor_of_item(item: &Item) -> Option<Version> {
    floor_of(item).filter(|_| sort_key_of(item) == Some(FLOOR_KEY))
}
