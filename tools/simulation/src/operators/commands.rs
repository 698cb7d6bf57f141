//! The commands, each as `vzero` runs it with the library `operations`.

use std::{cell::RefCell, collections::BTreeMap, time::Duration};

use operations::{
    audit::TableAudit,
    backfill::Import,
    error::OperationError,
    failures::source::Source,
    hold::{self, Hold},
    latest::write::raise_latest,
    progress::Silent,
    prune::{
        EntityPrune, Options, Rule, TablePrune,
        requests::{Mark, mark_version},
    },
    purge::{DEFAULT_WAIT, Purge},
    redrive::{self, Tally},
    repair,
    revision::{self, ChangeOptions},
    sealed::Record,
    segments::Plan,
    table::adopt::adopt_table,
};
use serde_json::Value;
use shared::domain::{entity::EntityId, names, request_id::RequestId, version::Version};

use super::{CommandEnd, Operators, is_done, run, services::OperatorServices};
use crate::{
    caller::Author,
    connector::Connector,
    database::create_table,
    error::SimulationError,
    schedule::{Command, HISTORY, TABLE},
};

/// Age from which a missing version is a finding.
pub(crate) const LAG: Duration = Duration::from_secs(60);

/// Period in which pruned versions can still be read.
const GRACE: Duration = Duration::from_secs(3600);

/// Creates a table with one key, `PK`, that contains these items.
pub(crate) fn create_source(connector: &Connector, table: &str, items: &[Value]) -> Result<(), SimulationError> {
    create_table(&connector.database, table, &[names::PK], None, false)?;
    for item in items {
        connector.put(table, item)?;
    }
    Ok(())
}

pub(super) fn incomplete(why: impl ToString) -> OperationError {
    OperationError::Incomplete(why.to_string())
}

/// Fails if a command left something to do.
fn all_done(left: u64, what: &str) -> Result<(), OperationError> {
    match left {
        0 => Ok(()),
        left => Err(incomplete(format!("{left} {what}"))),
    }
}

impl Operators {
    /// Runs a command. A redrive and a repair read these failure documents.
    pub(crate) async fn command(&self, command: &Command, documents: &[Value]) -> CommandEnd {
        self.services.set_documents(documents);
        if *command != Command::Redrive {
            return run(
                Author::Operator,
                Box::pin(self.maintain(command, !documents.is_empty())),
            )
            .await;
        }
        let redriven = self.redrive(OperatorServices::documents()).await;
        let quarantine = self.redrive(Source::Quarantine(None)).await;
        if is_done(&redriven) { quarantine } else { redriven }
    }

    async fn maintain(&self, command: &Command, has_documents: bool) -> Result<(), OperationError> {
        let (store, pace) = (&self.connection.store, self.pace());
        let mutations = self.services.connector.mutations;
        match command {
            Command::Prune(entity, keep) => {
                let prune = EntityPrune::plan(store, entity, keep_newest(*keep, GRACE), &pace).await?;
                prune.with_record(self.record().await?).run(&Silent).await?;
                Ok(())
            }
            Command::PruneTable(keep) => {
                let checkpoint = self.checkpoint("prune");
                let plan = Plan {
                    checkpoint: checkpoint.as_deref(),
                    ..Plan::new(store, &pace)
                };
                let mut run = TablePrune::new(plan, keep_newest(*keep, GRACE), None)?;
                while run.step().await?.is_some() {}
                all_done(run.counts().failed, "entities could not be pruned")
            }
            Command::Purge(entity) => {
                let waits = !mutations.disable("purge-wait");
                let wait = if waits { DEFAULT_WAIT } else { Duration::ZERO };
                let mut purge = Purge::of(store, entity).await?.with_record(self.record().await?);
                purge.run(wait, |_| {}).await
            }
            Command::Repair | Command::Revive => {
                let documents = has_documents.then(OperatorServices::documents);
                let stream = self.reads_stream.then_some(Source::Stream);
                let sources: Vec<_> = documents.into_iter().chain(stream).collect();
                let options = repair::Options {
                    lag: if mutations.disable("lag") { Duration::ZERO } else { LAG },
                    sources: &sources,
                    services: &OperatorServices::of_library(),
                    revive: *command == Command::Revive,
                };
                let mut repair = repair::plan(&self.connection, None, &options, &Silent, &Silent).await?;
                repair.execute(store, &Silent).await;
                repair.verdict()
            }
            Command::Raise(entity) => {
                let entity = EntityId::new(entity)?;
                let latest = store.latest(&entity, true).await?.map(|latest| latest.version);
                if let Some(next) = latest.and_then(|latest| Version::new(latest.get() + 1)) {
                    raise_latest(store, &entity, latest, next).await?;
                }
                Ok(())
            }
            Command::Backfill(number) => self.backfill(&format!("Source{number}")).await,
            Command::Adopt => self.backfill(TABLE).await,
            Command::AdoptTable => {
                let adopted = adopt_table(store, Some(HISTORY), None, false).await;
                adopted.map(drop).map_err(incomplete)
            }
            Command::Restore(entity, _) | Command::Delete(entity) | Command::Undelete(entity) => {
                self.change(command, &EntityId::new(entity)?).await
            }
            Command::Pin(entity, version) => {
                let version = Version::new(*version).unwrap_or(Version::FIRST);
                let mark = Mark::Pinned {
                    now: store.clock().now(),
                };
                match mark_version(store, &EntityId::new(entity)?, version, mark).await? {
                    true => Ok(()),
                    false => Err(OperationError::NoVersion),
                }
            }
            Command::Hold(entity) => {
                hold::set(store, &EntityId::new(entity)?, &Hold::new(store.now(), "case", None)).await
            }
            Command::Release(entity) => {
                hold::release(store, &EntityId::new(entity)?).await?;
                Ok(())
            }
            Command::Erase(entity) => self.erase(&EntityId::new(entity)?).await,
            // Of other processes.
            Command::Redrive | Command::UseCopy(_) | Command::Undo(_) => Ok(()),
        }
    }

