//! Summary of a redrive or a repair: the outcomes of records, updates and steps, and a list of what is not in place.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};
use shared::domain::sequence::SequenceNumber;
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

/// Outcomes that a summary counts, by their names in JSON. `Recorded` to `OtherTable` are the outcomes of stream records in failure documents.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Count {
    Documents,
    Recorded,
    AlreadyRecorded,
    Skipped,
    /// Purged versions, which are not put.
    Purged,
    /// Pruned versions, which are not put.
    Pruned,
    /// A different item exists and was not overwritten, or the highest version has changed since the plan of a repair.
    Conflict,
    /// Versions that the latest item does not count.
    AboveLatest,
    /// Records that the stream no longer has.
    Lost,
    Malformed,
    Failed,
    OtherTable,
    /// Files, objects and messages that are neither a document nor an update.
    NotDocuments,
    Resent,
    NotResent,
    MessagesDeleted,
    MessagesKept,
    QuarantineDeleted,
    QuarantineKept,
    /// Entities with findings, of a repair.
    Entities,
    /// Latest items that continue after a higher version.
    Raised,
    /// Latest items that got their first number.
    Adopted,
    /// Latest items that were created again.
    Revived,
    /// Findings without a step.
    Left,
}

/// The summary of a command.
#[derive(Debug)]
struct Form {
    /// Names of the counts in JSON. `Records` is the number of all outcomes of stream records.
    counts: &'static str,
    /// Outcomes after which a version is not in place: the outcome, the name of its list, if it has one, and its text in the error.
    open: &'static [(Count, Option<&'static str>, &'static str)],
    incomplete: &'static str,
}

const REDRIVE: Form = Form {
    counts: "Documents Records Recorded AlreadyRecorded Skipped Purged Pruned Conflict AboveLatest Lost Malformed Failed OtherTable \
             NotDocuments Resent NotResent MessagesDeleted MessagesKept QuarantineDeleted QuarantineKept",
    open: &[
        (Count::Conflict, Some("Conflicts"), "in conflict with an existing item"),
        (
            Count::AboveLatest,
            Some("VersionsAboveLatest"),
            "of versions above the latest one, or without a latest item",
        ),
        (Count::Lost, Some("LostRecords"), "lost"),
        (Count::Malformed, Some("MalformedRecords"), "malformed"),
        (Count::Failed, Some("FailedRecords"), "failed, can be retried"),
        (Count::OtherTable, Some("OtherTables"), "of another table"),
        (Count::NotDocuments, Some("Left"), "neither a document nor an update"),
        (Count::NotResent, Some("UpdatesNotResent"), "not sent again"),
    ],
    incomplete: "not everything was redriven",
};

const REPAIR: Form = Form {
    counts: "Entities Recorded AlreadyRecorded Raised Adopted Revived Purged Pruned Conflict Failed Left",
    open: &[
        (
            Count::Conflict,
            Some("Conflicts"),
            "met a different item or another highest version: run the repair again",
        ),
        (Count::Failed, Some("FailedSteps"), "failed, can be retried"),
        (Count::Left, None, "cannot be repaired"),
    ],
    incomplete: "not all is repaired",
};

/// Maximum number of entries of a list. Each needs about 1 KB, and there can be millions.
const MAX_NAMED: usize = 10_000;

/// A count, with the list of the things that were counted.
#[derive(Debug, Default)]
struct Counted {
    count: u64,
    /// Number of entries of the list, of which the first [`MAX_NAMED`] are kept. An entry can be that of several records.
    entries: u64,
    kept: Vec<Value>,
}

#[derive(Debug)]
pub struct Tally {
    form: &'static Form,
    counted: BTreeMap<Count, Counted>,
    /// Number of updates that were sent, by the URL of the queue.
    destinations: BTreeMap<String, u64>,
}

/// The tally of a redrive.
impl Default for Tally {
    fn default() -> Self {
        Self {
            form: &REDRIVE,
            counted: BTreeMap::new(),
            destinations: BTreeMap::new(),
        }
    }
}

impl Tally {
    pub(crate) fn of_repair() -> Self {
        Self {
            form: &REPAIR,
            ..Self::default()
        }
    }

    /// Returns the tally of one thing.
    pub(super) fn of(count: Count) -> Self {
        let mut tally = Self::default();
        tally.count(count, 1);
        tally
    }

    /// Returns the tally of one thing that is not in place.
    pub(super) fn open(count: Count, name: &str, why: &str) -> Self {
        let mut tally = Self::default();
        tally.list(count, 1, json!({"Source": name, "Reason": why}));
        tally
    }

