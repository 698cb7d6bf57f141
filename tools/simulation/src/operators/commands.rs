//! The commands, each as `vzero` runs it with the library `operations`.

use std::{cell::RefCell, collections::BTreeMap, time::Duration};

use operations::{
    audit::TableAudit,
    backfill::Import,
    error::OperationError,
    failures::source::Source,
    progress::Silent,
    prune::{EntityPrune, Options, TablePrune, requests::pin_version},
    purge::Purge,
    redrive::{Dropped, Feed, Replay, Resend, Tally},
    repair::{self, Repair, Scope},
    revision::{self, ChangeOptions},
    table::adopt::adopt_table,
};
use serde_json::Value;
use shared::{
    config::{Ordering, WriteOptions},
    domain::{entity::EntityId, names, request_id::RequestId, version::Version},
};

use super::{CommandEnd, Operators, services::ExternalServices};
use crate::{caller::Author, connector::Connector, error::SimulationError, schedule::Command};

/// Creates a table with one key, `PK`, that contains these items.
pub(crate) fn create_source(connector: &Connector, table: &str, items: &[Value]) -> Result<(), SimulationError> {
    connector.create_table(table, &[names::PK], None)?;
    for item in items {
        connector.put(table, item)?;
    }
    Ok(())
}

fn incomplete(why: impl ToString) -> OperationError {
    OperationError::Incomplete(why.to_string())
}

impl Operators {
    /// `vzero admin table adopt --history-table`.
    pub(crate) async fn adopt(&self, history: &str) -> CommandEnd {
        self.run(async || {
            let adopted = adopt_table(&self.connection.store, Some(history), None).await;
            adopted.map(drop).map_err(incomplete)
        })
        .await
    }

    /// `vzero audit --all`. Returns the findings, also of an audit that was killed.
    pub(crate) async fn audit(&self, lag: Duration) -> Vec<Value> {
        let found = RefCell::<Vec<Value>>::default();
        self.run(async || {
            let checkpoint = self.checkpoint("audit");
            let mut audit = TableAudit::new(&self.connection, &self.pace(), lag, None, checkpoint.as_deref())?;
            while let Some(audited) = audit.step().await? {
                for audited in audited {
                    let findings = audited.findings.iter();
                    found
                        .borrow_mut()
                        .extend(findings.map(|finding| finding.to_json(&audited.entity)));
                }
            }
            Ok(())
        })
        .await;
        found.into_inner()
    }

    /// `vzero admin backfill --yes`: puts the items of a table with one key under versioning. With the versioned table itself, it counts
    /// the latest items without `Latest`.
    pub(crate) async fn backfill(&self, from_table: &str, ordering: Ordering, write: WriteOptions) -> CommandEnd {
        self.run(async || {
            let import = Import {
                from_table: from_table.to_owned(),
                id: None,
                rename: BTreeMap::new(),
                ordering,
                write,
                pace: self.pace(),
                dry_run: false,
            };
            let table = import.describe(&self.connection).await?;
            let checkpoint = self.checkpoint("backfill");
            let mut run = import.run(&self.connection, &table, None, checkpoint.as_deref())?;
            while run.step().await?.is_some() {}
            let counts = run.counts();
            match counts.refused + counts.conflicts {
                0 => Ok(()),
                left => Err(incomplete(format!("{left} items could not be put under versioning"))),
            }
        })
        .await
    }

    /// `vzero admin pin`. Fails if the version is missing or expired.
    pub(crate) async fn pin(&self, entity: &str, version: Version) -> CommandEnd {
        self.run(async || {
            let store = &self.connection.store;
            let entity = EntityId::new(entity)?;
            match pin_version(store, &entity, version, store.clock().now()).await? {
                true => Ok(()),
                false => Err(OperationError::NoVersion),
            }
        })
        .await
    }

    /// `vzero admin prune ID`.
    pub(crate) async fn prune(&self, entity: &str, options: Options) -> CommandEnd {
        self.run(async || {
            let pace = self.pace();
            let prune = EntityPrune::plan(&self.connection.store, entity, options, &pace).await?;
            prune.run(&pace, &Silent).await?;
            Ok(())
        })
        .await
    }

