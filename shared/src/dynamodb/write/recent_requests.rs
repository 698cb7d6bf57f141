//! What an update changes of the latest item's memory of requests: a part of its expressions.

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

/// How an update's request is remembered.
#[derive(Debug, Clone, PartialEq)]
pub enum RecentRequests {
    /// By `RequestId` alone, which every latest item has. A map from before would only grow old.
    LastRequest,
    /// By its marker. A map from before is still looked at, and left as it is.
    Marker,
    /// In the map, which is there and has room.
    Add {
        /// The request.
        hash: RequestHash,
        /// How many requests the map may not hold yet.
        full: usize,
    },
    /// In a map of its own: there is none yet.
    Begin {
        /// The request.
        hash: RequestHash,
        /// The latest version, `None` where there is none.
        latest: Option<Version>,
        /// The request that made it, where the latest item says so.
        last: Option<RequestHash>,
    },
    /// In the map, which is full: the oldest are forgotten for it.
    Forget {
        /// The request.
        hash: RequestHash,
        /// What is forgotten, each with its version.
        oldest: Vec<(String, AttributeValue)>,
        /// How many requests the map may not hold yet.
        most: usize,
    },
}

impl RecentRequests {
    /// What most latest items need.
    pub fn presumed(update: &Update, window: Window) -> Self {
        let hash = RequestHash::of(&update.request_id);
        match update.expected {
            _ if window == Window::LAST => Self::LastRequest,
            Some(ExpectedVersion::Absent) => Self::Begin {
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

    /// What this latest item needs.
    pub fn fitting(update: &Update, window: Window, stored: Option<&Item>) -> Result<Self, InvalidImage> {
        if window == Window::LAST {
            return Ok(Self::LastRequest);
        }
        let hash = RequestHash::of(&update.request_id);
        let Some(requests) = stored.and_then(recent_requests::requests_of) else {
            let latest = stored.filter(|stored| stored.contains_key(names::LATEST));
            let last = latest.and_then(recent_requests::last_request);
            let latest = latest.map(latest_of).transpose()?;
            return Ok(Self::Begin { hash, latest, last });
        };
        let full = window.full();
        Ok(if requests.len() < full {
            Self::Add { hash, full }
        } else {
            Self::Forget {
                hash,
                oldest: recent_requests::oldest(requests, window),
                most: window.max_entries().max(requests.len() + 1),
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
            Self::Begin { hash, latest, last } => {
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
            Self::Forget { hash, oldest, most } => {
                add(hash, *most);
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
