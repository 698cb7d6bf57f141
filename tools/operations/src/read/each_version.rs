//! All version items of an entity, page by page at the rate of a limiter.

use shared::{
    domain::{Item, entity::EntityId},
    dynamodb::{Store, client::error::ServiceError, read::query_items::Range},
};

use crate::rate_limit::RateLimiter;

/// Reads all version items of an entity with strongly consistent reads, in the order of their sort keys.
pub(crate) async fn each_version(
    store: &Store,
    limiter: &RateLimiter,
    entity: &EntityId,
    mut add: impl FnMut(Item),
) -> Result<(), ServiceError> {
    let range = Range::all_versions(limiter.page_limit());
    let mut cursor = None;
    loop {
        let page = limiter.run(async || store.query_page(entity, &range, cursor.clone()).await);
        let (items, next) = page.await?;
        items.into_iter().for_each(&mut add);
        cursor = next;
        if cursor.is_none() {
            return Ok(());
        }
    }
}
