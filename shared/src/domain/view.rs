//! Views of versions, for readers.

use serde_json::{Map, Value, json};

use super::{
    AttributeValue, Item,
    attributes::{same_value, text},
    entity::EntityId,
    names,
    number::Decimal,
    plain,
    time::{EpochMillis, InvalidTime},
    version::Version,
};
use std::collections::BTreeMap;

/// One version of an entity, without its [`BOOKKEEPING`] attributes.
#[derive(Clone, PartialEq)]
pub struct VersionView {
    /// Entity of the version.
    pub entity: EntityId,
    /// Number of the version.
    pub version: Version,
    /// `true` if the version is a tombstone.
    pub deleted: bool,
    /// Idempotency key of the update that created it.
    pub request_id: Option<String>,
    /// Attributes of the version.
    pub attributes: Item,
}

/// Bookkeeping attributes, which views leave out.
pub const BOOKKEEPING: [&str; 8] = [
    names::PK,
    names::SK,
    names::LATEST,
    names::REQUEST_ID,
    names::RECENT_REQUESTS,
    names::DELETED,
    names::TTL,
    names::PINNED,
];

impl VersionView {
    /// Creates the view of a version item or of a latest item.
    pub fn new(entity: EntityId, version: Version, mut item: Item) -> Self {
        let deleted = is_deleted(&item);
        let request_id = text(&item, names::REQUEST_ID).map(str::to_owned);
        for name in BOOKKEEPING {
            item.remove(name);
        }
        Self {
            entity,
            version,
            deleted,
            request_id,
            attributes: item,
        }
    }

    /// Returns `{"ID": …, "Version": 3, "Deleted": false, "Attributes": {…}}`, with the attributes in [plain] JSON.
    pub fn to_json(&self) -> Value {
        json!({
            "ID": self.entity.as_str(),
            "Version": self.version,
            "Deleted": self.deleted,
            "Attributes": plain::attributes(&self.attributes),
        })
    }

    /// Returns the time of the version, see [`time_of`].
    ///
    /// # Errors
    ///
    /// Returns [`NoTime`] if it has neither a valid `Timestamp` nor a valid `Time`.
    pub fn time(&self) -> Result<EpochMillis, NoTime> {
        time_of(&self.attributes)
    }
}

/// Returns `true` if an item is a tombstone.
pub fn is_deleted(item: &Item) -> bool {
    item.get(names::DELETED) == Some(&AttributeValue::Bool(true))
}

/// Returns the time of a version: the later one of `Timestamp` and `Time`. An update can set only one of them, and the other
/// keeps its older value.
///
/// # Errors
///
/// Returns [`NoTime`] if the item has neither a valid `Timestamp` nor a valid `Time`.
pub fn time_of(item: &Item) -> Result<EpochMillis, NoTime> {
    let timestamp = match item.get(names::TIMESTAMP) {
        Some(AttributeValue::N(millis)) => Decimal::parse(millis).ok().and_then(|millis| millis.to_i64()),
        _ => None,
    };
    let timestamp = timestamp.map(EpochMillis::new);
    match item.get(names::TIME) {
        Some(AttributeValue::S(text)) => match EpochMillis::parse_iso(text) {
            Ok(time) => Ok(timestamp.map_or(time, |timestamp| timestamp.max(time))),
            Err(error) => timestamp.ok_or(NoTime::Time(error)),
        },
        _ => timestamp.ok_or(NoTime::Absent),
    }
}

/// Reason why a version has no known time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NoTime {
    /// `Timestamp` and `Time` are missing or invalid.
    #[error("it has neither a Timestamp nor a Time that can be read")]
    Absent,
    /// `Time` is not a time.
    #[error("its Time cannot be read")]
    Time(#[from] InvalidTime),
}

/// Difference between two versions.
#[derive(Clone, PartialEq)]
pub struct Diff {
    from: VersionView,
    to: VersionView,
}

impl Diff {
    /// Compares two versions of one entity, in any order.
    pub fn new(from: VersionView, to: VersionView) -> Self {
        Self { from, to }
    }

