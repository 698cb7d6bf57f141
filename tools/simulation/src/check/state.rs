//! The state of a latest item, to which updates are applied, and what its records say about a version.

use serde_json::{Map, Value, json};
use writer_fn::update::RESERVED;

use crate::{
    requests::text,
    schedule::{Origin, Update},
};

/// Attributes of one version only, which a later update does not keep.
const OF_UPDATE: [&str; 5] = ["Actor", "Reason", "ChangeSet", "Time", "Timestamp"];

/// Returns `true` for an attribute that is no state, but names the update of a version.
fn is_of_version(name: &str) -> bool {
    name == "RequestId" || OF_UPDATE.contains(&name)
}

#[derive(Debug, Clone, Default)]
pub(super) struct State {
    /// Number of records in the stream from which it holds.
    pub(super) since: usize,
    /// 0 if there is no latest item.
    pub(super) version: u64,
    /// Attributes without keys and bookkeeping.
    pub(super) attributes: Map<String, Value>,
}

impl State {
    /// Returns `true` if an update is older than the state.
    pub(super) fn is_later_than(&self, update: &Update) -> bool {
        let stored = self.attributes.get("Timestamp");
        let stored = stored.and_then(|value| value["N"].as_str()?.parse::<u64>().ok());
        stored > update.members["Timestamp"].as_u64()
    }

    /// Returns `true` if an update expects another version.
    pub(super) fn conflicts_with(&self, update: &Update) -> bool {
        let expected = update.members.get("ExpectedVersion").and_then(Value::as_u64);
        expected.is_some_and(|expected| expected != self.version)
    }

    /// Returns `true` if an update changes nothing.
    pub(super) fn is_unchanged_by(&self, update: &Update) -> bool {
        let mut after = self.clone();
        after.apply(update);
        let bare = |state: &Self| {
            let mut bare = state.attributes.clone();
            bare.retain(|name, _| !is_of_version(name) || update.members.get(name).is_some());
            bare
        };
        self.version > 0 && bare(self) == bare(&after)
    }

    /// Ends the state that an update does not start from: a deletion and the update after one start from an empty item.
    fn end(&mut self, update: &Update) {
        let deleted = self.attributes.get("Deleted");
        if deleted.is_some_and(|value| value["BOOL"] == true) || update.members["Deleted"] == true {
            self.attributes.clear();
        }
    }

    pub(super) fn apply(&mut self, update: &Update) {
        self.end(update);
        for name in OF_UPDATE.iter().chain(&["Deleted", "RestoredFrom"]) {
            self.attributes.remove(*name);
        }
        let members = update.members.as_object().into_iter().flatten();
        for (name, value) in members.filter(|(name, _)| *name != "ExpectedVersion") {
            set_member(&mut self.attributes, name, value);
        }
        self.attributes.insert("RequestId".to_owned(), json!({"S": update.id}));
    }

    /// Returns `true` if an update changes members of a map that does not exist.
    pub(super) fn has_no_map_for(&self, update: &Update) -> bool {
        let mut before = self.clone();
        before.end(update);
        let mut members = update.members.as_object().into_iter().flatten();
        members.any(|(name, value)| !set_member(&mut before.attributes, name, value))
    }
}

/// Sets, removes or updates (`{"$update": {…}}`) a member of a map in DynamoDB JSON. Returns `false` if an update has no map to change.
fn set_member(map: &mut Map<String, Value>, name: &str, value: &Value) -> bool {
    let update = value.as_object().filter(|object| object.len() == 1);
    if let Some(members) = update.and_then(|object| object.get("$update")?.as_object()) {
        let Some(Value::Object(map)) = map.get_mut(name).and_then(|map| map.get_mut("M")) else {
            return false;
        };
        return members.iter().all(|(name, value)| set_member(map, name, value));
    }
    match value {
        Value::Null => map.remove(name),
        value => map.insert(name.to_owned(), typed(value)),
    };
    true
}

/// Returns a value in DynamoDB JSON.
fn typed(value: &Value) -> Value {
    match value {
        Value::Number(number) => json!({"N": number.to_string()}),
        Value::Bool(value) => json!({"BOOL": value}),
        Value::Array(values) => json!({"L": values.iter().map(typed).collect::<Vec<_>>()}),
        Value::Object(members) => {
            let members = members.iter().map(|(name, value)| (name.clone(), typed(value)));
            json!({"M": members.collect::<Map<_, _>>()})
        }
        value => json!({"S": value}),
    }
}

/// Returns the attributes of an item that a restore copies.
pub(super) fn restorable(item: &Value) -> Map<String, Value> {
    let mut state = item.as_object().cloned().unwrap_or_default();
    state.retain(|name, _| !RESERVED.contains(&name.as_str()) && !is_of_version(name));
    state
}

/// Returns the senders that a version of an update can have. A direct invocation has none.
pub(super) fn senders(update: &Update) -> Vec<String> {
    let (source, sender) = (format!("source-of-{}", update.id), format!("sender-of-{}", update.id));
    match update.origin {
        Origin::Client | Origin::TimedClient | Origin::LedgerClient | Origin::Invocation => vec![String::new(), sender],
        // A client can repeat it after the faults.
        Origin::Message => vec![sender, String::new()],
        Origin::Event => vec![format!("{source} via {sender}"), source],
    }
}

/// Returns the attributes of an image without keys and the attributes that no update names. A tombstone of writer-fn has only the
/// state that its deletion set: other attributes can be removed from it later.
pub(super) fn plain(image: &Value) -> Map<String, Value> {
    const OF_VERSIONS: [&str; 3] = ["RecordedBy", "RestoredFrom", "Pinned"];
    let mut plain = image.as_object().cloned().unwrap_or_default();
    let state = plain.remove("TombstoneState").unwrap_or_default();
    plain.retain(|name, _| !RESERVED.contains(&name.as_str()) || OF_VERSIONS.contains(&name.as_str()));
    if image["Deleted"]["BOOL"] == true {
        let is_own = image["RecordedVersion"]["N"] == image["Latest"]["N"];
        plain.retain(|name, _| !is_own || is_of_version(name) || ["Deleted", "RestoredFrom"].contains(&name.as_str()));
        plain.extend(state["M"].as_object().cloned().unwrap_or_default());
    }
    plain
}

/// Returns the version item of an image, without `RecordedAt` if another program wrote it.
pub(super) fn version_item(image: &Value, key: &str, is_own: bool) -> Value {
    let mut item = plain(image);
    item.insert("PK".to_owned(), image["PK"].clone());
    item.insert("SK".to_owned(), json!({"S": key}));
    let of_writer: &[_] = if is_own {
        &["RequestPayload", "Sender", "ChangeSetSize"]
    } else {
        &[]
    };
    for name in ["V0Id", "RecordedSince"].iter().chain(of_writer) {
        if let Some(value) = image.get(*name) {
            item.insert((*name).to_owned(), value.clone());
        }
    }
    if is_own {
        let ticks: u16 = text(image, "/RecordedTick/N").parse().unwrap_or(0);
        let micros = text(image, "/RecordedAt/S").strip_suffix("000Z").unwrap_or_default();
        item.insert("RecordedAt".to_owned(), json!({"S": format!("{micros}{ticks:03}Z")}));
    } else {
        item.retain(|name, _| !is_of_version(name));
        item.insert("RecordedBy".to_owned(), json!({"S": "stream"}));
    }
    Value::Object(item)
}
