//! The records of one item in a batch, which are processed in their order.

use std::collections::VecDeque;

use shared::{
    clock::Deadline,
    domain::{
        attached::{
            AttachedTable,
            change::Change,
            decision::{Decision, Tail, decide},
            item::{OmissionReason, Recorded, State, StateOrigin},
        },
        entity::EntityId,
        erase::erase_state,
        version::Version,
    },
    dynamodb::{
        Store,
        put::{append::Append, insert_versions::Inserted},
    },
};

use super::record::{self, Header};
use crate::{
    error::RecordFailure,
    purged::{in_time, not_read},
    response::Outcome,
};

/// Maximum number of times that the number of a record's version is taken by another writer.
const MAX_TAKEN: u32 = 5;

/// The batch of a lane.
#[derive(Clone, Copy)]
pub(super) struct Batch<'a> {
    pub(super) store: &'a Store,
    pub(super) table: &'a AttachedTable,
    pub(super) records: &'a [&'a str],
    pub(super) headers: &'a [Header],
    pub(super) deadline: Deadline,
    /// `true` if versions count as written, but are not.
    pub(super) is_dry: bool,
}

/// Records of one item that are not processed yet.
pub(super) struct Lane {
    entity: EntityId,
    /// Indexes of the records.
    records: VecDeque<usize>,
    /// Outcomes of records by their indexes.
    pub(super) outcomes: Vec<(usize, Outcome)>,
    /// Newest versions, `None` if they are not known.
    tail: Option<Tail>,
    /// `true` if history is read with strongly consistent reads: an older state of it was read before.
    consistent: bool,
    /// States that the first record adds, and the version of the first of them.
    pending: Option<(Version, VecDeque<State>)>,
    /// `true` if a version of the first record has no state.
    is_omitted: bool,
    /// Number of times that another writer took the version of the first record.
    taken: u32,
}

impl Lane {
    pub(super) fn new(entity: EntityId) -> Self {
        Self {
            entity,
            records: VecDeque::new(),
            outcomes: Vec::new(),
            tail: None,
            consistent: false,
            pending: None,
            is_omitted: false,
            taken: 0,
        }
    }

    pub(super) fn push(&mut self, index: usize) {
        self.records.push_back(index);
    }

    /// Processes records until one of them adds a version, and returns that version. `None` if no record is left.
    pub(super) async fn next_append(&mut self, batch: Batch<'_>) -> Option<Append> {
        loop {
            let index = *self.records.front()?;
            if self.pending.is_none() {
                match self.decide(index, batch).await {
                    Ok(None) => {}
                    Ok(Some(outcome)) => {
                        self.finish(outcome);
                        continue;
                    }
                    Err(failure) => {
                        self.fail(failure);
                        continue;
                    }
                }
            }
            let Some((version, states)) = &mut self.pending else {
                continue;
            };
            let state = states.front_mut()?;
            match Append::new(batch.table, &self.entity, *version, state, batch.store.compression()) {
                Ok(append) => {
                    if append.omission().is_some() {
                        state.omit(batch.table, OmissionReason::TooLarge);
                        self.is_omitted = true;
                    }
                    return Some(append);
                }
                Err(error) => self.fail(error.into()),
            }
        }
    }

    /// Applies the outcome of the version that [`Self::next_append`] returned.
    pub(super) fn settle(&mut self, appended: Option<Inserted>, table: &AttachedTable) {
        match appended {
            Some(Ok(true)) => self.recorded(),
            Some(Ok(false)) => {
                (self.pending, self.tail, self.consistent) = (None, None, true);
                self.taken += 1;
                if self.taken >= MAX_TAKEN {
                    self.fail(RecordFailure::Contended);
                }
            }
            None => self.fail(RecordFailure::NotReached),
            Some(Err(error)) => {
                let failure = RecordFailure::from(error);
                if !(matches!(failure, RecordFailure::Rejected(_)) && self.omit(table)) {
                    self.fail(failure);
                }
            }
        }
    }

    /// Leaves out the first state, which DynamoDB rejects. Returns `false` if it is left out already.
    fn omit(&mut self, table: &AttachedTable) -> bool {
        let state = self.pending.as_mut().and_then(|(_, states)| states.front_mut());
        state.is_some_and(|state| state.omit(table, OmissionReason::Rejected))
    }

