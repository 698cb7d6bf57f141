//! The latest item of an entity: conditional writes that give it a number, and the number that it gets.

pub mod from_version;
pub mod move_latest;
pub mod raise_latest;
pub mod revive_latest;

use std::collections::HashMap;

use shared::{
    config::Window,
    domain::{
        AttributeValue, Item,
        attributes::{n, s, text},
        attribution::Writer,
        entity::EntityId,
        keys::{LATEST_KEY, VersionDigits},
        names,
        recorded_at::RecordedAt,
        version::Version,
        version_item::{VersionItem, latest_of},
    },
    dynamodb::{Store, client::error::ServiceError},
};
use writer_fn::{
    counter::recent_requests::{self, Entry, SentCode},
    update::payload,
};

/// Returns the number of a latest item without `Latest`, or with one that was set back: that of the highest version if both are
/// equal, otherwise the next one. `None` if there is no higher one.
pub fn adopted(latest: &Item, highest: Option<&(Version, Item)>, digits: VersionDigits) -> Option<Version> {
    let Some((highest, top)) = highest else {
        return Some(Version::FIRST);
    };
    let same = VersionItem::from_image(numbered(latest, *highest), digits).is_ok_and(|made| made.is_same_as(top));
    match same {
        true => Some(*highest),
        false => highest.get().checked_add(1).and_then(Version::new),
    }
}

/// Returns a latest item from the padded key of version 0 as it is at `v0`, with its number: its own, if that is above the
/// highest version, otherwise that of [`adopted`].
pub fn moved(padded: &Item, highest: Option<&(Version, Item)>, digits: VersionDigits) -> Option<(Version, Item)> {
    let own = latest_of(padded).ok();
    let own = own.filter(|own| highest.is_none_or(|(highest, _)| highest < own));
    let version = own.or_else(|| adopted(padded, highest, digits))?;
    Some((version, numbered(padded, version)))
}

/// Returns a latest item as that of another version.
fn numbered(latest: &Item, version: Version) -> Item {
    let is_own = latest_of(latest).is_ok_and(|current| Writer::of(latest, current) == Writer::Own);
    let mut latest = latest.clone();
    latest.insert(names::SK.to_owned(), s(LATEST_KEY));
    latest.insert(names::LATEST.to_owned(), n(version));
    if is_own {
        latest.insert(names::RECORDED_VERSION.to_owned(), n(version));
    }
    latest
}

/// Returns the entries of recent requests, by the keys of the requests, of the newest versions up to this one, as many as the window,
/// and the time of the newest version, if it is known.
async fn requests_from_history(
    store: &Store,
    entity: &EntityId,
    through: Version,
    window: Window,
) -> Result<(HashMap<String, AttributeValue>, Option<RecordedAt>), ServiceError> {
    let window = window.get() as u64;
    let newest = through.get().saturating_sub(window - 1).max(1)..=through.get();
    let keys = store.digits().version_keys(newest);
    let items = store.batch_get(entity, &keys, true).await?;
    let request = |item: &Item| {
        let version = store.digits().version_of_item(item)?;
        let request = recent_requests::last_request(item)?;
        // An older release did not store the payload.
        let check = text(item, names::REQUEST_PAYLOAD).and_then(payload::check_of);
        let check = check.unwrap_or_default();
        let sent = SentCode::UNKNOWN;
        Some((request.key().to_owned(), Entry { version, check, sent }.value()))
    };
    let newest = items.iter().filter_map(RecordedAt::of).max();
    Ok((items.iter().filter_map(request).collect(), newest))
}
