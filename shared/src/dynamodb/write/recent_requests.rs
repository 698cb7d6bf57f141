//! What an update changes of the latest item's memory of requests: a part of its expressions.

use std::collections::HashMap;

use aws_sdk_dynamodb::{operation::update_item::builders::UpdateItemInputBuilder, types::AttributeValue as Value};

use crate::{
    domain::{
        AttributeValue, Item, names,
        recent::{self, Window},
        request_id::RequestHash,
        update::{ExpectedVersion, Update},
        version::Version,
        version_item::{InvalidImage, latest_of},
    },
    dynamodb::n,
};

/// How an update's request is remembered.
#[derive(Debug, Clone, PartialEq)]
pub enum Memory {
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

impl Memory {
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
        let Some(requests) = stored.and_then(recent::remembered) else {
            let latest = stored.filter(|stored| stored.contains_key(names::LATEST));
            let last = latest.and_then(recent::last_request);
            let latest = latest.map(latest_of).transpose()?;
            return Ok(Self::Begin { hash, latest, last });
        };
        let full = window.full();
        Ok(if requests.len() < full {
            Self::Add { hash, full }
        } else {
            Self::Forget {
                hash,
                oldest: recent::oldest(requests, window),
                most: window.most().max(requests.len() + 1),
            }
        })
    }

    /// Adds its part to an update's expressions.
    pub(crate) fn express(
        &self,
        builder: UpdateItemInputBuilder,
        set: &mut Vec<String>,
        remove: &mut Vec<String>,
        condition: &mut Vec<String>,
    ) -> UpdateItemInputBuilder {
        // The condition is judged before the path is: an item without the map fails it, and is no validation error.
        const REMEMBERS: &str =
            "attribute_exists(#recent) AND attribute_not_exists(#recent.#hash) AND size(#recent) < :most";
        // Both targets of the expression get the same number.
        const THIS_VERSION: &str = "#recent.#hash = if_not_exists(#latest, :zero) + :one";
        let named = |builder: UpdateItemInputBuilder, hash: &RequestHash, most: usize| {
            builder
                .expression_attribute_names("#recent", names::RECENT_REQUESTS)
                .expression_attribute_names("#hash", hash.as_str())
                .expression_attribute_values(":most", n(most))
        };
        match self {
            Self::Marker => builder,
            Self::LastRequest => {
                remove.push("#recent".to_owned());
                builder.expression_attribute_names("#recent", names::RECENT_REQUESTS)
            }
            Self::Add { hash, full } => {
                set.push(THIS_VERSION.to_owned());
                condition.push(REMEMBERS.to_owned());
                named(builder, hash, *full)
            }
            Self::Begin { hash, latest, last } => {
                let next = latest.map_or(0, Version::get).saturating_add(1);
                let mut requests = HashMap::from([(hash.as_str().to_owned(), n(next))]);
                if let (Some(latest), Some(last)) = (latest, last) {
                    requests.insert(last.as_str().to_owned(), n(latest));
                }
                let requests = Value::M(requests);
                set.push("#recent = :requests".to_owned());
                condition.push("attribute_not_exists(#recent)".to_owned());
                let builder = builder
                    .expression_attribute_names("#recent", names::RECENT_REQUESTS)
                    .expression_attribute_values(":requests", requests);
                if let Some(latest) = latest {
                    condition.push("#latest = :read".to_owned());
                    builder.expression_attribute_values(":read", n(latest))
                } else {
                    condition.push("attribute_not_exists(#latest)".to_owned());
                    builder
                }
            }
            Self::Forget { hash, oldest, most } => {
                set.push(THIS_VERSION.to_owned());
                condition.push(REMEMBERS.to_owned());
                let mut builder = named(builder, hash, *most);
                for (index, (hash, version)) in oldest.iter().enumerate() {
                    let (name, value) = (format!("#f{index}"), format!(":f{index}"));
                    remove.push(format!("#recent.{name}"));
                    // Others may forget it too, or have applied that request again since.
                    condition.push(format!(
                        "(attribute_not_exists(#recent.{name}) OR #recent.{name}={value})"
                    ));
                    builder = builder
                        .expression_attribute_names(name, hash)
                        .expression_attribute_values(value, version.clone().into());
                }
                builder
            }
        }
    }
}