    /// Decides about a record. Without an outcome, `pending` has its states.
    async fn decide(&mut self, index: usize, batch: Batch<'_>) -> Result<Option<Outcome>, RecordFailure> {
        let change = self.change(index, batch)?;
        let mut tail = self.tail.take().unwrap_or_default();
        let decision = loop {
            match decide(batch.table, &change, &mut tail) {
                Decision::ReadMore => self.read(&mut tail, batch).await?,
                Decision::ReadConsistently => {
                    (tail, self.consistent) = (Tail::default(), true);
                    self.read(&mut tail, batch).await?;
                }
                Decision::ReadFloor => {
                    let floor = in_time(batch.store.floor(&self.entity, true), batch.deadline).await;
                    tail.floor = Some(floor.map_err(not_read)?);
                }
                decision => break decision,
            }
        };
        // An earlier delivery may have ended before the record was in quarantine.
        self.is_omitted = tail.is_omitted(&change.place);
        let outcome = match decision {
            Decision::AlreadyRecorded => self.ended(Outcome::AlreadyRecorded),
            Decision::Unchanged => self.ended(Outcome::Skipped),
            Decision::Append(mut states) => {
                for state in &mut states {
                    erase_state(state, &batch.headers[index].erasures, batch.table);
                }
                // The last state is not needed any more, and can be large.
                self.pending = tail.next().map(|version| (version, states));
                return match self.pending {
                    Some(_) => Ok(None),
                    None => Err(RecordFailure::Conflict),
                };
            }
            _ => Outcome::Pruned,
        };
        self.tail = Some(tail);
        Ok(Some(outcome))
    }

    /// Returns the outcome of a record whose versions are in history: it fails if one of them has no state.
    fn ended(&self, outcome: Outcome) -> Outcome {
        match self.is_omitted {
            true => RecordFailure::Omitted.into(),
            false => outcome,
        }
    }

    fn change(&self, index: usize, batch: Batch<'_>) -> Result<Change, RecordFailure> {
        let header = &batch.headers[index];
        match &header.content {
            Ok((place, key)) => Ok(record::change(
                batch.records[index],
                self.entity.clone(),
                header.created_micros,
                (place.clone(), key.clone()),
            )?),
            // A lane has no such record.
            Err(_) => Err(RecordFailure::NotReached),
        }
    }

    async fn read(&self, tail: &mut Tail, batch: Batch<'_>) -> Result<(), RecordFailure> {
        let read = Box::pin(batch.store.extend_tail(&self.entity, tail, self.consistent));
        in_time(read, batch.deadline).await.map_err(not_read)
    }

    fn recorded(&mut self) {
        let Some((version, mut states)) = self.pending.take() else {
            return;
        };
        let state = states.pop_front();
        if !states.is_empty() {
            match Version::new(version.get() + 1) {
                Some(next) => self.pending = Some((next, states)),
                None => self.fail(RecordFailure::Conflict),
            }
            return;
        }
        // The state before a late version is not known here.
        let state = state.filter(|state| state.origin != StateOrigin::Late);
        self.tail = state.map(|state| Tail {
            versions: vec![Recorded::of_state(version, state)],
            is_complete: version == Version::FIRST,
            // The number was free, so there is no newer version.
            is_consistent: true,
            floor: None,
        });
        self.finish(self.ended(Outcome::Recorded));
    }

    /// Ends the first record.
    fn finish(&mut self, outcome: Outcome) {
        (self.pending, self.taken, self.is_omitted) = (None, 0, false);
        self.outcomes
            .extend(self.records.pop_front().map(|index| (index, outcome)));
    }

    /// Ends the first record with a failure. A failure that a retry can remedy ends the later records too, so that their order
    /// holds.
    pub(super) fn fail(&mut self, failure: RecordFailure) {
        let is_permanent = failure.is_permanent();
        self.tail = None;
        self.finish(failure.into());
        while !is_permanent && !self.records.is_empty() {
            self.finish(RecordFailure::NotReached.into());
        }
    }
}
