//! Newest versions of an attached table's item: `Query` in descending order of the sort keys, which is that of the versions.

use aws_sdk_dynamodb::operation::query::builders::QueryInputBuilder;

use crate::{
    domain::{
        Item,
        attached::{
            decision::Tail,
            digits,
            item::{self, Recorded},
        },
        entity::EntityId,
        version::Version,
    },
    dynamodb::{
        Store,
        client::error::ServiceError,
        read::query_items::{self, Range},
    },
};

const OPERATION: &str = "Query";
/// Maximum number of versions of the first page. The last version is nearly always sufficient.
const FIRST_PAGE: i32 = 1;
/// Maximum number of versions of the following pages.
const NEXT_PAGE: i32 = 25;

impl Store {
    /// Reads older versions than those in the tail, and adds them: one page. An empty tail gets the newest version.
    ///
    /// # Errors
    ///
    /// Returns [`ServiceError`] if the request fails.
    pub async fn extend_tail(&self, entity: &EntityId, tail: &mut Tail, consistent: bool) -> Result<(), ServiceError> {
        let oldest = tail.versions.last().map(|oldest| oldest.version);
        let (items, is_complete) = self.tail_page(entity, oldest, consistent).await?;
        tail.is_consistent = consistent && (oldest.is_none() || tail.is_consistent);
        // A version that pruning removed before this page was read is below a floor that was set before.
        tail.floor = None;
        let read = items.into_iter().filter_map(Recorded::of);
        tail.versions.extend(read);
        let is_first = tail
            .versions
            .last()
            .is_some_and(|oldest| oldest.version == Version::FIRST);
        tail.is_complete = is_complete || is_first;
        Ok(())
    }

    /// Reads the newest version of an attached table's history, which can be late.
    ///
    /// # Errors
    ///
    /// Returns [`ServiceError`] if the request fails.
    pub async fn attached_newest(
        &self,
        entity: &EntityId,
        consistent: bool,
    ) -> Result<Option<(Version, Item)>, ServiceError> {
        let (items, _) = self.tail_page(entity, None, consistent).await?;
        let newest = items.into_iter().next();
        Ok(newest.and_then(|item| Some((digits().version_of_item(&item)?, item::flat(item)))))
    }

    /// Reads the item that is the latest item of an attached table's history: the last version that is not late, with its number. If
    /// all are late, the oldest of them. `None` if there is no version.
    ///
    /// # Errors
    ///
    /// Returns [`ServiceError`] if a request fails.
    pub(crate) async fn attached_latest(
        &self,
        entity: &EntityId,
        consistent: bool,
    ) -> Result<Option<Item>, ServiceError> {
        let (mut last, mut oldest) = (None, None);
        loop {
            let (items, is_complete) = self.tail_page(entity, oldest, consistent).await?;
            for item in items {
                let Some(version) = digits().version_of_item(&item) else {
                    continue;
                };
                oldest = Some(version);
                let is_late = item.contains_key(item::LATE);
                last = Some(item::latest(item::flat(item), version));
                if !is_late {
                    return Ok(last);
                }
            }
            if is_complete || oldest == Some(Version::FIRST) {
                // Only late versions are left.
                return Ok(last);
            }
        }
    }

    /// Reads a page of stored version items below a version. The second value is `true` if there are no older ones.
    async fn tail_page(
        &self,
        entity: &EntityId,
        below: Option<Version>,
        consistent: bool,
    ) -> Result<(Vec<Item>, bool), ServiceError> {
        let request = request(entity, below, consistent, self.history_table());
        let output = request.send_with(&self.client).await;
        let output = output.map_err(|error| ServiceError::new(OPERATION, &error))?;
        let is_complete = output.last_evaluated_key.is_none_or(|key| key.is_empty());
        let items: Vec<_> = output.items.unwrap_or_default().into_iter().map(Item::from).collect();
        // A page without items has no key from which the next one starts.
        let is_complete = is_complete || items.is_empty();
        Ok((items, is_complete))
    }
}

/// Builds the request for the newest versions, or for those below a version.
pub fn request(entity: &EntityId, below: Option<Version>, consistent: bool, table: &str) -> QueryInputBuilder {
    let greatest = digits().widest().and_then(Version::new);
    let to = match below {
        None => greatest,
        Some(below) => Version::new(below.get() - 1),
    };
    let range = Range {
        from: digits().version_key(Version::FIRST),
        to: digits().version_key(to.unwrap_or(Version::FIRST)),
        reversed: true,
        limit: Some(below.map_or(FIRST_PAGE, |_| NEXT_PAGE)),
        consistent,
    };
    query_items::request(entity, &range, None, table)
}
