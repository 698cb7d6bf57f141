//! What happens to the system: updates by several sources, people, and what stops.

use std::{collections::HashSet, time::Duration};

use serde_json::{Value, json};
use tokio::time::{Instant, sleep, sleep_until};

use crate::{
    functions::{Heard, write},
    schedule::{Step, StepKind},
    wire::lock,
    world::{MALFORMED, TABLE, TRIES, Told, World},
};

impl World<'_> {
    /// Does what one source does, a step after the other.
    pub(crate) async fn source(&self, source: u8) {
        let steps = self.schedule.steps.iter().filter(|step| step.source == source);
        for step in steps {
            sleep_until(self.clock.0 + Duration::from_millis(step.at)).await;
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
            StepKind::DeleteHead { entity, create } => {
                self.wire.happened("head-deleted");
                let mut key = json!({"PK": {"S": entity}, "SK": {"S": self.digits.latest_key()}});
                let _ = self.wire.by_hand("DeleteItem", json!({"TableName": TABLE, "Key": key}));
                if *create {
                    self.wire.happened("head-created-by-hand");
                    key["By"] = json!({"S": "hand"});
                    let _ = self.wire.by_hand("PutItem", json!({"TableName": TABLE, "Item": key}));
                }
            }
            StepKind::WriteVersion { entity, ahead } => self.write_version(entity, *ahead),
            StepKind::MalformedHead { number } => {
                self.wire.happened("malformed-record");
                let item = json!({
                    "PK": {"S": format!("{MALFORMED}{number}")}, "SK": {"S": self.digits.latest_key()}, "Latest": {"N": "1"},
                });
                let _ = self.wire.by_hand("PutItem", json!({"TableName": TABLE, "Item": item}));
            }
            StepKind::StopMapping { millis } => {
                self.wire.happened("mapping-stopped");
                *lock(&self.stopped_for) = Duration::from_millis(*millis);
                self.stop.notify_one();
            }
            StepKind::DestinationDown { millis } => {
                lock(&self.bucket.0).down_until = Some(Instant::now() + Duration::from_millis(*millis));
                self.wire.happened("destination-down");
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
                self.wire.happened("duplicate-delivery");
            }
        }
    }

    async fn deliver(&self, update: usize, event: Value) {
        for attempt in 0..TRIES {
            self.back_off(attempt).await;
            match write(&self.writer, &event).await {
                Heard::Answer(answer) => {
                    let outcome = answer["Outcome"].as_str().unwrap_or_default().to_owned();
                    let version = answer["Version"].as_u64().unwrap_or_default();
                    return self.tell(update, Told::Outcome(outcome, version));
                }
                Heard::Error(kind) if ["VersionConflict", "InvalidEvent"].contains(&kind.as_str()) => {
                    return self.tell(update, Told::Refused(kind));
                }
                Heard::Error(_) | Heard::Nothing => {}
            }
        }
    }

    async fn deliver_batch(&self, mut updates: Vec<usize>) {
        for attempt in 0..TRIES {
            self.back_off(attempt).await;
            let message = |(index, update): (usize, &usize)| {
                let body = self.schedule.updates[*update].json().to_string();
                json!({"messageId": index.to_string(), "eventSource": "aws:sqs", "body": body})
            };
            let messages: Vec<_> = updates.iter().enumerate().map(message).collect();
            let Heard::Answer(answer) = write(&self.writer, &json!({"Records": messages})).await else {
                continue;
            };
            let failures = answer["batchItemFailures"].as_array().cloned().unwrap_or_default();
            let failed: HashSet<_> = failures
                .iter()
                .map(|failure| failure["itemIdentifier"].clone())
                .collect();
            let mut left = Vec::new();
            for (index, update) in updates.into_iter().enumerate() {
                if failed.contains(&json!(index.to_string())) {
                    left.push(update);
                } else {
                    self.tell(update, Told::Accepted);
                }
            }
            updates = left;
            if updates.is_empty() {
                return;
            }
        }
    }

    pub(crate) async fn back_off(&self, attempt: u32) {
        if attempt > 0 {
            let millis = self.wire.draw(|rng| rng.u64(50..600));
            sleep(Duration::from_millis(millis)).await;
        }
    }

    fn tell(&self, update: usize, told: Told) {
        lock(&self.told).push((update, told));
    }

    fn write_version(&self, entity: &str, ahead: u64) {
        let key = json!({"PK": {"S": entity}, "SK": {"S": self.digits.latest_key()}});
        let head = self.wire.by_hand(
            "GetItem",
            json!({"TableName": TABLE, "Key": key, "ConsistentRead": true}),
        );
        let latest = head
            .ok()
            .and_then(|head| head.pointer("/Item/Latest/N")?.as_str()?.parse().ok());
        let version = shared::domain::version::Version::new(latest.unwrap_or(0u64) + ahead);
        let Some(sort_key) = version.map(|version| self.digits.version_key(version)) else {
            return;
        };
        let put = json!({
            "TableName": TABLE, "ConditionExpression": "attribute_not_exists(PK)",
            "Item": {"PK": {"S": entity}, "SK": {"S": sort_key}, "By": {"S": "hand"}},
        });
        if self.wire.by_hand("PutItem", put).is_ok() {
            self.wire.happened("version-by-hand");
            lock(&self.by_hand).insert((entity.to_owned(), sort_key));
        }
    }
}
