//! Audit of the table, in the background. At most one runs at a time.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use operations::{
    audit::{TableAudit, auditor::EntityFindings, collection::Finding, segment::Counts},
    connection::Connection,
    error::OperationError,
    rate_limit::RateLimiter,
    segments::Plan,
};
use serde_json::{Value, json};
use shared::{
    domain::entity::EntityId,
    dynamodb::{Store, read::describe_table::items_of},
};

use crate::{
    job::{Job, State, limited},
    lock::lock,
    options::Options,
    time,
};

/// Maximum number of findings that are kept. The others are only counted.
const MAX_FINDINGS: usize = 1000;

/// The running audit of a table, or the last one.
#[derive(Default)]
pub(crate) struct Audit(Mutex<Option<Run>>);

struct Run {
    report: Arc<Mutex<Report>>,
    job: Job,
    limiter: RateLimiter,
}

#[derive(Debug, Clone)]
pub(super) struct Report {
    pub(super) state: State,
    /// Approximate number of items of the table. DynamoDB updates it about every six hours.
    pub(super) approximate_items: u64,
    pub(super) counts: Counts,
    pub(super) read_units: f64,
    pub(super) findings: Vec<(EntityId, Finding)>,
}

impl Report {
    fn new() -> Self {
        Self {
            state: State::new(),
            approximate_items: 0,
            counts: Counts::default(),
            read_units: 0.0,
            findings: Vec::new(),
        }
    }

    pub(super) fn findings_not_kept(&self) -> usize {
        let all: u64 = self.counts.findings.values().sum();
        usize::try_from(all)
            .unwrap_or(usize::MAX)
            .saturating_sub(self.findings.len())
    }

    fn add(&mut self, audited: &[EntityFindings], counts: Counts) {
        let of_entity = |one: &EntityFindings| {
            one.findings
                .iter()
                .map(|finding| (one.entity.clone(), *finding))
                .collect::<Vec<_>>()
        };
        self.findings.extend(audited.iter().flat_map(of_entity));
        self.findings.truncate(MAX_FINDINGS);
        self.counts = counts;
    }

    pub(super) fn to_json(&self) -> Value {
        let (state, counts) = (&self.state, &self.counts);
        let mut json = json!({
            "State": state.name, "Began": time::iso(state.began), "Ended": state.ended.map(time::iso),
            "Items": counts.items, "AboutItems": self.approximate_items, "Entities": counts.entities, "Versions": counts.versions,
            "ReadUnits": self.read_units, "Findings": counts.findings,
            "Found": self.findings.iter().map(|(entity, finding)| finding.to_json(entity)).collect::<Vec<_>>(),
            "NotKept": self.findings_not_kept(),
        });
        if state.name == "Failed" {
            json["Error"] = json!(state.failure);
        }
        json
    }
}

impl Audit {
    /// Starts an audit, unless one is running.
    pub(super) fn start(&self, connection: &Connection, options: &Options) {
        let mut run = lock(&self.0);
        if run.as_ref().is_some_and(|run| run.job.state().ended.is_none()) {
            return;
        }
        let report = Arc::new(Mutex::new(Report::new()));
        let (store, limiter) = limited(connection, options.limits());
        let (connection, audit_limiter, lag) = (connection.clone(), limiter.clone(), options.lag);
        let target = Arc::clone(&report);
        let job = Job::start(async move |_| work(&connection, &store, &audit_limiter, lag, &target).await);
        *run = Some(Run { report, job, limiter });
    }

    pub(super) fn stop(&self) {
        if let Some(run) = &*lock(&self.0) {
            run.job.stop();
        }
    }

    pub(super) fn report(&self) -> Option<Report> {
        lock(&self.0).as_ref().map(|run| {
            let mut report = lock(&run.report).clone();
            report.read_units = run.limiter.consumed().read;
            report.state = run.job.state();
            report
        })
    }
}

async fn work(
    connection: &Connection,
    store: &Store,
    limiter: &RateLimiter,
    lag: Duration,
    report: &Mutex<Report>,
) -> Result<(), OperationError> {
    lock(report).approximate_items = store.description().await.map_or(0, |table| items_of(&table));
    let mut audit = TableAudit::new(Plan::new(store, limiter), lag)?;
    while let Some(audited) = audit.step().await? {
        connection.clear_meters();
        lock(report).add(&audited, audit.counts());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use shared::domain::version::Version;

    use super::*;

    #[test]
    fn findings_beyond_the_limit_are_counted() {
        let mut report = Report::new();
        let finding = Finding::Gap {
            from: Version::FIRST,
            to: Version::FIRST,
        };
        for total in [700, 1400] {
            let audited = EntityFindings {
                entity: EntityId::new("E").unwrap(),
                findings: vec![finding; 700],
            };
            let counts = Counts {
                items: total / 700,
                findings: BTreeMap::from([("Gap".to_owned(), total)]),
                ..Counts::default()
            };
            report.add(&[audited], counts);
        }
        assert_eq!(
            (report.findings.len(), report.findings_not_kept(), report.counts.items),
            (MAX_FINDINGS, 400, 2)
        );
        let json = report.to_json();
        assert_eq!(json["Findings"], json!({"Gap": 1400}));
        assert_eq!((&json["State"], &json["NotKept"]), (&json!("Running"), &json!(400)));
        report.state.end("Failed", "there is no such version".to_owned());
        assert_eq!(report.to_json()["Error"], "there is no such version");
    }
}
