//! `vzero undo`.

mod file;
mod report;

use std::{
    num::{NonZeroU32, NonZeroU64},
    path::PathBuf,
};

use attach::shell::argument;
use clap::{Arg, ValueEnum};
use operations::{
    connection::Connection,
    error::OperationError,
    item_change::ItemOptions,
    rate_limit::{Limits, RateLimiter},
    segments,
    undo::{
        apply::Applied,
        options::{self, Options},
        plan::{Action, EntityPlan, plan},
        selection::Selection,
        table::{Planned, TablePlan, apply_all},
    },
};

use self::{file::PlanFile, report::Report};
use super::segments::bar;
use crate::{
    confirmation::Confirmation, error::CliError, output::Output, progress::Bar, target::Target, times,
    write_options::Writing,
};

/// Options that select versions of all entities.
const SELECTING: [&str; 7] = ["since", "until", "actor", "reason", "change_set", "entity", "apply"];

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES, mut_arg("words", unless_selected))]
pub(crate) struct Undo {
    #[command(flatten)]
    target: Target,
    #[command(flatten)]
    selected: Selected,
    /// Of an entity in which others changed the same since: undo its other paths, or restore the values from before [default: the
    /// entity stays as it is]
    #[arg(long, value_enum, value_name = "HOW")]
    conflicts: Option<Conflicts>,
    /// Undo only the first entities, this many
    #[arg(long, value_name = "N")]
    limit: Option<NonZeroU64>,
    /// Save the plan in this file
    #[arg(long, value_name = "FILE", conflicts_with = "apply")]
    plan: Option<PathBuf>,
    /// Carry out the plan in this file, for entities that did not change since
    #[arg(long, value_name = "FILE", conflicts_with_all = ["conflicts", "as_change_set", "as_reason", "dry_run"])]
    apply: Option<PathBuf>,
    /// Author of the undo
    #[arg(long, value_name = "NAME")]
    as_actor: Option<String>,
    /// Reason for the undo [default: what is undone]
    #[arg(long, value_name = "TEXT")]
    as_reason: Option<String>,
    /// Set of changes of the undo, by which it can be undone [default: a new one]
    #[arg(long, value_name = "ID")]
    as_change_set: Option<String>,
    /// Of a table of other programs: let DynamoDB delete an item if its time to live has passed
    #[arg(long)]
    allow_expired: bool,
    /// Maximum number of write units a second
    #[arg(long, value_name = "UNITS", alias = "max-write-units")]
    max_wcu: Option<NonZeroU32>,
    #[command(flatten)]
    confirmation: Confirmation,
    #[command(flatten)]
    writing: Writing,
}

/// Conditions of versions.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Undo the versions of all entities that fulfill all conditions")]
struct Selected {
    /// Recorded at this time or later
    #[arg(long, value_name = "TIME")]
    since: Option<String>,
    /// Recorded at this time or before
    #[arg(long, value_name = "TIME")]
    until: Option<String>,
    /// With this Actor, also where it is uncertain
    #[arg(long)]
    actor: Option<String>,
    /// With this Reason
    #[arg(long)]
    reason: Option<String>,
    /// Of this set of changes
    #[arg(long, value_name = "ID")]
    change_set: Option<String>,
    /// Of entities whose key begins with this text, or with a line of @FILE; can be repeated
    #[arg(long, value_name = "PREFIX")]
    entity: Vec<String>,
    /// Not those whose Actor is uncertain
    #[arg(long, requires = "actor")]
    actor_changed_only: bool,
    /// Also the deletions of the period in a table of other programs that name no author
    #[arg(long, requires = "since")]
    with_unattributed_deletions: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Conflicts {
    SkipPath,
    Overwrite,
}

const EXAMPLES: &str = "\
Examples:
  vzero undo Equipment#1 7 --dry-run
  vzero undo --actor import-7 --since 14:00 --until 14:05 --dry-run
  vzero undo --change-set 3f2a --conflicts skip-path --max-wcu 100 --yes
Changes that came after stay. Exit code 4 if others changed the same since: such a conflict is shown with both values. A run that was
interrupted is repeated.";

/// Makes the argument of [`Target`] optional with an option that selects versions.
fn unless_selected(words: Arg) -> Arg {
    let words = words.required(false).required_unless_present_any(SELECTING);
    words.conflicts_with_all(SELECTING)
}

impl Undo {
    pub(crate) async fn run(&self, connection: &Connection, output: &Output) -> Result<(), CliError> {
        let selection = self.selected.selection(connection)?;
        let (change_set, reason) = (self.as_change_set.clone(), self.as_reason.clone());
        let mut options = Options {
            conflicts: Conflicts::of_library(self.conflicts),
            actor: self.as_actor.clone(),
            reason,
            change_set: change_set.unwrap_or_else(|| uuid::Uuid::new_v4().to_string()),
            ordering: self.writing.ordering,
            write: self.writing.options(),
            allow_expired: self.allow_expired,
            selection,
        };
        if let Some(table) = connection.store.attached_table() {
            let (actor, reason) = (options.actor.clone(), options.reason.clone());
            let named = ItemOptions {
                actor,
                reason,
                ..ItemOptions::default()
            };
            named.attribution(table)?;
        }
        let limiter = RateLimiter::new(
            connection.pace_meter.clone(),
            Limits {
                read: None,
                write: self.max_wcu,
            },
        );
        let undoing = Undoing {
            undo: self,
            connection,
            output,
            limiter,
        };
        match &self.apply {
            Some(path) => {
                let saved = file::read(path, connection, &mut options)?;
                undoing.carry_out(saved, Report::default(), options).await
            }
            None if self.selected.is_none() => Box::pin(undoing.entity(options)).await,
            None => Box::pin(undoing.table(options)).await,
        }
    }
}

/// Sets the reason of the undo, if the versions have a place for it.
fn set_reason(options: &mut Options, connection: &Connection, what: &str) {
    let table = connection.store.attached_table();
    if table.is_none_or(|table| table.settings().reason_attribute.is_some()) {
        options.reason.get_or_insert_with(|| format!("undo of {what}"));
    }
}

/// A run of the command.
struct Undoing<'a> {
    undo: &'a Undo,
    connection: &'a Connection,
    output: &'a Output,
    limiter: RateLimiter,
}

