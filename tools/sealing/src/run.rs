//! Sealing: what seal-fn does once a minute. Normal work and catching up after an outage are the same.

use std::time::Duration;

use shared::domain::{recorded_at::RecordedAt, time_index::LATE};
use tokio::time::Instant;

use crate::{
    candidates::{Candidate, candidates},
    error::SealError,
    sealer::{ATTEMPTS, Head, Sealed, Sealer, Table},
};

/// Time before the cursor that each run reads again: an insert can take long, and clocks differ.
const READ_AGAIN: Duration = LATE;
const SHORTEST_PERIOD: Duration = Duration::from_secs(1);

impl Sealer {
    /// Seals all versions that the index shows, until the deadline.
    ///
    /// # Errors
    ///
    /// A request fails, or the log contradicts its state. What was sealed before stays sealed.
    pub async fn run(&self, deadline: Instant, sealed: &mut Sealed) -> Result<(), SealError> {
        for _ in 0..ATTEMPTS {
            let head = self.finish(sealed).await?;
            sealed.size = head.state.size;
            sealed.sealed_at = head.state.sealed_at;
            if self.seal(head, deadline, sealed).await? {
                return Ok(());
            }
            // Another instance has sealed a batch.
        }
        Err(SealError::Contended(ATTEMPTS))
    }

    /// Seals what is waiting. Returns `false` if another instance was faster.
    pub(crate) async fn seal(&self, head: Head, deadline: Instant, sealed: &mut Sealed) -> Result<bool, SealError> {
        let mut head = head;
        loop {
            let operations = self.state.pending().await?;
            if operations.is_empty() {
                break;
            }
            match self.seal_operations(head, operations, sealed).await? {
                Some(next) => head = next,
                None => return Ok(false),
            }
        }
        match self.seal_requested(head, sealed).await? {
            Some(next) => head = next,
            None => return Ok(false),
        }
        let mut is_complete = true;
        for table in &self.tables {
            match self.seal_table(head, table, deadline, sealed).await? {
                Some((next, is_whole)) => (head, is_complete) = (next, is_complete && is_whole),
                None => return Ok(false),
            }
        }
        if is_complete {
            sealed.oldest = None;
        }
        Ok(true)
    }

    /// Seals the versions that operators want to be sealed, unless the log contains them. `None` if another instance was faster.
    pub(crate) async fn seal_requested(&self, mut head: Head, sealed: &mut Sealed) -> Result<Option<Head>, SealError> {
        let requests = self.state.requests().await?;
        for table in &self.tables {
            let of_table = requests.iter().filter(|request| request.table == table.arn);
            let candidates: Vec<_> = of_table
                .map(|request| Candidate::requested(&table.store, request))
                .collect();
            if candidates.is_empty() {
                continue;
            }
            match self.seal_given(head, table, candidates, sealed).await? {
                Some(next) => head = next,
                None => return Ok(None),
            }
        }
        for request in &requests {
            self.state.remove_request(request).await?;
        }
        Ok(Some(head))
    }

    /// Seals the given versions that the log lacks. `None` if another instance was faster.
    pub(crate) async fn seal_given(
        &self,
        head: Head,
        table: &Table,
        candidates: Vec<Candidate>,
        sealed: &mut Sealed,
    ) -> Result<Option<Head>, SealError> {
        let (fresh, seen) = self.unsealed(&head, table, candidates).await?;
        match fresh.is_empty() {
            true => Ok(Some(head)),
            false => self.seal_versions(head, table, (&fresh, &seen), None, sealed).await,
        }
    }

    /// Seals the versions of a table. Returns the log, and `false` if the deadline has passed before; `None` if another instance was faster.
    pub(crate) async fn seal_table(
        &self,
        mut head: Head,
        table: &Table,
        deadline: Instant,
        sealed: &mut Sealed,
    ) -> Result<Option<(Head, bool)>, SealError> {
        let now = RecordedAt::since_epoch(self.clock.now());
        let mut start = head
            .state
            .cursors
            .get(&table.arn)
            .map_or(RecordedAt::since_epoch(Duration::ZERO), |cursor| {
                cursor.before(READ_AGAIN)
            });
        let (mut period, mut batch) = (None, self.limits.first_batch);
        loop {
            let end = period.map(|period| start.after(period)).filter(|end| *end < now);
            let is_shortest = period.is_some_and(|period| period <= SHORTEST_PERIOD);
            let limit = if is_shortest { usize::MAX } else { self.limits.period };
            let Some(found) = candidates(&table.store, start, end, limit).await? else {
                let length = end.unwrap_or(now).to_duration().saturating_sub(start.to_duration());
                period = Some((length / 2).max(SHORTEST_PERIOD));
                continue;
            };
            let is_small = found.len() < self.limits.period / 4;
            // A clock that is ahead, of this function or of a writer, does not move the cursor beyond both.
            let newest = found.iter().map(|candidate| candidate.known.inserted).max();
            let newest = newest.map(|millis| RecordedAt::since_epoch(Duration::from_millis(millis)));
            let cursor = newest.map(|newest| newest.min(end.unwrap_or(now)));
            let (fresh, seen) = self.unsealed(&head, table, found).await?;
            let oldest = fresh.iter().map(|candidate| &candidate.inserted).min();
            sealed.oldest = sealed.oldest.iter().chain(oldest).min().cloned();
            let mut left = fresh.as_slice();
            while !left.is_empty() {
                if Instant::now() >= deadline {
                    return Ok(Some((head, false)));
                }
                let chunk;
                (chunk, left) = left.split_at(batch.min(left.len()));
                batch = (batch * 4).min(self.limits.batch);
                let cursor = cursor.filter(|_| left.is_empty());
                match self.seal_versions(head, table, (chunk, &seen), cursor, sealed).await? {
                    Some(next) => head = next,
                    None => return Ok(None),
                }
            }
            let Some(end) = end else {
                return Ok(Some((head, true)));
            };
            start = end;
            period = period.map(|period| if is_small { period * 2 } else { period });
        }
    }
}