    /// Returns the tally of an update that was sent to this queue.
    pub(super) fn resent(queue: &str) -> Self {
        let mut tally = Self::of(Count::Resent);
        tally.destinations.insert(queue.to_owned(), 1);
        tally
    }

    pub(crate) fn count(&mut self, count: Count, number: u64) {
        self.merge(count, number, 0, []);
    }

    /// Counts this number of things under one name.
    pub(crate) fn list(&mut self, count: Count, number: u64, named: Value) {
        self.merge(count, number, 1, [named]);
    }

    fn merge(&mut self, count: Count, number: u64, entries: u64, named: impl IntoIterator<Item = Value>) {
        let counted = self.counted.entry(count).or_default();
        counted.count = counted.count.saturating_add(number);
        counted.entries = counted.entries.saturating_add(entries);
        let free = MAX_NAMED.saturating_sub(counted.kept.len());
        counted.kept.extend(named.into_iter().take(free));
    }

    /// Adds the counts and lists of another tally.
    pub fn add(&mut self, other: Self) {
        for (count, counted) in other.counted {
            self.merge(count, counted.count, counted.entries, counted.kept);
        }
        for (queue, updates) in other.destinations {
            *self.destinations.entry(queue).or_default() += updates;
        }
    }

    /// Adds records of another table, which are not replayed.
    pub(super) fn other_table(&mut self, name: &str, stream_arn: &str, records: u64) {
        let table = TableId::of_arn(stream_arn).map_or_else(|| "unknown".to_owned(), |table| table.name);
        let named = json!({"Source": name, "Table": table, "StreamArn": stream_arn});
        self.list(Count::OtherTable, records, named);
    }

    /// Adds records that the stream no longer has: those of the document before the first one that was found.
    pub(super) fn lose(&mut self, batch: &Batch, first_found: Option<&SequenceNumber>, records: u64) {
        let (until, number) = match first_found.filter(|found| **found > batch.first) {
            Some(found) => ("Before", found),
            None => ("Through", &batch.last),
        };
        let lost = json!({"Shard": batch.shard, "From": batch.first, until: number, "Records": records});
        self.list(Count::Lost, records, lost);
    }

    /// Adds the outcomes of the records of a document.
    pub(super) fn processed(&mut self, name: &str, processed: Vec<ProcessedRecord>) {
        for record in processed {
            match &record.outcome {
                Outcome::Recorded => self.count(Count::Recorded, 1),
                Outcome::AlreadyRecorded => self.count(Count::AlreadyRecorded, 1),
                Outcome::Skipped => self.count(Count::Skipped, 1),
                Outcome::Purged => self.count(Count::Purged, 1),
                Outcome::Pruned => self.count(Count::Pruned, 1),
                Outcome::Failed { version, failure } | Outcome::Quarantined { version, failure } => {
                    let mut named = Map::new();
                    if let Some(version) = version {
                        named.insert("ID".to_owned(), json!(version.entity().as_str()));
                        named.insert("Version".to_owned(), json!(version.version()));
                    }
                    named.insert("Source".to_owned(), json!(name));
                    named.insert("SequenceNumber".to_owned(), json!(record.sequence_number));
                    let (count, why) = match failure {
                        RecordFailure::Conflict => (Count::Conflict, None),
                        RecordFailure::AboveLatest(latest) => (Count::AboveLatest, Some(("Latest", json!(latest)))),
                        RecordFailure::NoLatestItem => (Count::AboveLatest, Some(("Latest", Value::Null))),
                        RecordFailure::Malformed(_) | RecordFailure::Rejected(_) | RecordFailure::Omitted => {
                            (Count::Malformed, Some(("Reason", json!(failure.chain()))))
                        }
                        _ => (Count::Failed, Some(("Reason", json!(failure.chain())))),
                    };
                    named.extend(why.map(|(name, why)| (name.to_owned(), why)));
                    self.list(count, 1, Value::Object(named));
                }
            }
        }
    }

    fn get(&self, count: Count) -> u64 {
        self.counted.get(&count).map_or(0, |counted| counted.count)
    }

    fn named(&self, name: &str) -> u64 {
        let is_of_record = |count: &Count| (Count::Recorded..=Count::OtherTable).contains(count);
        let is_named = |count: &Count| format!("{count:?}") == name || (name == "Records" && is_of_record(count));
        let named = self.counted.iter().filter(|(count, _)| is_named(count));
        named.map(|(_, counted)| counted.count).fold(0, u64::saturating_add)
    }

