//! Plan of a repair: the steps, and the findings that no step repairs.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use shared::{
    domain::{entity::EntityId, names},
    dynamodb::Store,
};

use super::{
    entity::{Known, MAX_MISSING},
    quarantined,
    search::{Missing, add, search},
    step::{Action, Step, execute},
};
use crate::{
    audit::collection::Finding,
    connection::Connection,
    error::OperationError,
    failures::source::Source,
    progress::Progress,
    redrive::{Count, Services, Tally},
    version_set::VersionSet,
};

/// Findings of an audit, by entity.
pub type Findings = BTreeMap<EntityId, Vec<Finding>>;

/// A plan, and the result of its steps.
#[derive(Debug, Default)]
pub struct Repair {
    pub steps: Vec<Step>,
    /// Findings that are not repaired, with the reason.
    pub left: Vec<Value>,
    /// The number of findings, and the outcomes of the steps that were executed.
    pub tally: Tally,
    /// Versions that only other sources than the entity's items can restore.
    missing: Missing,
    /// These, and versions above the highest one of entities whose counter is repaired. The sources can contain versions that were
    /// counted before the counter was lost: they are put before the counter continues.
    wanted: Missing,
    /// An entity that does not exist.
    pub(super) not_found: Option<EntityId>,
}

impl Repair {
    /// Plans the steps for which the entities' own items suffice.
    ///
    /// # Errors
    ///
    /// Returns [`OperationError`] if a request fails.
    pub async fn of(store: &Store, findings: &Findings, revive: bool) -> Result<Self, OperationError> {
        let mut plan = Self {
            tally: Tally::of_repair(),
            ..Self::default()
        };
        plan.tally.count(Count::Entities, findings.len() as u64);
        for (entity, findings) in findings {
            let known = Known::read(store, entity, findings, revive).await?;
            let own = known.plan(findings, revive, store.digits());
            let (above, mut missing) = (known.highest_known(), own.missing);
            let is_quarantined = |finding: &Finding| matches!(finding, Finding::Quarantined { .. });
            if findings.iter().any(is_quarantined) {
                let (released, left) = quarantined::plan(store, entity, above).await?;
                plan.left.extend(left);
                for (version, record) in released {
                    missing = missing.without(&VersionSet::from_iter([version.version().get()]));
                    plan.add(entity, [Action::Release { version, record }]);
                }
            }
            plan.add(entity, own.actions);
            for (finding, why) in own.left {
                let mut left = finding.to_json(entity);
                (left["Step"], left["Why"]) = (json!("None"), json!(why));
                plan.left.push(left);
            }
            add(&mut plan.missing, entity, missing.ranges());
            add(&mut plan.wanted, entity, missing.ranges());
            if known.is_doubtful() {
                let beyond = (above.get().saturating_add(1), above.get().saturating_add(MAX_MISSING));
                add(&mut plan.wanted, entity, [beyond]);
            }
        }
        Ok(plan)
    }

    fn add(&mut self, entity: &EntityId, actions: impl IntoIterator<Item = Action>) {
        for action in actions {
            let entity = entity.clone();
            self.steps.push(Step { entity, action });
        }
    }

    /// Searches the missing versions in these sources, and adds a step for each that is found. The others are not repaired.
    pub(super) async fn add_missing(
        &mut self,
        connection: &Connection,
        services: &Services,
        sources: &[Source],
        progress: &dyn Progress,
    ) -> Result<(), OperationError> {
        let is_in_stream = sources.contains(&Source::Stream);
        for step in &self.steps {
            if let Action::Put { version, .. } = &step.action
                && (is_in_stream || !version.item().contains_key(names::RECORDED_AT))
            {
                let number = version.version().get();
                add(&mut self.wanted, &step.entity, [(number, number)]);
            }
        }
        let mut ambiguous = Missing::new();
        for ((entity, number), found) in search(connection, services, sources, &self.wanted, progress).await? {
            if let Some(missing) = self.missing.get_mut(&entity) {
                *missing = missing.without(&VersionSet::from_iter([number.get()]));
            }
            let is_put = |step: &&mut Step| {
                step.entity == entity && step.version() == number && matches!(step.action, Action::Put { .. })
            };
            let put = found.map(|(version, source)| Action::Put { version, source });
            match (self.steps.iter_mut().find(is_put), put) {
                // As stream-fn would have put it, in place of the version of the latest item: only the record has the time of a
                // version that another program wrote, and another program can have changed the latest item since.
                (Some(step), Some(action)) => step.action = action,
                (Some(_), None) => {}
                (None, Some(action)) => self.steps.push(Step { entity, action }),
                (None, None) => add(&mut ambiguous, &entity, [(number.get(), number.get())]),
            }
        }
        for (sets, why) in [
            (&self.missing, "it is in none of the sources"),
            (&ambiguous, "the sources contain different items"),
        ] {
            for (entity, set) in sets {
                let named =
                    |(from, to)| json!({"ID": entity.as_str(), "Step": "None", "From": from, "To": to, "Why": why});
                self.left.extend(set.ranges().map(named));
            }
        }
        self.tally.count(Count::Left, self.left.len() as u64);
        Ok(())
    }

    /// Returns each step, and each finding that is not repaired.
    pub fn to_json(&self) -> Vec<Value> {
        let steps = self.steps.iter().map(Step::to_json);
        steps.chain(self.left.iter().cloned()).collect()
    }

    /// Executes the steps.
    pub async fn execute(&mut self, store: &Store, progress: &dyn Progress) {
        let steps = std::mem::take(&mut self.steps);
        execute(store, &steps, progress, &mut self.tally).await;
    }

    /// Checks that everything is repaired.
    ///
    /// # Errors
    ///
    /// Returns [`OperationError::Retryable`] if a step failed, [`OperationError::Incomplete`] if a finding is left, and
    /// [`OperationError::NoEntity`] if an entity does not exist.
    pub fn verdict(&self) -> Result<(), OperationError> {
        self.tally.verdict()?;
        match &self.not_found {
            Some(entity) => Err(OperationError::NoEntity(entity.as_str().to_owned())),
            None => Ok(()),
        }
    }
}
