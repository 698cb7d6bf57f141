//! The audit of the table, one at a time, in the background.

use std::{
    num::NonZeroU32,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use futures::TryStreamExt as _;
use operations::{
    audit::{SEGMENTS, segments},
    connection::Connection,
    repair::Findings,
};
use serde_json::{Value, json};
use shared::{
    domain::{audit::Finding, entity::EntityId, time::EpochMillis},
    dynamodb::{
        Store,
        client::error::ServiceError,
        maintain::{
            audit::EntityFindings,
            audit_segment::{Counts, Progress, Step},
            rate_limit::{Limits, RateLimiter},
        },
    },
    logging::chain,
};
use tokio::sync::Notify;

use crate::{aside, time};

/// How many findings are kept. The others are counted.
const KEPT: usize = 1000;

/// The audit of a table: the one that runs, or the last one.
#[derive(Default)]
pub(crate) struct Audit(Mutex<Option<Run>>);

struct Run {
    seen: Arc<Mutex<Seen>>,
    stop: Arc<Notify>,
    pace: RateLimiter,
}

impl Drop for Run {
    fn drop(&mut self) {
        self.stop.notify_one();
    }
}

/// What is known of an audit.
#[derive(Debug, Clone)]
pub(super) struct Seen {
    pub(super) began: EpochMillis,
    /// About how many items the table has: DynamoDB counts them every six hours.
    pub(super) about: u64,
    segments: Vec<Counts>,
    pub(super) read_units: f64,
    /// The first findings.
    pub(super) findings: Vec<(EntityId, Finding)>,
    pub(super) end: Option<(EpochMillis, End)>,
}

/// What an audit came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum End {
    Done,
    Stopped,
    Failed(String),
}

impl Seen {
    fn new() -> Self {
        Self {
            began: time::now(),
            about: 0,
            segments: vec![Counts::default(); SEGMENTS as usize],
            read_units: 0.0,
            findings: Vec::new(),
            end: None,
        }
    }

    pub(super) fn counts(&self) -> Counts {
        let mut counts = Counts::default();
        self.segments.iter().for_each(|segment| counts.merge(segment));
        counts
    }

    /// How many findings are not kept.
    pub(super) fn unkept(&self) -> u64 {
        let all: u64 = self.counts().findings.values().sum();
        all.saturating_sub(self.findings.len() as u64)
    }

    fn add(&mut self, index: usize, audited: &[EntityFindings], counts: Counts) {
        let found = audited.iter().flat_map(|audited| {
            audited
                .findings
                .iter()
                .map(|finding| (audited.entity.clone(), *finding))
        });
        self.findings
            .extend(found.take(KEPT.saturating_sub(self.findings.len())));
        if let Some(segment) = self.segments.get_mut(index) {
            *segment = counts;
        }
    }

    pub(super) fn state(&self) -> &'static str {
        match &self.end {
            None => "Running",
            Some((_, End::Done)) => "Done",
            Some((_, End::Stopped)) => "Stopped",
            Some((_, End::Failed(_))) => "Failed",
        }
    }

    pub(super) fn to_json(&self) -> Value {
        let counts = self.counts();
        let mut json = json!({
            "State": self.state(), "Began": time::iso(self.began), "Ended": self.end.as_ref().map(|(ended, _)| time::iso(*ended)),
            "Items": counts.items, "AboutItems": self.about, "Entities": counts.entities, "Versions": counts.versions,
            "ReadUnits": self.read_units, "Findings": counts.findings,
            "Found": self.findings.iter().map(|(entity, finding)| finding.to_json(entity)).collect::<Vec<_>>(),
            "NotKept": self.unkept(),
        });
        if let Some((_, End::Failed(why))) = &self.end {
            json["Error"] = json!(why);
        }
        json
    }
}

impl Audit {
    /// Begins an audit, unless one runs.
    pub(super) fn begin(&self, connection: &Connection, lag: Duration, max_read_units: Option<NonZeroU32>) {
        let mut run = lock(&self.0);
        if run.as_ref().is_some_and(|run| lock(&run.seen).end.is_none()) {
            return;
        }
        let seen = Arc::new(Mutex::new(Seen::new()));
        let stop = Arc::new(Notify::new());
        // Its pace is that of its own requests.
        let (store, meter) = connection.metered();
        let limits = Limits {
            read: max_read_units,
            write: None,
        };
        let pace = RateLimiter::new(meter, limits);
        let (connection, its_pace) = (connection.clone(), pace.clone());
        let (to, stopped) = (Arc::clone(&seen), Arc::clone(&stop));
        drop(aside::begin(async move || {
            let end = tokio::select! {
                done = work(&connection, &store, &its_pace, lag, &to) => match done {
                    Ok(()) => End::Done,
                    Err(error) => End::Failed(chain(&error)),
                },
                () = stopped.notified() => End::Stopped,
            };
            lock(&to).end.get_or_insert((time::now(), end));
        }));
        *run = Some(Run { seen, stop, pace });
    }

    /// Breaks off the audit that runs.
    pub(super) fn stop(&self) {
        if let Some(run) = &*lock(&self.0) {
            run.stop.notify_one();
            lock(&run.seen).end.get_or_insert((time::now(), End::Stopped));
        }
    }

    /// What is known of it.
    pub(super) fn seen(&self) -> Option<Seen> {
        lock(&self.0).as_ref().map(|run| {
            let mut seen = lock(&run.seen).clone();
            seen.read_units = run.pace.consumed().read;
            seen
        })
    }

    /// What an audit found that went through the whole table.
    pub(crate) fn findings(&self) -> Option<Findings> {
        let seen = self.seen()?;
        if !matches!(seen.end, Some((_, End::Done))) {
            return None;
        }
        let mut findings = Findings::new();
        for (entity, finding) in seen.findings {
            findings.entry(entity).or_default().push(finding);
        }
        Some(findings)
    }
}

async fn work(
    connection: &Connection,
    store: &Store,
    pace: &RateLimiter,
    lag: Duration,
    seen: &Mutex<Seen>,
) -> Result<(), ServiceError> {
    lock(seen).about = store.describe().await.map_or(0, |table| table.items);
    let begun = vec![Progress::default(); SEGMENTS as usize];
    let mut steps = segments(store, pace, lag, begun);
    while let Some((index, Step { audited, progress })) = steps.try_next().await? {
        connection.clear_meters();
        lock(seen).add(index, &audited, progress.counts);
    }
    Ok(())
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use shared::domain::version::Version;

    use super::*;

    #[test]
    fn what_is_too_much_is_counted() {
        let mut seen = Seen::new();
        let finding = Finding::Gap {
            from: Version::FIRST,
            to: Version::FIRST,
        };
        for (index, total) in [(0, 700), (1, 700)] {
            let audited = EntityFindings {
                entity: EntityId::new("E").unwrap(),
                findings: vec![finding; total],
            };
            let counts = Counts {
                items: 1,
                findings: BTreeMap::from([("Gap".to_owned(), total as u64)]),
                ..Counts::default()
            };
            seen.add(index, &[audited], counts);
        }
        assert_eq!(
            (seen.findings.len(), seen.unkept(), seen.counts().items),
            (KEPT, 400, 2)
        );
        let json = seen.to_json();
        assert_eq!(json["Findings"], json!({"Gap": 1400}));
        assert_eq!((&json["State"], &json["NotKept"]), (&json!("Running"), &json!(400)));
        seen.end = Some((time::now(), End::Failed("why".to_owned())));
        assert_eq!(seen.to_json()["Error"], "why");
    }
}