    /// Returns what a removal has to record if versions are sealed.
    async fn record(&self) -> Result<Option<Record>, OperationError> {
        let store = &self.connection.store;
        // Without an index, nothing is sealed, and no request is sent.
        match store.has_time_index().await? {
            true => Record::of(store, None).await,
            false => Ok(None),
        }
    }

    /// `vzero admin backfill --yes`: puts the items of a table with one key under versioning. With the versioned table itself, it counts
    /// the latest items without `Latest`.
    async fn backfill(&self, from_table: &str) -> Result<(), OperationError> {
        let (ordering, write) = self.write;
        let import = Import {
            from_table: from_table.to_owned(),
            id: None,
            rename: BTreeMap::new(),
            ordering,
            write,
            dry_run: false,
        };
        let (pace, checkpoint) = (self.pace(), self.checkpoint("backfill"));
        let plan = Plan {
            checkpoint: checkpoint.as_deref(),
            ..Plan::new(&self.connection.store, &pace)
        };
        let (_, mut run) = import.run(&self.connection, plan).await?;
        while run.step().await?.is_some() {}
        let counts = run.counts();
        all_done(
            counts.refused + counts.conflicts,
            "items could not be put under versioning",
        )
    }

    /// `vzero restore`, `delete` and `undelete`. A command that is repeated has the same request id.
    async fn change(&self, command: &Command, entity: &EntityId) -> Result<(), OperationError> {
        let (store, options, write) = (&self.connection.store, ChangeOptions::default(), self.write.1);
        let id = |action: &str| RequestId::new(format!("{action}-{}", entity.as_str())).map_err(incomplete);
        let changed = match command {
            Command::Restore(_, version) => {
                let id = id(&format!("restore-{version}"))?;
                let version = Version::new(*version).unwrap_or(Version::FIRST);
                let restored = revision::restore(store, entity, version, id, options, write).await;
                restored.map(Some)
            }
            Command::Delete(_) => revision::delete(store, entity, id("delete")?, options, write).await,
            _ => revision::undelete(store, entity, id("undelete")?, options, write).await,
        };
        changed.map(drop).map_err(incomplete)
    }

    /// `vzero admin redrive`: of a dead-letter queue, updates are sent to their queue again, and failure documents are replayed.
    pub(crate) async fn redrive(&self, source: Source) -> CommandEnd {
        let redrive = async {
            let (services, options) = (OperatorServices::of_library(), redrive::Options::default());
            let mut tally = Tally::default();
            let done = redrive::redrive(&self.connection, &services, &[source], &options, &Silent, &mut tally).await;
            done.and(tally.verdict())
        };
        run(Author::Redrive, Box::pin(redrive)).await
    }

    /// `vzero audit --all`. Returns the findings, also of an audit that was killed.
    pub(crate) async fn audit(&self, lag: Duration) -> Vec<Value> {
        let found = RefCell::<Vec<Value>>::default();
        let audit = async {
            let (pace, checkpoint) = (self.pace(), self.checkpoint("audit"));
            let plan = Plan {
                checkpoint: checkpoint.as_deref(),
                ..Plan::new(&self.connection.store, &pace)
            };
            let mut audit = TableAudit::new(plan, lag)?;
            while let Some(audited) = audit.step().await? {
                for audited in audited {
                    let findings = audited.findings.iter();
                    let findings = findings.map(|finding| finding.to_json(&audited.entity));
                    found.borrow_mut().extend(findings);
                }
            }
            Ok(())
        };
        run(Author::Operator, audit).await;
        found.into_inner()
    }
}

/// Returns options of a prune that keeps this number of newest versions.
pub(crate) fn keep_newest(versions: u64, grace: Duration) -> Options {
    Options {
        rule: Rule::Keep(versions),
        grace,
        over_gaps: false,
        dry_run: false,
    }
}
