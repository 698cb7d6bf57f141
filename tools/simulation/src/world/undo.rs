//! Undos, as `vzero undo --yes` runs them, or `--plan FILE` and later `--apply FILE`.

use std::{collections::BTreeMap, time::Duration};

use operations::{
    error::OperationError,
    rate_limit::RateLimiter,
    segments,
    undo::{
        options::{self, Options},
        plan::{Action, EntityPlan, plan},
        planned::Planned,
        selection::Selection,
        table::{TablePlan, apply_all},
    },
};
use shared::domain::{entity::EntityId, version::Version};
use tokio::time::sleep;

use crate::{
    caller::{Author, Caller, OF_UNDO, lock},
    connector::STALENESS,
    functions::process,
    operators::{COMMAND_TIMEOUT, CommandEnd, is_done},
    schedule::{Command, StepKind},
    setup::config,
    undo::{Conflicts, Report, Saved, Selected, Undo},
    world::World,
};

/// Author of the undos.
const ACTOR: &str = "undoer";

impl World {
    /// Plans an undo, unless its plan is saved, and carries it out.
    pub(super) async fn undo(&self, undo: &Undo) -> CommandEnd {
        let caller = Caller::of_process(Author::Operator, Some(OF_UNDO));
        process(&caller, COMMAND_TIMEOUT, Box::pin(self.undo_or_fail(undo)))
            .await
            .ok()
    }

    async fn undo_or_fail(&self, undo: &Undo) -> Result<(), OperationError> {
        let options = self.options(undo)?;
        let saved = lock(&self.seen).undos.saved.get(&undo.number).cloned();
        let saved = match (saved, undo.saved) {
            (Some(saved), _) => Some(saved),
            (None, None) => None,
            (None, Some(pause)) => {
                let seen = |plan: EntityPlan| {
                    let versions = plan.versions.iter().map(|version| version.get()).collect();
                    let newest = plan.newest.map_or(0, Version::get);
                    (plan.entity.as_str().to_owned(), Saved { newest, versions })
                };
                let plans = self.plans(undo, &options).await?;
                let plans = plans.into_iter().filter(|plan| plan.action != Action::None);
                let saved: BTreeMap<_, _> = plans.map(seen).collect();
                lock(&self.seen).undos.saved.insert(undo.number, saved.clone());
                sleep(Duration::from_millis(pause)).await;
                Some(saved)
            }
        };
        let mut planned = Vec::new();
        let from = self.connector.stream.len();
        match saved {
            Some(saved) => {
                for (entity, Saved { newest, versions }) in saved {
                    let versions = versions.into_iter().filter_map(Version::new).collect();
                    let seen = Version::new(newest).map(|newest| (newest, versions));
                    let entity = EntityId::new(&entity)?;
                    let first = None;
                    planned.push(Planned { entity, first, seen });
                }
            }
            None => {
                for plan in self.plans(undo, &options).await? {
                    match plan.action {
                        Action::None => self.report(undo, &plan, (false, None), from),
                        _ => planned.push(Planned {
                            entity: plan.entity,
                            first: None,
                            seen: None,
                        }),
                    }
                }
            }
        }
        let (store, limiter) = (&self.store, RateLimiter::unlimited());
        let from = self.connector.stream.len();
        let applied = apply_all(store, &limiter, planned.into_iter().map(Ok), &options, |applied| {
            let version = applied.version.map(Version::get);
            self.report(undo, &applied.plan, (applied.is_written, version), from);
            Ok::<_, OperationError>(())
        });
        Box::pin(applied).await
    }

    async fn plans(&self, undo: &Undo, options: &Options) -> Result<Vec<EntityPlan>, OperationError> {
        if let Selected::Version(entity, _) = &undo.selected {
            return match Box::pin(plan(&self.store, &EntityId::new(entity)?, options)).await {
                Err(OperationError::NoEntity(_)) => Ok(Vec::new()),
                planned => Ok(vec![planned?]),
            };
        }
        let limiter = RateLimiter::unlimited();
        let run = segments::Plan::new(&self.store, &limiter);
        let (mut run, mut plans) = (TablePlan::new(run, options.clone(), Vec::new())?, Vec::new());
        while let Some(page) = run.step().await? {
            plans.extend(page);
        }
        Ok(plans)
    }

    fn options(&self, undo: &Undo) -> Result<Options, OperationError> {
        let config = config(&self.schedule.settings).map_err(|error| OperationError::Invalid(error.to_string()))?;
        let mut selection = Selection::default();
        match undo.selected.clone() {
            Selected::Actor(actor) => selection.actor = Some(actor),
            Selected::ChangeSet(set) => selection.change_set = Some(set),
            Selected::Version(_, version) => selection.versions = Some(Version::new(version).into_iter().collect()),
        }
        let finds_conflicts = !self.connector.mutations.disable("undo-conflicts");
        Ok(Options {
            selection,
            conflicts: match undo.conflicts {
                Conflicts::Leave if finds_conflicts => options::Conflicts::Leave,
                Conflicts::SkipPath if finds_conflicts => options::Conflicts::SkipPath,
                _ => options::Conflicts::Overwrite,
            },
            actor: Some(ACTOR.to_owned()),
            reason: None,
            change_set: Some(undo.change_set()),
            ordering: config.ordering,
            write: config.write,
            allow_expired: false,
        })
    }

    fn report(&self, undo: &Undo, plan: &EntityPlan, (is_written, version): (bool, Option<u64>), from: usize) {
        let report = Report {
            number: undo.number,
            entity: plan.entity.as_str().to_owned(),
            is_written,
            version,
            has_conflicts: !plan.conflicts.is_empty(),
            reason: plan.reason.clone(),
            from,
            to: self.connector.stream.len(),
        };
        for (occurred, name) in [
            (is_written, "undone"),
            (report.has_conflicts, "undo-conflict"),
            (report.reason.is_some(), "undo-refused"),
        ] {
            if occurred {
                self.connector.count(name);
            }
        }
        lock(&self.seen).undos.reports.push(report);
    }

    /// Runs each undo twice when nothing else happens: the first run does what is left, and the second one has nothing to do.
    pub(super) async fn finish_undos(&self) {
        for step in &self.schedule.steps {
            let StepKind::Command(Command::Undo(undo)) = &step.kind else {
                continue;
            };
            for _ in 0..2 {
                self.connector.settle().await;
                sleep(STALENESS).await;
                let from = self.connector.stream.len();
                let end = self.undo(undo).await;
                let to = self.connector.stream.len();
                let mut seen = lock(&self.seen);
                seen.undos.ends.push((undo.number, from, to));
                if !is_done(&end) {
                    let number = undo.number;
                    seen.found
                        .add::<9>(format!("undo {number} fails without a fault: {end:?}"));
                }
            }
        }
    }
}
