//! The model: the states of each latest item when the same updates are applied one by one.
//!
//! The order of the updates is that of the records in the table's stream, and the sender of each write is known. What a version
//! must contain follows from the updates alone: each has an attribute of its own, `Mark`.

use std::collections::{BTreeMap, HashMap};

use serde_json::{Map, Value, json};
use shared::domain::{keys::LATEST_KEY, marks::MARKS, version::Version};

use crate::{
    caller::Author,
    check::{
        Check,
        state::{State, plain, restorable, senders, version_item},
    },
    operators::commands::LAG,
    requests::text,
    schedule::{MALFORMED, Update},
    stream::Written,
};

/// A version: what the latest item was after an update.
pub(super) struct Image<'a> {
    /// Its record in the stream.
    pub(super) written: &'a Written,
    /// Index of its record in the stream.
    pub(super) index: usize,
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

/// Versions and states of a latest item, in the order of the stream.
#[derive(Default)]
pub(super) struct Entity<'a> {
    pub(super) images: Vec<Image<'a>>,
    /// State before the first record.
    first: State,
    states: Vec<State>,
    /// Number of times that the latest item was deleted.
    pub(super) era: usize,
    /// Number of times that the latest item was deleted, or replaced by one without recent requests, or lost these.
    deletions: usize,
    /// Index of the record of the last deletion by an operator's command.
    pub(super) purged_until: Option<usize>,
}

