//! Entity of an undo: its plan, or the result of its plan.

use operations::undo::{
    apply::Applied,
    plan::{Action, EntityPlan},
    planned::Planned,
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use shared::{
    domain::{entity::EntityId, version::Version},
    json,
};

/// Results of entities, in JSON and in words.
pub(super) const OUTCOMES: [(&str, &str); 4] = [
    ("Applied", "applied"),
    ("Unchanged", "unchanged"),
    ("ChangedMeanwhile", "changed in the meantime"),
    ("Conflict", "conflict"),
];

#[derive(Serialize, Deserialize)]
pub(super) struct Entity {
    pub(super) id: String,
    newest: Option<Version>,
    versions: Vec<Version>,
    is_changed: bool,
    /// [`EntityPlan::to_json`].
    plan: String,
    /// Index in [`OUTCOMES`].
    pub(super) outcome: Option<usize>,
    /// Version that the undo created, if it is known.
    pub(super) created: Option<Version>,
}

impl Entity {
    pub(super) fn planned(plan: &EntityPlan) -> Self {
        Self {
            id: plan.entity.as_str().to_owned(),
            newest: plan.newest,
            versions: plan.versions.clone(),
            is_changed: plan.action != Action::None,
            plan: plan.to_json().to_string(),
            outcome: None,
            created: None,
        }
    }

    pub(super) fn applied(applied: &Applied) -> Self {
        let outcome = match () {
            () if applied.is_written => 0,
            () if applied.is_stale => 2,
            () => 1 + 2 * usize::from(applied.plan.has_conflicts()),
        };
        Self {
            outcome: Some(outcome),
            created: applied.version,
            ..Self::planned(&applied.plan)
        }
    }

    /// Notes that the entity stays as the plan saw it.
    pub(super) fn stay(&mut self) {
        let has_conflicts = self.json()["Conflicts"].as_array().is_some_and(|all| !all.is_empty());
        self.outcome = Some(1 + 2 * usize::from(has_conflicts));
    }

    /// Returns what is to be carried out, `None` if the entity stays as it is.
    pub(super) fn to_apply(&self) -> Option<Planned> {
        let entity = EntityId::new(self.id.as_str()).ok()?;
        let seen = self.newest.map(|newest| (newest, self.versions.clone()));
        let first = self.versions.first().copied();
        self.is_changed.then_some(Planned { entity, first, seen })
    }

    /// Returns the members of `vzero undo --output json`, with `ID` for each kind of table, and `Outcome` if the plan was carried out.
    pub(super) fn json(&self) -> Value {
        let mut json = json::parse(&self.plan).unwrap_or_default();
        json["ID"] = self.id.as_str().into();
        json["Outcome"] = json!(self.outcome.map(|outcome| OUTCOMES[outcome].0));
        json["NewVersion"] = json!(self.created);
        json
    }
}
