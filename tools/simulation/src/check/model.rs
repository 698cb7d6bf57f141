//! The model: the states of each latest item when the same updates are applied one by one.
//!
//! The order of the updates is that of the records in the table's stream, and the sender of each write is known. What a version
//! must contain follows from the updates alone: each has an attribute of its own, `Mark`.

use std::collections::{BTreeMap, HashMap};

use serde_json::{Map, Value, json};
use shared::domain::{keys::LATEST_KEY, marks::MARKS, version::Version};

use super::{
    Check,
    record::{created, plain, senders, version_item},
    sequence_number,
};
use crate::{
    caller::Author,
    commands::LAG,
    requests::text,
    schedule::{MALFORMED, Update},
    stream::Written,
};

/// A version: what the latest item was after an update.
pub(super) struct Image<'a> {
    pub(super) number: &'a str,
    /// Index of its record in the stream.
    pub(super) index: usize,
    /// Time of its record in seconds since 1970.
    created: Option<u64>,
    /// Number of times that the latest item had been deleted, except after its expiry.
    pub(super) era: usize,
    /// Number of times that the latest item had been deleted, with its recent requests.
    pub(super) deletions: usize,
    pub(super) version: u64,
    /// Request that created the version, `None` if another program or an operator did.
    pub(super) request: Option<&'a str>,
    /// Request id in it. A repair gives the version of a request another number.
    pub(super) carries: &'a str,
    /// `true` if a command of an operator wrote it.
    pub(super) by_operator: bool,
    /// Version item. Without `RecordedAt` if it comes from the stream.
    pub(super) item: Value,
}

impl Image<'_> {
    pub(super) fn recorded_at(&self) -> &str {
        text(&self.item, "/RecordedAt/S")
    }

    /// Returns `true` if a repair began a new sequence of times with it.
    pub(super) fn begins_times(&self) -> bool {
        text(&self.item, "/RecordedSince/N") == self.version.to_string()
    }

    /// Returns `true` if an item is the version item of the image, whatever its time from the stream.
    pub(super) fn is_stored_as(&self, item: &Value) -> bool {
        let mut item = item.clone();
        let Some(members) = item.as_object_mut() else {
            return false;
        };
        // The marks of operators: pruned versions expire, pinned ones do not.
        members.retain(|name, _| !MARKS.contains(&name.as_str()));
        if self.by_operator {
            return true;
        }
        let mut expected = self.item.clone();
        if self.request.is_none() {
            // The time of the stream, which a repair from the latest item does not know.
            members.remove("RecordedAt");
            if let Some(expected) = expected.as_object_mut().filter(|_| !members.contains_key("RecordedBy")) {
                expected.remove("RecordedBy");
            }
        }
        item == expected
    }
}

/// State of a latest item.
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
        let bare = |attributes: &Map<String, Value>| {
            let mut bare = attributes.clone();
            bare.retain(|name, _| {
                name != "RequestId" && (!OF_UPDATE.contains(&name.as_str()) || update.members.get(name).is_some())
            });
            bare
        };
        self.version > 0 && bare(&self.attributes) == bare(&after.attributes)
    }

    /// Ends the state that an update does not start from: a deletion and the update after one start from an empty item.
    fn end(&mut self, update: &Update) {
        let is_deleted = self
            .attributes
            .get("Deleted")
            .is_some_and(|value| value["BOOL"] == true);
        if is_deleted || update.members["Deleted"] == true {
            self.attributes.clear();
        }
    }

    fn apply(&mut self, update: &Update) {
        self.end(update);
        for name in OF_UPDATE.iter().chain(&["Deleted", "RestoredFrom"]) {
            self.attributes.remove(*name);
        }
        for (name, value) in update.members.as_object().into_iter().flatten() {
            let value = match value {
                _ if name == "ExpectedVersion" => continue,
                Value::Null => {
                    self.attributes.remove(name);
                    continue;
                }
                value => match members_to_update(value) {
                    Some(members) => {
                        update_members(self.attributes.get_mut(name), members);
                        continue;
                    }
                    None => typed(value),
                },
            };
            self.attributes.insert(name.clone(), value);
        }
        self.attributes.insert("RequestId".to_owned(), json!({"S": update.id}));
    }

    /// Returns `true` if an update changes members of a map that does not exist.
    pub(super) fn has_no_map_for(&self, update: &Update) -> bool {
        let mut before = self.clone();
        before.end(update);
        let mut after = before.attributes;
        let members = update.members.as_object().into_iter().flatten();
        let mut nested = members.filter_map(|(name, value)| Some((name, members_to_update(value)?)));
        nested.any(|(name, members)| !update_members(after.get_mut(name), members))
    }
}

