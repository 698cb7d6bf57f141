//! Stream records, the lanes that deliver them, and the invocations of stream-fn.

use std::collections::VecDeque;

#[derive(Debug, Clone, Copy)]
pub(crate) struct Record {
    pub(crate) entity: u32,
    pub(crate) created: u64,
    /// `true` if its version is stored.
    pub(crate) stored: bool,
}

impl Record {
    pub(crate) fn new(entity: u32, created: u64) -> Self {
        Self {
            entity,
            created,
            stored: false,
        }
    }
}

/// Records that are delivered together.
pub(crate) struct Set {
    pub(crate) records: Vec<Record>,
    pub(crate) failed: u32,
    pub(crate) not_invoked: u32,
}

impl Set {
    pub(crate) fn new(records: Vec<Record>) -> Self {
        Self {
            records,
            failed: 0,
            not_invoked: 0,
        }
    }
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum State {
    #[default]
    Idle,
    /// A batching window is open since this time.
    Gathering(u64),
    Busy,
}

#[derive(Default)]
pub(crate) struct Lane {
    pub(crate) buffer: VecDeque<Record>,
    /// The sets of the current batch that are not done, the oldest records last.
    pub(crate) sets: Vec<Set>,
    pub(crate) state: State,
    /// `true` if a request was throttled since the lane was idle.
    pub(crate) throttled: bool,
}

impl Lane {
    /// Returns the creation of the oldest record in the buffer, and `true` if the lane waits because of throttled requests.
    pub(crate) fn waiting(&self) -> Option<(u64, bool)> {
        self.buffer.front().map(|record| (record.created, self.throttled))
    }
}

/// One request for the records with these indexes.
pub(crate) struct Request {
    pub(crate) records: Vec<usize>,
    pub(crate) failures: u32,
}

pub(crate) struct StreamInvocation {
    pub(crate) lane: usize,
    pub(crate) started: u64,
    pub(crate) set: Set,
    pub(crate) requests: Vec<Request>,
    /// Index of each record whose version is not stored, by request.
    pub(crate) not_stored: Vec<usize>,
    pub(crate) next: usize,
    pub(crate) open: usize,
    pub(crate) cpu_free: u64,
}
