//! The state of a latest item, to which updates are applied.

use serde_json::{Map, Value, json};

use crate::schedule::Update;

/// Attributes of one version only, which a later update does not keep.
const OF_UPDATE: [&str; 4] = ["Actor", "Reason", "Time", "Timestamp"];

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
        let is_state = |name: &str| !OF_UPDATE.contains(&name) || update.members.get(name).is_some();
        let bare = |state: &Self| {
            let mut bare = state.attributes.clone();
            bare.retain(|name, _| name != "RequestId" && is_state(name));
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
    const OTHERS: [&str; 10] = [
        "PK",
        "SK",
        "RequestId",
        "RequestPayload",
        "Sender",
        "V0Id",
        "RecordedAt",
        "RecordedBy",
        "RecordedSince",
        "RestoredFrom",
    ];
    let mut state = item.as_object().cloned().unwrap_or_default();
    state.retain(|name, _| !OTHERS.contains(&name.as_str()) && !OF_UPDATE.contains(&name.as_str()));
    state
}
