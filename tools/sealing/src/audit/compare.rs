//! Comparison of the log with the table, in the order of tags and versions. What differs is read again before it is reported.

use std::mem;

use seal::format::leaf::Kind as LeafKind;
use serde_json::json;
use shared::domain::{
    Item,
    attributes::text,
    entity::EntityId,
    recorded_at::RecordedAt,
    time_index::{self, INSERTED_AT, LATE},
    version::Version,
    view::VersionView,
};

use super::{
    Audit,
    finding::{Finding, Kind},
    rows::{Part, Removal, Row, Stored},
};
use crate::{
    error::SealError,
    keys::EntityKeys,
    members::{leaf, members_of},
    state::Request,
};

/// Maximum number of versions of an entity of which it is looked for another version with the same content.
const SUSPECTS: usize = 100;
/// Maximum number of leaves of an entity that they are compared with.
const LEAVES: usize = 10_000;

/// Comparison of sorted rows.
pub(super) struct Comparison<'a> {
    audit: &'a Audit<'a>,
    start: RecordedAt,
    group: Group,
    /// What was found and is not reported yet.
    pub(super) findings: Vec<Finding>,
    /// Number of versions that are not sealed yet.
    pub(super) waiting: u64,
    /// Number of versions that operations removed.
    pub(super) removed: u64,
}

/// What is known of an entity.
#[derive(Default)]
struct Group {
    tag: String,
    /// The entity, and `true` if it is one of the table.
    keys: Option<(String, bool)>,
    removals: Vec<Removal>,
    /// Version whose rows are being read.
    current: Current,
    leaves: Vec<Sealed>,
    suspects: Vec<Suspect>,
    /// First version of an entity without keys, and their number.
    unknown: Option<(u64, u64)>,
}

#[derive(Default)]
struct Current {
    version: u64,
    leaves: Vec<(u64, String)>,
    stored: Option<Stored>,
}

struct Sealed {
    version: u64,
    content: String,
    is_stored: bool,
}

/// A version that differs from its leaves.
struct Suspect {
    entity: String,
    version: u64,
    sealed: Vec<String>,
}

impl Removal {
    fn covers(&self, version: u64) -> bool {
        (self.versions.0..=self.versions.1).contains(&version)
    }

    /// Returns `true` if the entity was removed after a leaf.
    fn ends(&self, index: u64) -> bool {
        self.is_whole && self.index.is_none_or(|removal| removal > index)
    }
}

impl<'a> Comparison<'a> {
    pub(super) fn new(audit: &'a Audit<'a>, start: RecordedAt) -> Self {
        Self {
            audit,
            start,
            group: Group::default(),
            findings: Vec::new(),
            waiting: 0,
            removed: 0,
        }
    }

    /// Adds the next row.
    pub(super) async fn add(&mut self, row: Row) -> Result<(), SealError> {
        if row.tag != self.group.tag {
            self.end().await?;
            self.group.tag = row.tag;
        } else if row.version != self.group.current.version {
            self.settle().await?;
        }
        let group = &mut self.group;
        group.current.version = row.version;
        match row.part {
            Part::Keys(entity, is_own) => group.keys = Some((entity, is_own)),
            Part::Removal(removal) => group.removals.push(removal),
            Part::Leaf(index, content) => group.current.leaves.push((index, content)),
            Part::Version(stored) if group.tag.is_empty() => {
                let suspect = Suspect::new(stored.entity, row.version, Vec::new());
                self.decide(suspect, &[]).await?;
            }
            Part::Version(stored) => group.current.stored = Some(stored),
        }
        Ok(())
    }

    /// Decides the version whose rows were all read.
    async fn settle(&mut self) -> Result<(), SealError> {
        let group = &mut self.group;
        let Current {
            version,
            leaves,
            stored,
        } = mem::take(&mut group.current);
        let removals: Vec<_> = group
            .removals
            .iter()
            .filter(|removal| removal.covers(version))
            .collect();
        let Some((entity, is_own)) = group.keys.clone() else {
            if !leaves.is_empty() && removals.is_empty() {
                group.unknown.get_or_insert((version, 0)).1 += 1;
            }
            return Ok(());
        };
        if !is_own {
            return Ok(());
        }
        let is_ended = |index: u64| removals.iter().any(|removal| removal.ends(index));
        let is_removed = removals.iter().any(|removal| removal.index.is_some());
        let is_being_removed = !removals.is_empty();
        let live: Vec<_> = leaves.iter().filter(|(index, _)| !is_ended(*index)).cloned().collect();
        let (indices, contents): (Vec<_>, Vec<_>) = live.into_iter().unzip();
        if indices.len() > 1 {
            let more = json!({"Indices": indices});
            self.findings
                .push(Finding::new(&entity, version, Kind::SealedTwice, more));
        }
        if let Some((_, content)) = leaves.last().filter(|_| group.leaves.len() < LEAVES) {
            group.leaves.push(Sealed {
                version,
                content: content.clone(),
                is_stored: stored.is_some(),
            });
        }
        let suspect = Suspect::new(entity, version, contents);
        match stored {
            Some(Stored {
                content: Some(content), ..
            }) if suspect.sealed.contains(&content) => Ok(()),
            Some(_) if group.suspects.len() < SUSPECTS => {
                group.suspects.push(suspect);
                Ok(())
            }
            None if is_removed => {
                self.removed += 1;
                Ok(())
            }
            None if is_being_removed => {
                self.waiting += 1;
                Ok(())
            }
            _ => self.decide(suspect, &[]).await,
        }
    }

