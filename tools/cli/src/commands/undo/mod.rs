//! `vzero undo`.

mod file;
mod report;
mod selected;

use std::{num::NonZeroU64, path::PathBuf};

use clap::{Arg, ValueEnum};
use operations::{
    connection::Connection,
    error::OperationError,
    item_change::ItemOptions,
    rate_limit::RateLimiter,
    segments,
    time_index::source::Source,
    undo::{
        apply::Applied,
        options::{self, Options},
        plan::{Action, EntityPlan, plan},
        planned::{Planned, PlannedFile},
        set_file::{SetFile, UndoSet},
        table::{TablePlan, apply_into, plan_listed},
    },
};
use shared::domain::{entity::EntityId, request_id::RequestId};
use uuid::Uuid;

use self::{
    file::PlanFile,
    report::Report,
    selected::{Selected, file_of},
};
use super::{
    read_cost::{MaxCost, ReadCost, source},
    segments::Rates,
    snapshot::note_recent,
};
use crate::{
    confirmation::Confirmation,
    error::CliError,
    output::{self, Output},
    progress::Bar,
    target::Target,
    write_options::Writing,
};

/// Number of entities that a file names and that are planned together.
const PAGE: usize = 100;

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
    /// Set of changes of the undo, by which it can be undone [default: a new one]. Of a table of other programs, @FILE stores it in a
    /// file, as does an undo without an attribute for it
    #[arg(long, value_name = "ID", value_parser = set_id)]
    as_change_set: Option<String>,
    /// Of a table of other programs: let DynamoDB delete an item if its time to live has passed
    #[arg(long)]
    allow_expired: bool,
    /// Ask before reads that cost more than this [default: 1]
    #[arg(long, value_name = "USD", value_parser = |text: &str| crate::plan::within(text, 0.0, 1e9))]
    max_cost: Option<f64>,
    #[command(flatten)]
    rates: Rates,
    #[command(flatten)]
    confirmation: Confirmation,
    #[command(flatten)]
    writing: Writing,
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

fn set_id(text: &str) -> Result<String, &'static str> {
    let id = RequestId::new(text).map_err(|_| "1 to 1000 bytes are allowed")?;
    Ok(id.as_str().to_owned())
}

/// Makes the argument of [`Target`] optional with an option that selects versions.
fn unless_selected(words: Arg) -> Arg {
    let words = words.required(false).required_unless_present_any(SELECTING);
    words.conflicts_with_all(SELECTING)
}

