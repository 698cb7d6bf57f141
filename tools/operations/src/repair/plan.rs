//! Plan of a repair: the steps, and the findings that no step repairs.

use serde_json::{Value, json};
use shared::{
    domain::{entity::EntityId, names},
    dynamodb::Store,
};

use super::{
    Findings,
    entity::{Known, MAX_MISSING},
    quarantined,
    search::{Missing, add, search},
    step::{Action, Step},
};
use crate::{
    audit::collection::Finding, error::OperationError, failures::source::Source, redrive::Feed, version_set::VersionSet,
};

#[derive(Debug, Default)]
pub struct Plan {
    pub steps: Vec<Step>,
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
    ///
    /// # Errors
    ///
    /// Returns [`OperationError`] if a request fails.
    pub async fn of(store: &Store, findings: &Findings, revive: bool) -> Result<Self, OperationError> {
        let mut plan = Self::default();
        for (entity, findings) in findings {
            let known = Known::read(store, entity, findings, revive).await?;
            let above = known.highest_known().get();
            let mut released = VersionSet::default();
            if findings
                .iter()
                .any(|finding| matches!(finding, Finding::Quarantined { .. }))
            {
                let (versions, left) = quarantined::plan(store, entity, known.highest_known()).await?;
                plan.left.extend(left);
                released = versions.iter().map(|(version, _)| version.version().get()).collect();
                let release = |(version, record)| Action::Release { version, record };
                plan.add(entity, versions.into_iter().map(release).collect());
            }
            if known.is_doubtful() {
                let beyond = (above.saturating_add(1), above.saturating_add(MAX_MISSING));
                add(&mut plan.beyond, entity, [beyond]);
            }
            let own = known.plan(findings, revive, store.digits());
            plan.add(entity, own.actions);
            for (finding, why) in own.left {
                let mut left = finding.to_json(entity);
                (left["Step"], left["Why"]) = (json!("None"), json!(why));
                plan.left.push(left);
            }
            let missing = own.missing.without(&released);
            if !missing.is_empty() {
                plan.missing.insert(entity.clone(), missing);
            }
        }
        Ok(plan)
    }

    fn add(&mut self, entity: &EntityId, actions: Vec<Action>) {
        let entity = || entity.clone();
        let steps = actions.into_iter().map(|action| Step {
            entity: entity(),
            action,
        });
        self.steps.extend(steps);
    }

    /// Searches the missing versions in these sources, and adds a step for each that is found. The others are not repaired.
    pub(super) async fn add_missing(
        &mut self,
        store: &Store,
        feed: &Feed<'_>,
        sources: &[Source],
    ) -> Result<(), OperationError> {
        let mut wanted = self.missing.clone();
        for (entity, beyond) in &self.beyond {
            add(&mut wanted, entity, beyond.ranges());
        }
        let is_in_stream = sources.contains(&Source::Stream);
        for step in &self.steps {
            if let Action::Put { version, .. } = &step.action
                && (is_in_stream || !version.item().contains_key(names::RECORDED_AT))
            {
                let number = version.version().get();
                add(&mut wanted, &step.entity, [(number, number)]);
            }
        }
        let mut ambiguous = Missing::new();
        for ((entity, number), found) in search(store, feed, sources, &wanted).await? {
            if let Some(missing) = self.missing.get_mut(&entity) {
                *missing = missing.without(&VersionSet::from_iter([number.get()]));
            }
            let put = Action::Put {
                version: found.version,
                source: found.source,
            };
            let is_put = |step: &&mut Step| {
                step.entity == entity && step.version() == number && matches!(step.action, Action::Put { .. })
            };
            match self.steps.iter_mut().find(is_put) {
                // As stream-fn would have put it, in place of the version of the latest item: only the record has the time of a
                // version that another program wrote, and another program can have changed the latest item since.
                Some(step) if !found.is_ambiguous => step.action = put,
                Some(_) => {}
                None if found.is_ambiguous => add(&mut ambiguous, &entity, [(number.get(), number.get())]),
                None => self.steps.push(Step { entity, action: put }),
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
        Ok(())
    }

    /// Returns each step, and each finding that is not repaired.
    pub fn to_json(&self) -> Vec<Value> {
        let steps = self.steps.iter().map(Step::to_json);
        steps.chain(self.left.iter().cloned()).collect()
    }
}
