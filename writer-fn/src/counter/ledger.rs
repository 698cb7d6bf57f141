//! Ledger: a marker item for every request, kept longer than any service redelivers a request. It detects duplicates of
//! any age, where the recent requests of the latest item detect only the last ones.

use std::collections::HashMap;

use shared::{
    domain::{
        Item,
        attributes::{self, n, s},
        keys::REQUEST_PREFIX,
        names,
        request_id::RequestId,
        version::Version,
    },
    dynamodb::{Store, write::Write},
};

use crate::{
    counter::outcome::WriteError,
    update::{Update, payload::Payload},
};

/// Attribute of a marker: the version that its request created.
pub const VERSION: &str = "Version";
/// Attribute of a marker: the hash of the update.
pub const PAYLOAD: &str = "Payload";

/// Returns the sort key of a request's marker.
pub fn sort_key(request: &RequestId) -> String {
    format!("{REQUEST_PREFIX}{}", request.as_str())
}

/// Content of a marker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Marker {
    /// Version that the request created.
    pub version: Version,
    /// Hash of the update. `None` if it was erased, because values can be guessed by it.
    pub payload: Option<Payload>,
}

impl Marker {
    /// Returns the marker's item. `expires` is in epoch seconds.
    pub fn item(&self, update: &Update, expires: u64) -> Item {
        let members = [
            (names::PK, s(update.entity.as_str())),
            (names::SK, s(sort_key(&update.request_id))),
            (VERSION, n(self.version)),
            (names::TTL, n(expires)),
        ];
        let payload = self.payload.as_ref().map(|payload| (PAYLOAD, s(payload.as_str())));
        let members = members.into_iter().chain(payload);
        let members: HashMap<_, _> = members.map(|(name, value)| (name.to_owned(), value)).collect();
        members.into()
    }

    /// Reads a marker, `None` if the item is not a marker.
    pub fn from_item(item: &Item) -> Option<Self> {
        Some(Self {
            version: attributes::version(item, VERSION)?,
            payload: attributes::text(item, PAYLOAD).map(Payload::stored),
        })
    }
}

/// Returns the version that an update's request created, if the ledger has its marker.
pub async fn version_in_ledger(store: &Store, update: &Update) -> Result<Option<Version>, WriteError> {
    let item = store.get(&update.entity, &sort_key(&update.request_id), true).await?;
    let marker = item.as_ref().and_then(Marker::from_item);
    marker.map(|marker| applied_version(update, &marker)).transpose()
}

/// Returns the marker's version, if the marker belongs to the same update, or does not show of which one it is.
///
/// # Errors
///
/// Returns [`WriteError::RequestIdReused`] if the marker belongs to another update.
pub fn applied_version(update: &Update, marker: &Marker) -> Result<Version, WriteError> {
    let version = marker.version;
    match marker
        .payload
        .as_ref()
        .is_none_or(|payload| *payload == update.payload())
    {
        true => Ok(version),
        false => Err(WriteError::RequestIdReused { version }),
    }
}

/// Returns the put of the marker, on condition that its key is free.
pub fn put(update: &Update, version: Version, expires: u64, table: &str) -> Write {
    let marker = Marker {
        version,
        payload: Some(update.payload()),
    };
    Write::insert(table, marker.item(update, expires))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use shared::{config::Ordering, domain::AttributeValue};
    use testkit::cases::cases;

    use super::*;

    fn update(json: Value) -> Update {
        Update::parse(json, "r-1", Ordering::Arrival).unwrap()
    }

    #[test]
    fn equal_updates_have_equal_payloads_and_different_ones_do_not() {
        let same = |a: Value, b: Value| update(a).payload() == update(b).payload();
        let plain = json!({"ID": "E", "A": 1, "B": {"x": 1, "y": [true, null]}});
        let same_as_plain = r#"
            {"ID": "E", "A": 1, "B": {"x": 1, "y": [true, null]}}                         -> same
            {"ID": "E", "B": {"y": [true, null], "x": 1.0}, "A": 1e0}                     -> same
            {"ID": "E", "A": 1, "B": {"x": 1, "y": [true, null]}, "RequestId": "r-2"}     -> same
            {"ID": "E", "A": 2, "B": {"x": 1, "y": [true, null]}}                         -> other
            {"ID": "E", "A": "1", "B": {"x": 1, "y": [true, null]}}                       -> other
            {"ID": "E", "A": 1, "B": {"x": 1, "y": [null, true]}}                         -> other
            {"ID": "E", "A": 1, "B": {"x": 1, "y": [true], "z": null}}                    -> other
            {"ID": "E", "A": 1, "B": null}                                                -> other
            {"ID": "E", "A": 1}                                                           -> other
            {"ID": "E", "A": 1, "B": {"x": 1, "y": [true, null]}, "Deleted": true}        -> other
            {"ID": "E", "A": 1, "B": {"x": 1, "y": [true, null]}, "ExpectedVersion": 0}   -> other
        "#;
        for (json, expected) in cases(same_as_plain) {
            assert_eq!(same(plain.clone(), json.clone()), expected == "same", "{json}");
        }
        // Values that are equal when they are concatenated.
        let value = |value: Value| json!({"ID": "E", "A": value});
        assert!(!same(value(json!(["b", "c"])), value(json!(["bc"]))));
        assert!(!same(value(json!([["b"], "c"])), value(json!([["b", "c"]]))));
    }

    #[test]
    fn a_marker_round_trips() {
        let update = update(json!({"ID": "E", "A": 1}));
        let version = Version::new(7).unwrap();
        // Without its hash, it still stands for its request.
        for payload in [Some(update.payload()), None] {
            let marker = Marker { version, payload };
            let item = marker.item(&update, 99);
            assert_eq!(item[names::SK], AttributeValue::S("request#r-1".to_owned()));
            assert_eq!(applied_version(&update, &marker).unwrap(), version);
            assert_eq!(Marker::from_item(&item), Some(marker));
        }
        assert_eq!(
            Marker::from_item(&Item::from(HashMap::<_, AttributeValue>::new())),
            None
        );
    }
}
