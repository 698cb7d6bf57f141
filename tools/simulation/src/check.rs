//! Checks the guarantees of a run against a model: an in-memory map to which the same updates are applied one by one.
//!
//! The order of the updates is that of the images in the table's stream, which is read completely and without faults.

use std::collections::{BTreeMap, HashMap, HashSet};

use serde_json::{Map, Value, json};
use shared::domain::{
    keys::{LATEST_KEY, VersionDigits},
    recorded_at::RecordedAt,
    version::Version,
};

use crate::{
    evidence::{Evidence, UpstreamResponse},
    schedule::{MALFORMED, Origin, Schedule, Update},
};

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Violation {
    /// Number of the guarantee in `docs/reliability.md`.
    pub(crate) guarantee: u8,
    pub(crate) description: String,
}

struct Image<'a> {
    number: &'a str,
    /// Number of times that an operator had deleted the latest item.
    era: usize,
    version: u64,
    /// Request that created the version, `None` if another program did.
    request: Option<&'a str>,
    /// Version item. Without `RecordedAt` if it comes from the stream.
    item: Value,
}

impl Image<'_> {
    fn recorded_at(&self) -> &str {
        text(&self.item, "/RecordedAt/S")
    }

    /// Returns `true` if an item is the version item of the image, whatever its time from the stream.
    fn is_stored_as(&self, item: &Value) -> bool {
        let mut item = item.clone();
        let time = match item.as_object_mut() {
            Some(item) if self.request.is_none() => item.remove("RecordedAt"),
            _ => item.get("RecordedAt").cloned(),
        };
        time.is_some() && item == self.item
    }
}

pub(crate) fn check(schedule: &Schedule, evidence: &Evidence) -> Vec<Violation> {
    let mut check = Check {
        schedule,
        evidence,
        digits: VersionDigits::new(schedule.settings.digits).unwrap_or_default(),
        violations: Vec::new(),
    };
    check.all();
    check.violations
}

struct Check<'a> {
    schedule: &'a Schedule,
    evidence: &'a Evidence,
    digits: VersionDigits,
    violations: Vec<Violation>,
}

impl<'a> Check<'a> {
    fn all(&mut self) {
        if !self.evidence.settled {
            self.add(5, "the mapping did not reach the end of the stream".to_owned());
        }
        let images = self.images();
        self.check_single_writes();
        self.check_documents();
        for (entity, images) in &images {
            self.check_history(entity, images);
            self.check_request_ids(entity, images);
            self.check_times(entity, images);
        }
        self.check_responses(&images);
        self.check_reads();
        self.check_as_of();
    }

    fn add(&mut self, guarantee: u8, description: String) {
        self.violations.push(Violation { guarantee, description });
    }

    /// 2: Returns the images of every latest item in order, and compares each with the model.
    fn images(&mut self) -> BTreeMap<&'a str, Vec<Image<'a>>> {
        let evidence = self.evidence;
        let updates = self.updates();
        let mut images: BTreeMap<&str, Vec<Image>> = BTreeMap::new();
        let mut model: HashMap<&str, (usize, u64, Map<String, Value>)> = HashMap::new();
        for record in &evidence.stream {
            let entity = text(record, "/dynamodb/Keys/PK/S");
            if text(record, "/dynamodb/Keys/SK/S") != LATEST_KEY {
                continue;
            }
            if entity.starts_with(MALFORMED) {
                self.check_discarded(record);
                continue;
            }
            let (era, version, state) = model.entry(entity).or_default();
            if text(record, "/eventName") == "REMOVE" {
                (*era, *version, *state) = (*era + 1, 0, Map::new());
                continue;
            }
            let image = &record["dynamodb"]["NewImage"];
            if image.get("Latest").is_none() {
                *state = plain(image);
                self.check_discarded(record);
                continue;
            }
            *version += 1;
            let (era, version) = (*era, *version);
            let number = text(image, "/Latest/N");
            if number != version.to_string() {
                self.add(2, format!("{entity}: v0 has version {number} instead of {version}"));
            }
            // Another program leaves it unchanged.
            let is_own = text(image, "/RecordedVersion/N") == number;
            let request = is_own.then(|| text(image, "/RequestId/S"));
            if let Some(request) = request {
                let Some(update) = updates.get(request).filter(|update| update.entity == entity) else {
                    self.add(2, format!("{entity} v{version}: no update has its request id"));
                    continue;
                };
                if self.schedule.settings.by_time && later(state, &update.members) {
                    self.add(2, format!("{entity} v{version}: an older update replaced a newer one"));
                }
                apply(state, update);
                let sender = text(image, "/Sender/S");
                if !senders(update).iter().any(|expected| expected == sender) {
                    self.add(2, format!("{entity} v{version}: {sender:?} did not send {request}"));
                }
            } else {
                state.insert("OtherValue".to_owned(), image["OtherValue"].clone());
            }
            let plain = plain(image);
            if plain != *state {
                let (actual, expected) = (json!(plain), json!(state));
                self.add(2, format!("{entity} v{version}: v0 is {actual} instead of {expected}"));
            }
            let item = version_item(image, &self.key(version), is_own);
            images.entry(entity).or_default().push(Image {
                number: sequence_number(record),
                era,
                version,
                request,
                item,
            });
        }
        images
    }

