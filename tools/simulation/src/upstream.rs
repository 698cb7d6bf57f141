//! The senders of a schedule: deliveries of updates, actions of operators, and interruptions of the mapping.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    sync::Mutex,
    time::Duration,
};

use serde_json::{Value, json};
use shared::domain::{
    keys::{LATEST_KEY, VersionDigits},
    recorded_at::RecordedAt,
    version::Version,
};
use tokio::{
    sync::Notify,
    time::{Instant, sleep, sleep_until},
};
use writer_fn::Writer;

use crate::{
    caller::lock,
    clock::Clock,
    connector::Connector,
    evidence::UpstreamResponse,
    functions::{WriterResult, write},
    mapping::Bucket,
    schedule::{MALFORMED, Origin, Schedule, Step, StepKind, TABLE},
};

/// Maximum number of deliveries of an update, and of reads of a history.
pub(crate) const MAX_ATTEMPTS: u32 = 6;
/// Time after which a queue delivers a message again, as in template.yaml.
const VISIBILITY_TIMEOUT_MILLIS: u64 = 180_000;

/// State of a queue message. Times are epoch milliseconds.
pub(crate) struct Message {
    sent: u64,
    first_received: Option<u64>,
    visible_from: u64,
    receive_count: u32,
}

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
    pub(crate) writers: Vec<Writer>,
    pub(crate) clock: Clock,
    pub(crate) bucket: Bucket,
    pub(crate) mapping_stop: MappingStop,
    pub(crate) responses: Mutex<Vec<(usize, UpstreamResponse)>>,
    /// Time at which each update was sent first.
    pub(crate) first_sent: Mutex<HashMap<usize, u64>>,
    pub(crate) messages: Mutex<HashMap<String, Message>>,
    /// Number of deliveries of each update.
    pub(crate) deliveries: Mutex<HashMap<usize, u32>>,
    pub(crate) manual_versions: Mutex<HashSet<(String, String)>>,
}

