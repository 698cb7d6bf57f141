//! What is going to be done, and what is not.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use shared::domain::{
    audit::Finding,
    entity::EntityId,
    repair::{self, Step},
    version::Version,
    version_set::VersionSet,
};

use super::{
    findings::Findings,
    missing::{AllFound, Missing},
};
use crate::{
    connection::Connection,
    error::CliError,
    output::{self, Output},
};

/// Why a missing version is left that nobody has.
pub(crate) const NOWHERE: &str = "it is in none of the sources";

/// A step, and where what it puts back comes from.
#[derive(Debug)]
pub(crate) struct Planned {
    pub(crate) entity: EntityId,
    pub(crate) step: Step,
    source: String,
}

/// What is going to be done, and what is not.
#[derive(Debug, Default)]
pub(crate) struct Plan {
    pub(crate) steps: Vec<Planned>,
    /// What something else than the entity's items has to bring back.
    pub(crate) missing: Missing,
    /// What stays as it is, and why.
    pub(crate) left: Vec<Value>,
}

impl Plan {
    /// What the entities' own items allow.
    pub(crate) async fn of(connection: &Connection, findings: &Findings, revive: bool) -> Result<Self, CliError> {
        let (store, digits) = (&connection.store, connection.store.digits());
        let mut plan = Self::default();
        for (entity, findings) in findings {
            let latest = store.get(entity, &digits.latest_key(), true).await?;
            let top = match repair::highest(findings) {
                Some(highest) => store.get(entity, &digits.version_key(highest), true).await?,
                None => None,
            };
            let own = repair::plan(findings, latest.as_ref(), top.as_ref(), revive, digits);
            let planned = |step| Planned {
                entity: entity.clone(),
                step,
                source: digits.latest_key(),
            };
            plan.steps.extend(own.steps.into_iter().map(planned));
            plan.left.extend(own.left.iter().map(|finding| left(entity, finding)));
            if !own.missing.is_empty() {
                plan.missing.insert(entity.clone(), own.missing);
            }
        }
        Ok(plan)
    }

    /// Adds what was found of the missing versions. The others are left.
    pub(crate) fn add_found(&mut self, found: AllFound) {
        let mut doubtful: BTreeMap<EntityId, VersionSet> = BTreeMap::new();
        for ((entity, version), found) in found {
            if let Some(missing) = self.missing.get_mut(&entity) {
                *missing = missing.without(&VersionSet::from_iter([version.get()]));
            }
            if found.is_doubtful {
                doubtful.entry(entity).or_default().insert(version.get());
                continue;
            }
            self.steps.push(Planned {
                entity,
                step: Step::Record(found.version),
                source: found.source,
            });
        }
        for (sets, why) in [(&self.missing, NOWHERE), (&doubtful, "the sources hold different ones")] {
            for (entity, set) in sets {
                for (from, to) in set.ranges() {
                    let named = json!({"ID": entity.as_str(), "Step": "None", "From": from, "To": to, "Why": why});
                    self.left.push(named);
                }
            }
        }
    }

    /// Whether there is nothing to do.
    pub(crate) fn is_empty(&self) -> bool {
        self.steps.is_empty()
    }

    /// Each step, and each thing that is left.
    pub(crate) fn to_json(&self) -> Vec<Value> {
        let steps = self.steps.iter().map(Planned::to_json);
        steps.chain(self.left.iter().cloned()).collect()
    }

    /// Shows it: a line each, or a row each.
    pub(crate) fn say(&self, output: &Output) -> Result<(), CliError> {
        let lines = self.to_json();
        if output.is_json() || lines.is_empty() {
            return output.objects(&lines);
        }
        let rows: Vec<_> = lines.iter().map(row).collect();
        output::say_table(&["ID", "Step", ""], &rows)
    }
}

impl Planned {
    /// `{"ID": …, "Step": "Record", "Version": 7, "Source": "v0"}`.
    pub(crate) fn to_json(&self) -> Value {
        let id = self.entity.as_str();
        match &self.step {
            Step::Record(version) => {
                json!({"ID": id, "Step": "Record", "Version": version.version(), "Source": self.source})
            }
            Step::Raise { from, to } => json!({"ID": id, "Step": "Raise", "From": from, "To": to}),
            Step::Revive { version, .. } => json!({"ID": id, "Step": "Revive", "Version": version}),
        }
    }

    /// Which version it is about.
    pub(crate) fn version(&self) -> Version {
        match &self.step {
            Step::Record(version) => version.version(),
            Step::Raise { to, .. } => *to,
            Step::Revive { version, .. } => *version,
        }
    }
}

fn left(entity: &EntityId, finding: &Finding) -> Value {
    let mut left = finding.to_json(entity);
    let why = match finding {
        Finding::Orphan { .. } => "there is no latest item; --revive makes it of the highest version",
        Finding::Unpruned { .. } => "vzero prune takes them away",
        _ => "the latest item makes no version",
    };
    left["Step"] = json!("None");
    left["Why"] = json!(why);
    left
}

fn row(line: &Value) -> Vec<String> {
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let rest = line.as_object().into_iter().flatten();
    let rest = rest.filter(|(name, _)| !["ID", "Step"].contains(&name.as_str()));
    let rest: Vec<_> = rest.map(|(name, value)| format!("{name} {}", text(value))).collect();
    vec![text(&line["ID"]), text(&line["Step"]), rest.join(", ")]
}
