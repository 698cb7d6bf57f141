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
    failures::{document::Batch, table_id::TableId},
};

/// Records that are not in history, and whose message or quarantine item may be deleted.
#[derive(Debug, Clone, Copy, Default)]
pub struct Dropped {
    /// Records in conflict with an existing item: another version item, or a latest item that does not count their version.
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
    /// Records of pruned versions, which are not put.
    pruned: u64,
    lost: u64,
    other_table: u64,
    /// Number of updates that were sent, by the URL of the queue.
    resent: BTreeMap<String, u64>,
    pub(super) messages_deleted: u64,
    pub(super) messages_kept: u64,
    /// Number of records that left quarantine, and of those that stay in it.
    pub(super) quarantine_deleted: u64,
    pub(super) quarantine_kept: u64,
    conflicts: Named,
    /// Records of versions that the latest item does not count.
    above_latest: Named,
    lost_records: Named,
    malformed: Named,
    failed: Named,
    other_tables: Named,
    left: Named,
    not_resent: Named,
}

/// Maximum number of entries of a list. Each needs about 1 KB, and there can be millions.
const MAX_NAMED: usize = 10_000;

/// A list of names, with the number of its entries, of which the first [`MAX_NAMED`] are kept.
#[derive(Debug, Default)]
struct Named {
    count: u64,
    kept: Vec<Value>,
}

impl Named {
    fn one(named: Value) -> Self {
        Self {
            count: 1,
            kept: vec![named],
        }
    }

    fn push(&mut self, named: Value) {
        self.add(Self::one(named));
    }

    fn add(&mut self, other: Self) {
        self.count = self.count.saturating_add(other.count);
        let free = MAX_NAMED.saturating_sub(self.kept.len());
        self.kept.extend(other.kept.into_iter().take(free));
    }

    fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Returns the number of entries that were not kept.
    fn omitted(&self) -> u64 {
        self.count.saturating_sub(self.kept.len() as u64)
    }
}

impl Tally {
    pub fn left(name: &str, why: &str) -> Self {
        Self {
            left: Named::one(json!({"Source": name, "Reason": why})),
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
            not_resent: Named::one(json!({"Source": name, "Reason": why})),
            ..Self::default()
        }
    }

    /// Returns the tally of records of another table, which are not replayed.
    pub fn other_table(name: &str, stream_arn: &str, records: u64) -> Self {
        let table = TableId::of_arn(stream_arn).map_or_else(|| "unknown".to_owned(), |table| table.name);
        Self {
            documents: 1,
            other_table: records,
            other_tables: Named::one(json!({"Source": name, "Table": table, "StreamArn": stream_arn})),
            ..Self::default()
        }
    }

    pub fn set_document(&mut self) {
        self.documents = 1;
    }