impl Undoing<'_> {
    /// Undoes one version of one entity.
    async fn entity(self, mut options: Options) -> Result<(), CliError> {
        let item = self.undo.target.subject(self.connection, 1..=1)?;
        self.undo.confirmation.check()?;
        let number = item.number(item.word(0)).await?;
        set_reason(&mut options, self.connection, &format!("version {number}"));
        options.selection.versions = Some([number].into());
        let planned = match plan(item.store(), &item.entity, &options).await {
            Err(OperationError::NoEntity(_)) => return Err(item.no_entity()),
            planned => planned?,
        };
        if planned.versions.is_empty() {
            return Err(match &planned.reason {
                _ if planned.counts.marked > 0 => CliError::Usage(format!(
                    "version {number} is late, missed, or the beginning of the history, and so no change that can be undone: `vzero show {} \
                     {number}` shows it",
                    item.key
                )),
                Some(reason) => {
                    CliError::Conflict(format!("{reason}; `vzero admin lag {}` shows where it ends", item.key))
                }
                None => item.missing(number).await,
            });
        }
        let mut report = Report::default();
        report.count(&planned);
        let (planned, mut file) = (vec![planned], PlanFile::create(self.undo.plan.as_deref())?);
        self.show(&planned, &mut report, &mut file)?;
        file.end(&report, &options)?;
        self.carry_out(entities(&planned), report, options).await
    }

    /// Plans the undo of all entities, and carries it out.
    async fn table(self, mut options: Options) -> Result<(), CliError> {
        self.undo.confirmation.check()?;
        let selected = &self.undo.selected;
        set_reason(&mut options, self.connection, &selected.text());
        let store = &self.connection.store;
        let run = segments::Plan::new(store, &self.limiter);
        let mut run = TablePlan::new(run, options.clone(), selected.prefixes()?)?;
        let (mut report, mut file) = (Report::default(), PlanFile::create(self.undo.plan.as_deref())?);
        let (bar, mut found, mut left) = (
            bar(self.connection).await,
            Vec::new(),
            self.undo.limit.map(NonZeroU64::get),
        );
        while left != Some(0)
            && let Some(mut plans) = run.step().await?
        {
            if let Some(left) = &mut left {
                plans.retain(|plan| {
                    let is_kept = *left > 0;
                    *left -= u64::from(is_kept && plan.action != Action::None);
                    is_kept
                });
            }
            bar.suspend(|| self.show(&plans, &mut report, &mut file))?;
            found.extend(entities(&plans));
            bar.set(run.counts().items, format!(", {} entities", report.entities));
        }
        drop(bar);
        report.counts = run.counts();
        file.end(&report, &options)?;
        self.carry_out(found, report, options).await
    }

    /// Adds plans to the report, and shows them if nothing or not yet something is changed.
    fn show(&self, plans: &[EntityPlan], report: &mut Report, file: &mut PlanFile) -> Result<(), CliError> {
        let confirmation = self.undo.confirmation;
        for plan in plans {
            report.add(plan);
            file.add(plan)?;
            if confirmation.dry_run || confirmation.must_ask() {
                report::show(self.output, plan, None)?;
            }
        }
        Ok(())
    }

    /// Asks, and carries out plans. The report is that of the plans.
    async fn carry_out(self, entities: Vec<Planned>, planned: Report, options: Options) -> Result<(), CliError> {
        let (confirmation, is_saved) = (self.undo.confirmation, self.undo.apply.is_some());
        if confirmation.dry_run {
            return planned.end(self.output, &options, self.undo.conflicts, true);
        }
        let question = match is_saved {
            true => format!("Carry out the plan for {} entities?", entities.len()),
            false => planned.question(&self.connection.table, self.undo.max_wcu),
        };
        if is_saved || planned.entities > 0 {
            confirmation.ask(&question)?;
        }
        let (bar, store) = (Bar::new(entities.len() as u64), &self.connection.store);
        let (mut report, mut done) = (Report::of(planned.counts), 0);
        // Otherwise, the plan was shown.
        let is_shown = |applied: &Applied| !confirmation.must_ask() || applied.plan.has_conflicts();
        let result = apply_all(store, &self.limiter, entities, &options, |applied| {
            done += 1;
            report.add(&applied.plan);
            bar.set(done, String::new());
            match is_shown(&applied) {
                true => bar.suspend(|| report::show(self.output, &applied.plan, Some(&applied))),
                false => Ok(()),
            }
        });
        Box::pin(result).await?;
        drop(bar);
        report.end(self.output, &options, self.undo.conflicts, false)
    }
}

