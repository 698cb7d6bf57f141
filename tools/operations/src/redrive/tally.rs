//! Outcomes of records and updates: counts, and the names of records that are not in history and of updates that stay.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};
use shared::domain::{sequence::SequenceNumber, version_item::VersionItem};
use stream_fn::{
    error::RecordFailure,
    response::{Outcome, ProcessedRecord},
};

use crate::{
    error::OperationError,
    failures::document::{Batch, table_of},
};

/// Records that are not in history, and whose message or quarantine item may be deleted.
#[derive(Debug, Clone, Copy, Default)]
pub struct Dropped {
    /// Records in conflict with an existing item.
    pub conflicts: bool,
    /// Records that are no version.
    pub malformed: bool,
}

#[derive(Debug, Default)]
pub struct Tally {
    documents: u64,
    recorded: u64,
    already_recorded: u64,
    skipped: u64,
    /// Records of purged versions, which are not put.
    purged: u64,
    lost: u64,
    other_table: u64,
    /// Number of updates that were sent, by the URL of the queue.
    resent: BTreeMap<String, u64>,
    pub(super) messages_deleted: u64,
    pub(super) messages_kept: u64,
    /// Number of records that left quarantine, and of those that stay in it.
    pub(super) quarantine_deleted: u64,
    pub(super) quarantine_kept: u64,
    conflicts: Vec<Value>,
    lost_records: Vec<Value>,
    malformed: Vec<Value>,
    failed: Vec<Value>,
    other_tables: Vec<Value>,
    left: Vec<Value>,
    not_resent: Vec<Value>,
}

impl Tally {
    pub fn left(name: &str, why: &str) -> Self {
        Self {
            left: vec![json!({"Source": name, "Reason": why})],
            ..Self::default()
        }
    }

    pub(super) fn resent(queue: &str) -> Self {
        Self {
            resent: BTreeMap::from([(queue.to_owned(), 1)]),
            ..Self::default()
        }
    }

    /// Returns the tally of an update that stays in its dead-letter queue.
    pub(super) fn not_resent(name: &str, why: &str) -> Self {
        Self {
            not_resent: vec![json!({"Source": name, "Reason": why})],
            ..Self::default()
        }
    }

    /// Returns the tally of records of another table, which are not replayed.
    pub fn other_table(name: &str, stream_arn: &str, records: u64) -> Self {
        let table = table_of(stream_arn).unwrap_or("unknown");
        Self {
            documents: 1,
            other_table: records,
            other_tables: vec![json!({"Source": name, "Table": table})],
            ..Self::default()
        }
    }

    pub fn set_document(&mut self) {
        self.documents = 1;
        self.other_tables.dedup();
    }

    /// Adds records that the stream no longer has: those of the document before the first one that was found.
    pub fn lose(&mut self, batch: &Batch, first_found: Option<&SequenceNumber>, records: u64) {
        self.lost += records;
        let mut lost = json!({"Shard": batch.shard, "From": batch.first, "Through": batch.last, "Records": records});
        if let (Some(found), Value::Object(lost)) = (first_found.filter(|found| **found > batch.first), &mut lost) {
            lost.remove("Through");
            lost.insert("Before".to_owned(), json!(found));
        }
        self.lost_records.push(lost);
    }

    pub fn count_all(&mut self, name: &str, processed: Vec<ProcessedRecord>) {
        for record in processed {
            match record.outcome {
                Outcome::Recorded => self.recorded += 1,
                Outcome::AlreadyRecorded => self.already_recorded += 1,
                Outcome::Skipped => self.skipped += 1,
                Outcome::Purged => self.purged += 1,
                Outcome::Failed { version, failure } | Outcome::Quarantined { version, failure } => {
                    self.fail(name, record.sequence_number.as_ref(), version.as_ref(), &failure);
                }
            }
        }
    }

    fn fail(
        &mut self,
        name: &str,
        number: Option<&SequenceNumber>,
        version: Option<&VersionItem>,
        failure: &RecordFailure,
    ) {
        let mut named = Map::new();
        if let Some(version) = version {
            named.insert("ID".to_owned(), json!(version.entity().as_str()));
            named.insert("Version".to_owned(), json!(version.version()));
        }
        named.insert("Source".to_owned(), json!(name));
        named.insert("SequenceNumber".to_owned(), json!(number));
        let list = match failure {
            RecordFailure::Conflict => &mut self.conflicts,
            failure => {
                named.insert("Reason".to_owned(), json!(failure.chain()));
                match failure {
                    RecordFailure::Malformed(_) | RecordFailure::Rejected(_) => &mut self.malformed,
                    _ => &mut self.failed,
                }
            }
        };
        list.push(Value::Object(named));
    }