impl Undo {
    pub(crate) async fn run(&self, connection: &Connection, output: &Output) -> Result<(), CliError> {
        let selection = self.selected.selection(connection)?;
        let table = connection.store.attached_table();
        let named_file = self
            .as_change_set
            .as_deref()
            .and_then(file_of)
            .filter(|_| table.is_some());
        if named_file.is_some() && self.as_change_set == self.selected.filters.change_set {
            let usage = "--as-change-set: the file already contains the undo to be undone; name another file";
            return Err(CliError::Usage(usage.to_owned()));
        }
        if let Some((path, table)) = named_file.filter(|path| path.exists()).zip(table) {
            UndoSet::read(path, table).map_err(|error| CliError::usage("--as-change-set", error))?;
        }
        let named = ItemOptions {
            actor: self.as_actor.clone(),
            reason: self.as_reason.clone(),
            change_set: self.as_change_set.clone().filter(|_| named_file.is_none()),
            ..ItemOptions::default()
        };
        let attribution = table.map(|table| named.attribution(table)).transpose();
        // The error names the option of other commands: `--actor`.
        attribution.map_err(|error| CliError::Usage(error.to_string().replacen("--", "--as-", 1)))?;
        let has_sets = table.is_none_or(|table| table.settings().change_set_attribute.is_some());
        let new_set = || has_sets.then(|| Uuid::new_v4().to_string());
        let mut options = Options {
            conflicts: Conflicts::of_library(self.conflicts),
            actor: named.actor,
            reason: named.reason,
            change_set: named.change_set.or_else(new_set),
            ordering: self.writing.ordering,
            write: self.writing.options(),
            allow_expired: self.allow_expired,
            selection,
        };
        let limiter = self.rates.limiter(connection);
        let mut undoing = Undoing {
            undo: self,
            connection,
            output,
            limiter,
            set_file: named_file.map(PathBuf::from),
        };
        match &self.apply {
            Some(path) => {
                let mut plans = Plans::new(&undoing)?;
                file::read(path, connection, &mut options, &mut plans.entities)?;
                let file = options
                    .change_set
                    .take_if(|set| table.is_some() && file_of(set).is_some());
                undoing.set_file = file.as_deref().and_then(file_of).map(PathBuf::from);
                undoing.carry_out(plans, options).await
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
    /// File of the set of changes, if one is named.
    set_file: Option<PathBuf>,
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
        let mut plans = Plans::new(&self)?;
        plans.planned.counts = planned.counts;
        plans.add(&planned, &self)?;
        self.carry_out(plans, options).await
    }

    /// Plans the undo of all entities, and carries it out.
    async fn table(self, mut options: Options) -> Result<(), CliError> {
        self.undo.confirmation.check()?;
        let selected = &self.undo.selected;
        set_reason(&mut options, self.connection, &selected.text());
        let confirmation = self.undo.confirmation;
        let max_cost = MaxCost::new(self.undo.max_cost, !confirmation.must_ask() && !confirmation.dry_run);
        let mut plans = Plans::new(&self)?;
        match selected.listed(self.connection, &options.selection)? {
            Some(entities) => self.list(&entities, &options, max_cost, &mut plans).await?,
            None => self.search(&options, max_cost, &mut plans).await?,
        }
        self.carry_out(plans, options).await
    }

    /// Plans the undo of the entities that a file names.
    async fn list(
        &self,
        entities: &[EntityId],
        options: &Options,
        max_cost: MaxCost,
        plans: &mut Plans,
    ) -> Result<(), CliError> {
        let count = entities.len() as u64;
        ReadCost::of_entities(count, self.connection, max_cost).await?;
        let (bar, mut done, mut missing) = (Bar::new(count), 0, 0);
        for entities in entities.chunks(PAGE) {
            let page = plan_listed(&self.connection.store, &self.limiter, entities, options).await?;
            (done, missing) = (done + entities.len(), missing + entities.len() - page.len());
            let counts = &mut plans.planned.counts;
            *counts = page.iter().map(|plan| &plan.counts).chain([&*counts]).sum();
            if !plans.add_page(&page, self, &bar)? {
                break;
            }
            bar.set(done as u64, format!(", {} entities change", plans.planned.entities));
        }
        drop(bar);
        if missing > 0 {
            output::note(&format!("{missing} entities of the file do not exist"));
        }
        Ok(())
    }

    /// Searches all entities for selected versions, and plans their undo.
    async fn search(&self, options: &Options, max_cost: MaxCost, plans: &mut Plans) -> Result<(), CliError> {
        let store = &self.connection.store;
        let (since, until) = (options.selection.since, options.selection.until);
        let source = source(store, since, until).await?;
        if source != Source::Scan {
            note_recent(until.unwrap_or(store.now()), self.connection);
        }
        let mut cost = ReadCost::of(store, &source, &self.limiter, max_cost).await?;
        cost.add_items(cost.items, self.connection)?;
        let run = segments::Plan {
            source: &source,
            ..segments::Plan::new(store, &self.limiter)
        };
        let mut run = TablePlan::new(run, options.clone(), self.undo.selected.prefixes())?;
        let bar = Bar::new(cost.items);
        while let Some(page) = run.step().await?
            && plans.add_page(&page, self, &bar)?
        {
            bar.set(run.counts().items, format!(", {} entities", plans.planned.entities));
        }
        drop(bar);
        plans.planned.counts = run.counts();
        Ok(())
    }

    /// Asks, and carries out plans. The report counts the plans.
    async fn carry_out(self, plans: Plans, options: Options) -> Result<(), CliError> {
        let Plans {
            mut entities,
            mut planned,
            left,
            file,
        } = plans;
        let set = self.set_file.as_ref().map(|path| format!("@{}", path.display()));
        planned.set = set.or(options.change_set.clone());
        file.end(&planned, &options)?;
        let (confirmation, is_saved) = (self.undo.confirmation, self.undo.apply.is_some());
        if confirmation.dry_run {
            return planned.end(self.output, &options, true);
        }
        let question = match is_saved {
            true => format!("Carry out the plan for {} entities?", entities.entities),
            false => planned.question(&self.connection.table, self.undo.rates.max_write_units),
        };
        if is_saved || planned.entities > 0 {
            confirmation.ask(&question)?;
        }
        let (bar, store) = (Bar::new(entities.entities), &self.connection.store);
        let (mut report, mut done) = (left, 0);
        report.is_saved = is_saved;
        report.set = planned.set.take().filter(|_| entities.entities > 0);
        let table = store.attached_table().filter(|_| entities.entities > 0);
        let opened = match (table, self.set_file) {
            (Some(table), named) if named.is_some() || report.set.is_none() => {
                let path = named.unwrap_or_else(|| format!("undo-{}.jsonl", Uuid::new_v4()).into());
                report.set = Some(format!("@{}", path.display()));
                let opened = SetFile::open(&path, table);
                Some(opened.map_err(|error| CliError::usage("--as-change-set", error))?)
            }
            _ => None,
        };
        // The file has deletions, too.
        report.started = opened.is_none().then(|| store.now());
        if let Some(set) = &report.set {
            output::note(&format!("the change set of the undo is {set}"));
        }
        report.counts = planned.counts;
        // Otherwise, the plan was shown.
        let is_shown = |applied: &Applied| !confirmation.must_ask() || applied.plan.has_conflicts();
        let options_and_set = (&options, opened.as_ref());
        let result = apply_into(store, &self.limiter, entities.read()?, options_and_set, |applied| {
            done += 1;
            report.add(&applied.plan);
            bar.set(done, String::new());
            match is_shown(&applied) {
                true => bar
                    .suspend(|| report::show(self.output, &applied.plan, Some((applied.is_written, applied.version)))),
                false => Ok(()),
            }
        });
        Box::pin(result).await?;
        drop(bar);
        report.end(self.output, &options, false)
    }
}

/// Plans of the entities that are to be undone.
struct Plans {
    entities: PlannedFile,
    planned: Report,
    /// Report of the entities in which nothing changes.
    left: Report,
    file: PlanFile,
}

impl Plans {
    fn new(undoing: &Undoing<'_>) -> Result<Self, CliError> {
        Ok(Self {
            entities: PlannedFile::create()?,
            planned: Report::default(),
            left: Report::default(),
            file: PlanFile::create(undoing.undo.plan.as_deref(), undoing.connection)?,
        })
    }

    /// Adds the plans of a page. Returns `false` if no more entities are undone.
    fn add_page(&mut self, page: &[EntityPlan], undoing: &Undoing<'_>, bar: &Bar) -> Result<bool, CliError> {
        let limit = undoing.undo.limit.map_or(u64::MAX, NonZeroU64::get);
        let mut concerned = page.iter().filter(|plan| plan.is_concerned());
        bar.suspend(|| {
            concerned.try_for_each(|plan| match self.planned.entities < limit {
                true => self.add(plan, undoing),
                false => Ok(()),
            })
        })?;
        Ok(self.planned.entities < limit)
    }

    /// Adds a plan, and shows it if it is not carried out, or not yet.
    fn add(&mut self, plan: &EntityPlan, undoing: &Undoing<'_>) -> Result<(), CliError> {
        let confirmation = undoing.undo.confirmation;
        let is_first = confirmation.dry_run || confirmation.must_ask();
        self.planned.add(plan);
        self.file.add(plan)?;
        if plan.action == Action::None {
            self.left.add(plan);
        } else {
            self.entities.push(Planned::again(plan))?;
        }
        match (is_first, plan.action) {
            (true, _) => report::show(undoing.output, plan, None),
            (false, Action::None) => report::show(undoing.output, plan, Some((false, None))),
            (false, _) => Ok(()),
        }
    }
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
