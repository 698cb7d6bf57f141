//! Mutations: each disables one guard, which the simulation must detect.
//!
//! The functions have no switch for this. Requests, responses, events, records or times are changed in transit:
//!
//! | module | changes |
//! |---|---|
//! | `writes` | requests of the functions and of operators |
//! | `responses` | responses of the database |
//! | `invocations` | events of invocations, and stream records |
//!
//! A mutation depends on the expressions and names of the guard that it disables. A run in which it changed nothing is an error, and
//! so is one in which the database rejects an expression that it changed: such a run shows nothing about the guard.

mod expressions;
mod invocations;
mod responses;
mod writes;

#[cfg(test)]
mod tests;

use std::sync::{
    OnceLock,
    atomic::{AtomicU64, Ordering},
};

use clap::ValueEnum;
use serde_json::{Value, json};

use crate::{caller::Caller, error::SimulationError, http::Response, requests::text};

/// The disabled guard.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Mutation {
    // Requests of the functions.
    /// The check of the request id
    Guard,
    /// The condition on the ledger's marker
    Ledger,
    /// The record that a version of an attached table comes from, as stream-fn reads it: an earlier one
    AttachedRecord,
    /// The old image of a change to an attached table: there is none
    AttachedOldImage,
    /// The floor of an attached table's history: there is none
    AttachedFloor,
    /// The entries by which the late versions of an attached table are found: there are none
    AttachedLate,
    /// The consistent read before a record of an attached table is dropped: it is an eventually consistent one
    AttachedConsistent,
    /// The conditions on the put of a version item, and the rule that a statement does not overwrite
    Condition,
    /// The compression of a version that does not fit otherwise: it is as large as before
    ForcedCompression,
    /// The put into quarantine: the record is stored under another key
    Quarantine,
    /// The guard of an update that is sent again: the map may have dropped requests since the latest item was read
    RetryGuard,
    /// The raising of `RequestsSince` when requests are removed from the latest item
    RequestsSince,
    /// The raising of `RequestsDropped` when requests are removed from the latest item
    RequestsDropped,
    /// The choice of the requests that leave the latest item: the newest one leaves it, too
    Eviction,
    /// The condition under which an update creates the map of recent requests
    MapCreation,
    /// The time at which an update was sent: it is taken for one that was sent 5 s later
    SentTime,
    /// The condition that a version is later than the one before
    Clock,
    /// The condition of an update of a latest item whose `RecordedAt` has another form: it can never hold
    OtherForm,
    /// The bounds by which a delayed request fails: the time of a first one, the version that was read before a later one
    Delay,
    /// The condition that an update by time is not older than the latest item
    Ratchet,
    /// The condition on the expected version
    ExpectedVersion,
    /// The condition that there is a next version number
    MaximumVersion,
    /// The condition that the latest item is no tombstone
    EndedState,
    /// The condition that the latest item is the tombstone that was read
    Tombstone,
    /// The condition that a restore has put no attributes on the tombstone since it was read
    Staged,
    /// The condition that attributes are removed from the tombstone only that ended them
    Removal,
    /// The condition of a transaction that the latest item is the one that was read
    StaleRead,
    /// The removal of an author that the update does not name
    Author,
    /// The incarnation that an update begins: it is that of the one before the purge
    Incarnation,
    // Responses of the database.
    /// The comparison with an existing version item: any item counts as equal
    Compare,
    /// The search of history for an earlier delivery: no version has the request
    HistorySearch,
    /// The wait for versions that are not in history yet: the search passes over them
    HistoryWait,
    /// The check for versions before an update counts from 1
    Uncounted,
    /// The comparison of the payloads of two updates with the same request id
    Fingerprint,
    /// The comparison that skips an update without changes
    SkipUnchanged,
    /// The purge marker, as stream-fn reads it: there is none
    PurgeMarker,
    /// The purge marker, as redrives and repairs read it: it covers no version
    RedriveMarker,
    /// The floor, as stream-fn, redrives and repairs read it before they put a version: there is none
    PrunedFloor,
    /// The latest item, as a redrive reads it: it counts every version
    AboveLatest,
    /// The version before a tombstone, which a prune keeps: the tombstone looks like another version
    BeforeTombstone,
    /// The id of the table that a layout belongs to: it is the same for all tables
    CopiedLayout,
    /// The further parts of a large version, as they are read: there are none
    Parts,
    /// The keys that a read leaves unprocessed: there are none
    UnprocessedKeys,
    // Invocations, and times of operators.
    /// The detection of a redelivery: every delivery looks like the first
    Redelivery,
    /// The splitting of a batch before it is parsed
    RawSplit,
    /// The batch item failures in the responses of stream-fn
    PartialFailures,
    /// The batch item failures in the responses of writer-fn
    MessageFailures,
    /// The deadlines of invocations: the functions get one a day later
    Deadline,
    /// The wait of a purge
    PurgeWait,
    /// The check of the layout by stream-fn
    StreamLayout,
    /// The check of the layout by writer-fn, which also stores it
    WriterLayout,
    /// The wait of a repair for versions that are not in history yet
    Lag,
    // Stream records.
    /// Both the mapping's filter and the function's check of the key
    Filter,
    /// The detection of versions that other programs write: every version looks like one of writer-fn
    OwnVersion,
    /// The time of a record, by which the version of another program gets its `RecordedAt`: there is none
    StreamTime,
    // Requests of operators.
    /// The condition that there is no latest item, when one is restored
    Revive,
    /// The condition that a latest item has not changed, when its number is raised
    Raise,
    /// The recent requests of a latest item that is restored or raised
    RevivedRequests,
    /// The condition that the floor only rises
    Floor,
    /// The condition that pruning does not mark a pinned version
    Pin,
    /// The condition that a version exists when it is marked or pinned
    Mark,
    /// The condition that a latest item without a number gets one only once
    Adopt,
    /// The condition that a purge deletes the latest item that it read
    PurgeCondition,
    /// The condition that the versions that a purge marker covers only rise
    MarkerOrder,
    /// The mark of the version with which a repair begins a new sequence of times
    TimeSequence,
}