    /// Ends the entity whose rows were all read.
    pub(super) async fn end(&mut self) -> Result<(), SealError> {
        self.settle().await?;
        let group = mem::take(&mut self.group);
        if let Some((version, count)) = group.unknown {
            let more = json!({"Tag": group.tag, "Version": version, "Versions": count});
            self.findings.push(Finding::of_log(Kind::UnknownEntity, more));
        }
        for suspect in group.suspects {
            self.decide(suspect, &group.leaves).await?;
        }
        Ok(())
    }

    /// Reads a version again, and adds the finding, if there is one.
    async fn decide(&mut self, suspect: Suspect, leaves: &[Sealed]) -> Result<(), SealError> {
        let Suspect {
            entity,
            version,
            sealed,
        } = suspect;
        let Some((view, item, keys)) = self.read(&entity, version).await? else {
            if !sealed.is_empty() {
                self.findings
                    .push(Finding::new(&entity, version, Kind::Missing, json!({})));
            }
            return Ok(());
        };
        let content = self.content(&view, &keys, version)?;
        if content.as_ref().is_some_and(|content| sealed.contains(content)) {
            return Ok(());
        }
        if sealed.is_empty() && self.is_recent(&item, &view) {
            self.waiting += 1;
            return Ok(());
        }
        let mut other = None;
        for leaf in leaves.iter().filter(|leaf| leaf.version != version) {
            if self.content(&view, &keys, leaf.version)?.as_ref() == Some(&leaf.content) {
                other = Some(leaf);
                break;
            }
        }
        let kind = match (other, sealed.is_empty()) {
            (Some(other), _) if !other.is_stored => Kind::Renumbered,
            (_, true) => Kind::Unsealed,
            (Some(_), false) => Kind::Swapped,
            (None, false) => Kind::Changed,
        };
        if kind == Kind::Unsealed && self.audit.seals_missing {
            let request = Request {
                table: self.audit.table.clone(),
                entity: view.entity,
                version: view.version,
                inserted: text(&item, INSERTED_AT).unwrap_or_default().to_owned(),
            };
            self.audit.state.add_request(&request).await?;
        }
        let more = other.map_or(json!({}), |other| json!({"ContentOf": other.version}));
        self.findings.push(Finding::new(&entity, version, kind, more));
        Ok(())
    }

    /// Reads the keys of an entity, and then a version. `None` if it does not exist.
    async fn read(&self, entity: &str, version: u64) -> Result<Option<(VersionView, Item, EntityKeys)>, SealError> {
        let store = self.audit.plan.store;
        let (Ok(id), Some(number)) = (EntityId::new(entity), Version::new(version)) else {
            return Ok(None);
        };
        let mut keys = self
            .audit
            .keys
            .read(&self.audit.table, std::slice::from_ref(&id))
            .await?;
        let item = store.version_item(&id, number, true).await?;
        let found = item.zip(keys.remove(&id));
        Ok(found.map(|(item, keys)| (store.view(&id, number, item.clone()), item, keys)))
    }

    /// Returns the content that the leaf of a version with this number would have.
    fn content(&self, view: &VersionView, keys: &EntityKeys, version: u64) -> Result<Option<String>, SealError> {
        let Some(number) = Version::new(version) else {
            return Ok(None);
        };
        let view = VersionView {
            version: number,
            ..view.clone()
        };
        let leaf = leaf(
            LeafKind::Version,
            &members_of(&self.audit.table, &view),
            keys,
            version,
            None,
        )?;
        Ok(leaf.map(|leaf| seal::hex(&leaf.content)))
    }

    /// Returns `true` if a version was inserted so late that it need not be sealed yet.
    fn is_recent(&self, item: &Item, view: &VersionView) -> bool {
        let inserted = text(item, INSERTED_AT).and_then(time_index::parse);
        let inserted = inserted.map(|(inserted, _)| inserted).or(view.recorded_at);
        let now = RecordedAt::since_epoch(self.audit.plan.store.clock().now());
        // A time that is far ahead is not one of the functions.
        inserted.is_some_and(|inserted| (self.start.before(LATE)..now.after(LATE)).contains(&inserted))
    }
}

impl Suspect {
    fn new(entity: String, version: u64, sealed: Vec<String>) -> Self {
        Self {
            entity,
            version,
            sealed,
        }
    }
}
