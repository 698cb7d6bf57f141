//! Repair plan: the steps, and the findings that no step repairs.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use shared::{
    domain::{
        entity::EntityId,
        keys::{LATEST_KEY, sort_key_of},
        names,
        version::Version,
        version_item::latest_of,
        version_set::VersionSet,
    },
    dynamodb::Store,
};

use super::{
    findings::Findings,
    missing::{AllFound, Found, Missing, Search},
    quarantined,
};
use crate::{
    audit::collection::Finding,
    connection::Connection,
    error::OperationError,
    failures::source::Source,
    latest::{
        recount::Counter,
        repair::{self, Step},
    },
    redrive::{Feed, Tally},
};

/// More than [`repair::MAX_MISSING`] versions are missing.
const OUT_OF_REACH: &str = "more than 10000 versions before the highest one are missing: delete its item if it does not belong to \
                            the entity";
const NOWHERE: &str = "it is in none of the sources";

/// A step for an entity, and the source of the item that it puts.
#[derive(Debug)]
pub struct Planned {
    pub(super) entity: EntityId,
    pub(super) step: Step,
    /// Highest version of the entity when the step was planned, `None` if there was none.
    pub(super) highest: Option<Version>,
    source: String,
}

#[derive(Debug, Default)]
pub struct Plan {
    pub steps: Vec<Planned>,
    /// Versions that only other sources than the entity's items can restore.
    missing: Missing,
    /// Versions above the highest one of entities whose counter is repaired. The sources can contain versions that were counted
    /// before the counter was lost: they are put before the counter continues.
    beyond: Missing,
    /// Findings that are not repaired, with the reason.
    pub left: Vec<Value>,
}

impl Plan {
    /// Plans the steps for which the entities' own items suffice.
    pub async fn of(store: &Store, findings: &Findings, revive: bool) -> Result<Self, OperationError> {
        let digits = store.digits();
        let mut plan = Self::default();
        for (entity, findings) in findings {
            let latest = store.get(entity, LATEST_KEY, true).await?;
            let number = repair::highest(findings);
            let top = match number {
                Some(highest) => store.get(entity, &digits.version_key(highest), true).await?,
                None => None,
            };
            let planned = |step| Planned {
                entity: entity.clone(),
                step,
                highest: number,
                source: LATEST_KEY.to_owned(),
            };
            let padded = match (&latest, digits.padded_latest_key()) {
                (None, Some(key)) => store.get(entity, &key, true).await?,
                _ => None,
            };
            let counted = latest
                .as_ref()
                .or(padded.as_ref())
                .and_then(|item| latest_of(item).ok());
            let floor = store.floor(entity, true).await?;
            let is_out_of_reach = repair::out_of_reach(findings, counted, floor).is_some();
            let known = counted
                .into_iter()
                .chain(number.filter(|_| !is_out_of_reach))
                .fold(floor, Version::max);
            let mut released = VersionSet::default();
            if findings
                .iter()
                .any(|finding| matches!(finding, Finding::Quarantined { .. }))
            {
                let (steps, left) = quarantined::plan(store, entity, known).await?;
                plan.left.extend(left);
                for (version, step) in steps {
                    released.insert(version.get());
                    plan.steps.push(Planned {
                        entity: entity.clone(),
                        step,
                        source: "quarantine".to_owned(),
                        highest: None,
                    });
                }
            }
            let is_doubtful = number.is_some() || (latest.is_some() && counted.is_none());
            if is_doubtful && !is_out_of_reach {
                let above = known.get().saturating_add(1)..=known.get().saturating_add(repair::MAX_MISSING);
                let beyond = plan.beyond.entry(entity.clone()).or_default();
                beyond.insert_range(*above.start(), *above.end());
            }
            let highest = number.zip(top.clone()).filter(|_| !is_out_of_reach);
            let padded = padded.filter(|_| !is_out_of_reach);
            if let Some(step) = padded.and_then(|padded| repair::move_padded(&padded, highest.as_ref(), digits)) {
                plan.steps.push(planned(step));
                continue;
            }
            let is_purged = match (&latest, &top) {
                (None, Some(top)) if revive => {
                    let markers = store.purge_markers([entity]).await?;
                    let marker = markers.of(entity).zip(number);
                    marker.is_some_and(|(marker, highest)| marker.covers_item(top, highest))
                }
                _ => false,
            };
            let revive = revive && !is_purged;
            let own = repair::plan(findings, latest.as_ref(), top.as_ref(), floor, revive, digits);
            plan.steps.extend(own.steps.into_iter().map(planned));
            let left = |finding| left(entity, finding, is_purged, is_out_of_reach);
            plan.left.extend(own.left.iter().map(left));
            let missing = own.missing.without(&released);
            if !missing.is_empty() {
                plan.missing.insert(entity.clone(), missing);
            }
        }
        Ok(plan)
    }

    /// Searches the missing versions in these sources.
    pub async fn add_missing(
        &mut self,
        connection: &Connection,
        feed: &Feed<'_>,
        sources: &[Source],
    ) -> Result<(), OperationError> {
        let mut wanted = self.missing.clone();
        for (entity, beyond) in &self.beyond {
            for (from, to) in beyond.ranges() {
                wanted.entry(entity.clone()).or_default().insert_range(from, to);
            }
        }
        let is_in_stream = sources.contains(&Source::Stream);
        for planned in &self.steps {
            if let Step::Put(version) = &planned.step
                && (is_in_stream || !version.item().contains_key(names::RECORDED_AT))
            {
                let wanted = wanted.entry(planned.entity.clone()).or_default();
                wanted.insert(version.version().get());
            }
        }
        let purged = connection.store.purge_markers(wanted.keys()).await?;
        let search = Search::new(&wanted, purged, connection);
        if !wanted.is_empty() {
            feed.all(sources, &search, &mut Tally::default()).await?;
        }
        self.add_found(search.found());
        Ok(())
    }

