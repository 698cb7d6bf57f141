//! The steps of a schedule: deliveries of updates, actions of operators and other programs, and interruptions.

use std::{
    collections::{HashMap, HashSet},
    sync::Mutex,
    time::Duration,
};

use futures::future::join_all;
use serde_json::{Value, json};
use shared::{
    config::Ordering,
    domain::{
        keys::{FLOOR_KEY, LATEST_KEY, VersionDigits},
        layout,
        recorded_at::RecordedAt,
        version::Version,
    },
    dynamodb::Store,
};
use tokio::{
    sync::Notify,
    time::{sleep, sleep_until},
};
use writer_fn::{Writer, update::Update};

use crate::{
    caller::lock,
    clock::Clock,
    connector::Connector,
    evidence::{Answer, Evidence, UpstreamResponse},
    functions::Misdeployed,
    mapping::Bucket,
    operators::Desk,
    queue::{DeadLetter, Queue},
    requests::text,
    schedule::{Command, Content, HISTORY, MALFORMED, Schedule, Step, StepKind, TABLE},
};

#[derive(Default)]
pub(crate) struct MappingStop {
    pub(crate) requested: Notify,
    /// Time until the mapping starts again.
    pub(crate) duration: Mutex<Duration>,
}

pub(crate) struct Upstream<'a> {
    pub(crate) schedule: &'a Schedule,
    pub(crate) digits: VersionDigits,
    pub(crate) connector: Connector,
    /// The table, as functions see it.
    pub(crate) layout: Store,
    pub(crate) writers: Vec<Writer>,
    pub(crate) misdeployed: Misdeployed<Writer>,
    pub(crate) clock: Clock,
    pub(crate) bucket: Bucket,
    pub(crate) mapping_stop: MappingStop,
    pub(crate) queue: Queue,
    /// `true` if the queue has no message, and none is being processed.
    pub(crate) queue_is_empty: Mutex<bool>,
    /// What was observed until now.
    pub(crate) seen: Mutex<Evidence>,
    /// The last error of each update that has no answer.
    pub(crate) errors: Mutex<HashMap<usize, String>>,
    /// Updates that were given up.
    pub(crate) letters: Mutex<Vec<DeadLetter>>,
    /// Time at which each update was sent first.
    pub(crate) first_sent: Mutex<HashMap<usize, u64>>,
    pub(crate) desk: Desk,
}