/// Returns `true` if a record can be the removal of attributes from a tombstone, which creates no version.
fn is_removal(record: &Value, number: Option<u64>, state: &State) -> bool {
    let image = &record["dynamodb"]["NewImage"];
    text(record, "/eventName") == "MODIFY" && image["Deleted"]["BOOL"] == true && number == Some(state.version)
}

/// Returns the members of `{"$update": {…}}`.
fn members_to_update(value: &Value) -> Option<&Map<String, Value>> {
    value
        .as_object()
        .filter(|object| object.len() == 1)?
        .get("$update")?
        .as_object()
}

/// Changes members of a map in DynamoDB JSON. Returns `false` if there is no map.
fn update_members(map: Option<&mut Value>, members: &Map<String, Value>) -> bool {
    let Some(Value::Object(map)) = map.and_then(|map| map.get_mut("M")) else {
        return false;
    };
    members
        .iter()
        .all(|(name, value)| match (value, members_to_update(value)) {
            (Value::Null, _) => {
                map.remove(name);
                true
            }
            (_, Some(members)) => update_members(map.get_mut(name), members),
            (value, None) => {
                map.insert(name.clone(), typed(value));
                true
            }
        })
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
fn state_of(item: &Value) -> Map<String, Value> {
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

/// Attributes of one version only, which a later update does not keep.
const OF_UPDATE: [&str; 4] = ["Actor", "Reason", "Time", "Timestamp"];

/// Versions and states of a latest item, in the order of the stream.
pub(super) struct Entity<'a> {
    pub(super) images: Vec<Image<'a>>,
    pub(super) states: Vec<State>,
    /// Number of times that the latest item was deleted.
    pub(super) era: usize,
    /// Number of times that the latest item was deleted, or replaced by one without recent requests.
    deletions: usize,
    /// Index of the record of the last deletion by an operator's command.
    pub(super) purged_until: Option<usize>,
}

impl Default for Entity<'_> {
    fn default() -> Self {
        Self {
            images: Vec::new(),
            states: vec![State::default()],
            era: 0,
            deletions: 0,
            purged_until: None,
        }
    }
}

impl Entity<'_> {
    /// Returns the states that hold at some time while the stream grows from one number of records to another.
    pub(super) fn states_between(&self, from: usize, to: usize) -> impl Iterator<Item = &State> {
        let next = self.states.iter().skip(1).map(|state| state.since).chain([usize::MAX]);
        let held = self.states.iter().zip(next);
        held.filter(move |(state, next)| state.since <= to && *next > from)
            .map(|(state, _)| state)
    }

    /// Notes that the latest item was deleted.
    fn remove(&mut self, written: &Written, index: usize, state: &mut State) {
        self.deletions += 1;
        self.era += 1;
        if written.author == Author::Operator {
            self.purged_until = Some(index);
        }
        (state.version, state.attributes) = (0, Map::new());
    }

    /// Adds what a deletion has not removed yet from a tombstone, such as an attribute of an update at the same time: if another
    /// program changes the tombstone first, it is part of that program's version.
    fn add_left_over(&self, tombstone: &mut State, plain: &Map<String, Value>) {
        if !tombstone.attributes.contains_key("Deleted") {
            return;
        }
        for (name, value) in plain {
            let is_old = |state: &State| state.attributes.get(name) == Some(value);
            if !tombstone.attributes.contains_key(name) && self.states.iter().any(is_old) {
                tombstone.attributes.insert(name.clone(), value.clone());
            }
        }
    }
}

