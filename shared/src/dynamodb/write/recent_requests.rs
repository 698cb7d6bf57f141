//! Change of the latest item's recent requests by an update, as a part of its [`Expression`].

use std::collections::HashMap;

use aws_sdk_dynamodb::types::AttributeValue as Value;

use crate::{
    domain::{
        AttributeValue, Item,
        attribution::Writer,
        names,
        payload::Payload,
        recent_requests::{self, Checkpoint, Entry, Window},
        recorded_at::RecordedAt,
        request_id::RequestHash,
        time::EpochMillis,
        update::{ExpectedVersion, Update, nested},
        version::Version,
        version_item::{InvalidImage, latest_of},
    },
    dynamodb::{n, write::expression::Expression},
};

/// Form in which an update's request is stored.
#[derive(Debug, Clone, PartialEq)]
pub enum RecentRequests {
    /// In a marker of the ledger. An existing map is read but not changed, and is complete only since this update.
    Marker {
        /// Time after the update.
        since: EpochMillis,
    },
    /// In the existing map, which has room.
    Add {
        /// Request to add.
        request: Request,
        /// Number of entries that the map must not have reached.
        full: usize,
    },
    /// In a new map.
    Create {
        /// Request to add.
        request: Request,
        /// Latest version, `None` if there is none.
        latest: Option<Version>,
        /// Request that created the latest version, if it is known.
        last: Option<RequestHash>,
        /// Time since which the map is complete, if there are versions that it does not have.
        since: Option<EpochMillis>,
    },
    /// In the existing map, which is full: the oldest entries are removed.
    Replace {
        /// Request to add.
        request: Request,
        /// Entries to remove, with their values.
        oldest: Vec<(String, AttributeValue)>,
        /// Number of entries that the map must not have reached.
        max: usize,
        /// Time since which the map is complete without these entries.
        since: EpochMillis,
        /// Next checkpoint.
        checkpoint: Checkpoint,
    },
}

/// Request to add, with the payload of its update.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    hash: RequestHash,
    payload: Payload,
}

impl Request {
    /// Returns the request of an update.
    pub fn of(update: &Update) -> Self {
        Self {
            hash: RequestHash::of(&update.request_id),
            payload: update.payload(),
        }
    }
}

impl RecentRequests {
    /// Returns the form that most latest items need.
    pub fn assumed(update: &Update, window: Window) -> Self {
        let request = Request::of(update);
        match update.expected {
            Some(ExpectedVersion::Absent) => Self::Create {
                request,
                latest: None,
                last: None,
                since: None,
            },
            _ => Self::assumed_existing(update, window),
        }
    }

    /// Returns the form that most existing latest items need.
    pub fn assumed_existing(update: &Update, window: Window) -> Self {
        Self::Add {
            request: Request::of(update),
            full: window.full(),
        }
    }

    /// Returns the form that this latest item needs, for an update at a time.
    ///
    /// # Errors
    ///
    /// Returns [`InvalidImage`] if the latest item has no valid version.
    pub fn fitting(
        update: &Update,
        window: Window,
        now: RecordedAt,
        stored: Option<&Item>,
    ) -> Result<Self, InvalidImage> {
        let request = Request::of(update);
        let latest = stored.filter(|stored| stored.contains_key(names::LATEST));
        let Some((stored, requests)) = latest.and_then(|latest| Some((latest, recent_requests::requests_of(latest)?)))
        else {
            let version = latest.map(latest_of).transpose()?;
            // If another program wrote the latest version, the request belongs to an older one.
            let is_current = |(item, version)| !matches!(Writer::of(item, version), Writer::Stale(_));
            let last = latest.filter(|item| version.is_some_and(|version| is_current((*item, version))));
            let last = last.and_then(recent_requests::last_request);
            let recorded = latest.and_then(RecordedAt::of_latest);
            let since = latest.map(|_| recorded.map_or(now, |recorded| recorded.max(now)).next_milli());
            let latest = version;
            return Ok(Self::Create {
                request,
                latest,
                last,
                since,
            });
        };
        if requests.len() < window.full() {
            // Concurrent updates can fill the map meanwhile.
            let full = window.max_entries();
            return Ok(Self::Add { request, full });
        }
        let mut oldest = recent_requests::oldest(requests, window);
        // The conditions of maps need a part of the expression.
        oldest.truncate(recent_requests::MAX_REMOVED.saturating_sub(nested::maps(&update.changes)));
        let checkpoint = Checkpoint::at(stored, latest_of(stored)?, now);
        Ok(Self::Replace {
            request,
            max: window.max_entries().max(requests.len() + 1),
            since: recent_requests::since_after_removal(stored, &oldest, checkpoint),
            oldest,
            checkpoint,
        })
    }