    /// 5: A latest item that is not a valid version is in quarantine or in a failure document.
    fn check_discarded(&mut self, record: &Value) {
        let number = sequence_number(record);
        if !self.kept().any(|record| sequence_number(record) == number) {
            let description = format!("record {number} is not a valid version, and is kept nowhere");
            self.add(5, description);
        }
    }

    /// 6: A version item is written once.
    fn check_single_writes(&mut self) {
        let mut written = HashSet::new();
        for record in &self.evidence.stream {
            let key = (text(record, "/dynamodb/Keys/PK/S"), text(record, "/dynamodb/Keys/SK/S"));
            if self.digits.version_of(key.1).is_some() && !written.insert(key) {
                self.add(6, format!("{} {} was overwritten", key.0, key.1));
            }
        }
    }

    /// Returns the records in quarantine and in failure documents.
    fn kept(&self) -> impl Iterator<Item = &'a Value> + use<'a> {
        let evidence = self.evidence;
        evidence.quarantined.iter().chain(&evidence.discarded)
    }

    /// 5: Quarantine and failure documents contain only records of latest items.
    fn check_documents(&mut self) {
        let keys: HashMap<&str, &str> = (self.evidence.stream.iter())
            .map(|record| (sequence_number(record), text(record, "/dynamodb/Keys/SK/S")))
            .collect();
        for record in self.kept() {
            let number = sequence_number(record);
            if keys.get(number) != Some(&LATEST_KEY) {
                let description = format!("record {number} of an item other than v0 failed");
                self.add(5, description);
            }
        }
    }

    /// 1, 2 and 5: Every image is in the history, or its record was discarded because of a fault.
    fn check_history(&mut self, entity: &str, images: &[Image]) {
        let kept: HashSet<&str> = self.kept().map(sequence_number).collect();
        let quarantined: HashSet<&str> = self.evidence.quarantined.iter().map(sequence_number).collect();
        let items: HashMap<&str, &Value> = (self.evidence.items.iter())
            .filter(|item| text(item, "/PK/S") == entity)
            .map(|item| (text(item, "/SK/S"), item))
            .collect();
        let has_maximum_age = self.schedule.settings.maximum_record_age.is_some();
        for image in images {
            let (version, key) = (image.version, self.key(image.version));
            let stored = items.get(key.as_str());
            let is_quarantined = quarantined.contains(image.number);
            if stored.is_some_and(|item| image.is_stored_as(item)) {
                if is_quarantined {
                    self.add(5, format!("{entity} v{version} is in history and in quarantine"));
                }
                continue;
            }
            if !kept.contains(image.number) {
                let problem = match stored {
                    Some(_) => "is a different item, and the record is kept nowhere",
                    None => "is neither in the history nor in quarantine or a failure document",
                };
                self.add(1, format!("{entity} v{version} {problem}"));
            } else if stored.is_none() && is_quarantined {
                self.add(5, format!("{entity} v{version} is in quarantine without a reason"));
            } else if stored.is_none() && !has_maximum_age && !self.evidence.faulty_records.contains(image.number) {
                self.add(5, format!("{entity} v{version} was discarded without a fault"));
            }
        }
        for (key, item) in items {
            let is_manual = (self.evidence.manual_versions).contains(&(entity.to_owned(), key.to_owned()));
            let Some(version) = self.digits.version_of(key).filter(|_| !is_manual) else {
                continue;
            };
            let mut images = images.iter().filter(|image| image.version == version.get());
            if !images.any(|image| image.is_stored_as(item)) {
                self.add(2, format!("{entity} {key} equals no image of v0"));
            }
        }
    }

