//! Summary of a redrive or a repair: the outcomes of records, updates and steps, and a list of what is not in place.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use shared::{domain::sequence::SequenceNumber, logging::chain};
use stream_fn::{
    error::RecordFailure,
    response::{Outcome, ProcessedRecord},
};

use crate::{
    error::OperationError,
    failures::{document::Batch, table_id::TableId},
};

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

/// Outcomes of records in conflict with an existing item: another version item, or a latest item that does not count their version.
pub const CONFLICTS: [Count; 2] = [Count::Conflict, Count::AboveLatest];

/// The summary of a command.
#[derive(Debug)]
struct Form {
    /// Names of the counts in JSON. `Records` is the number of all outcomes of stream records.
    counts: &'static str,
    /// Outcomes after which a version is not in place: the outcome, the name of its list, if it has one, and its text in the error.
    open: &'static [(Count, &'static str, &'static str)],
    incomplete: &'static str,
}

const REDRIVE: Form = Form {
    counts: "Documents Records Recorded AlreadyRecorded Skipped Purged Pruned Conflict AboveLatest Lost Malformed Failed OtherTable \
             NotDocuments Resent NotResent MessagesDeleted MessagesKept QuarantineDeleted QuarantineKept",
    open: &[
        (Count::Conflict, "Conflicts", "in conflict with an existing item"),
        (
            Count::AboveLatest,
            "VersionsAboveLatest",
            "of versions above the latest one, or without a latest item",
        ),
        (Count::Lost, "LostRecords", "lost"),
        (Count::Malformed, "MalformedRecords", "malformed"),
        (Count::Failed, "FailedRecords", "failed, can be retried"),
        (Count::OtherTable, "OtherTables", "of another table"),
        (Count::NotDocuments, "Left", "neither a document nor an update"),
        (Count::NotResent, "UpdatesNotResent", "not sent again"),
    ],
    incomplete: "not everything was redriven",
};

const REPAIR: Form = Form {
    counts: "Entities Recorded AlreadyRecorded Raised Adopted Revived Purged Pruned Conflict Failed Left",
    open: &[
        (
            Count::Conflict,
            "Conflicts",
            "met a different item or another highest version: run the repair again",
        ),
        (Count::Failed, "FailedSteps", "failed, can be retried"),
        (Count::Left, "", "cannot be repaired"),
    ],
    incomplete: "not all is repaired",
};

/// Maximum number of entries of a list. Each needs about 1 KB, and there can be millions.
const MAX_NAMED: usize = 10_000;

/// The tally of a redrive, unless it is that of a repair.
#[derive(Debug, Default)]
pub struct Tally {
    is_repair: bool,
    /// Number of things, with the list of those that are not in place. An entry can be that of several records.
    counted: BTreeMap<Count, (u64, Vec<Value>)>,
    /// Number of entries that the lists do not have.
    omitted: u64,
    /// Number of updates that were sent, by the URL of the queue.
    destinations: BTreeMap<String, u64>,
}

impl Tally {
    pub(crate) fn of_repair() -> Self {
        Self {
            is_repair: true,
            ..Self::default()
        }
    }

