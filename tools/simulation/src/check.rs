//! The promises, checked against a model: a map in memory, to which the same updates are applied one by one.
//!
//! The order in which updates took effect is taken from the stream itself, whole and read by nobody else: what the
//! latest item was, one image after the other.

use std::collections::{BTreeMap, HashMap, HashSet};

use serde_json::{Map, Value, json};
use shared::domain::{keys::VersionDigits, version::Version};

use crate::{
    schedule::{Schedule, Update},
    world::{Evidence, MALFORMED, Told},
};

/// A promise that was broken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Violation {
    /// Which of the promises, as `docs/reliability.md` numbers them.
    pub(crate) promise: u8,
    pub(crate) what: String,
}

/// An image of a latest item.
struct Image<'a> {
    number: &'a str,
    /// How often the entity had been begun anew.
    era: usize,
    version: u64,
    request: &'a str,
    /// What its version item has to be.
    item: Value,
}

/// Checks all promises.
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
            self.violated(5, "the mapping never came to the end of the stream".to_owned());
        }
        let images = self.images();
        self.unchanged_history();
        self.documents();
        for (entity, images) in &images {
            self.recorded(entity, images);
            self.once(entity, images);
        }
        self.answers(&images);
        self.reads();
    }

    fn violated(&mut self, promise: u8, what: String) {
        self.violations.push(Violation { promise, what });
    }

    /// The images of every latest item in their order, each compared with the model's.
    fn images(&mut self) -> BTreeMap<&'a str, Vec<Image<'a>>> {
        let evidence = self.evidence;
        let updates: HashMap<&str, &Update> = (self.schedule.updates.iter())
            .map(|update| (update.id.as_str(), update))
            .collect();
        let latest_key = self.digits.latest_key();
        let mut images: BTreeMap<&str, Vec<Image>> = BTreeMap::new();
        let mut model: HashMap<&str, (usize, u64, Map<String, Value>)> = HashMap::new();
        for record in &evidence.stream {
            let entity = text(record, "/dynamodb/Keys/PK/S");
            if text(record, "/dynamodb/Keys/SK/S") != latest_key {
                continue;
            }
            if entity.starts_with(MALFORMED) {
                self.named_in_a_document(record);
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
                self.named_in_a_document(record);
                continue;
            }
            *version += 1;
            let (era, version) = (*era, *version);
            let request = text(image, "/RequestId/S");
            let told = text(image, "/Latest/N");
            if told != version.to_string() {
                self.violated(2, format!("{entity}: version {told} came where {version} should"));
            }
            let Some(update) = updates.get(request).filter(|update| update.entity == entity) else {
                self.violated(
                    2,
                    format!("{entity} v{version}: no update of this entity has its request id"),
                );
                continue;
            };
            if self.schedule.settings.by_time && later(state, &update.members) {
                self.violated(2, format!("{entity} v{version}: an older update came over a newer one"));
            }
            apply(state, update);
            let plain = plain(image);
            if plain != *state {
                let (is, should) = (json!(plain), json!(state));
                self.violated(2, format!("{entity} v{version}: v0 is {is}, and the model {should}"));
            }
            let item = version_item(image, &self.key(version));
            images.entry(entity).or_default().push(Image {
                number: text(record, "/dynamodb/SequenceNumber"),
                era,
                version,
                request,
                item,
            });
        }
        images
    }

    /// 5: a head that makes no version is for people to look at.
    fn named_in_a_document(&mut self, record: &Value) {
        let number = text(record, "/dynamodb/SequenceNumber");
        let mut given_up = self.evidence.given_up.iter();
        if !given_up.any(|record| text(record, "/dynamodb/SequenceNumber") == number) {
            self.violated(
                5,
                format!("record {number} makes no version, and is in no failure document"),
            );
        }
    }

    /// 6: a version is written once.
    fn unchanged_history(&mut self) {
        let mut written = HashSet::new();
        for record in &self.evidence.stream {
            let key = (text(record, "/dynamodb/Keys/PK/S"), text(record, "/dynamodb/Keys/SK/S"));
            if self.digits.version_of(key.1).is_some() && !written.insert(key) {
                self.violated(6, format!("{} {} was written again", key.0, key.1));
            }
        }
    }

    /// 5: what is in a failure document is the record of a latest item.
    fn documents(&mut self) {
        let latest_key = self.digits.latest_key();
        let keys: HashMap<&str, &str> = (self.evidence.stream.iter())
            .map(|record| {
                (
                    text(record, "/dynamodb/SequenceNumber"),
                    text(record, "/dynamodb/Keys/SK/S"),
                )
            })
            .collect();
        for record in &self.evidence.given_up {
            let number = text(record, "/dynamodb/SequenceNumber");
            if keys.get(number) != Some(&latest_key.as_str()) {
                self.violated(
                    5,
                    format!("record {number} of another item than v0 is in a failure document"),
                );
            }
        }
    }

    /// 1, 2 and 5: every image is in the history, or its record is in a failure document, for a reason.
    fn recorded(&mut self, entity: &str, images: &[Image]) {
        let given_up: HashSet<&str> = (self.evidence.given_up.iter())
            .map(|record| text(record, "/dynamodb/SequenceNumber"))
            .collect();
        let items: HashMap<&str, &Value> = (self.evidence.items.iter())
            .filter(|item| text(item, "/PK/S") == entity)
            .map(|item| (text(item, "/SK/S"), item))
            .collect();
        let aged = self.schedule.settings.maximum_record_age.is_some();
        for image in images {
            let (version, key) = (image.version, self.key(image.version));
            let there = items.get(key.as_str());
            if there.is_some_and(|item| **item == image.item) {
                continue;
            }
            if !given_up.contains(image.number) {
                let what = match there {
                    Some(_) => "is another item, and the record is in no failure document",
                    None => "is neither in the history nor in a failure document",
                };
                self.violated(1, format!("{entity} v{version} {what}"));
            } else if there.is_none() && !aged && !self.evidence.hindered.contains(image.number) {
                self.violated(
                    5,
                    format!("{entity} v{version} was given up, and nothing had hindered it"),
                );
            }
        }
        for (key, item) in items {
            let by_hand = self.evidence.by_hand.contains(&(entity.to_owned(), key.to_owned()));
            if self.digits.version_of(key).is_some() && !by_hand && !images.iter().any(|image| image.item == *item) {
                self.violated(2, format!("{entity} {key} is nothing that v0 ever was"));
            }
        }
    }

    /// 3: one version for each request that was applied.
    fn once(&mut self, entity: &str, images: &[Image]) {
        let mut seen: HashMap<&str, &Image> = HashMap::new();
        for image in images {
            let Some(before) = seen.insert(image.request, image) else {
                continue;
            };
            let promised = match self.schedule.settings.window {
                None => true,
                // What v0 remembers goes with it.
                Some(window) => image.era == before.era && image.version - before.version - 1 < u64::from(window),
            };
            if promised {
                let (request, first, second) = (image.request, before.version, image.version);
                self.violated(
                    3,
                    format!("{entity}: request {request} made versions {first} and {second}"),
                );
            }
        }
    }

    /// 4: what upstream was told is so.
    fn answers(&mut self, images: &BTreeMap<&str, Vec<Image>>) {
        for (update, told) in &self.evidence.told {
            let update = &self.schedule.updates[*update];
            let made = |version: Option<u64>| {
                let mut images = images.get(update.entity.as_str()).into_iter().flatten();
                images.any(|image| image.request == update.id && version.is_none_or(|version| version == image.version))
            };
            let settings = &self.schedule.settings;
            let kept = match told {
                Told::Outcome(outcome, version) => match outcome.as_str() {
                    "Written" | "Duplicate" => made(Some(*version)),
                    "Stale" => settings.by_time,
                    "Unchanged" => settings.skip_unchanged,
                    _ => false,
                },
                Told::Accepted => settings.by_time || settings.skip_unchanged || made(None),
                Told::Refused(kind) => kind == "VersionConflict" && update.members.get("ExpectedVersion").is_some(),
            };
            if !kept {
                self.violated(
                    4,
                    format!("{} {}: upstream was told {told:?}", update.entity, update.id),
                );
            }
        }
    }

    /// What a reader sees is what is there.
    fn reads(&mut self) {
        for (entity, read) in &self.evidence.read {
            let head = |item: &&Value| text(item, "/PK/S") == entity && text(item, "/SK/S") == self.digits.latest_key();
            let latest = self
                .evidence
                .items
                .iter()
                .find(head)
                .map_or("", |item| text(item, "/Latest/N"));
            let latest: u64 = latest.parse().unwrap_or(0);
            let items = self.evidence.items.iter().filter(|item| text(item, "/PK/S") == entity);
            let versions = items.filter_map(|item| self.digits.version_of(text(item, "/SK/S")));
            let mut there: Vec<u64> = versions
                .map(Version::get)
                .filter(|version| *version <= latest)
                .collect();
            // The latest item answers for the version it is.
            there.push(latest);
            there.sort_unstable_by(|a, b| b.cmp(a));
            there.dedup();
            match read {
                Ok(read) if *read == there => {}
                read => self.violated(1, format!("{entity}: a reader sees {read:?} of {there:?}")),
            }
        }
    }

    fn key(&self, version: u64) -> String {
        Version::new(version).map_or_else(String::new, |version| self.digits.version_key(version))
    }
}

/// What an update makes of an entity's attributes.
fn apply(state: &mut Map<String, Value>, update: &Update) {
    state.remove("Deleted");
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

/// Whether the state is of a later time than an update.
fn later(state: &Map<String, Value>, members: &Value) -> bool {
    let stored = state
        .get("Timestamp")
        .and_then(|value| value["N"].as_str()?.parse::<u64>().ok());
    stored > members["Timestamp"].as_u64()
}

/// The attributes of an image, without what keeps the books.
fn plain(image: &Value) -> Map<String, Value> {
    let mut plain = image.as_object().cloned().unwrap_or_default();
    for name in ["PK", "SK", "Latest", "RecentRequests"] {
        plain.remove(name);
    }
    plain
}

fn version_item(image: &Value, key: &str) -> Value {
    let mut item = plain(image);
    item.insert("PK".to_owned(), image["PK"].clone());
    item.insert("SK".to_owned(), json!({"S": key}));
    Value::Object(item)
}

fn text<'v>(value: &'v Value, pointer: &str) -> &'v str {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}
