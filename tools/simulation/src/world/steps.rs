//! The steps of a schedule: deliveries of updates, actions of operators and other programs, and interruptions.

use std::{collections::HashSet, time::Duration};

use serde_json::{Value, json};
use shared::{
    config::Ordering,
    domain::{keys::FLOOR_KEY, layout, recorded_at::RecordedAt, version::Version},
};
use tokio::time::Instant;
use writer_fn::update::Update;

use crate::{
    caller::lock,
    evidence::{Answer, UpstreamResponse},
    requests::{incompressible, text},
    schedule::{Command, Content, Edit, HISTORY, MALFORMED, Step, StepKind, TABLE},
    world::{World, latest},
};

impl World {
    pub(crate) async fn step(&self, step: &Step) {
        let connector = &self.connector;
        match &step.kind {
            StepKind::Direct(update) => {
                self.direct(*update).await;
            }
            StepKind::Asynchronous(update) => self.asynchronous(*update).await,
            StepKind::ReuseId(update) => self.reuse_id(*update).await,
            StepKind::Sqs(updates) => updates.iter().for_each(|update| self.send(*update)),
            StepKind::Redeliver { update, as_first } => self.receive_again(*update, *as_first),
            StepKind::Edit(entity, edit) => self.edit(entity, edit),
            StepKind::MalformedLatest(name) => {
                let mut item = latest(&format!("{MALFORMED}{name}"));
                item["Latest"] = number(1);
                self.put(item, "malformed-record");
            }
            StepKind::StopMapping(millis) => {
                connector.count("mapping-stopped");
                *lock(&self.mapping_pause) = Duration::from_millis(*millis);
                self.mapping_stop.notify_one();
            }
            StepKind::DenyDestination(millis) => {
                connector.count("destination-denied");
                lock(&self.bucket.0).denied_until = Some(Instant::now() + Duration::from_millis(*millis));
            }
            StepKind::Window { scope, millis } => {
                let duration = Duration::from_millis(*millis);
                lock(&connector.plan).open_window(scope.clone(), duration);
            }
            StepKind::SplitShard => connector.split(),
            StepKind::Expire => {
                let before = self.version_keys();
                (0..connector.expire().unwrap_or_default()).for_each(|_| connector.count("expired"));
                let after = self.version_keys();
                lock(&self.seen).pruned.extend(before.difference(&after).cloned());
            }
            StepKind::Command(command) => self.command(command).await,
            StepKind::Seal => self.seal().await,
            StepKind::RestoreState(millis) => self.restore_state(*millis).await,
            StepKind::Change { item, kind } => self.change(*item, *kind),
        }
    }

    /// Changes an entity as another program or an operator without a command does.
    fn edit(&self, entity: &str, edit: &Edit) {
        let mut item = latest(entity);
        match edit {
            Edit::Increment(value) => {
                let value = json!({":value": number(*value as u64)});
                self.increment(entity, "OtherValue = :value", value, "other-program");
            }
            Edit::FarAhead(millis) => {
                let time = RecordedAt::since_epoch(Duration::from_millis(self.clock.millis() + millis));
                self.set_time(entity, &json!({"S": time.to_string()}), "recorded-far-ahead");
            }
            Edit::OtherTime(time) => self.set_time(entity, time, "recorded-in-another-form"),
            Edit::RemoveRequests => {
                let remove = json!({
                    "TableName": TABLE, "Key": item, "UpdateExpression": "REMOVE RecentRequests",
                    "ConditionExpression": "attribute_exists(RecentRequests)",
                });
                self.do_as_other("UpdateItem", remove, "requests-removed");
            }
            Edit::Replace(content) => {
                let mut attributes = content.attributes(self.schedule.seed);
                attributes["Latest"] = number(self.latest_number(entity) + 1);
                if let (Value::Object(item), Value::Object(attributes)) = (&mut item, attributes) {
                    item.extend(attributes);
                }
                self.put(item, "latest-item-replaced");
            }
            Edit::Delete | Edit::Recreate => {
                self.connector.count("latest-item-deleted");
                let _ = self
                    .connector
                    .send("DeleteItem", json!({"TableName": TABLE, "Key": item}));
                if *edit == Edit::Recreate {
                    item["By"] = json!({"S": "hand"});
                    self.put(item, "latest-item-put");
                }
            }
            Edit::WriteVersion(ahead) => self.write_version(entity, *ahead),
            Edit::Reinsert(version) => self.reinsert(entity, *version),
            Edit::WriteLatest(version) => {
                let floor = json!({"PK": {"S": entity}, "SK": {"S": FLOOR_KEY}, "Floor": number(*version)});
                let _ = self.connector.put(self.schedule.settings.history_table(), &floor);
                (item["Latest"], item["By"]) = (number(*version), json!({"S": "hand"}));
                self.put(item, "latest-item-put");
            }
        }
    }

