//! Schedules: the settings, updates, operator actions and faults of one run, generated from a seed.
//!
//! A schedule is serialized to JSON, so that a run that violates a guarantee can be reproduced with `--replay`. [`crate::draw`]
//! generates it.

use serde::{Deserialize, Serialize};
use serde_json::Value;

pub(crate) use crate::faults::{Fault, FaultKind, Point, Scope};
use crate::undo::Undo;

pub(crate) const TABLE: &str = "Table";
/// Table of history, with [`Settings::own_history`].
pub(crate) const HISTORY: &str = "History";
/// Tables of the state of the log, and of the random keys of its salts.
pub(crate) const STATE: &str = "State";
pub(crate) const KEYS: &str = "Keys";
/// Key attribute of an attached table.
pub(crate) const KEY: &str = "id";
/// Attribute of its items that fit into no version item.
pub(crate) const LARGE: &str = "Large";
/// Attribute whose change alone makes no version.
pub(crate) const IGNORED: &str = "seen";
/// Attributes of its author, set of changes and version.
pub(crate) const AUTHOR: [&str; 3] = ["worker", "jobs", "rev"];
/// Attributes that these authors change.
pub(crate) const WORKED: [&str; 4] = ["A0", "A1", "A2", "A3"];
/// Attribute that is erased.
pub(crate) const SECRET: &str = "Secret";
/// Prefix of the partition keys of malformed latest items.
pub(crate) const MALFORMED: &str = "malformed";
/// Prefix of the partition keys of entities that only a backfill creates.
pub(crate) const BACKFILLED: &str = "backfilled";

/// The input of one run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Schedule {
    pub(crate) seed: u64,
    pub(crate) settings: Settings,
    /// Updates that upstream delivers, each with a unique request id, except for those of a change set.
    pub(crate) updates: Vec<Update>,
    pub(crate) steps: Vec<Step>,
    pub(crate) faults: Vec<Fault>,
}

impl Schedule {
    /// Returns `true` if another program or an operator makes such a change to an entity.
    pub(crate) fn is_edited(&self, entity: &str, is_it: impl Fn(&Edit) -> bool) -> bool {
        self.has(|kind| matches!(kind, StepKind::Edit(of, edit) if of == entity && is_it(edit)))
    }

    /// Returns the updates of a change set: all with the request id of this one. Only the update itself if it belongs to none.
    pub(crate) fn set_of(&self, update: usize) -> Vec<usize> {
        let is_of = |index: &usize| self.updates[*index].id == self.updates[update].id;
        (0..self.updates.len()).filter(is_of).collect()
    }

    /// Returns `true` if there is such a step.
    pub(crate) fn has(&self, is_it: impl Fn(&StepKind) -> bool) -> bool {
        self.steps.iter().any(|step| is_it(&step.kind))
    }
}

/// Jump of the clock of a writer process: from a time on, it differs from virtual time by another offset. Both are milliseconds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Jump {
    pub(crate) process: usize,
    pub(crate) at: u64,
    pub(crate) offset: i64,
}

