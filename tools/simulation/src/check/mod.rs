//! Checks the guarantees of a run.
//!
//! ```text
//! stream, with the author of each write ─▶ model ─▶ versions ─┬─▶ history, before and after the recovery
//!                                                             ├─▶ request ids, times
//!                                            states ──────────┴─▶ answers
//! ```

mod answers;
mod history;
mod merge;
mod model;
mod operators;
mod sealing;
mod sets;
mod state;
mod times;
mod undo;

use std::{collections::HashSet, time::Duration};

use shared::domain::{entity::EntityId, keys::VersionDigits, version::Version};

use crate::{
    attached,
    caller::{Author, MISDEPLOYED, OF_COPY},
    evidence::{Evidence, Violation, Violations},
    mapping::records_of,
    requests::sequence_number,
    schedule::{Command, Schedule, Scope, StepKind},
};

/// Returns the violations of a run.
pub(crate) fn check(schedule: &Schedule, evidence: &mut Evidence) -> Vec<Violation> {
    if schedule.settings.attached {
        let mut violations = attached::check(evidence, schedule.settings.new_images);
        undo::check(schedule, evidence, &mut violations);
        return violations.0;
    }
    let mut violations = evidence.found.clone();
    sealing::check(evidence, &mut violations);
    let schedule = &sealing::without_erased(schedule, evidence);
    let discarded = evidence.documents.iter().flat_map(records_of);
    let kept = discarded.chain(evidence.quarantined.iter().cloned());
    let mut check = Check {
        schedule,
        evidence,
        kept: kept.map(|record| sequence_number(&record).to_owned()).collect(),
        digits: VersionDigits::new(schedule.settings.digits).unwrap_or_default(),
        violations,
    };
    check.all();
    undo::check(schedule, evidence, &mut check.violations);
    check.violations.0
}

struct Check<'a> {
    schedule: &'a Schedule,
    evidence: &'a Evidence,
    /// Sequence numbers of the records in quarantine and in failure documents.
    kept: HashSet<String>,
    digits: VersionDigits,
    violations: Violations,
}

impl Check<'_> {
    fn all(&mut self) {
        let entities = self.entities();
        self.check_layouts();
        self.check_single_writes();
        self.check_recorded();
        self.check_documents();
        self.check_invalid_records();
        for (name, entity) in &entities {
            self.check_history(name, entity);
            self.check_pruned(name, entity);
            self.check_tombstones(name, entity);
            self.check_request_ids(name, &entity.images);
            self.check_times(name, &entity.images);
            self.check_times_of_clocks(name, &entity.images);
        }
        self.check_sets(&entities);
        self.check_recovery(&entities);
        self.check_audit();
        self.check_pins();
        self.check_holds();
        self.check_purges();
        self.check_redrives();
        self.check_answers(&entities);
        self.check_liveness();
        self.check_reads();
        self.check_as_of(&entities);
    }

    fn add<const GUARANTEE: u8>(&mut self, description: String) {
        self.violations.add::<GUARANTEE>(description);
    }

    /// Returns `true` if there is a purge marker of the entity, and an operator has purged it, and not one of a copy.
    fn is_marked_as_purged(&self, entity: &str) -> bool {
        let is_purge = |kind: &StepKind| matches!(kind, StepKind::Command(Command::Purge(of)) if of == entity);
        let mut markers = self.evidence.recovered.of(&purge_marker_key(entity));
        self.schedule.has(is_purge) && markers.next().is_some()
    }

    /// Returns `true` if an operator has written a version of the entity.
    fn has_manual_version(&self, name: &str) -> bool {
        self.evidence.manual_versions.iter().any(|(entity, _)| entity == name)
    }

    /// 1: A function writes only after it has found the layout of the table to be its own.
    fn check_layouts(&mut self) {
        let windows = self.schedule.steps.iter().map(|step| match step.kind {
            StepKind::Window {
                scope: Scope::LayoutDenied | Scope::LayoutThrottled,
                millis,
            } if step.at == 0 => millis,
            _ => 0,
        });
        let unchecked = Duration::from_millis(windows.max().unwrap_or(0));
        for written in &self.evidence.stream {
            let is_of_function = matches!(written.by.author, Author::Writer(_) | Author::StreamFunction);
            let is_unchecked = is_of_function && written.by.at < unchecked;
            if is_unchecked || [Some(MISDEPLOYED), Some(OF_COPY)].contains(&written.by.process) {
                let (entity, key) = (written.entity(), written.key());
                self.add::<1>(format!("{entity} {key} was written without a check of the layout"));
            }
        }
    }

    fn key(&self, version: u64) -> String {
        Version::new(version).map_or_else(String::new, |version| self.digits.version_key(version))
    }
}

/// Returns the partition key of the purge marker of an entity.
fn purge_marker_key(entity: &str) -> String {
    EntityId::new(entity).map_or_else(|_| String::new(), |entity| entity.of_purge_marker().as_str().to_owned())
}