    /// Returns partition key and sort key of each version item.
    fn version_keys(&self) -> HashSet<(String, String)> {
        let items = self.connector.scan(self.schedule.settings.history_table());
        let keys = items.unwrap_or_default().into_iter();
        let keys = keys.map(|item| (text(&item, "/PK/S").to_owned(), text(&item, "/SK/S").to_owned()));
        keys.filter(|(_, key)| self.digits.version_of(key).is_some()).collect()
    }

    /// Sends a request of another program. Counts it, and returns `true`, if it succeeds.
    fn do_as_other(&self, operation: &'static str, request: Value, name: &str) -> bool {
        let is_done = self.connector.send(operation, request).is_ok();
        if is_done {
            self.connector.count(name);
        }
        is_done
    }

    fn put(&self, item: Value, name: &str) {
        self.do_as_other("PutItem", json!({"TableName": TABLE, "Item": item}), name);
    }

    /// Increments `Latest`, and sets `RecordedAt`.
    fn set_time(&self, entity: &str, time: &Value, name: &str) {
        self.increment(
            entity,
            "OtherValue = :one, RecordedAt = :time",
            json!({":time": time}),
            name,
        );
    }

    /// Increments `Latest`, if there is such an item, and sets other attributes.
    fn increment(&self, entity: &str, set: &str, mut values: Value, name: &str) {
        values[":one"] = number(1);
        let update = json!({
            "TableName": TABLE, "Key": latest(entity),
            "UpdateExpression": format!("SET Latest = Latest + :one, {set}"),
            "ConditionExpression": "attribute_exists(Latest)", "ExpressionAttributeValues": values,
        });
        self.do_as_other("UpdateItem", update, name);
    }

    /// Returns the number in a latest item, 0 if there is none.
    fn latest_number(&self, entity: &str) -> u64 {
        let get = json!({"TableName": TABLE, "Key": latest(entity), "ConsistentRead": true});
        let latest = self.connector.send("GetItem", get).unwrap_or_default();
        text(&latest, "/Item/Latest/N").parse().unwrap_or(0)
    }

    fn write_version(&self, entity: &str, ahead: u64) {
        let version = Version::new(self.latest_number(entity) + ahead);
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
        if self.do_as_other("PutItem", put, "version-put") {
            lock(&self.seen).manual_versions.insert((entity.to_owned(), sort_key));
        }
    }

    /// Sends another update with the request id of one that was applied.
    async fn reuse_id(&self, update: usize) {
        let is_applied = |answer: &Answer| {
            let is_written = matches!(&answer.response, UpstreamResponse::Outcome(outcome, _) if outcome == "Written");
            answer.update == update && is_written
        };
        let entity = &self.schedule.updates[update].entity;
        let forgets = |kind: &StepKind| match kind {
            StepKind::Edit(of, Edit::Delete | Edit::Recreate | Edit::WriteVersion(_))
            | StepKind::Command(Command::Purge(of) | Command::Prune(of, _)) => of == entity,
            StepKind::Command(Command::PruneTable(_)) => true,
            _ => false,
        };
        if self.schedule.has(forgets) || !lock(&self.seen).answers.iter().any(is_applied) {
            return;
        }
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

/// Returns a number in DynamoDB JSON.
fn number(number: u64) -> Value {
    json!({"N": number.to_string()})
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