#[allow(clippy::struct_excessive_bools, reason = "each is a setting")]
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Settings {
    /// `stream`, `inline` or `transaction`
    pub(crate) write_mode: String,
    /// Window of `recent`, `None` for `ledger`.
    pub(crate) window: Option<u8>,
    pub(crate) by_time: bool,
    pub(crate) skip_unchanged: bool,
    pub(crate) digits: u8,
    pub(crate) batch_size: usize,
    pub(crate) batching_window: u64,
    pub(crate) parallelization_factor: usize,
    pub(crate) bisect: bool,
    /// `None` is unlimited, as in template.yaml.
    pub(crate) maximum_retry_attempts: Option<u32>,
    /// In seconds.
    pub(crate) maximum_record_age: Option<u64>,
    /// Seconds from the start of the mapping to its first read.
    pub(crate) startup: u64,
    /// Number of shards of the stream at the start.
    pub(crate) shards: u32,
    /// Maximum number of messages of a batch.
    pub(crate) queue_batch_size: usize,
    /// `true` if history has a table of its own.
    pub(crate) own_history: bool,
    /// `true` if the first deployment was rolled back, and has left a layout with a history table that does not exist.
    pub(crate) rolled_back: bool,
    /// `true` if a process of stream-fn with the other history table starts before the table stores a layout.
    pub(crate) starts_early: bool,
    /// `true` if versions in a history table are compressed.
    pub(crate) compresses: bool,
    /// Difference of each writer's clock from virtual time, in milliseconds.
    pub(crate) clock_offsets: Vec<i64>,
    /// `true` if other programs write the table, which has no updates then.
    pub(crate) attached: bool,
    /// `true` if eventually consistent reads of stream-fn and of undos show an earlier state, and the index by time shows versions late.
    pub(crate) stale_reads: bool,
    /// `true` if the items of an attached table have attributes for their author, set of changes and version.
    pub(crate) has_authors: bool,
    /// `true` if the records of an attached table have no old images.
    pub(crate) new_images: bool,
    /// Times at which these differences change.
    pub(crate) clock_jumps: Vec<Jump>,
    /// `true` if messages that are delivered again can have the receive count of a first delivery, as in a standard queue.
    pub(crate) forgets_receives: bool,
    /// Windows of the processes, in turn, if their deployments differ: `None` for `ledger`. The smallest one is guaranteed.
    pub(crate) windows: Vec<Option<u8>>,
    /// Write modes of the processes, in turn, if these differ.
    pub(crate) write_modes: Vec<String>,
    /// `true` if history has an index by time, and seal-fn seals versions.
    pub(crate) sealed: bool,
}

impl Settings {
    /// Returns the table of history if it is not the table of latest items.
    pub(crate) fn history(&self) -> Option<String> {
        self.own_history.then(|| HISTORY.to_owned())
    }

    /// Returns the smallest window of all processes, `None` for `ledger`.
    pub(crate) fn smallest_window(&self) -> Option<u8> {
        self.windows.iter().copied().flatten().chain(self.window).min()
    }

    /// Returns the settings of a process.
    pub(crate) fn of_process(&self, process: usize) -> Self {
        let window = self.windows.get(process % self.windows.len().max(1));
        let write_mode = self.write_modes.get(process % self.write_modes.len().max(1));
        Self {
            window: window.copied().unwrap_or(self.window),
            write_mode: write_mode.unwrap_or(&self.write_mode).clone(),
            ..self.clone()
        }
    }

    /// Returns the name of the table of history.
    pub(crate) fn history_table(&self) -> &'static str {
        if self.own_history { HISTORY } else { TABLE }
    }
}

/// Change of an item by a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum ChangeKind {
    /// Replaces the item by one with this state.
    Put(u8),
    /// Changes the state.
    Update(u8),
    /// Replaces the item by one that fits into no version item.
    Large(u8),
    /// Changes an ignored attribute.
    Touch(u8),
    /// Changes an attribute without its author and the version attribute, as a program does that knows neither.
    Set {
        attribute: usize,
        value: u8,
    },
    /// Changes an attribute, counts up the version attribute, and names the author: of a set of changes of a job, if it is not 0.
    Work {
        set: u8,
        attribute: usize,
        value: u8,
    },
    Delete,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Update {
    pub(crate) id: String,
    pub(crate) entity: String,
    /// Members other than `ID`, `RequestId` and `RequestSentAt`.
    pub(crate) members: Value,
    pub(crate) origin: Origin,
    /// Milliseconds by which the sender's clock is ahead of the true time, or behind it.
    #[serde(default)]
    pub(crate) sent_offset: i64,
}

impl Update {
    pub(crate) fn new(number: usize, entity: &str, members: Value, origin: Origin) -> Self {
        Self {
            id: format!("r{number}"),
            entity: entity.to_owned(),
            members,
            origin,
            sent_offset: 0,
        }
    }
}

