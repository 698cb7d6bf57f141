//! Audit of a sealed history: the whole table against the log, in both directions.
//!
//! ```text
//! log      all entries ───────┐
//! table    all versions ──────┤
//!                             ├─ sorted files ─ differences ─ read again ─ findings
//! keys     all entities ──────┤
//! state    all operations ────┘
//! ```
//!
//! The log is read first: what is inserted meanwhile need not be sealed yet.

mod compare;
mod entries;
pub mod finding;
mod operations;
mod rows;

use std::collections::{BTreeMap, BTreeSet};

use ::operations::{
    all_versions::sorted_files::SortedFiles,
    segments::{Plan, versions::VersionRun},
};
use seal::{
    format::leaf::Kind as LeafKind,
    log::{checkpoint::Checkpoint, note::VerifierKey},
};
use serde_json::{Value, json};
use shared::domain::{
    Item, entity::EntityId, keys::partition_key_of, recorded_at::RecordedAt, time_index::LATE, version::Version,
};

use self::{
    compare::Comparison,
    finding::{Finding, Kind},
    rows::{OperationPart, OperationRow, Part, Row, SealedOperation, Stored},
};
use crate::{
    error::SealError,
    keys::{EntityKeys, KeysTable},
    log::Log,
    members::{leaf, members_of},
    state::{State, StateTable},
};

/// An audit of a table and its log.
pub struct Audit<'a> {
    /// Reads of the table.
    pub plan: Plan<'a>,
    /// Id of the table in leaves.
    pub table: String,
    /// The log.
    pub log: Log,
    /// Key that verifies checkpoints.
    pub key: VerifierKey,
    /// Note of a checkpoint that the auditor kept.
    pub earlier: Option<String>,
    /// Random keys.
    pub keys: KeysTable,
    /// State of the log.
    pub state: StateTable,
    /// `true` if seal-fn is asked to seal the versions that are not sealed.
    pub seals_missing: bool,
}

/// What an audit tells.
#[derive(Debug, Clone, PartialEq)]
pub enum Line {
    /// A finding.
    Finding(Finding),
    /// An operation in the log that removed versions or values.
    Operation(Value),
}

/// Sums of an audit.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Summary {
    /// Versions of the table.
    pub versions: u64,
    /// Leaves of versions, of all tables of the log.
    pub leaves: u64,
    /// Versions that are not sealed yet.
    pub not_sealed_yet: u64,
    /// Versions that operations removed.
    pub removed: u64,
    /// Operations of the table.
    pub operations: u64,
    /// Size of the published checkpoint.
    pub size: u64,
    /// Time of the last batch, as the state says.
    pub sealed_at: Option<RecordedAt>,
    /// Findings by kind.
    pub findings: BTreeMap<Kind, u64>,
    /// `false` if the log could not be read, so that the table was not compared.
    pub is_compared: bool,
}

impl Summary {
    fn counted(&mut self, finding: Finding) -> Line {
        *self.findings.entry(finding.kind).or_default() += 1;
        Line::Finding(finding)
    }
}