impl Upstream<'_> {
    /// Carries out all steps. The steps of a source follow each other; what lasts does not delay them.
    pub(crate) async fn run(&self) {
        let waits = |step: &&Step| !matches!(step.kind, StepKind::Asynchronous { .. } | StepKind::Command(_));
        let last = self.schedule.steps.iter().map(|step| step.source).max();
        let sources = (0..=last.unwrap_or(0)).map(async |source| {
            let steps = self.schedule.steps.iter().filter(|step| step.source == source);
            for step in steps.filter(waits) {
                self.at(step).await;
            }
        });
        let others = self.schedule.steps.iter().filter(|step| !waits(step));
        let others = others.map(|step| self.at(step));
        tokio::join!(join_all(sources), join_all(others));
    }

    async fn at(&self, step: &Step) {
        sleep_until(self.clock.0 + Duration::from_millis(step.at)).await;
        self.step(step).await;
    }

    /// Waits until the queue is empty: each message was processed, or moved to the dead-letter queue.
    pub(crate) async fn drain(&self) {
        while !*lock(&self.queue_is_empty) {
            sleep(Duration::from_secs(1)).await;
        }
    }

    async fn step(&self, step: &Step) {
        match &step.kind {
            StepKind::Direct { update } => {
                self.direct(*update).await;
            }
            StepKind::Asynchronous { update } => self.asynchronous(*update).await,
            StepKind::ReuseId { update } => self.reuse_id(*update).await,
            StepKind::Sqs { updates } => updates.iter().for_each(|update| self.send(*update)),
            StepKind::Redeliver { update, as_first } => self.receive_again(*update, *as_first),
            StepKind::OtherProgram { entity, value } => {
                if self.increment(
                    entity,
                    "OtherValue = :value",
                    &json!({":value": {"N": value.to_string()}}),
                ) {
                    self.connector.count("other-program");
                }
            }
            StepKind::FarAhead { entity, millis } => {
                let time = RecordedAt::since_epoch(Duration::from_millis(self.clock.millis() + millis));
                if self.set_time(entity, &json!({"S": time.to_string()})) {
                    self.connector.count("recorded-far-ahead");
                }
            }
            StepKind::OtherTime { entity, time } => {
                if self.set_time(entity, time) {
                    self.connector.count("recorded-in-another-form");
                }
            }
            StepKind::PutLatest { entity, content } => self.put_latest(entity, *content),
            StepKind::DeleteLatest { entity, create } => {
                self.connector.count("latest-item-deleted");
                let mut key = latest(entity);
                let _ = self
                    .connector
                    .send("DeleteItem", json!({"TableName": TABLE, "Key": key}));
                if *create {
                    self.connector.count("latest-item-put");
                    key["By"] = json!({"S": "hand"});
                    let _ = self.connector.put(TABLE, &key);
                }
            }
            StepKind::WriteVersion { entity, ahead } => self.write_version(entity, *ahead),
            StepKind::WriteLatest { entity, version } => {
                self.connector.count("latest-item-put");
                let number = json!({"N": version.to_string()});
                let floor = json!({"PK": {"S": entity}, "SK": {"S": FLOOR_KEY}, "Floor": number});
                let _ = self.connector.put(self.schedule.settings.history_table(), &floor);
                let mut latest = latest(entity);
                (latest["Latest"], latest["By"]) = (number, json!({"S": "hand"}));
                let _ = self.connector.put(TABLE, &latest);
            }
            StepKind::MalformedLatest { number } => {
                self.connector.count("malformed-record");
                let mut item = latest(&format!("{MALFORMED}{number}"));
                item["Latest"] = json!({"N": "1"});
                let _ = self.connector.put(TABLE, &item);
            }
            StepKind::StopMapping { millis } => {
                self.connector.count("mapping-stopped");
                *lock(&self.mapping_stop.duration) = Duration::from_millis(*millis);
                self.mapping_stop.requested.notify_one();
            }
            StepKind::DenyDestination { millis } => {
                self.connector.count("destination-denied");
                self.bucket.deny(Duration::from_millis(*millis));
            }
            StepKind::Window { scope, millis } => {
                self.connector
                    .open_window(scope.clone(), Duration::from_millis(*millis));
            }
            StepKind::SplitShard => self.connector.split(),
            StepKind::Expire => {
                let before = self.version_keys();
                for _ in 0..self.connector.expire().unwrap_or_default() {
                    self.connector.count("expired");
                }
                let after = self.version_keys();
                lock(&self.seen).pruned.extend(before.difference(&after).cloned());
            }
            StepKind::Command(command) => self.command(command).await,
        }
    }

    /// Returns partition key and sort key of each version item.
    fn version_keys(&self) -> HashSet<(String, String)> {
        let items = self.connector.scan(self.schedule.settings.history_table());
        let key = |item: Value| {
            let (entity, key) = (text(&item, "/PK/S"), text(&item, "/SK/S"));
            self.digits.version_of(key)?;
            Some((entity.to_owned(), key.to_owned()))
        };
        items.unwrap_or_default().into_iter().filter_map(key).collect()
    }

    /// Increments `Latest`, and sets `RecordedAt`. Returns `true` if there is such an item.
    fn set_time(&self, entity: &str, time: &Value) -> bool {
        self.increment(entity, "OtherValue = :one, RecordedAt = :time", &json!({":time": time}))
    }

    /// Increments `Latest`, and sets other attributes. Returns `true` if there is such an item.
    fn increment(&self, entity: &str, set: &str, values: &Value) -> bool {
        let mut values = values.clone();
        values[":one"] = json!({"N": "1"});
        let update = json!({
            "TableName": TABLE, "Key": latest(entity),
            "UpdateExpression": format!("SET Latest = Latest + :one, {set}"),
            "ConditionExpression": "attribute_exists(Latest)", "ExpressionAttributeValues": values,
        });
        self.connector.send("UpdateItem", update).is_ok()
    }

    fn latest_number(&self, entity: &str) -> Option<u64> {
        let get = json!({"TableName": TABLE, "Key": latest(entity), "ConsistentRead": true});
        let latest = self.connector.send("GetItem", get).ok()?;
        latest.pointer("/Item/Latest/N")?.as_str()?.parse().ok()
    }

    fn put_latest(&self, entity: &str, content: Content) {
        let number = self.latest_number(entity).unwrap_or(0) + 1;
        let mut item = content.attributes(self.schedule.seed);
        item["PK"] = json!({"S": entity});
        item["SK"] = json!({"S": LATEST_KEY});
        item["Latest"] = json!({"N": number.to_string()});
        if self.connector.put(TABLE, &item).is_ok() {
            self.connector.count("latest-item-replaced");
        }
    }

    fn write_version(&self, entity: &str, ahead: u64) {
        let version = Version::new(self.latest_number(entity).unwrap_or(0) + ahead);
        let Some(sort_key) = version.map(|version| self.digits.version_key(version)) else {
            return;
        };
        let by = json!({"S": "hand"});
        let (table, name, value) = match self.schedule.settings.own_history {
            true => (HISTORY, layout::IMAGE, json!({"M": {"By": by}})),
            false => (TABLE, "By", by),
        };
        let put = json!({
            "TableName": table, "ConditionExpression": "attribute_not_exists(PK)",
            "Item": {"PK": {"S": entity}, "SK": {"S": sort_key}, name: value},
        });
        if self.connector.send("PutItem", put).is_ok() {
            self.connector.count("version-put");
            lock(&self.seen).manual_versions.insert((entity.to_owned(), sort_key));
        }
    }

    /// Sends another update with the request id of one that was applied.
    async fn reuse_id(&self, update: usize) {
        let is_applied = |answer: &Answer| {
            answer.update == update
                && matches!(&answer.response, UpstreamResponse::Outcome(outcome, _) if outcome == "Written")
        };
        let entity = &self.schedule.updates[update].entity;
        let forgets = |step: &Step| match &step.kind {
            StepKind::DeleteLatest { entity: of, .. }
            | StepKind::WriteVersion { entity: of, .. }
            | StepKind::Command(Command::Purge { entity: of } | Command::Prune { entity: of, .. }) => of == entity,
            StepKind::Command(Command::PruneTable { .. }) => true,
            _ => false,
        };
        let is_known = !self.schedule.steps.iter().any(forgets);
        if is_known && lock(&self.seen).answers.iter().any(is_applied) {
            let ordering = match self.schedule.settings.by_time {
                true => Ordering::Time,
                false => Ordering::Arrival,
            };
            let check = |event: &Value| Some(Update::parse(event.clone(), "r", ordering).ok()?.payload().check());
            let (own, mut event) = (self.event(update), self.event(update));
            event["Mark"] = json!("of another update");
            // One payload in 100,000 has the check digits of another, and is taken for it.
            if check(&event).is_none_or(|check_digits| check(&own) != Some(check_digits)) {
                self.connector.count("request-id-reused");
                self.send_reused(update, event).await;
            }
        }
    }
}

/// Returns the key of a latest item.
fn latest(entity: &str) -> Value {
    json!({"PK": {"S": entity}, "SK": {"S": LATEST_KEY}})
}

impl Content {
    fn attributes(self, seed: u64) -> Value {
        /// Bytes of an item that leave no room for the attributes of a version, and some for those of a latest item.
        const BYTES: usize = 409_500;
        match self {
            Self::Small => json!({"A": {"N": "1"}}),
            Self::Attributes => {
                let text = "text ".repeat(151);
                let attribute = |number| (format!("N{number:03}"), json!({"S": text}));
                Value::Object((0..BYTES / (4 + text.len())).map(attribute).collect())
            }
            Self::Bytes => json!({"A": {"B": incompressible(seed, BYTES)}}),
            Self::ImageDeflate => json!({"ImageDeflate": {"S": "of the user"}}),
        }
    }
}

/// Returns random bytes, in base64.
pub(crate) fn incompressible(seed: u64, bytes: usize) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut rng = fastrand::Rng::with_seed(seed);
    (0..bytes / 3 * 4)
        .map(|_| char::from(DIGITS[rng.usize(..64)]))
        .collect()
}