    pub fn add(&mut self, other: Self) {
        self.documents += other.documents;
        self.recorded += other.recorded;
        self.already_recorded += other.already_recorded;
        self.skipped += other.skipped;
        self.purged += other.purged;
        self.lost += other.lost;
        self.other_table += other.other_table;
        self.messages_deleted += other.messages_deleted;
        self.messages_kept += other.messages_kept;
        self.quarantine_deleted += other.quarantine_deleted;
        self.quarantine_kept += other.quarantine_kept;
        self.conflicts.extend(other.conflicts);
        self.lost_records.extend(other.lost_records);
        self.malformed.extend(other.malformed);
        self.failed.extend(other.failed);
        self.other_tables.extend(other.other_tables);
        self.left.extend(other.left);
        self.not_resent.extend(other.not_resent);
        for (queue, updates) in other.resent {
            *self.resent.entry(queue).or_default() += updates;
        }
    }

    /// Returns `true` if a redrive would change anything after a dry run with this tally.
    pub fn would_change(&self) -> bool {
        let is_kept = self.messages_kept > 0 || self.quarantine_kept > 0;
        self.recorded > 0 || self.updates_resent() > 0 || is_kept || !self.failed.is_empty()
    }

    /// Returns the number of documents and of updates.
    pub fn processed(&self) -> u64 {
        self.documents + self.updates_resent() + self.not_resent.len() as u64
    }

    pub(super) fn has_unsent(&self) -> bool {
        !self.not_resent.is_empty()
    }

    fn updates_resent(&self) -> u64 {
        self.resent.values().sum()
    }

    /// Returns `true` if every record is in history, or was purged, and every update was sent. Records that may be dropped do
    /// not count.
    pub fn is_in(&self, drop: Dropped) -> bool {
        let named = [&self.failed, &self.left, &self.not_resent];
        let conflicts = !drop.conflicts && !self.conflicts.is_empty();
        let malformed = !drop.malformed && !self.malformed.is_empty();
        !conflicts && !malformed && named.iter().all(|list| list.is_empty()) && self.lost == 0 && self.other_table == 0
    }

    fn records(&self) -> u64 {
        let named = self.conflicts.len() + self.malformed.len() + self.failed.len();
        let done = self.recorded + self.already_recorded + self.skipped + self.purged;
        named as u64 + done + self.lost + self.other_table
    }

    pub fn counts(&self, is_dry: bool) -> Value {
        json!({
            "Documents": self.documents, "Records": self.records(),
            "Recorded": self.recorded, "AlreadyRecorded": self.already_recorded, "Skipped": self.skipped,
            "Purged": self.purged,
            "Conflict": self.conflicts.len(), "Lost": self.lost, "Malformed": self.malformed.len(),
            "Failed": self.failed.len(), "OtherTable": self.other_table, "NotDocuments": self.left.len(),
            "Resent": self.updates_resent(), "NotResent": self.not_resent.len(),
            "MessagesDeleted": self.messages_deleted, "MessagesKept": self.messages_kept,
            "QuarantineDeleted": self.quarantine_deleted, "QuarantineKept": self.quarantine_kept, "DryRun": is_dry,
        })
    }

    /// Returns the names of records that are not in history and of updates that stay, by reason.
    pub fn lists(&self) -> [(&'static str, &[Value]); 7] {
        [
            ("Conflicts", &self.conflicts),
            ("LostRecords", &self.lost_records),
            ("MalformedRecords", &self.malformed),
            ("FailedRecords", &self.failed),
            ("OtherTables", &self.other_tables),
            ("Left", &self.left),
            ("UpdatesNotResent", &self.not_resent),
        ]
    }

    /// Returns the queues that updates were sent to.
    pub fn destinations(&self) -> Vec<Value> {
        let queues = self.resent.iter();
        queues
            .map(|(queue, updates)| json!({"Queue": queue, "Updates": updates}))
            .collect()
    }

    pub fn summary(&self, is_dry: bool) -> Value {
        let mut summary = self.counts(is_dry);
        for (name, list) in self.lists() {
            summary[name] = json!(list);
        }
        summary["Destinations"] = self.destinations().into();
        summary
    }

    /// Returns an error if any record is not in history, or any update was not sent.
    pub fn verdict(&self) -> Result<(), OperationError> {
        let parts = [
            (self.conflicts.len() as u64, "in conflict with an existing item"),
            (self.lost, "lost"),
            (self.malformed.len() as u64, "malformed"),
            (self.failed.len() as u64, "failed, can be retried"),
            (self.other_table, "of another table"),
            (self.left.len() as u64, "neither a document nor an update"),
            (self.not_resent.len() as u64, "not sent again"),
        ];
        let parts = parts.iter().filter(|(count, _)| *count > 0);
        let parts: Vec<_> = parts.map(|(count, what)| format!("{count} {what}")).collect();
        let message = format!("not everything was redriven: {}", parts.join(", "));
        match (self.failed.is_empty(), self.is_in(Dropped::default())) {
            (false, _) => Err(OperationError::Retryable(message)),
            (true, false) => Err(OperationError::Incomplete(message)),
            (true, true) => Ok(()),
        }
    }
}
