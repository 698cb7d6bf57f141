//! The senders of a schedule: deliveries of updates, actions of operators, and interruptions of the mapping.

use std::{collections::HashSet, sync::Mutex, time::Duration};

use serde_json::{Value, json};
use shared::domain::{
    keys::{LATEST_KEY, VersionDigits},
    version::Version,
};
use tokio::{
    sync::Notify,
    time::{Instant, sleep_until},
};
use writer_fn::Writer;

use crate::{
    connector::{Connector, lock},
    evidence::UpstreamResponse,
    functions::{WriterResult, write},
    mapping::Bucket,
    schedule::{MALFORMED, Schedule, Step, StepKind, TABLE},
};

/// Maximum number of deliveries of an update, and of reads of a history.
pub(crate) const MAX_ATTEMPTS: u32 = 6;

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
    pub(crate) writer: Writer,
    pub(crate) start: Instant,
    pub(crate) bucket: Bucket,
    pub(crate) mapping_stop: MappingStop,
    pub(crate) responses: Mutex<Vec<(usize, UpstreamResponse)>>,
    pub(crate) delivered: Mutex<HashSet<usize>>,
    pub(crate) manual_versions: Mutex<HashSet<(String, String)>>,
}

impl Upstream<'_> {
    pub(crate) async fn run_source(&self, source: u8) {
        let steps = self.schedule.steps.iter().filter(|step| step.source == source);
        for step in steps {
            sleep_until(self.start + Duration::from_millis(step.at)).await;
            self.step(step).await;
        }
    }

    async fn step(&self, step: &Step) {
        self.count_duplicates(&step.kind);
        match &step.kind {
            StepKind::Direct { update } => self.deliver(*update, self.schedule.updates[*update].json()).await,
            StepKind::EventBridge { update } => {
                let detail = self.schedule.updates[*update].json();
                let event = json!({"id": "event", "detail-type": "t", "source": "s", "detail": detail});
                self.deliver(*update, event).await;
            }
            StepKind::Sqs { updates } => self.deliver_batch(updates.clone()).await,
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

    fn count_duplicates(&self, kind: &StepKind) {
        let updates: &[usize] = match kind {
            StepKind::Direct { update } | StepKind::EventBridge { update } => &[*update],
            StepKind::Sqs { updates } => updates,
            _ => &[],
        };
        let mut delivered = lock(&self.delivered);
        for update in updates {
            if !delivered.insert(*update) {
                self.connector.count("duplicate-delivery");
            }
        }
    }

    async fn deliver(&self, update: usize, event: Value) {
        for attempt in 0..MAX_ATTEMPTS {
            self.connector.back_off(attempt).await;
            match write(&self.writer, &event).await {
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

    async fn deliver_batch(&self, mut updates: Vec<usize>) {
        for attempt in 0..MAX_ATTEMPTS {
            self.connector.back_off(attempt).await;
            let message = |(index, update): (usize, &usize)| {
                let body = self.schedule.updates[*update].json().to_string();
                json!({"messageId": index.to_string(), "eventSource": "aws:sqs", "body": body})
            };
            let messages: Vec<_> = updates.iter().enumerate().map(message).collect();
            let WriterResult::Response(response) = write(&self.writer, &json!({"Records": messages})).await else {
                continue;
            };
            let failures = response["batchItemFailures"].as_array().cloned().unwrap_or_default();
            let failed: HashSet<_> = failures
                .iter()
                .map(|failure| failure["itemIdentifier"].clone())
                .collect();
            let mut left = Vec::new();
            for (index, update) in updates.into_iter().enumerate() {
                if failed.contains(&json!(index.to_string())) {
                    left.push(update);
                } else {
                    self.add_response(update, UpstreamResponse::Accepted);
                }
            }
            updates = left;
            if updates.is_empty() {
                return;
            }
        }
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