/// Source of an update's request id, which every delivery of the update repeats.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Origin {
    /// A client that sends a `RequestId`.
    Client,
    /// A client that sends a `RequestId` and a `RequestSentAt`.
    TimedClient,
    /// As [`Self::Client`], and the process with `ledger` applies it.
    LedgerClient,
    /// An EventBridge event. Several queues can deliver it.
    Event,
    /// A queue message.
    Message,
    /// An asynchronous invocation.
    Invocation,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Step {
    /// Milliseconds from the start.
    pub(crate) at: u64,
    /// Sender. The steps of one source run one after the other.
    pub(crate) source: u8,
    pub(crate) kind: StepKind,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) enum StepKind {
    /// A direct invocation, retried until there is a response.
    Direct(usize),
    /// An asynchronous invocation, also of an EventBridge event.
    Asynchronous(usize),
    /// A direct invocation with another update that has the same request id, once that one was applied.
    ReuseId(usize),
    /// Messages of a queue.
    Sqs(Vec<usize>),
    /// The queue delivers the message of an update again. `as_first`: with the receive count of a first delivery, as a standard queue
    /// can do.
    Redeliver { update: usize, as_first: bool },
    /// Another program, or an operator without a command, changes an entity.
    Edit(String, Edit),
    /// An operator writes a v0 with this number in its key, which is not a valid version.
    MalformedLatest(usize),
    /// The mapping is disabled, and enabled again after these milliseconds.
    StopMapping(u64),
    /// The on-failure destination refuses documents for these milliseconds.
    DenyDestination(u64),
    /// Requests fail for a while.
    Window { scope: Scope, millis: u64 },
    /// A shard of the stream is closed and continued in others.
    SplitShard,
    /// DynamoDB deletes the items that have expired.
    Expire,
    /// An operator runs a command.
    Command(Command),
    /// An instance of seal-fn runs once.
    Seal,
    /// An operator makes a backup of the state of the log, and restores it after these milliseconds.
    RestoreState(u64),
    /// A client changes an item of an attached table.
    Change { item: u8, kind: ChangeKind },
}

/// Change of an entity by another program or by hand.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) enum Edit {
    /// `Latest` is incremented, and no other attribute of this project changes.
    Increment(usize),
    /// As [`Self::Increment`], with a `RecordedAt` that is this many milliseconds ahead.
    FarAhead(u64),
    /// As [`Self::Increment`], with this `RecordedAt`, in DynamoDB JSON.
    OtherTime(Value),
    /// The recent requests are removed from v0.
    RemoveRequests,
    /// v0 is replaced, with the next number and no other attribute of this project.
    Replace(Content),
    /// v0 is deleted.
    Delete,
    /// v0 is deleted, and created again.
    Recreate,
    /// A version item is written, this number ahead of the latest version.
    WriteVersion(u64),
    /// A version item is deleted, and inserted again from a backup.
    Reinsert(u64),
    /// A v0 of this version is written, and a floor below which the entity has no versions.
    WriteLatest(u64),
}

/// Attributes of a latest item that another program puts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Content {
    /// A number.
    Small,
    /// Many attributes, up to the size limit of an item: their version has to be compressed.
    Attributes,
    /// Bytes that do not compress, up to the size limit of an item: their version has to be in parts.
    Bytes,
    /// An attribute with the name of that of a compressed version.
    ImageDeflate,
}

/// A command of an operator, most of them on an entity.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) enum Command {
    /// Prunes an entity, except for this number of newest versions.
    Prune(String, u64),
    /// Prunes all entities.
    PruneTable(u64),
    Purge(String),
    Repair,
    /// Repairs the table, and restores deleted latest items.
    Revive,
    /// Raises the number in a latest item by one.
    Raise(String),
    /// Redrives the failure documents and the quarantine.
    Redrive,
    /// Puts an item of another table, which has this number, under versioning.
    Backfill(usize),
    /// Gives the latest items without a number one.
    Adopt,
    /// Stores the layout of the functions, which the table does not have because a deployment was rolled back.
    AdoptTable,
    /// Restores a version.
    Restore(String, u64),
    Delete(String),
    Undelete(String),
    /// Restores a backup to another table, runs the functions on the copy, and prunes and purges an entity of it.
    UseCopy(String),
    /// Pins a version, so that pruning keeps it.
    Pin(String, u64),
    /// Puts an entity on hold, so that it is neither pruned nor purged.
    Hold(String),
    Release(String),
    /// Erases an attribute from all versions of an entity.
    Erase(String),
    Undo(Undo),
}