    /// Returns `{"ID", "From", "To", "Added": {…}, "Removed": {…}, "Changed": {name: {"From": …, "To": …}}}`. A deletion or
    /// its reversal is shown as a change of the attribute `Deleted`.
    pub fn to_json(&self) -> Value {
        let (from, to) = (with_deleted(&self.from), with_deleted(&self.to));
        let only_in =
            |item: &BTreeMap<&String, &AttributeValue>, other: &BTreeMap<&String, &AttributeValue>| -> Map<_, _> {
                let only = item.iter().filter(|(name, _)| !other.contains_key(*name));
                only.map(|(name, value)| ((*name).clone(), plain::attribute(value)))
                    .collect()
            };
        let changed = from.iter().filter_map(|(name, before)| {
            let after = to.get(name).filter(|after| !same_value(before, after))?;
            Some((
                (*name).clone(),
                json!({"From": plain::attribute(before), "To": plain::attribute(after)}),
            ))
        });
        json!({
            "ID": self.from.entity.as_str(),
            "From": self.from.version,
            "To": self.to.version,
            "Added": only_in(&to, &from),
            "Removed": only_in(&from, &to),
            "Changed": changed.collect::<Map<_, _>>(),
        })
    }
}

fn with_deleted(view: &VersionView) -> BTreeMap<&String, &AttributeValue> {
    static DELETED: std::sync::LazyLock<String> = std::sync::LazyLock::new(|| names::DELETED.to_owned());
    static TRUE: AttributeValue = AttributeValue::Bool(true);
    view.attributes
        .iter()
        .chain(view.deleted.then_some((&*DELETED, &TRUE)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn view(version: u64, item: Value) -> VersionView {
        let item = serde_json::from_value(item).unwrap();
        VersionView::new(EntityId::new("E").unwrap(), Version::new(version).unwrap(), item)
    }

    #[test]
    fn a_view_has_no_bookkeeping_attributes() {
        let item = json!({
            "PK": {"S": "E"}, "SK": {"S": "v3"}, "RequestId": {"S": "r"}, "Deleted": {"BOOL": true},
            "RecentRequests": {"M": {"hash": {"N": "3"}}},
            "B": {"N": "1.50"}, "A": {"NULL": true}, "C": {"L": [{"NULL": true}]},
        });
        let expected = r#"{"ID":"E","Version":3,"Deleted":true,"Attributes":{"A":{"$null":true},"B":1.50,"C":[null]}}"#;
        assert_eq!(
            view(3, item).to_json(),
            serde_json::from_str::<Value>(expected).unwrap()
        );
    }

    #[test]
    fn a_diff_names_what_was_added_removed_and_changed() {
        let from = view(
            2,
            json!({"Same": {"N": "1"}, "Gone": {"S": "x"}, "State": {"S": "OK"}, "RequestId": {"S": "a"}}),
        );
        let to = view(
            5,
            json!({"Same": {"N": "1.0"}, "New": {"S": "y"}, "State": {"S": "BAD"}, "Deleted": {"BOOL": true}}),
        );
        let expected = json!({
            "ID": "E", "From": 2, "To": 5, "Added": {"New": "y", "Deleted": true}, "Removed": {"Gone": "x"},
            "Changed": {"State": {"From": "OK", "To": "BAD"}},
        });
        assert_eq!(Diff::new(from.clone(), to.clone()).to_json(), expected);
        let back = Diff::new(to, from).to_json();
        assert_eq!(back["Removed"], expected["Added"]);
        assert_eq!(back["Changed"]["State"], json!({"From": "BAD", "To": "OK"}));
    }

    #[test]
    fn the_time_of_a_version() {
        let time = |item: Value| view(1, item).time().map(EpochMillis::get);
        let both = |time: &str, timestamp: &str| json!({"Time": {"S": time}, "Timestamp": {"N": timestamp}});
        assert_eq!(time(json!({"Time": {"S": "1970-01-01T00:00:01"}})), Ok(1000));
        assert_eq!(time(json!({"Timestamp": {"N": "7"}})), Ok(7));
        // An update that sets only one of them keeps the other.
        assert_eq!(time(both("1970-01-01T00:00:01", "7")), Ok(1000));
        assert_eq!(time(both("1970-01-01T00:00:01", "7000")), Ok(7000));
        assert_eq!(time(both("soon", "7")), Ok(7));
        assert_eq!(time(json!({})), Err(NoTime::Absent));
        assert_eq!(time(json!({"Time": {"S": "soon"}})), Err(NoTime::Time(InvalidTime)));
        assert_eq!(time(json!({"Timestamp": {"N": "1e99"}})), Err(NoTime::Absent));
    }
}