    /// 3: A request creates one version.
    fn check_request_ids(&mut self, entity: &str, images: &[Image]) {
        let updates = self.updates();
        let has_manual_version = self.evidence.manual_versions.iter().any(|(key, _)| key == entity);
        let mut seen: HashMap<&str, &Image> = HashMap::new();
        for image in images {
            let Some(request) = image.request else { continue };
            let Some(before) = seen.insert(request, image) else {
                continue;
            };
            let is_near = |window| image.version - before.version - 1 < u64::from(window);
            let guaranteed = match self.schedule.settings.window {
                None => true,
                // Deleting v0 deletes the recent requests.
                Some(window) if image.era == before.era && is_near(window) => true,
                // History has the other requests, unless an operator has written versions or has started a new history.
                Some(_) if image.era > 0 || has_manual_version => false,
                Some(_) => updates.get(request).is_some_and(|update| self.is_traceable(update)),
            };
            if guaranteed {
                let (first, second) = (before.version, image.version);
                let description = format!("{entity}: request {request} created versions {first} and {second}");
                self.add(3, description);
            }
        }
    }

    /// Returns `true` if every delivery after the first shows that there can be an earlier one.
    fn is_traceable(&self, update: &Update) -> bool {
        let index = (self.schedule.updates.iter()).position(|candidate| candidate.id == update.id);
        let deliveries = index.and_then(|index| self.evidence.deliveries.get(&index));
        update.origin != Origin::Client || deliveries == Some(&1)
    }

    /// 7: The times of the versions that a writer created strictly increase.
    fn check_times(&mut self, entity: &str, images: &[Image]) {
        let mut last: Option<&Image> = None;
        for image in images.iter().filter(|image| image.request.is_some()) {
            let (version, recorded) = (image.version, image.recorded_at());
            let before = last.replace(image).filter(|last| last.era == image.era);
            if RecordedAt::parse(recorded).is_err() || before.is_some_and(|before| before.recorded_at() >= recorded) {
                let before = before.map(Image::recorded_at);
                let description =
                    format!("{entity} v{version}: recorded at {recorded:?}, the version before at {before:?}");
                self.add(7, description);
            }
        }
    }

    /// 7: A read as of a time returns the last version that was recorded by then.
    fn check_as_of(&mut self) {
        let mut times: HashMap<&str, BTreeMap<u64, &str>> = HashMap::new();
        let mut latest: HashMap<&str, u64> = HashMap::new();
        for item in &self.evidence.items {
            let (entity, key) = (text(item, "/PK/S"), text(item, "/SK/S"));
            if key == LATEST_KEY {
                latest.insert(entity, text(item, "/Latest/N").parse().unwrap_or(0));
            } else if let Some(version) = self.digits.version_of(key) {
                let times = times.entry(entity).or_default();
                times.insert(version.get(), text(item, "/RecordedAt/S"));
            }
        }
        for read in &self.evidence.as_of {
            let entity = read.entity.as_str();
            let Some(times) = times.get(entity) else { continue };
            // Only a complete history has the times of all versions, and only one that no operator has started again.
            let was_deleted = (self.evidence.stream.iter())
                .any(|record| text(record, "/eventName") == "REMOVE" && text(record, "/dynamodb/Keys/PK/S") == entity);
            let is_complete = times.len() as u64 == latest.get(entity).copied().unwrap_or(0);
            if was_deleted || !is_complete || times.values().any(|time| time.is_empty()) {
                continue;
            }
            let versions = times.iter().filter(|(_, time)| **time <= read.time.as_str());
            let expected = versions.map(|(version, _)| *version).max();
            if read.version != Ok(expected) {
                let (time, version) = (&read.time, &read.version);
                let description = format!("{entity}: the version as of {time} is {version:?} instead of {expected:?}");
                self.add(7, description);
            }
        }
    }

    /// 4: The responses to upstream are correct.
    fn check_responses(&mut self, images: &BTreeMap<&str, Vec<Image>>) {
        for (update, response) in &self.evidence.responses {
            let update = &self.schedule.updates[*update];
            let created = |version: Option<u64>| {
                let mut images = images.get(update.entity.as_str()).into_iter().flatten();
                images.any(|image| {
                    image.request == Some(&update.id) && version.is_none_or(|version| version == image.version)
                })
            };
            let settings = &self.schedule.settings;
            let is_correct = match response {
                UpstreamResponse::Outcome(outcome, version) => match outcome.as_str() {
                    "Written" | "Duplicate" => created(Some(*version)),
                    "Stale" => settings.by_time,
                    "Unchanged" => settings.skip_unchanged,
                    _ => false,
                },
                UpstreamResponse::Accepted => settings.by_time || settings.skip_unchanged || created(None),
                UpstreamResponse::Rejected(kind) => {
                    kind == "VersionConflict" && update.members.get("ExpectedVersion").is_some()
                }
            };
            if !is_correct {
                let description = format!("{} {}: wrong response {response:?}", update.entity, update.id);
                self.add(4, description);
            }
        }
    }

