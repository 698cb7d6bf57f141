//! Repair of a deleted latest item: one `PutItem` on condition that there is none.

use std::collections::HashMap;

use shared::{
    config::Window,
    domain::{
        AttributeValue, Item,
        attributes::{n, s, same_item},
        entity::EntityId,
        keys::LATEST_KEY,
        names,
        recorded_at::RecordedAt,
        version::Version,
    },
    dynamodb::{Store, client::error::ServiceError, put::put_version},
};
use writer_fn::counter::recent_requests;

use super::requests_from_history;
use crate::condition::outcome;

const OPERATION: &str = "PutItem";
const OF_REQUESTS: [&str; 3] = [names::RECENT_REQUESTS, names::REQUESTS_SINCE, names::REQUESTS_DROPPED];

/// Puts a latest item with the requests of the newest versions, as many as the window. Returns `false` if a different one exists.
///
/// # Errors
///
/// Returns [`ServiceError`] if a request fails.
pub async fn revive_latest(
    store: &Store,
    entity: &EntityId,
    version: Version,
    latest: &Item,
    window: Window,
) -> Result<bool, ServiceError> {
    store.check_writable(OPERATION)?;
    let (entries, newest) = requests_from_history(store, entity, version, window).await?;
    let newest = newest.map_or(store.now(), |newest| newest.max(store.now()));
    let since = recent_requests::since_all(None, newest).get();
    let values = [AttributeValue::M(entries), n(since), n(version)];
    let mut revived = latest.clone();
    revived.extend(OF_REQUESTS.map(str::to_owned).into_iter().zip(values));
    let request = put_version::request(&revived, store.latest_table());
    // The response to an earlier attempt was lost, or another repair had the same result. Its recent requests may have changed.
    let is_revived = |mut stored: Item| {
        stored.retain(|name, _| !OF_REQUESTS.contains(&name.as_str()));
        same_item(&stored, latest)
    };
    Ok(match outcome(OPERATION, request.send_with(store.client()).await)? {
        Ok(_) => true,
        Err(stored) => stored.is_some_and(is_revived),
    })
}

/// Returns a tombstone without attributes, for an entity whose state is not known.
pub fn without_state(entity: &EntityId, version: Version, now: RecordedAt) -> Item {
    let members = [
        (names::PK, s(entity.as_str())),
        (names::SK, s(LATEST_KEY)),
        (names::LATEST, n(version)),
        (names::DELETED, AttributeValue::Bool(true)),
        (names::RECORDED_AT, now.value()),
        (names::RECORDED_VERSION, n(version)),
    ];
    Item::from(HashMap::from(members.map(|(name, value)| (name.to_owned(), value))))
}