impl Entity<'_> {
    /// Returns the states that hold at some time while the stream grows from one number of records to another.
    pub(super) fn states_between(&self, from: usize, to: usize) -> impl Iterator<Item = &State> {
        let next = self.states.iter().map(|state| state.since).chain([usize::MAX]);
        let held = [&self.first].into_iter().chain(&self.states).zip(next);
        held.filter(move |(state, next)| state.since <= to && *next > from)
            .map(|(state, _)| state)
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
        let updates = self.updates();
        let mut entities: BTreeMap<&str, Entity> = BTreeMap::new();
        let is_modelled = |written: &Written| written.key() == LATEST_KEY && !written.entity().starts_with(MALFORMED);
        let stream = self.evidence.stream.iter().enumerate();
        for (index, written) in stream.filter(|(_, written)| is_modelled(written)) {
            let name = written.entity();
            let entity = entities.entry(name).or_default();
            let mut state = entity.states.last().cloned().unwrap_or_default();
            state.since = index + 1;
            if let Some(image) = self.version(name, entity, (index, written), &mut state, &updates) {
                entity.images.push(image);
            }
            entity.states.push(state);
        }
        entities
    }

    /// Changes a state as a record does. Returns the version, if the record creates one.
    fn version(
        &mut self,
        name: &str,
        entity: &mut Entity<'a>,
        (index, written): (usize, &'a Written),
        state: &mut State,
        updates: &HashMap<(&str, &str), (usize, &Update)>,
    ) -> Option<Image<'a>> {
        let image = written.image();
        let (by_operator, by_other) = (
            written.by.author == Author::Operator,
            written.by.author == Author::Other,
        );
        if written.is_removal() {
            (entity.deletions, entity.era) = (entity.deletions + 1, entity.era + 1);
            if by_operator {
                entity.purged_until = Some(index);
            }
            (state.version, state.attributes) = (0, Map::new());
            return None;
        }
        let (plain, number) = (plain(image), text(image, "/Latest/N").parse::<u64>().ok());
        let is_modified = written.event() == "MODIFY";
        if is_modified && number == Some(state.version) && plain == state.attributes {
            // The same version with fewer attributes of the state that a deletion ended, or without recent requests.
            let forgets = by_other && image.get("RecentRequests").is_none();
            if forgets || image["Deleted"]["BOOL"] == true {
                entity.deletions += usize::from(forgets);
                return None;
            }
        }
        let Some(number) = number else {
            state.attributes = plain;
            return None;
        };
        // Another program leaves it unchanged.
        let is_own = text(image, "/RecordedVersion/N") == number.to_string();
        // An operator has put it without a command, or another program has replaced it. Otherwise that sets one attribute.
        let is_replaced = is_modified && image.get("OtherValue").is_none();
        let is_put = by_other && (is_replaced || written.event() == "INSERT");
        let request = (is_own && !by_operator).then(|| text(image, "/RequestId/S"));
        let version = state.version + 1;
        if by_operator {
            self.check_restored(name, entity, written, &state.attributes);
            self.check_counter(name, entity, written, (state.version, number));
        } else if Version::new(number).is_none() {
            self.add::<2>(format!("{name}: v0 has the number {number}, which is no version"));
        }
        if by_operator || is_put {
            // Without its recent requests.
            entity.deletions += usize::from(is_put && is_replaced);
            (state.version, state.attributes) = (number, plain.clone());
        } else {
            if number != version {
                self.add::<2>(format!("{name}: v0 has version {number} instead of {version}"));
            }
            state.version = version;
        }
        if let Some(request) = request {
            let Some((position, update)) = updates.get(&(request, name)) else {
                self.add::<2>(format!("{name} v{version}: no update has its request id"));
                return None;
            };
            self.apply(&format!("{name} v{version}"), written, *position, update, state);
        } else if !by_operator && !is_put {
            entity.add_left_over(state, &plain);
            let value = image["OtherValue"].clone();
            state.attributes.insert("OtherValue".to_owned(), value);
        }
        if plain != state.attributes {
            let (actual, expected) = (json!(plain), json!(state.attributes));
            self.add::<2>(format!("{name} v{version}: v0 is {actual} instead of {expected}"));
        }
        Some(Image {
            written,
            index,
            era: entity.era,
            deletions: entity.deletions,
            version: state.version,
            request,
            carries: if is_own { text(image, "/RequestId/S") } else { "" },
            by_operator,
            item: version_item(image, &self.key(state.version), is_own),
        })
    }

    /// 2: A version that an operator restores has its state, and a repair of the time keeps the time of the update: an older one stays
    /// stale.
    fn check_restored(&mut self, name: &str, entity: &Entity, written: &Written, before: &Map<String, Value>) {
        let image = written.image();
        let (number, plain) = (text(image, "/Latest/N"), plain(image));
        let is_changed = |time: &&str| before.get(*time) != plain.get(*time);
        if text(image, "/RecordedSince/N") == number && ["Time", "Timestamp"].iter().any(is_changed) {
            self.add::<2>(format!(
                "{name} v{number}: a repair of the time has changed that of the update"
            ));
        }
        let request = text(image, "/RequestId/S");
        let from: Option<u64> = text(image, "/RestoredFrom/N").parse().ok();
        let restored = entity.images.iter().rfind(|image| Some(image.version) == from);
        if let Some(restored) = restored.filter(|_| !entity.images.iter().any(|image| image.carries == request))
            && restorable(&restored.item) != restorable(&json!(plain))
        {
            let from = restored.version;
            self.add::<2>(format!(
                "{name} v{number}: it has not the state of version {from}, which it restores"
            ));
        }
    }

    /// 2, 6: A repair raises the counter above all versions, also above those that are not in history for less than its lag.
    fn check_counter(&mut self, name: &str, entity: &Entity, written: &Written, (before, number): (u64, u64)) {
        if number < before {
            self.add::<2>(format!(
                "{name}: an operator has set v0 back from version {before} to {number}"
            ));
        }
        let item = version_item(written.image(), &self.key(number), true);
        let is_repeated = |image: &&Image| {
            let is_recent = written.created().saturating_sub(image.written.created()) < LAG.as_secs();
            let is_other = image.version > number || image.version == number && !image.is_stored_as(&item);
            is_recent && is_other && entity.purged_until.is_none_or(|purged| purged < image.index)
        };
        if let Some(image) = entity.images.iter().find(is_repeated) {
            let version = image.version;
            self.add::<6>(format!(
                "{name}: an operator has continued at {number}, although version {version} exists"
            ));
        }
    }

    /// 2: Applies an update to a state, and checks that it could be applied.
    fn apply(&mut self, version: &str, written: &Written, position: usize, update: &Update, state: &mut State) {
        if !matches!(&written.by.author, Author::Writer(updates) if updates.contains(&position)) {
            self.add::<2>(format!("{version}: it was written in the delivery of another update"));
        }
        if self.schedule.settings.by_time && state.is_later_than(update) {
            self.add::<2>(format!("{version}: an older update replaced a newer one"));
        }
        let before = State {
            version: state.version - 1,
            ..state.clone()
        };
        if before.conflicts_with(update) {
            let before = before.version;
            self.add::<2>(format!("{version}: its update expected another version than {before}"));
        }
        if state.has_no_map_for(update) {
            self.add::<2>(format!(
                "{version}: its update changes members of a map that v0 did not have"
            ));
        }
        state.apply(update);
        let sender = text(written.image(), "/Sender/S");
        if !senders(update).iter().any(|expected| expected == sender) {
            let request = &update.id;
            self.add::<2>(format!("{version}: {sender:?} did not send {request}"));
        }
    }

    pub(super) fn updates(&self) -> HashMap<(&'a str, &'a str), (usize, &'a Update)> {
        let updates = self.schedule.updates.iter().enumerate();
        let by_id = updates.map(|(index, update)| ((update.id.as_str(), update.entity.as_str()), (index, update)));
        by_id.collect()
    }
}