impl<'a> Check<'a> {
    /// 2: Returns the versions of every latest item in order, and compares each with the model.
    pub(super) fn entities(&mut self) -> BTreeMap<&'a str, Entity<'a>> {
        let evidence = self.evidence;
        let updates = self.updates();
        let mut entities: BTreeMap<&str, Entity> = BTreeMap::new();
        for (index, written) in evidence.stream.iter().enumerate() {
            let record = &written.record;
            let name = text(record, "/dynamodb/Keys/PK/S");
            if text(record, "/dynamodb/Keys/SK/S") != LATEST_KEY || name.starts_with(MALFORMED) {
                continue;
            }
            let entity = entities.entry(name).or_default();
            let mut state = entity.states.last().cloned().unwrap_or_default();
            state.since = index + 1;
            let image = &record["dynamodb"]["NewImage"];
            let number: Option<u64> = text(image, "/Latest/N").parse().ok();
            if text(record, "/eventName") == "REMOVE" {
                entity.remove(written, index, &mut state);
                entity.states.push(state);
                continue;
            }
            let plain = plain(image);
            if is_removal(record, number, &state) && plain == state.attributes {
                // The same version with fewer attributes of the state that a deletion ended.
                entity.states.push(state);
                continue;
            }
            let Some(number) = number else {
                state.attributes = plain;
                entity.states.push(state);
                continue;
            };
            // Another program leaves it unchanged.
            let is_own = text(image, "/RecordedVersion/N") == number.to_string();
            let by_operator = written.author == Author::Operator;
            // An operator has put it without a command, or another program has replaced it. Otherwise that sets one attribute.
            let is_replaced = text(record, "/eventName") == "MODIFY" && image.get("OtherValue").is_none();
            let is_put = written.author == Author::Other && (is_replaced || text(record, "/eventName") == "INSERT");
            let request = (is_own && !by_operator).then(|| text(image, "/RequestId/S"));
            let version = state.version + 1;
            if by_operator {
                self.check_restored(name, entity, written, &state.attributes);
                self.check_counter(name, entity, written, (state.version, number));
            } else if Version::new(number).is_none() {
                self.add(2, format!("{name}: v0 has the number {number}, which is no version"));
            }
            if by_operator || is_put {
                // Without its recent requests.
                entity.deletions += usize::from(is_put && is_replaced);
                (state.version, state.attributes) = (number, plain.clone());
            } else {
                if number != version {
                    self.add(2, format!("{name}: v0 has version {number} instead of {version}"));
                }
                state.version = version;
            }
            if let Some(request) = request {
                let update = updates.get(request).filter(|(_, update)| update.entity == name);
                let Some((position, update)) = update else {
                    self.add(2, format!("{name} v{version}: no update has its request id"));
                    continue;
                };
                self.apply(&format!("{name} v{version}"), written, *position, update, &mut state);
            } else if !by_operator && !is_put {
                entity.add_left_over(&mut state, &plain);
                state
                    .attributes
                    .insert("OtherValue".to_owned(), image["OtherValue"].clone());
            }
            if plain != state.attributes {
                let (actual, expected) = (json!(plain), json!(state.attributes));
                self.add(2, format!("{name} v{version}: v0 is {actual} instead of {expected}"));
            }
            entity.images.push(Image {
                number: sequence_number(record),
                index,
                created: created(record),
                era: entity.era,
                deletions: entity.deletions,
                version: state.version,
                request,
                carries: if is_own { text(image, "/RequestId/S") } else { "" },
                by_operator,
                item: version_item(image, &self.key(state.version), is_own),
            });
            entity.states.push(state);
        }
        entities
    }