    /// 1: A reader sees exactly the stored versions.
    fn check_reads(&mut self) {
        for (entity, read) in &self.evidence.read {
            let items = || self.evidence.items.iter().filter(|item| text(item, "/PK/S") == entity);
            let latest = items().find(|item| text(item, "/SK/S") == LATEST_KEY);
            let latest = latest
                .and_then(|item| text(item, "/Latest/N").parse().ok())
                .unwrap_or(0);
            let versions = items().filter_map(|item| self.digits.version_of(text(item, "/SK/S")));
            let mut stored: Vec<u64> = versions
                .map(Version::get)
                .filter(|version| *version <= latest)
                .collect();
            // The latest version is readable before its version item exists: v0 contains it.
            stored.push(latest);
            stored.sort_unstable_by(|a, b| b.cmp(a));
            stored.dedup();
            match read {
                Ok(read) if *read == stored => {}
                read => self.add(1, format!("{entity}: a reader sees {read:?} instead of {stored:?}")),
            }
        }
    }

    fn updates(&self) -> HashMap<&'a str, &'a Update> {
        let updates = self.schedule.updates.iter();
        updates.map(|update| (update.id.as_str(), update)).collect()
    }

    fn key(&self, version: u64) -> String {
        Version::new(version).map_or_else(String::new, |version| self.digits.version_key(version))
    }
}

fn apply(state: &mut Map<String, Value>, update: &Update) {
    for name in ["Deleted", "Actor", "Reason", "Time", "Timestamp"] {
        state.remove(name);
    }
    for (name, value) in update.members.as_object().into_iter().flatten() {
        match value {
            _ if name == "ExpectedVersion" => {}
            Value::Null => {
                state.remove(name);
            }
            Value::Number(number) => {
                state.insert(name.clone(), json!({"N": number.to_string()}));
            }
            Value::Bool(value) => {
                state.insert(name.clone(), json!({"BOOL": value}));
            }
            value => {
                state.insert(name.clone(), json!({"S": value}));
            }
        }
    }
    state.insert("RequestId".to_owned(), json!({"S": update.id}));
}

fn later(state: &Map<String, Value>, members: &Value) -> bool {
    let stored = state
        .get("Timestamp")
        .and_then(|value| value["N"].as_str()?.parse::<u64>().ok());
    stored > members["Timestamp"].as_u64()
}

/// Returns the senders that a version of an update can have. A direct invocation has none.
fn senders(update: &Update) -> Vec<String> {
    let (source, sender) = (format!("source-of-{}", update.id), format!("sender-of-{}", update.id));
    match update.origin {
        Origin::Client | Origin::TimedClient => vec![String::new(), sender],
        Origin::Message => vec![sender],
        Origin::Event => vec![format!("{source} via {sender}"), source],
    }
}

/// Returns the attributes of an image without keys and the attributes that no update names.
fn plain(image: &Value) -> Map<String, Value> {
    let mut plain = image.as_object().cloned().unwrap_or_default();
    for name in [
        "PK",
        "SK",
        "Latest",
        "RecentRequests",
        "RequestsSince",
        "RequestsCheckpoint",
        "RequestPayload",
        "Sender",
        "RecordedAt",
        "RecordedVersion",
        "RecordedTick",
    ] {
        plain.remove(name);
    }
    plain
}

/// Returns the version item of an image, without `RecordedAt` if another program wrote it.
fn version_item(image: &Value, key: &str, is_own: bool) -> Value {
    let mut item = plain(image);
    item.insert("PK".to_owned(), image["PK"].clone());
    item.insert("SK".to_owned(), json!({"S": key}));
    if is_own {
        for name in ["RequestPayload", "Sender"] {
            if let Some(value) = image.get(name) {
                item.insert(name.to_owned(), value.clone());
            }
        }
        let ticks: u16 = text(image, "/RecordedTick/N").parse().unwrap_or(0);
        let micros = text(image, "/RecordedAt/S").strip_suffix("000Z").unwrap_or_default();
        item.insert("RecordedAt".to_owned(), json!({"S": format!("{micros}{ticks:03}Z")}));
    } else {
        for name in ["RequestId", "Actor", "Reason", "Time", "Timestamp"] {
            item.remove(name);
        }
        item.insert("RecordedBy".to_owned(), json!({"S": "stream"}));
    }
    Value::Object(item)
}

fn sequence_number(record: &Value) -> &str {
    text(record, "/dynamodb/SequenceNumber")
}

fn text<'v>(value: &'v Value, pointer: &str) -> &'v str {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}
