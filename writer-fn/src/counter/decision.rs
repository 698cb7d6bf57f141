//! Decides an update against the stored latest item.
//!
//! The [rules](super::rules) of a request reject the update. This module explains a failed condition from the item that DynamoDB
//! returns with it, and plans a transaction from an item that was read.

use shared::{
    domain::{
        AttributeValue, Item,
        attributes::{same_item, text},
        attribution::{self, Writer},
        change::Change,
        incarnation::Incarnation,
        keys::LATEST_KEY,
        names,
        number::Decimal,
        recorded_at::RecordedAt,
        request_id::RequestHash,
        time::EpochMillis,
        tombstone::is_deleted,
        version::Version,
        version_item::{InvalidImage, latest_of},
    },
    printable::shortened,
};

use crate::{
    counter::{
        outcome::{WriteError, WriteOutcome},
        recent_requests,
        stamp::Stamp,
    },
    update::{
        ExpectedVersion, Update,
        nested::{self, missing_map},
    },
};

/// Decides an update against the stored latest item: `None` if it creates the next version. A duplicate is detected first: after a
/// previous delivery of the same request, the other rules can fail too.
///
/// # Errors
///
/// Returns [`WriteError::RequestIdReused`] if the request id belongs to another update, [`WriteError::NoMap`] if the update changes
/// members of a missing map, [`WriteError::Unordered`] if the time of the latest item cannot be read, and [`WriteError::Latest`] if
/// the decision needs the latest version and the latest item has no valid one, or the greatest one.
pub fn decide(update: &Update, stored: Option<&Item>) -> Result<Option<WriteOutcome>, WriteError> {
    let Some(stored) = stored else {
        return match update.expected {
            Some(ExpectedVersion::Is(version)) => Ok(Some(WriteOutcome::Conflict {
                expected: version.get(),
                latest: 0,
            })),
            _ if missing_map(&update.changes, None).is_some() => Err(no_map(update, None)),
            _ => Ok(None),
        };
    };
    let is_same = match recent_requests::entry_of(stored, &RequestHash::of(&update.request_id)) {
        Some(entry) => Some((entry.version, entry.is_of(&update.payload()))),
        // A latest item without a map has only the last request.
        None if text(stored, names::REQUEST_ID) == Some(update.request_id.as_str()) => {
            let latest = latest_of(stored)?;
            let version = match Writer::of(stored, latest) {
                Writer::Stale(version) => version,
                Writer::Own | Writer::Other => latest,
            };
            Some((version, is_payload_of(stored, update)))
        }
        None => None,
    };
    match is_same {
        Some((version, true)) => return Ok(Some(WriteOutcome::Duplicate { version })),
        Some((version, false)) => return Err(WriteError::RequestIdReused { version }),
        None => {}
    }
    if let Some(expected) = update.expected {
        let latest = latest_of(stored).ok();
        if latest.map(ExpectedVersion::Is) != Some(expected) {
            return Ok(Some(WriteOutcome::Conflict {
                expected: expected.number(),
                latest: latest.map_or(0, Version::get),
            }));
        }
    }
    // A deletion starts from an item without state, and so does an update that follows one.
    let before = Some(stored).filter(|stored| !update.deleted && !is_deleted(stored));
    match is_older(update, stored) {
        Some(false) if missing_map(&update.changes, before).is_some() => Err(no_map(update, before)),
        Some(false) => Ok(has_next_version(stored).map(|()| None)?),
        Some(true) => Ok(Some(WriteOutcome::Stale {
            version: latest_of(stored)?,
        })),
        None => Err(WriteError::Unordered {
            version: latest_of(stored)?,
        }),
    }
}

/// Returns the error of an update that changes members of a map that an item does not have.
pub(crate) fn no_map(update: &Update, item: Option<&Item>) -> WriteError {
    WriteError::NoMap {
        path: shortened(&missing_map(&update.changes, item).unwrap_or_default()).into_owned(),
    }
}

/// Returns an error if the latest item has the greatest version or a higher number. A number that is not that of a version for
/// another reason is not decided here: the request fails.
fn has_next_version(stored: &Item) -> Result<(), InvalidImage> {
    match latest_of(stored) {
        Ok(latest) if latest.get() == Version::MAX => Err(InvalidImage::LatestIsGreatest),
        Err(InvalidImage::LatestTooLarge) => Err(InvalidImage::LatestTooLarge),
        _ => Ok(()),
    }
}

/// Returns `false` if an item with the request id of an update was created by a different update.
pub fn is_payload_of(item: &Item, update: &Update) -> bool {
    text(item, names::REQUEST_PAYLOAD).is_none_or(|payload| payload == update.payload().short())
}

/// Returns `None` if the time of the latest item cannot be read. One without a time is older than every update.
fn is_older(update: &Update, stored: &Item) -> Option<bool> {
    let Some(timestamp) = update.timestamp else {
        return Some(false);
    };
    match (stored.get(names::TIMESTAMP), stored.get(names::TIME)) {
        (Some(AttributeValue::N(stored)), _) => {
            // Another program can write a fraction, or a number that is no time.
            Some(Decimal::parse(stored).ok()? > Decimal::from_i64(timestamp.get()))
        }
        // It was written when updates were not ordered by time.
        (None, Some(AttributeValue::S(time))) => Some(EpochMillis::parse_iso(time).ok()? > timestamp),
        (None, None) => Some(false),
        _ => None,
    }
}