    /// Returns the payload of the update, `None` if the form does not contain it.
    pub(crate) fn payload(&self) -> Option<&Payload> {
        match self {
            Self::Marker { .. } => None,
            Self::Add { request, .. } | Self::Create { request, .. } | Self::Replace { request, .. } => {
                Some(&request.payload)
            }
        }
    }

    /// Returns `true` if the conditions of this part hold for the stored latest item.
    pub(crate) fn holds_for(&self, stored: Option<&Item>) -> bool {
        let requests = stored.and_then(recent_requests::requests_of);
        let latest_stored = stored.filter(|stored| stored.contains_key(names::LATEST));
        let has_room = |max: usize| latest_stored.is_some() && requests.is_some_and(|requests| requests.len() < max);
        match self {
            Self::Marker { .. } => true,
            Self::Add { full, .. } => has_room(*full),
            Self::Create { latest: None, .. } => latest_stored.is_none(),
            Self::Create { latest, .. } => {
                requests.is_none() && stored.and_then(|stored| latest_of(stored).ok()) == *latest
            }
            Self::Replace { max, oldest, since, .. } => {
                let is_same = |(hash, value): &(String, AttributeValue)| {
                    let current = requests.and_then(|requests| requests.get(hash));
                    current.is_none_or(|current| current == value)
                };
                let stored_since = stored.and_then(recent_requests::since);
                has_room(*max)
                    && oldest.iter().all(is_same)
                    && stored_since.is_none_or(|stored_since| stored_since <= *since)
            }
        }
    }

    /// Adds this part to an update's expression.
    pub(crate) fn add_to(&self, expression: &mut Expression) {
        // DynamoDB evaluates the condition before it resolves the path: an item without the map fails the condition, and
        // there is no validation error.
        const HAS_ROOM: &str = "attribute_exists(#latest) AND attribute_exists(#recent) AND \
                                attribute_not_exists(#recent.#hash) AND size(#recent) < :most";
        // The latest version is increased by the same expression, and by 1 too.
        const THIS_VERSION: &str = "#recent.#hash = if_not_exists(#latest, :zero) + :entry";
        const SINCE: &str = "#since = :since";
        if !matches!(self, Self::Marker { .. }) {
            expression.name("#recent", names::RECENT_REQUESTS);
        }
        let add = |expression: &mut Expression, request: &Request, max: usize| {
            expression
                .set(THIS_VERSION)
                .condition(HAS_ROOM)
                .name("#hash", request.hash.key())
                .value(":entry", n(Entry::increment(&request.payload)))
                .value(":most", n(max));
        };
        let set_since = |expression: &mut Expression, since: &EpochMillis| {
            expression
                .set(SINCE)
                .name("#since", names::REQUESTS_SINCE)
                .value(":since", n(since.get()));
        };
        match self {
            Self::Marker { since } => set_since(expression, since),
            Self::Add { request, full } => add(expression, request, *full),
            Self::Create {
                request,
                latest,
                last,
                since,
            } => {
                let entry = |version: u64, check: u32| {
                    let version = Version::new(version).unwrap_or(Version::FIRST);
                    Value::from(Entry { version, check }.value())
                };
                let next = latest.map_or(0, Version::get).saturating_add(1);
                let mut requests =
                    HashMap::from([(request.hash.key().to_owned(), entry(next, request.payload.check()))]);
                if let (Some(latest), Some(last)) = (latest, last) {
                    requests.insert(last.key().to_owned(), entry(latest.get(), 0));
                }
                expression
                    .set("#recent = :requests")
                    .value(":requests", Value::M(requests));
                match latest {
                    Some(latest) => expression
                        .condition("attribute_not_exists(#recent) AND #latest = :read")
                        .value(":read", n(latest)),
                    None => expression.condition("attribute_not_exists(#latest)"),
                };
                if let Some(since) = since {
                    set_since(expression, since);
                }
            }
            Self::Replace {
                request,
                oldest,
                max,
                since,
                checkpoint,
            } => {
                add(expression, request, *max);
                set_since(expression, since);
                expression
                    .condition("(attribute_not_exists(#since) OR #since <= :since)")
                    .set("#checkpoint = :checkpoint")
                    .name("#checkpoint", names::REQUESTS_CHECKPOINT)
                    .value(":checkpoint", checkpoint.value().into());
                for (index, (hash, version)) in oldest.iter().enumerate() {
                    let (name, value) = (format!("#f{index}"), format!(":f{index}"));
                    // A concurrent update may remove the same entry, or may have applied that request again.
                    expression
                        .remove(format!("#recent.{name}"))
                        .condition(format!(
                            "(attribute_not_exists(#recent.{name}) OR #recent.{name}={value})"
                        ))
                        .name(name, hash)
                        .value(value, version.clone().into());
                }
            }
        }
    }
}