impl Audit<'_> {
    /// Audits the table. `progress` gets the number of items that were read.
    ///
    /// # Errors
    ///
    /// A request or a temporary file fails, or the error of `found`.
    pub async fn run<E: From<SealError>>(
        &self,
        progress: impl FnMut(u64),
        mut found: impl FnMut(Line) -> Result<(), E>,
    ) -> Result<Summary, E> {
        let start = RecordedAt::since_epoch(self.plan.store.clock().now());
        let (mut rows, mut operations) = (SortedFiles::default(), SortedFiles::default());
        let mut summary = Summary::default();
        for finding in self.log(&mut summary, &mut rows, &mut operations).await? {
            found(summary.counted(finding))?;
        }
        if !summary.is_compared {
            return Ok(summary);
        }
        self.versions(&mut summary, &mut rows, progress).await?;
        self.entities(&mut rows).await?;
        let since = (summary.size, start.before(LATE));
        for json in operations::collect(self, since, &mut operations, &mut rows).await? {
            found(Line::Operation(json))?;
        }
        summary.operations = operations::join(&self.table, operations, &mut rows, |json| found(Line::Operation(json)))?;
        let mut comparison = Comparison::new(self, start);
        for row in rows.sorted().map_err(SealError::from)? {
            comparison.add(row.map_err(SealError::from)?).await?;
            for finding in comparison.findings.drain(..) {
                found(summary.counted(finding))?;
            }
        }
        comparison.end().await?;
        for finding in comparison.findings.drain(..) {
            found(summary.counted(finding))?;
        }
        (summary.not_sealed_yet, summary.removed) = (comparison.waiting, comparison.removed);
        Ok(summary)
    }

    /// Reads the log, and returns what is wrong with it.
    async fn log(
        &self,
        summary: &mut Summary,
        rows: &mut SortedFiles<Row>,
        operations: &mut SortedFiles<OperationRow>,
    ) -> Result<Vec<Finding>, SealError> {
        let State { size, sealed_at, .. } = self.state.read().await?;
        summary.sealed_at = sealed_at;
        let unsigned = |what: &str, error: &dyn std::error::Error| {
            let json = json!({"Object": what, "Reason": error.to_string()});
            Finding::of_log(Kind::Checkpoint, json)
        };
        let newest = match self.log.published(&self.key).await {
            Ok(newest) => newest.map(|(_, checkpoint)| checkpoint),
            Err(SealError::Checkpoint(error)) => return Ok(vec![unsigned("checkpoint", &error)]),
            Err(error) => return Err(error),
        };
        let mut findings = Vec::new();
        let earlier = self
            .earlier
            .as_ref()
            .map(|note| Checkpoint::open(note, &self.key))
            .transpose();
        let earlier = earlier.unwrap_or_else(|error| {
            findings.push(unsigned("--since-checkpoint", &error));
            None
        });
        let newest = newest.unwrap_or_else(|| Checkpoint {
            origin: self.key.name().to_owned(),
            size: 0,
            root: seal::log::tree::root([]),
        });
        summary.size = newest.size;
        // What was swapped a moment ago is being published.
        let is_published =
            sealed_at.is_none_or(|time| time < RecordedAt::since_epoch(self.plan.store.clock().now()).before(LATE));
        let expected = earlier.as_ref().map_or(0, |earlier| earlier.size);
        let expected = expected.max(if is_published { size } else { 0 });
        if expected > newest.size {
            let json = json!({"Size": newest.size, "EarlierSize": expected});
            findings.push(Finding::of_log(Kind::Truncated, json));
        }
        let add = |index, leaf: seal::format::leaf::Leaf| {
            if leaf.kind == LeafKind::Version {
                summary.leaves += 1;
                let part = Part::Leaf(index, seal::hex(&leaf.content));
                rows.push(Row {
                    tag: seal::hex(&leaf.tag),
                    version: leaf.version,
                    part,
                })?;
            } else {
                let part = OperationPart::Leaf(SealedOperation::of(&leaf));
                operations.push(OperationRow { index, part })?;
            }
            Ok(())
        };
        let (wrong, is_whole) = entries::read(&self.log, &newest, earlier.as_ref(), add).await?;
        findings.extend(wrong);
        summary.is_compared = is_whole;
        Ok(findings)
    }

    /// Reads all versions of the table.
    async fn versions(
        &self,
        summary: &mut Summary,
        rows: &mut SortedFiles<Row>,
        mut progress: impl FnMut(u64),
    ) -> Result<(), SealError> {
        let mut run = VersionRun::versions(self.plan)?;
        while let Some(items) = run.step().await? {
            self.add_versions(items, rows).await?;
            summary.versions = run.counts().versions;
            progress(run.counts().items);
        }
        Ok(())
    }

    async fn add_versions(&self, items: Vec<Item>, rows: &mut SortedFiles<Row>) -> Result<(), SealError> {
        let store = self.plan.store;
        let entity = |item: &Item| EntityId::new(partition_key_of(item)?).ok();
        let entities: BTreeSet<_> = items.iter().filter_map(entity).collect();
        let keys = self
            .keys
            .read(&self.table, &entities.into_iter().collect::<Vec<_>>())
            .await?;
        for item in items {
            let (Some(id), Some(version)) = (entity(&item), store.digits().version_of_item(&item)) else {
                continue;
            };
            let keys = keys.get(&id).filter(|keys| keys.is_stored());
            let view = store.view(&id, version, item);
            let leaf = |keys| {
                leaf(
                    LeafKind::Version,
                    &members_of(&self.table, &view),
                    keys,
                    version.get(),
                    None,
                )
            };
            let content = keys
                .map(leaf)
                .transpose()?
                .flatten()
                .map(|leaf| seal::hex(&leaf.content));
            let tag = keys
                .map(EntityKeys::tag)
                .transpose()?
                .map_or_else(String::new, |tag| seal::hex(&tag));
            let entity = id.as_str().to_owned();
            let part = Part::Version(Stored { entity, content });
            let version = Version::get(version);
            rows.push(Row { tag, version, part })?;
        }
        Ok(())
    }

    /// Reads the entities that have keys.
    async fn entities(&self, rows: &mut SortedFiles<Row>) -> Result<(), SealError> {
        let mut cursor = None;
        loop {
            let (entities, next) = self.keys.page(cursor).await?;
            for keys in entities {
                let tag = seal::hex(&keys.tag()?);
                let part = Part::Keys(keys.entity, keys.table == self.table);
                rows.push(Row { tag, version: 0, part })?;
            }
            cursor = next;
            if cursor.is_none() {
                return Ok(());
            }
        }
    }
}