impl Upstream<'_> {
    pub(crate) async fn run_source(&self, source: u8) {
        let steps = self.schedule.steps.iter().filter(|step| step.source == source);
        for step in steps {
            sleep_until(self.clock.0 + Duration::from_millis(step.at)).await;
            self.step(step).await;
        }
    }

    async fn step(&self, step: &Step) {
        match &step.kind {
            StepKind::Direct { update } | StepKind::EventBridge { update } => self.deliver(*update).await,
            StepKind::Sqs { updates } => self.deliver_batch(updates).await,
            StepKind::OtherProgram { entity, value } => {
                let update = json!({
                    "TableName": TABLE, "Key": {"PK": {"S": entity}, "SK": {"S": LATEST_KEY}},
                    "UpdateExpression": "SET Latest = Latest + :one, OtherValue = :value",
                    "ConditionExpression": "attribute_exists(Latest)",
                    "ExpressionAttributeValues": {":one": {"N": "1"}, ":value": {"N": value.to_string()}},
                });
                if self.connector.send("UpdateItem", update).is_ok() {
                    self.connector.count("other-program");
                }
            }
            StepKind::DeleteLatest { entity, create } => {
                self.connector.count("head-deleted");
                let mut key = json!({"PK": {"S": entity}, "SK": {"S": LATEST_KEY}});
                let _ = self
                    .connector
                    .send("DeleteItem", json!({"TableName": TABLE, "Key": key}));
                if *create {
                    self.connector.count("head-created-by-hand");
                    key["By"] = json!({"S": "hand"});
                    let _ = self.connector.send("PutItem", json!({"TableName": TABLE, "Item": key}));
                }
            }
            StepKind::WriteVersion { entity, ahead } => self.write_version(entity, *ahead),
            StepKind::MalformedLatest { number } => {
                self.connector.count("malformed-record");
                let item = json!({
                    "PK": {"S": format!("{MALFORMED}{number}")}, "SK": {"S": LATEST_KEY}, "Latest": {"N": "1"},
                });
                let _ = self
                    .connector
                    .send("PutItem", json!({"TableName": TABLE, "Item": item}));
            }
            StepKind::StopMapping { millis } => {
                self.connector.count("mapping-stopped");
                *lock(&self.mapping_stop.duration) = Duration::from_millis(*millis);
                self.mapping_stop.requested.notify_one();
            }
            StepKind::DestinationDown { millis } => {
                lock(&self.bucket.0).down_until = Some(Instant::now() + Duration::from_millis(*millis));
                self.connector.count("destination-down");
            }
        }
    }

    /// Returns the event or message body that delivers an update. Every delivery has the same one.
    fn event(&self, index: usize) -> Value {
        let update = &self.schedule.updates[index];
        let now = || self.clock.millis();
        let sent = *lock(&self.first_sent).entry(index).or_insert_with(now);
        let mut event = update.members.clone();
        event["ID"] = json!(update.entity);
        match update.origin {
            Origin::Message => {}
            Origin::Client => event["RequestId"] = json!(update.id),
            Origin::TimedClient => {
                event["RequestId"] = json!(update.id);
                event["RequestSentAt"] = json!(sent);
            }
            Origin::Event => {
                let time = RecordedAt::since_epoch(Duration::from_secs(sent / 1000)).to_string();
                let source = format!("source-of-{}", update.id);
                event = json!({"id": update.id, "detail-type": "t", "source": source, "time": time, "detail": event});
            }
        }
        event
    }

    /// Invokes one of the writer processes.
    async fn write(&self, updates: impl IntoIterator<Item = usize>, mut event: Value) -> WriterResult {
        for update in updates {
            let mut deliveries = lock(&self.deliveries);
            let count = deliveries.entry(update).or_default();
            *count += 1;
            if *count > 1 {
                self.connector.count("duplicate-delivery");
            }
        }
        if let Some(mutation) = self.connector.mutation() {
            mutation.event(&mut event);
        }
        let writer = self.connector.draw(|rng| rng.usize(..self.writers.len()));
        write(&self.writers[writer], &event).await
    }

    async fn deliver(&self, update: usize) {
        for attempt in 0..MAX_ATTEMPTS {
            self.connector.back_off(attempt).await;
            match self.write([update], self.event(update)).await {
                WriterResult::Response(response) => {
                    let outcome = response["Outcome"].as_str().unwrap_or_default().to_owned();
                    let version = response["Version"].as_u64().unwrap_or_default();
                    return self.add_response(update, UpstreamResponse::Outcome(outcome, version));
                }
                WriterResult::Error(kind) if ["VersionConflict", "InvalidEvent"].contains(&kind.as_str()) => {
                    return self.add_response(update, UpstreamResponse::Rejected(kind));
                }
                WriterResult::Error(_) | WriterResult::Lost => {}
            }
        }
    }

    async fn deliver_batch(&self, updates: &[usize]) {
        let mut messages: BTreeMap<String, usize> = updates
            .iter()
            .map(|update| (self.send_message(*update), *update))
            .collect();
        for attempt in 0..MAX_ATTEMPTS {
            if attempt > 0 {
                sleep(Duration::from_millis(VISIBILITY_TIMEOUT_MILLIS)).await;
            }
            let mut records = Vec::new();
            messages.retain(|id, update| {
                let received = self.receive(id, *update);
                let is_received = received.is_some();
                records.extend(received);
                is_received
            });
            if messages.is_empty() {
                return;
            }
            let event = json!({"Records": records});
            let WriterResult::Response(response) = self.write(messages.values().copied(), event).await else {
                continue;
            };
            let failures = response["batchItemFailures"].as_array().cloned().unwrap_or_default();
            let failed: HashSet<_> = (failures.iter())
                .filter_map(|failure| failure["itemIdentifier"].as_str())
                .collect();
            messages.retain(|id, update| {
                let is_failed = failed.contains(id.as_str());
                if !is_failed {
                    self.add_response(*update, UpstreamResponse::Accepted);
                }
                is_failed
            });
        }
    }

    /// Sends an update to a queue, and returns the message id. An update whose id is that of its message is sent once.
    fn send_message(&self, update: usize) -> String {
        let mut messages = lock(&self.messages);
        let update = &self.schedule.updates[update];
        let id = match update.origin {
            Origin::Message => update.id.clone(),
            _ => format!("message-{}", messages.len()),
        };
        let now = self.clock.millis();
        messages.entry(id.clone()).or_insert(Message {
            sent: now,
            first_received: None,
            visible_from: now,
            receive_count: 0,
        });
        id
    }

    /// Returns the next delivery of a message, `None` while it is invisible.
    fn receive(&self, id: &str, update: usize) -> Option<Value> {
        let body = self.event(update).to_string();
        let now = self.clock.millis();
        let mut messages = lock(&self.messages);
        let message = messages.get_mut(id).filter(|message| message.visible_from <= now)?;
        let first_received = *message.first_received.get_or_insert(now);
        message.visible_from = now + VISIBILITY_TIMEOUT_MILLIS;
        message.receive_count += 1;
        Some(json!({
            "messageId": id, "eventSource": "aws:sqs", "body": body,
            "attributes": {
                "ApproximateReceiveCount": message.receive_count.to_string(),
                "ApproximateFirstReceiveTimestamp": first_received.to_string(),
                "SentTimestamp": message.sent.to_string(),
                "SenderId": format!("sender-of-{}", self.schedule.updates[update].id),
            },
        }))
    }

    fn add_response(&self, update: usize, response: UpstreamResponse) {
        lock(&self.responses).push((update, response));
    }

    fn write_version(&self, entity: &str, ahead: u64) {
        let key = json!({"PK": {"S": entity}, "SK": {"S": LATEST_KEY}});
        let get = json!({"TableName": TABLE, "Key": key, "ConsistentRead": true});
        let latest = self.connector.send("GetItem", get).ok();
        let latest = latest.and_then(|output| output.pointer("/Item/Latest/N")?.as_str()?.parse().ok());
        let version = Version::new(latest.unwrap_or(0u64) + ahead);
        let Some(sort_key) = version.map(|version| self.digits.version_key(version)) else {
            return;
        };
        let put = json!({
            "TableName": TABLE, "ConditionExpression": "attribute_not_exists(PK)",
            "Item": {"PK": {"S": entity}, "SK": {"S": sort_key}, "By": {"S": "hand"}},
        });
        if self.connector.send("PutItem", put).is_ok() {
            self.connector.count("version-by-hand");
            lock(&self.manual_versions).insert((entity.to_owned(), sort_key));
        }
    }
}