/// Returns the latest item after the update: the result of the `UpdateItem`, except for the recent requests. A deletion, and an
/// update of a tombstone, start from an item without attributes.
///
/// # Errors
///
/// Returns [`InvalidImage`] if the latest item has an invalid version, or if there is no higher one.
pub fn apply(update: &Update, stored: Option<&Item>, stamp: &Stamp) -> Result<Item, InvalidImage> {
    let latest = match stored {
        Some(stored) if stored.contains_key(names::LATEST) => latest_of(stored)?.get(),
        _ => 0,
    };
    let next = Version::new(latest + 1).ok_or(InvalidImage::LatestIsGreatest)?.get();
    let live = stored.filter(|stored| !update.deleted && !is_deleted(stored));
    let mut item = live
        .cloned()
        .unwrap_or_else(|| Item::from(std::collections::HashMap::<_, AttributeValue>::new()));
    for name in attribution::OF_CLIENT.into_iter().chain(attribution::OF_WRITER) {
        item.remove(name);
    }
    let s = |text: &str| AttributeValue::S(text.to_owned());
    let number = |number: u64| AttributeValue::N(number.to_string());
    let recorded = stamp.time(stored);
    item.remove(names::TTL);
    item.insert(names::RECORDED_AT.to_owned(), recorded.without_ticks().value());
    item.insert(names::RECORDED_TICK.to_owned(), number(recorded.ticks().into()));
    item.insert(names::RECORDED_VERSION.to_owned(), number(next));
    item.insert(names::REQUEST_PAYLOAD.to_owned(), s(update.payload().short()));
    if let Some(sender) = &update.sender {
        item.insert(names::SENDER.to_owned(), s(sender));
    }
    if let Some(version) = update.restored_from {
        item.insert(names::RESTORED_FROM.to_owned(), number(version.get()));
    }
    let incarnation = stored.and_then(Incarnation::of);
    let incarnation = incarnation.unwrap_or_else(|| Incarnation::started_by(&update.request_id, stamp.clock()));
    item.insert(names::INCARNATION.to_owned(), incarnation.value());
    if let Some(since) = stored.and_then(|stored| stored.get(names::RECORDED_SINCE)) {
        item.insert(names::RECORDED_SINCE.to_owned(), since.clone());
    }
    item.insert(names::PK.to_owned(), s(update.entity.as_str()));
    item.insert(names::SK.to_owned(), s(LATEST_KEY));
    item.insert(names::REQUEST_ID.to_owned(), s(update.request_id.as_str()));
    item.insert(names::LATEST.to_owned(), AttributeValue::N(next.to_string()));
    if let Some(timestamp) = update.timestamp {
        item.insert(
            names::TIMESTAMP.to_owned(),
            AttributeValue::N(timestamp.get().to_string()),
        );
    }
    item.remove(names::DELETED);
    for (name, change) in &update.changes {
        match change {
            Change::Set(value) => {
                item.insert(name.clone(), value.clone());
            }
            Change::Remove => {
                item.remove(name);
            }
            Change::Update(members) => {
                if let Some(value) = item.get_mut(name) {
                    nested::apply(value, members);
                }
            }
        }
    }
    if update.deleted {
        item.insert(names::DELETED.to_owned(), AttributeValue::Bool(true));
        attribution::pack_tombstone(&mut item);
    }
    Ok(item)
}

/// Returns `true` if an update changed no state, and named no other author, reason or time than the item had before.
pub fn is_unchanged(before: &Item, after: &Item) -> bool {
    let bare = |item: &Item| {
        let mut item = item.clone();
        if let Ok(version) = latest_of(&item) {
            attribution::resolve_tombstone(&mut item, version);
        }
        let of_request = attribution::OF_REQUEST
            .into_iter()
            .chain([names::RECORDED_AT, names::INCARNATION]);
        for name in attribution::OF_WRITER
            .into_iter()
            .chain(of_request)
            .chain(attribution::OF_LATEST)
        {
            item.remove(name);
        }
        for name in attribution::OF_CLIENT {
            if !after.contains_key(name) {
                item.remove(name);
            }
        }
        item
    };
    same_item(&bare(before), &bare(after))
}

/// Returns the latest version if the update would be applied and change nothing.
pub(crate) fn unchanged_version(
    update: &Update,
    stored: &Item,
    now: RecordedAt,
) -> Result<Option<Version>, InvalidImage> {
    let applies = match decide(update, Some(stored)) {
        Err(WriteError::Latest(error)) => return Err(error),
        decided => stored.contains_key(names::LATEST) && decided == Ok(None),
    };
    let changes_nothing = applies && is_unchanged(stored, &apply(update, Some(stored), &Stamp::At(now))?);
    changes_nothing.then(|| latest_of(stored)).transpose()
}

#[cfg(test)]
mod tests;
