//! Recent requests of a latest item that gets another number.

use std::collections::{BTreeSet, HashMap};

use shared::{
    config::Window,
    domain::{
        AttributeValue, Item, attributes::text, entity::EntityId, names, recorded_at::RecordedAt, version::Version,
    },
    dynamodb::{Store, client::error::ServiceError},
};
use writer_fn::{
    counter::recent_requests::{Entry, SentCode, last_request, requests_of},
    update::payload,
};

/// Returns the entries of recent requests, by the keys of the requests, of the newest versions up to this one, as many as the window,
/// and the time of the newest version, if it is known.
pub(super) async fn from_history(
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
        let request = last_request(item)?;
        // An older release did not store the payload.
        let check = text(item, names::REQUEST_PAYLOAD).and_then(payload::check_of);
        let check = check.unwrap_or_default();
        let sent = SentCode::UNKNOWN;
        Some((request.key().to_owned(), Entry { version, check, sent }.value()))
    };
    let newest = items.iter().filter_map(RecordedAt::of).max();
    Ok((items.iter().filter_map(request).collect(), newest))
}

/// Adds the requests of the latest item that history does not have among its newest versions. A request keeps its number, unless
/// another version has it in history.
pub(super) async fn add(
    store: &Store,
    entity: &EntityId,
    latest: &Item,
    to: Version,
    entries: &mut HashMap<String, AttributeValue>,
) -> Result<(), ServiceError> {
    let of_latest = requests_of(latest).into_iter().flatten();
    let since: Vec<_> = of_latest
        .filter(|(key, _)| !entries.contains_key(*key))
        .filter_map(|(key, value)| Some((key.clone(), Entry::from_value(value)?)))
        .collect();
    let digits = store.digits();
    let numbers: BTreeSet<_> = since.iter().map(|(_, entry)| entry.version.get()).collect();
    let items = match numbers.is_empty() {
        true => Vec::new(),
        false => store.batch_get(entity, &digits.version_keys(numbers), true).await?,
    };
    let owner = |item: &Item| {
        let request = last_request(item);
        Some((
            digits.version_of_item(item)?,
            request.map(|request| request.key().to_owned()),
        ))
    };
    let owners: HashMap<_, _> = items.iter().filter_map(owner).collect();
    let new = Entry {
        version: to,
        check: 0,
        sent: SentCode::UNKNOWN,
    };
    for (key, entry) in since {
        let owner = owners.get(&entry.version);
        let is_of_another = owner.is_some_and(|owner| owner.as_ref() != Some(&key));
        entries.insert(key, if is_of_another { new } else { entry }.value());
    }
    if let Some(last) = last_request(latest) {
        entries.entry(last.key().to_owned()).or_insert(new.value());
    }
    Ok(())
}