    /// Adds records that the stream no longer has: those of the document before the first one that was found.
    pub fn lose(&mut self, batch: &Batch, first_found: Option<&SequenceNumber>, records: u64) {
        self.lost = self.lost.saturating_add(records);
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
                Outcome::Pruned => self.pruned += 1,
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
            RecordFailure::AboveLatest(latest) => {
                named.insert("Latest".to_owned(), json!(latest));
                &mut self.above_latest
            }
            RecordFailure::NoLatestItem => {
                named.insert("Latest".to_owned(), Value::Null);
                &mut self.above_latest
            }
            failure => {
                named.insert("Reason".to_owned(), json!(failure.chain()));
                match failure {
                    RecordFailure::Malformed(_) | RecordFailure::Rejected(_) | RecordFailure::Omitted => {
                        &mut self.malformed
                    }
                    _ => &mut self.failed,
                }
            }
        };
        list.push(Value::Object(named));
    }

    pub fn add(&mut self, other: Self) {
        for (sum, count) in [
            (&mut self.documents, other.documents),
            (&mut self.recorded, other.recorded),
            (&mut self.already_recorded, other.already_recorded),
            (&mut self.skipped, other.skipped),
            (&mut self.purged, other.purged),
            (&mut self.pruned, other.pruned),
            (&mut self.lost, other.lost),
            (&mut self.other_table, other.other_table),
            (&mut self.messages_deleted, other.messages_deleted),
            (&mut self.messages_kept, other.messages_kept),
            (&mut self.quarantine_deleted, other.quarantine_deleted),
            (&mut self.quarantine_kept, other.quarantine_kept),
        ] {
            *sum = sum.saturating_add(count);
        }
        for (list, more) in [
            (&mut self.conflicts, other.conflicts),
            (&mut self.above_latest, other.above_latest),
            (&mut self.lost_records, other.lost_records),
            (&mut self.malformed, other.malformed),
            (&mut self.failed, other.failed),
            (&mut self.other_tables, other.other_tables),
            (&mut self.left, other.left),
            (&mut self.not_resent, other.not_resent),
        ] {
            list.add(more);
        }
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
        self.documents + self.updates_resent() + self.not_resent.count
    }

    pub(super) fn has_unsent(&self) -> bool {
        !self.not_resent.is_empty()
    }

    fn updates_resent(&self) -> u64 {
        self.resent.values().sum()
    }

    /// Returns `true` if every record is in history, or was purged or pruned, and every update was sent. Records that may be dropped do
    /// not count.
    pub fn is_in(&self, drop: Dropped) -> bool {
        let conflicts = [&self.conflicts, &self.above_latest];
        let named = [
            &self.failed,
            &self.left,
            &self.not_resent,
            &self.lost_records,
            &self.other_tables,
        ];
        let is_none = |lists: &[&Named]| lists.iter().all(|list| list.is_empty());
        is_none(&named)
            && (drop.conflicts || is_none(&conflicts))
            && (drop.malformed || self.malformed.is_empty())
            && (self.lost, self.other_table) == (0, 0)
    }

    fn records(&self) -> u64 {
        let named = [&self.conflicts, &self.above_latest, &self.malformed, &self.failed].map(|list| list.count);
        let counted = [
            self.recorded,
            self.already_recorded,
            self.skipped,
            self.purged,
            self.pruned,
            self.lost,
            self.other_table,
        ];
        named.into_iter().chain(counted).fold(0, u64::saturating_add)
    }

    pub fn counts(&self, is_dry: bool) -> Value {
        json!({
            "Documents": self.documents, "Records": self.records(),
            "Recorded": self.recorded, "AlreadyRecorded": self.already_recorded, "Skipped": self.skipped,
            "Purged": self.purged, "Pruned": self.pruned,
            "Conflict": self.conflicts.count, "AboveLatest": self.above_latest.count, "Lost": self.lost,
            "Malformed": self.malformed.count, "Failed": self.failed.count, "OtherTable": self.other_table,
            "NotDocuments": self.left.count, "Resent": self.updates_resent(), "NotResent": self.not_resent.count,
            "MessagesDeleted": self.messages_deleted, "MessagesKept": self.messages_kept,
            "QuarantineDeleted": self.quarantine_deleted, "QuarantineKept": self.quarantine_kept, "DryRun": is_dry,
        })
    }

    /// Returns the names of records that are not in history and of updates that stay, by reason. Each list has at most
    /// 10,000 entries.
    pub fn lists(&self) -> [(&'static str, &[Value]); 8] {
        self.named().map(|(name, list)| (name, &*list.kept))
    }

    fn named(&self) -> [(&'static str, &Named); 8] {
        [
            ("Conflicts", &self.conflicts),
            ("VersionsAboveLatest", &self.above_latest),
            ("LostRecords", &self.lost_records),
            ("MalformedRecords", &self.malformed),
            ("FailedRecords", &self.failed),
            ("OtherTables", &self.other_tables),
            ("Left", &self.left),
            ("UpdatesNotResent", &self.not_resent),
        ]
    }

    /// Returns the number of entries that the lists leave out.
    pub fn omitted(&self) -> u64 {
        let lists = self.named().into_iter();
        lists.map(|(_, list)| list.omitted()).fold(0, u64::saturating_add)
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
        if self.omitted() > 0 {
            summary["Omitted"] = json!(self.omitted());
        }
        summary
    }

    /// Returns an error if any record is not in history, or any update was not sent.
    pub fn verdict(&self) -> Result<(), OperationError> {
        let parts = [
            (self.conflicts.count, "in conflict with an existing item"),
            (
                self.above_latest.count,
                "of versions above the latest one, or without a latest item",
            ),
            (self.lost, "lost"),
            (self.malformed.count, "malformed"),
            (self.failed.count, "failed, can be retried"),
            (self.other_table, "of another table"),
            (self.left.count, "neither a document nor an update"),
            (self.not_resent.count, "not sent again"),
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
