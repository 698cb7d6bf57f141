//! Recent requests of a latest item, rebuilt from version items.

use std::collections::HashMap;

use shared::{
    config::Window,
    domain::{
        AttributeValue, Item, attributes::text, entity::EntityId, names, recorded_at::RecordedAt, version::Version,
    },
    dynamodb::{Store, client::error::ServiceError},
};
use writer_fn::{
    counter::recent_requests::{self, Entry, SentCode},
    update::payload,
};

/// Requests of the newest versions.
pub(crate) struct Requests {
    /// Entries by the key of their request.
    pub(crate) entries: HashMap<String, AttributeValue>,
    /// Time of the newest version, if it is known.
    pub(crate) newest: Option<RecordedAt>,
}

/// Returns the requests of the newest versions up to this one, as many as the window.
pub(crate) async fn requests_from_history(
    store: &Store,
    entity: &EntityId,
    through: Version,
    window: Window,
) -> Result<Requests, ServiceError> {
    let window = window.get() as u64;
    let newest = through.get().saturating_sub(window - 1).max(1)..=through.get();
    let items = store
        .batch_get(entity, &store.digits().version_keys(newest), true)
        .await?;
    let request = |item: &Item| {
        let version = store.digits().version_of_item(item)?;
        let request = recent_requests::last_request(item)?;
        // An older release did not store the payload.
        let check = text(item, names::REQUEST_PAYLOAD).and_then(payload::check_of);
        let check = check.unwrap_or_default();
        let sent = SentCode::UNKNOWN;
        Some((request.key().to_owned(), Entry { version, check, sent }.value()))
    };
    Ok(Requests {
        entries: items.iter().filter_map(request).collect(),
        newest: items.iter().filter_map(RecordedAt::of).max(),
    })
}
