//! Decides an update against the stored latest item: by the first of its [rules] that it violates.
//!
//! After a conditional check failure, the item that DynamoDB returns with it explains the failure. A transaction is planned from an item
//! that was read.

use shared::{
    domain::{
        AttributeValue, Item,
        attributes::{self, same_item, text},
        attribution::{self, WrittenBy},
        incarnation::Incarnation,
        keys::LATEST_KEY,
        names,
        recorded_at::RecordedAt,
        request_id::RequestHash,
        time::EpochMillis,
        tombstone::is_deleted,
        version::Version,
        version_item::{InvalidImage, latest_of},
    },
    dynamodb::expression::Expression,
    printable::shortened,
};

use crate::{
    counter::{
        outcome::{WriteError, WriteOutcome},
        recent_requests,
        rules::{self, Violation},
        stamp::Stamp,
    },
    update::{
        ExpectedVersion, Update,
        nested::{self, missing_map},
    },
};

/// Decides an update against the stored latest item: `None` if it creates the next version.
///
/// # Errors
///
/// Returns [`WriteError::RequestIdReused`] if the request id belongs to another update, [`WriteError::NoMap`] if the update changes
/// members of a missing map, [`WriteError::TimeUnreadable`] if the time of the latest item cannot be read, and [`WriteError::Latest`] if
/// the decision needs the latest version and the latest item has no valid one, or the greatest one.
pub fn decide(update: &Update, stored: Option<&Item>) -> Result<Option<WriteOutcome>, WriteError> {
    let mut request = Expression::default();
    request.name("#hash", RequestHash::of(&update.request_id).key());
    let mut rules = rules::of_update(update, &mut request, |_| false);
    rules.sort_by_key(|rule| rule.violation);
    for rule in rules {
        let item = match rule.violation {
            Violation::NoMap => live(update, stored),
            _ => stored,
        };
        if !rule.condition.holds(item, &request)
            && let Some(outcome) = rule.violation.outcome(update, stored)?
        {
            return Ok(Some(outcome));
        }
    }
    Ok(None)
}

/// Returns an error if an update changes members of a map that an item does not have.
pub(crate) fn check_maps(update: &Update, item: Option<&Item>) -> Result<(), WriteError> {
    match missing_map(&update.changes, item) {
        None => Ok(()),
        Some(path) => Err(WriteError::NoMap {
            path: shortened(&path).into_owned(),
        }),
    }
}

/// Returns the item whose state an update changes. A deletion starts from an item without state, and so does an update that follows one.
fn live<'a>(update: &Update, stored: Option<&'a Item>) -> Option<&'a Item> {
    stored.filter(|stored| !update.deleted && !is_deleted(stored))
}

impl Violation {
    /// Returns the outcome of an update that violates a rule on its stored latest item. `None` if another form of the request can be
    /// applied.
    fn outcome(self, update: &Update, stored: Option<&Item>) -> Result<Option<WriteOutcome>, WriteError> {
        if self == Self::NoMap {
            return check_maps(update, live(update, stored)).map(|()| None);
        }
        let none = Item::default();
        let stored = stored.unwrap_or(&none);
        match self {
            Self::Duplicate => duplicate(update, stored),
            Self::Conflict => Ok(Some(WriteOutcome::Conflict {
                expected: update.expected.map_or(0, ExpectedVersion::number),
                latest: latest_of(stored).map_or(0, Version::get),
            })),
            Self::Older => match is_older(update, stored) {
                Some(false) => Ok(None),
                Some(true) => Ok(Some(WriteOutcome::Stale {
                    version: latest_of(stored)?,
                })),
                None => Err(WriteError::TimeUnreadable {
                    version: latest_of(stored)?,
                }),
            },
            Self::Greatest => match latest_of(stored) {
                Ok(_) => Err(InvalidImage::LatestIsGreatest.into()),
                Err(InvalidImage::LatestTooLarge) => Err(InvalidImage::LatestTooLarge.into()),
                // DynamoDB rejects the calculation.
                Err(_) => Ok(None),
            },
            Self::NoMap | Self::OtherForm => Ok(None),
        }
    }
}