    /// Returns the number of documents and of updates.
    pub(super) fn documents_and_updates(&self) -> u64 {
        let counts = [Count::Documents, Count::Resent, Count::NotResent];
        counts.map(|count| self.get(count)).iter().sum()
    }

    pub(super) fn has(&self, count: Count) -> bool {
        self.get(count) > 0
    }

    /// Returns `true` if every record is in history, or was purged or pruned, and every update was sent. Records that may be dropped do
    /// not count.
    pub fn is_in(&self, drop: Dropped) -> bool {
        let is_dropped = |count| match count {
            Count::Conflict | Count::AboveLatest => drop.conflicts,
            Count::Malformed => drop.malformed,
            _ => false,
        };
        let mut open = self.form.open.iter().map(|(count, ..)| *count);
        !open.any(|count| self.has(count) && !is_dropped(count))
    }

    /// Returns the counts, and the names of what is not in place, by reason. Each list has at most 10,000 entries; `Omitted` is the
    /// number of those that are left out.
    pub fn summary(&self, is_dry: bool) -> Value {
        let form = self.form;
        let counts = form.counts.split_whitespace();
        let counts = counts.map(|name| (name.to_owned(), json!(self.named(name))));
        let mut summary: Map<_, _> = counts.collect();
        summary.insert("DryRun".to_owned(), json!(is_dry));
        for (count, list, _) in form.open {
            if let Some(list) = list {
                let kept = self.counted.get(count).map_or(&[][..], |counted| &counted.kept);
                summary.insert((*list).to_owned(), json!(kept));
            }
        }
        if form.counts == REDRIVE.counts {
            let queues = self.destinations.iter();
            let queues = queues.map(|(queue, updates)| json!({"Queue": queue, "Updates": updates}));
            summary.insert("Destinations".to_owned(), queues.collect());
        }
        let omitted = self.counted.values().map(|of| of.entries - of.kept.len() as u64);
        let omitted = omitted.fold(0, u64::saturating_add);
        if omitted > 0 {
            summary.insert("Omitted".to_owned(), json!(omitted));
        }
        Value::Object(summary)
    }

    /// Checks that everything is in place.
    ///
    /// # Errors
    ///
    /// Returns [`OperationError::Retryable`] if a part failed, and [`OperationError::Incomplete`] if anything else is not in place.
    pub fn verdict(&self) -> Result<(), OperationError> {
        let open = self.form.open.iter().map(|(count, _, what)| (self.get(*count), what));
        let parts = open.filter(|(count, _)| *count > 0);
        let parts: Vec<_> = parts.map(|(count, what)| format!("{count} {what}")).collect();
        let message = format!("{}: {}", self.form.incomplete, parts.join(", "));
        match (self.has(Count::Failed), parts.is_empty()) {
            (true, _) => Err(OperationError::Retryable(message)),
            (false, false) => Err(OperationError::Incomplete(message)),
            (false, true) => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_do_not_overflow_and_lists_are_limited() {
        let mut tally = Tally::default();
        tally.other_table("a", "", u64::MAX);
        for _ in 0..2 {
            let mut one = Tally::default();
            one.other_table("b", "", 7);
            (0..MAX_NAMED).for_each(|_| one.list(Count::Malformed, 1, Value::Null));
            tally.add(one);
        }
        let summary = tally.summary(true);
        let records = (&summary["OtherTable"], &summary["Records"], &summary["Malformed"]);
        assert_eq!(records, (&json!(u64::MAX), &json!(u64::MAX), &json!(2 * MAX_NAMED)));
        assert_eq!(summary["MalformedRecords"].as_array().unwrap().len(), MAX_NAMED);
        assert_eq!(
            (&summary["Omitted"], &summary["DryRun"]),
            (&json!(MAX_NAMED), &json!(true))
        );
    }

    #[test]
    fn lost_records_are_named_by_their_position() {
        let number = |text: &str| SequenceNumber::new(text.to_owned()).unwrap();
        let batch = Batch {
            stream_arn: String::new(),
            shard: "s".to_owned(),
            first: number("3"),
            last: number("9"),
            size: 4,
        };
        let all = json!({"Shard": "s", "From": "3", "Through": "9", "Records": 2});
        for (first, expected) in [
            (None, all.clone()),
            (Some(number("3")), all),
            (
                Some(number("5")),
                json!({"Shard": "s", "From": "3", "Before": "5", "Records": 2}),
            ),
        ] {
            let mut tally = Tally::default();
            tally.lose(&batch, first.as_ref(), 2);
            let summary = tally.summary(false);
            assert_eq!(
                (&summary["Lost"], &summary["LostRecords"]),
                (&json!(2), &json!([expected]))
            );
        }
    }
}