fn entities(plans: &[EntityPlan]) -> Vec<Planned> {
    let entities = plans.iter().map(|plan| Planned {
        entity: plan.entity.clone(),
        seen: None,
    });
    entities.collect()
}

impl Conflicts {
    fn of_library(conflicts: Option<Self>) -> options::Conflicts {
        match conflicts {
            None => options::Conflicts::Leave,
            Some(Self::SkipPath) => options::Conflicts::SkipPath,
            Some(Self::Overwrite) => options::Conflicts::Overwrite,
        }
    }
}

impl Selected {
    fn conditions(&self) -> impl Iterator<Item = (&'static str, &String)> {
        let conditions = [
            ("actor", &self.actor),
            ("reason", &self.reason),
            ("change set", &self.change_set),
            ("since", &self.since),
            ("until", &self.until),
        ];
        conditions
            .into_iter()
            .filter_map(|(name, value)| Some((name, value.as_ref()?)))
    }

    fn is_none(&self) -> bool {
        self.conditions().next().is_none() && self.entity.is_empty()
    }

    /// Returns the conditions as a part of a reason: `actor import-7, since 14:00`.
    fn text(&self) -> String {
        let conditions = self.conditions().map(|(name, value)| format!("{name} {value}"));
        conditions.collect::<Vec<_>>().join(", ")
    }

    fn selection(&self, connection: &Connection) -> Result<Selection, CliError> {
        if self.conditions().next().is_none() && !self.entity.is_empty() {
            return Err(CliError::Usage(
                "--entity alone would take back whole histories: add --since, --until, --actor, --reason or --change-set".to_owned(),
            ));
        }
        let now = connection.store.now();
        let since = self.since.as_ref().map(|time| times::since("--since", time, now));
        let until = self.until.as_ref().map(|time| times::until("--until", time, now));
        Ok(Selection {
            versions: None,
            since: since.transpose()?,
            until: until.transpose()?,
            actor: self.actor.clone(),
            reason: self.reason.clone(),
            change_set: self.change_set.clone(),
            actor_changed_only: self.actor_changed_only,
            with_unattributed_deletions: self.with_unattributed_deletions,
        })
    }

    /// Returns the prefixes of entities, with those of files.
    fn prefixes(&self) -> Result<Vec<String>, CliError> {
        let mut prefixes = Vec::new();
        for entity in &self.entity {
            match entity.strip_prefix('@') {
                Some(path) => {
                    let text = std::fs::read_to_string(path);
                    let text =
                        text.map_err(|error| CliError::usage(&format!("--entity {}", argument(entity)), error))?;
                    prefixes.extend(text.lines().filter(|line| !line.is_empty()).map(str::to_owned));
                }
                None => prefixes.push(entity.clone()),
            }
        }
        match prefixes.is_empty() && !self.entity.is_empty() {
            true => Err(CliError::Usage("--entity: the file has no lines".to_owned())),
            false => Ok(prefixes),
        }
    }
}