    /// Adds a step for each missing version that was found. The others are not repaired.
    fn add_found(&mut self, found: AllFound) {
        let mut ambiguous: BTreeMap<EntityId, VersionSet> = BTreeMap::new();
        for ((entity, version), found) in found {
            if let Some(missing) = self.missing.get_mut(&entity) {
                *missing = missing.without(&VersionSet::from_iter([version.get()]));
            }
            if let Some(index) = self.put_of(&entity, version) {
                self.prefer(index, found);
                continue;
            }
            if found.is_ambiguous {
                ambiguous.entry(entity).or_default().insert(version.get());
                continue;
            }
            self.steps.push(Planned {
                entity,
                step: Step::Put(found.version),
                highest: None,
                source: found.source,
            });
        }
        for (sets, why) in [
            (&self.missing, NOWHERE),
            (&ambiguous, "the sources contain different items"),
        ] {
            for (entity, set) in sets {
                for (from, to) in set.ranges() {
                    let named = json!({"ID": entity.as_str(), "Step": "None", "From": from, "To": to, "Why": why});
                    self.left.push(named);
                }
            }
        }
    }

    /// Returns the index of the step that puts this version of the latest item.
    fn put_of(&self, entity: &EntityId, version: Version) -> Option<usize> {
        let is_put = |planned: &Planned| {
            planned.entity == *entity && matches!(&planned.step, Step::Put(put) if put.version() == version)
        };
        self.steps.iter().position(is_put)
    }

    /// Takes the version of a stream record in place of that of the latest item, as stream-fn would have put it: only the record has
    /// the time of a version that another program wrote, and another program can have changed the latest item since.
    fn prefer(&mut self, index: usize, found: Found) {
        let planned = &mut self.steps[index];
        if let Step::Put(version) = &mut planned.step
            && !found.is_ambiguous
        {
            *version = found.version;
            planned.source = found.source;
        }
    }

    pub fn is_empty(&self) -> bool {
        self.steps.is_empty()
    }

    /// Returns each step, and each finding that is not repaired.
    pub fn to_json(&self) -> Vec<Value> {
        let steps = self.steps.iter().map(Planned::to_json);
        steps.chain(self.left.iter().cloned()).collect()
    }
}

impl Planned {
    /// Returns `{"ID": …, "Step": "Record", "Version": 7, "Source": "v0"}`.
    pub fn to_json(&self) -> Value {
        let id = self.entity.as_str();
        match &self.step {
            Step::Put(version) => {
                json!({"ID": id, "Step": "Record", "Version": version.version(), "Source": self.source})
            }
            Step::Raise { from, to } => json!({"ID": id, "Step": "Raise", "From": from, "To": to}),
            Step::Retime { from, to } => json!({"ID": id, "Step": "Retime", "From": from, "To": to}),
            Step::Adopt { to } => json!({"ID": id, "Step": "Adopt", "Version": to}),
            Step::Move { padded, version, .. } => {
                json!({"ID": id, "Step": "Move", "From": sort_key_of(padded), "Version": version})
            }
            Step::Release { version, record } => {
                json!({"ID": id, "Step": "Release", "Version": version.version(), "SequenceNumber": record.number})
            }
            Step::Recount { from, to } if *from == Counter::NoLatestItem => {
                json!({"ID": id, "Step": "Recount", "Version": to, "Tombstone": true})
            }
            Step::Recount { to, .. } => json!({"ID": id, "Step": "Recount", "Version": to}),
            Step::Revive { version, .. } => json!({"ID": id, "Step": "Revive", "Version": version}),
        }
    }

    pub fn version(&self) -> Version {
        match &self.step {
            Step::Put(version) | Step::Release { version, .. } => version.version(),
            Step::Raise { to, .. } | Step::Adopt { to } | Step::Recount { to, .. } | Step::Retime { to, .. } => *to,
            Step::Move { version, .. } | Step::Revive { version, .. } => *version,
        }
    }
}

fn left(entity: &EntityId, finding: &Finding, is_purged: bool, is_out_of_reach: bool) -> Value {
    let mut left = finding.to_json(entity);
    let why = match finding {
        Finding::Stray { .. } | Finding::Orphan { .. } | Finding::NoVersion { .. } | Finding::LatestDiffers { .. }
            if is_out_of_reach =>
        {
            OUT_OF_REACH
        }
        Finding::Orphan { .. } if is_purged => "the entity was purged; vzero admin purge deletes these versions",
        Finding::Orphan { .. } => "there is no latest item; --revive creates it from the highest version",
        Finding::BelowFloor { .. } => {
            "the floor is too far above the versions: delete the item floor if it does not belong to the entity"
        }
        Finding::Unpruned { .. } => "vzero admin prune removes them",
        _ => "the latest item contains no valid version",
    };
    left["Step"] = json!("None");
    left["Why"] = json!(why);
    left
}