fn duplicate(update: &Update, stored: &Item) -> Result<Option<WriteOutcome>, WriteError> {
    let (version, is_same) = match recent_requests::entry_of(stored, &RequestHash::of(&update.request_id)) {
        Some(entry) => (entry.version, entry.is_of(&update.payload())),
        // A latest item without a map has only the last request.
        None if text(stored, names::REQUEST_ID) == Some(update.request_id.as_str()) => {
            let latest = latest_of(stored)?;
            let version = match WrittenBy::of(stored, latest) {
                WrittenBy::Stale(version) => version,
                WrittenBy::Own | WrittenBy::Other => latest,
            };
            (version, is_payload_of(stored, update))
        }
        None => return Ok(None),
    };
    match is_same {
        true => Ok(Some(WriteOutcome::Duplicate { version })),
        false => Err(WriteError::RequestIdReused { version }),
    }
}

/// Returns `false` if an item with the request id of an update was created by a different update.
pub fn is_payload_of(item: &Item, update: &Update) -> bool {
    text(item, names::REQUEST_PAYLOAD).is_none_or(|payload| payload == update.payload().short())
}

/// Returns `true` if an update is older than the latest item, which is not the case by its `Timestamp`. `None` if the time of the item
/// cannot be read.
fn is_older(update: &Update, stored: &Item) -> Option<bool> {
    match (stored.get(names::TIMESTAMP), stored.get(names::TIME)) {
        (Some(AttributeValue::N(_)), _) => Some(true),
        // It was written when updates were not ordered by time.
        (None, Some(AttributeValue::S(time))) => Some(update.timestamp < Some(EpochMillis::parse_iso(time).ok()?)),
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
    let next = Version::new(latest + 1).ok_or(InvalidImage::LatestIsGreatest)?;
    let mut item = live(update, stored).cloned().unwrap_or_default();
    for name in attribution::OF_CLIENT.into_iter().chain([names::TTL, names::DELETED]) {
        item.remove(name);
    }
    let s = |text: &str| Some(attributes::s(text));
    let n = |number: u64| Some(attributes::n(number));
    let recorded = stamp.time(stored);
    let incarnation = stored.and_then(Incarnation::of);
    let incarnation = incarnation.unwrap_or_else(|| Incarnation::started_by(&update.request_id, stamp.clock()));
    for (name, value) in [
        (names::PK, s(update.entity.as_str())),
        (names::SK, s(LATEST_KEY)),
        (names::LATEST, n(next.get())),
        (names::INCARNATION, Some(incarnation.value())),
        (names::REQUEST_ID, s(update.request_id.as_str())),
        (names::REQUEST_PAYLOAD, s(update.payload().short())),
        (names::RECORDED_AT, Some(recorded.without_ticks().value())),
        (names::RECORDED_TICK, n(recorded.ticks().into())),
        (names::RECORDED_VERSION, n(next.get())),
        (
            names::RECORDED_SINCE,
            stored.and_then(|stored| stored.get(names::RECORDED_SINCE)).cloned(),
        ),
        (names::SENDER, update.sender.as_deref().and_then(s)),
        (names::RESTORED_FROM, update.restored_from.map(Version::get).and_then(n)),
        (names::CHANGE_SET_SIZE, update.change_set_size.and_then(n)),
        (names::TIMESTAMP, update.timestamp.map(|time| attributes::n(time.get()))),
    ] {
        match value {
            Some(value) => item.insert(name.to_owned(), value),
            None => item.remove(name),
        };
    }
    nested::change(&mut item, &update.changes);
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
        let not_named = attribution::OF_CLIENT
            .into_iter()
            .filter(|name| !after.contains_key(*name));
        let of_version = [
            &attribution::OF_WRITER[..],
            &attribution::OF_REQUEST,
            &attribution::OF_LATEST,
        ]
        .concat();
        for name in of_version
            .into_iter()
            .chain([names::RECORDED_AT, names::INCARNATION])
            .chain(not_named)
        {
            item.remove(name);
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
