//! Change of the latest item's recent requests by an update, as a part of its [`Expression`].

use std::collections::HashMap;

use aws_sdk_dynamodb::types::AttributeValue as Value;

use crate::{
    domain::{
        AttributeValue, Item, names,
        recent_requests::{self, Window},
        request_id::RequestHash,
        update::{ExpectedVersion, Update},
        version::Version,
        version_item::{InvalidImage, latest_of},
    },
    dynamodb::{n, write::expression::Expression},
};

/// Form in which an update's request is stored.
#[derive(Debug, Clone, PartialEq)]
pub enum RecentRequests {
    /// Only in `RequestId`. An existing map is removed, since it would become outdated.
    LastRequest,
    /// In a marker of the ledger. An existing map is read, but not changed.
    Marker,
    /// In the existing map, which has room.
    Add {
        /// Request to add.
        hash: RequestHash,
        /// Number of entries that the map must not have reached.
        full: usize,
    },
    /// In a new map.
    Create {
        /// Request to add.
        hash: RequestHash,
        /// Latest version, `None` if there is none.
        latest: Option<Version>,
        /// Request that created the latest version, if it is known.
        last: Option<RequestHash>,
    },
    /// In the existing map, which is full: the oldest entries are removed.
    Replace {
        /// Request to add.
        hash: RequestHash,
        /// Entries to remove, with their versions.
        oldest: Vec<(String, AttributeValue)>,
        /// Number of entries that the map must not have reached.
        max: usize,
    },
}

impl RecentRequests {
    /// Returns the form that most latest items need.
    pub fn assumed(update: &Update, window: Window) -> Self {
        let hash = RequestHash::of(&update.request_id);
        match update.expected {
            _ if window == Window::LAST => Self::LastRequest,
            Some(ExpectedVersion::Absent) => Self::Create {
                hash,
                latest: None,
                last: None,
            },
            _ => Self::Add {
                hash,
                full: window.full(),
            },
        }
    }

    /// Returns the form that this latest item needs.
    ///
    /// # Errors
    ///
    /// Returns [`InvalidImage`] if the latest item has no valid version.
    pub fn fitting(update: &Update, window: Window, stored: Option<&Item>) -> Result<Self, InvalidImage> {
        if window == Window::LAST {
            return Ok(Self::LastRequest);
        }
        let hash = RequestHash::of(&update.request_id);
        let Some(requests) = stored.and_then(recent_requests::requests_of) else {
            let latest = stored.filter(|stored| stored.contains_key(names::LATEST));
            let last = latest.and_then(recent_requests::last_request);
            let latest = latest.map(latest_of).transpose()?;
            return Ok(Self::Create { hash, latest, last });
        };
        let full = window.full();
        Ok(if requests.len() < full {
            Self::Add { hash, full }
        } else {
            Self::Replace {
                hash,
                oldest: recent_requests::oldest(requests, window),
                max: window.max_entries().max(requests.len() + 1),
            }
        })
    }

    /// Adds this part to an update's expression.
    pub(crate) fn add_to(&self, expression: &mut Expression) {
        // DynamoDB evaluates the condition before it resolves the path: an item without the map fails the condition, and
        // there is no validation error.
        const HAS_ROOM: &str =
            "attribute_exists(#recent) AND attribute_not_exists(#recent.#hash) AND size(#recent) < :most";
        // Both targets of the expression get the same number.
        const THIS_VERSION: &str = "#recent.#hash = if_not_exists(#latest, :zero) + :one";
        if !matches!(self, Self::Marker) {
            expression.name("#recent", names::RECENT_REQUESTS);
        }
        let mut add = |hash: &RequestHash, max: usize| {
            expression
                .set(THIS_VERSION)
                .condition(HAS_ROOM)
                .name("#hash", hash.as_str())
                .value(":most", n(max));
        };
        match self {
            Self::Marker => {}
            Self::LastRequest => {
                expression.remove("#recent");
            }
            Self::Add { hash, full } => add(hash, *full),
            Self::Create { hash, latest, last } => {
                let next = latest.map_or(0, Version::get).saturating_add(1);
                let mut requests = HashMap::from([(hash.as_str().to_owned(), n(next))]);
                if let (Some(latest), Some(last)) = (latest, last) {
                    requests.insert(last.as_str().to_owned(), n(latest));
                }
                expression
                    .set("#recent = :requests")
                    .condition("attribute_not_exists(#recent)")
                    .value(":requests", Value::M(requests));
                match latest {
                    Some(latest) => expression.condition("#latest = :read").value(":read", n(latest)),
                    None => expression.condition("attribute_not_exists(#latest)"),
                };
            }
            Self::Replace { hash, oldest, max } => {
                add(hash, *max);
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