    fn form(&self) -> &'static Form {
        if self.is_repair { &REPAIR } else { &REDRIVE }
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
        self.merge(count, number, Vec::new());
    }

    /// Counts this number of things under one name.
    pub(crate) fn list(&mut self, count: Count, number: u64, named: Value) {
        self.merge(count, number, vec![named]);
    }

    fn merge(&mut self, count: Count, number: u64, mut named: Vec<Value>) {
        let (total, list) = self.counted.entry(count).or_default();
        *total = total.saturating_add(number);
        let omitted = named.split_off(named.len().min(MAX_NAMED - list.len()));
        self.omitted += omitted.len() as u64;
        list.extend(named);
    }

    /// Adds the counts and lists of another tally.
    pub fn add(&mut self, other: Self) {
        for (count, (number, named)) in other.counted {
            self.merge(count, number, named);
        }
        self.omitted += other.omitted;
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
            let (count, failed) = match &record.outcome {
                Outcome::Recorded => (Count::Recorded, None),
                Outcome::AlreadyRecorded => (Count::AlreadyRecorded, None),
                Outcome::Skipped => (Count::Skipped, None),
                Outcome::Purged => (Count::Purged, None),
                Outcome::Pruned => (Count::Pruned, None),
                Outcome::Failed { version, failure } | Outcome::Quarantined { version, failure } => {
                    let count = match failure {
                        RecordFailure::Conflict => Count::Conflict,
                        RecordFailure::AboveLatest(_) | RecordFailure::NoLatestItem => Count::AboveLatest,
                        failure if failure.is_permanent() => Count::Malformed,
                        _ => Count::Failed,
                    };
                    (count, Some((version, failure)))
                }
            };
            let named = failed.map(|(version, failure)| {
                let mut named = match version {
                    Some(version) => json!({"ID": version.entity().as_str(), "Version": version.version()}),
                    None => json!({}),
                };
                (named["Source"], named["SequenceNumber"]) = (json!(name), json!(record.sequence_number));
                match (failure, count) {
                    (RecordFailure::AboveLatest(latest), _) => named["Latest"] = json!(latest),
                    (_, Count::AboveLatest) => named["Latest"] = Value::Null,
                    (_, Count::Conflict) => {}
                    _ => named["Reason"] = json!(chain(failure)),
                }
                named
            });
            self.merge(count, 1, named.into_iter().collect());
        }
    }

    fn get(&self, count: Count) -> u64 {
        self.counted.get(&count).map_or(0, |(number, _)| *number)
    }

    /// Returns the number of documents and of updates.
    pub(super) fn documents_and_updates(&self) -> u64 {
        let counts = [Count::Documents, Count::Resent, Count::NotResent];
        counts.map(|count| self.get(count)).iter().sum()
    }

    pub(super) fn has(&self, count: Count) -> bool {
        self.get(count) > 0
    }

    /// Returns `true` if every record is in history, or was purged or pruned, and every update was sent. Records with these outcomes
    /// do not count.
    pub fn is_in(&self, dropped: &[Count]) -> bool {
        let mut open = self.form().open.iter();
        !open.any(|(count, ..)| self.has(*count) && !dropped.contains(count))
    }

    /// Returns the counts, and the names of what is not in place, by reason. Each list has at most 10,000 entries; `Omitted` is the
    /// number of those that are left out.
    pub fn summary(&self, is_dry: bool) -> Value {
        let mut summary = json!({});
        for name in self.form().counts.split_whitespace() {
            let is_named = |count: &Count| match name {
                "Records" => (Count::Recorded..=Count::OtherTable).contains(count),
                name => format!("{count:?}") == name,
            };
            let named = self.counted.iter().filter(|(count, _)| is_named(count));
            summary[name] = json!(named.map(|(_, (number, _))| *number).fold(0, u64::saturating_add));
        }
        summary["DryRun"] = json!(is_dry);
        for (count, list, _) in self.form().open {
            if !list.is_empty() {
                summary[*list] = json!(self.counted.get(count).map_or(&[][..], |(_, named)| named));
            }
        }
        if !self.is_repair {
            let queues = self.destinations.iter();
            let queues = queues.map(|(queue, updates)| json!({"Queue": queue, "Updates": updates}));
            summary["Destinations"] = queues.collect();
        }
        if self.omitted > 0 {
            summary["Omitted"] = json!(self.omitted);
        }
        summary
    }

    /// Checks that everything is in place.
    ///
    /// # Errors
    ///
    /// Returns [`OperationError::Retryable`] if a part failed, and [`OperationError::Incomplete`] if anything else is not in place.
    pub fn verdict(&self) -> Result<(), OperationError> {
        let Form { open, incomplete, .. } = self.form();
        let open = open.iter().filter(|(count, ..)| self.has(*count));
        let parts: Vec<_> = open
            .map(|(count, _, what)| format!("{} {what}", self.get(*count)))
            .collect();
        let message = format!("{incomplete}: {}", parts.join(", "));
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