    /// 2: A version that an operator restores has its state, and a repair of the time keeps the time of the update: an older one stays
    /// stale.
    fn check_restored(&mut self, name: &str, entity: &Entity, written: &Written, before: &Map<String, Value>) {
        let image = &written.record["dynamodb"]["NewImage"];
        let (number, plain) = (text(image, "/Latest/N"), plain(image));
        let is_changed = |time: &&str| before.get(*time) != plain.get(*time);
        if text(image, "/RecordedSince/N") == number && ["Time", "Timestamp"].iter().any(is_changed) {
            self.add(
                2,
                format!("{name} v{number}: a repair of the time has changed that of the update"),
            );
        }
        let is_repeated = |image: &&Image| image.carries == text(&written.record, "/dynamodb/NewImage/RequestId/S");
        let from: Option<u64> = text(image, "/RestoredFrom/N").parse().ok();
        let restored = entity.images.iter().rfind(|image| Some(image.version) == from);
        if let Some(restored) = restored.filter(|_| !entity.images.iter().any(|image| is_repeated(&image)))
            && state_of(&restored.item) != state_of(&json!(plain))
        {
            let from = restored.version;
            self.add(
                2,
                format!("{name} v{number}: it has not the state of version {from}, which it restores"),
            );
        }
    }

    /// 2, 6: A repair raises the counter above all versions, also above those that are not in history for less than its lag.
    fn check_counter(&mut self, name: &str, entity: &Entity, written: &Written, (before, number): (u64, u64)) {
        if number < before {
            self.add(
                2,
                format!("{name}: an operator has set v0 back from version {before} to {number}"),
            );
        }
        let image = &written.record["dynamodb"]["NewImage"];
        let item = version_item(image, &self.key(number), true);
        let lag = |image: &Image| Some(created(&written.record)?.saturating_sub(image.created?));
        let is_repeated = |image: &&Image| {
            let is_recent = lag(image).is_some_and(|lag| lag < LAG.as_secs());
            let is_other = image.version > number || image.version == number && !image.is_stored_as(&item);
            is_recent && is_other && entity.purged_until.is_none_or(|purged| purged < image.index)
        };
        if let Some(image) = entity.images.iter().find(is_repeated) {
            let version = image.version;
            self.add(
                6,
                format!("{name}: an operator has continued the counter at {number}, although version {version} exists"),
            );
        }
    }

    /// 2: Applies an update to a state, and checks that it could be applied.
    fn apply(&mut self, version: &str, written: &Written, position: usize, update: &Update, state: &mut State) {
        let (record, before) = (&written.record, state.clone());
        if !matches!(&written.author, Author::Writer(updates) if updates.contains(&position)) {
            self.add(
                2,
                format!("{version}: it was written in the delivery of another update"),
            );
        }
        if self.schedule.settings.by_time && state.is_later_than(update) {
            self.add(2, format!("{version}: an older update replaced a newer one"));
        }
        let expected = State {
            version: state.version - 1,
            ..before
        };
        if expected.conflicts_with(update) {
            let before = expected.version;
            self.add(
                2,
                format!("{version}: its update expected another version than {before}"),
            );
        }
        if state.has_no_map_for(update) {
            self.add(
                2,
                format!("{version}: its update changes members of a map that v0 did not have"),
            );
        }
        state.apply(update);
        let sender = text(record, "/dynamodb/NewImage/Sender/S");
        if !senders(update).iter().any(|expected| expected == sender) {
            let request = &update.id;
            self.add(2, format!("{version}: {sender:?} did not send {request}"));
        }
    }

    pub(super) fn updates(&self) -> HashMap<&'a str, (usize, &'a Update)> {
        let updates = self.schedule.updates.iter().enumerate();
        updates
            .map(|(index, update)| (update.id.as_str(), (index, update)))
            .collect()
    }
}