impl Mutation {
    /// Returns the name of the mutation on the command line.
    pub(crate) fn name(self) -> String {
        let value = self.to_possible_value();
        value.map(|value| value.get_name().to_owned()).unwrap_or_default()
    }

    /// Fails if this process, whose mutation this is, shows nothing about the guard.
    pub(crate) fn verdict(self, schedules: u64) -> Result<(), SimulationError> {
        let name = self.name();
        if let Some(message) = REJECTED.get().cloned() {
            return Err(SimulationError::Rejected { name, message });
        }
        match CHANGES.load(Ordering::Relaxed) {
            0 => Err(SimulationError::Unchanged { name, schedules }),
            _ => Ok(()),
        }
    }
}

/// Number of changes in this process.
static CHANGES: AtomicU64 = AtomicU64::new(0);
/// The first message with which the database rejected a changed expression.
static REJECTED: OnceLock<String> = OnceLock::new();

/// The mutation of a run, if it has one.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Mutations(pub(crate) Option<Mutation>);

impl Mutations {
    pub(crate) fn is(self, mutation: Mutation) -> bool {
        self.0 == Some(mutation)
    }

    /// Returns `true`, and counts a change, if the guard of a mutation is disabled.
    pub(crate) fn disable(self, guard: Mutation) -> bool {
        let is_disabled = self.is(guard);
        CHANGES.fetch_add(is_disabled.into(), Ordering::Relaxed);
        is_disabled
    }

    /// Changes a value, and counts it if it is different afterwards.
    fn change(self, value: &mut Value, change: impl FnOnce(Mutation, &mut Value)) {
        if let Some(mutation) = self.0 {
            let before = value.clone();
            change(mutation, value);
            CHANGES.fetch_add((*value != before).into(), Ordering::Relaxed);
        }
    }

    /// Changes a request before the database receives it.
    pub(crate) fn request(self, operation: &str, body: &mut Value) {
        self.change(body, |mutation, body| writes::change(mutation, operation, body));
    }

    /// Changes a request that is executed after its sender has stopped waiting for it.
    pub(crate) fn delayed(self, operation: &str, body: &mut Value) {
        self.change(body, |mutation, body| writes::change_delayed(mutation, operation, body));
    }

    /// Notes the response to a request that was changed.
    pub(crate) fn executed(response: &Response) {
        let body: Value = serde_json::from_str(&response.body).unwrap_or_default();
        let message = text(&body, "/message");
        // As on AWS: `Invalid ConditionExpression: …`, or a name or value that no expression uses. writer-fn reacts to a long update.
        if message.contains("Expression") && !message.contains("UpdateExpression: Expression size") {
            REJECTED.get_or_init(|| message.to_owned());
        }
    }

    /// Returns unconditional puts that replace the statements of a request. `None` if the request stays as it is.
    pub(crate) fn puts(self, operation: &str, body: &Value) -> Option<Vec<Value>> {
        let puts = writes::puts(self.0?, operation, body);
        puts.filter(|_| self.disable(Mutation::Condition))
    }

    /// Changes a response of the database before its sender receives it.
    pub(crate) fn response(self, operation: &str, caller: Option<&Caller>, request: &Value, response: &mut Value) {
        self.change(response, |mutation, response| {
            responses::change(mutation, operation, caller, request, response);
        });
    }

    /// Changes an event before a writer receives it.
    pub(crate) fn event(self, event: &mut Value) {
        self.change(event, invocations::change_event);
    }

    /// Returns `false` if stream-fn fails this batch as a whole.
    pub(crate) fn accepts_batch(self, payload: &Value) -> bool {
        !self.is(Mutation::RawSplit) || invocations::is_typed(payload) || !self.disable(Mutation::RawSplit)
    }

    /// Removes the batch item failures of a function's response, if this mutation does.
    pub(crate) fn failures(self, guard: Mutation, response: &mut Value) {
        self.change(response, |mutation, response| {
            match response.get_mut("batchItemFailures") {
                Some(failures) if mutation == guard => *failures = json!([]),
                _ => {}
            }
        });
    }

    /// Changes a stream record before the mapping filters it.
    pub(crate) fn record(self, record: &mut Value) {
        self.change(record, invocations::change_record);
    }
}