    /// `vzero admin prune --all`.
    pub(crate) async fn prune_table(&self, options: Options) -> CommandEnd {
        self.run(async || {
            let checkpoint = self.checkpoint("prune");
            let mut run = TablePrune::new(&self.connection, options, &self.pace(), None, checkpoint.as_deref())?;
            while run.step().await?.is_some() {}
            match run.counts().failed {
                0 => Ok(()),
                failed => Err(incomplete(format!("{failed} entities could not be pruned"))),
            }
        })
        .await
    }

    /// `vzero admin purge ID --wait`.
    pub(crate) async fn purge(&self, entity: &str, wait: Duration) -> CommandEnd {
        self.run(async || {
            let mut purge = Purge::of(&self.connection.store, entity).await?;
            purge.run(wait, |_| {}).await
        })
        .await
    }

    /// `vzero admin redrive`, of failure documents.
    pub(crate) async fn redrive(&self, documents: &[Value]) -> CommandEnd {
        self.services.set_documents(documents);
        self.redrive_from(ExternalServices::documents()).await
    }

    /// `vzero admin redrive`, of the records in quarantine.
    pub(crate) async fn redrive_quarantine(&self) -> CommandEnd {
        self.redrive_from(Source::Quarantine(None)).await
    }

    /// `vzero admin redrive`, of a dead-letter queue: updates are sent to their queue again, failure documents are replayed.
    pub(crate) async fn redrive_queue(&self, url: &str) -> CommandEnd {
        self.redrive_from(Source::Queue(url.to_owned())).await
    }

    async fn redrive_from(&self, source: Source) -> CommandEnd {
        self.run_as(Author::Redrive, async || {
            let services = ExternalServices::of_library();
            let mut feed = Feed::new(&self.connection, &services, &Silent);
            feed.resend = Some(Resend::default());
            let mut replay = Replay::new(&self.connection, &services, false);
            replay.drop = Dropped::default();
            let mut tally = Tally::default();
            let fed = feed.all(&[source], &replay, &mut tally).await;
            fed.and(tally.verdict())
        })
        .await
    }

    /// `vzero admin repair --all --yes`, with the versions that these failure documents contain.
    pub(crate) async fn repair(
        &self,
        documents: &[Value],
        (stream, revive): (bool, bool),
        lag: Duration,
    ) -> CommandEnd {
        self.services.set_documents(documents);
        self.run(async || {
            let services = ExternalServices::of_library();
            let feed = Feed::new(&self.connection, &services, &Silent);
            let documents = (!documents.is_empty()).then(ExternalServices::documents);
            let sources: Vec<_> = (documents.into_iter())
                .chain(stream.then_some(Source::Stream))
                .collect();
            let options = repair::Options {
                lag,
                sources: &sources,
                revive,
            };
            let mut repair = Repair::plan(&self.connection, Scope::Table, &options, &Silent, &feed).await?;
            repair.execute(&self.connection, &Silent).await;
            repair.verdict()
        })
        .await
    }

    /// `vzero restore`, `delete` and `undelete`. A command that is repeated has the same request id.
    pub(crate) async fn restore(&self, command: &Command, write: WriteOptions) -> CommandEnd {
        self.run(async || {
            let store = &self.connection.store;
            let id = |name: String| RequestId::new(name).map_err(incomplete);
            let change = ChangeOptions::default();
            let changed = match command {
                Command::Restore { entity, version } => {
                    let (id, entity) = (id(format!("restore-{entity}-{version}"))?, EntityId::new(entity)?);
                    let version = Version::new(*version).unwrap_or(Version::FIRST);
                    revision::restore(store, &entity, version, id, change, write)
                        .await
                        .map(Some)
                }
                Command::Delete { entity } => {
                    let (id, entity) = (id(format!("delete-{entity}"))?, EntityId::new(entity)?);
                    revision::delete(store, &entity, id, change, write).await
                }
                Command::Undelete { entity } => {
                    let (id, entity) = (id(format!("undelete-{entity}"))?, EntityId::new(entity)?);
                    revision::undelete(store, &entity, id, change, write).await
                }
                _ => Ok(None),
            };
            changed.map(drop).map_err(incomplete)
        })
        .await
    }
}
