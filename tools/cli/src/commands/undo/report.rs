//! What an undo did or would do: a block or line for each entity, then the counts.

use std::{num::NonZeroU32, time::Duration};

use attach::shell::argument;
use item_diff::{
    line::{path_text, value_text},
    versions::erased_lines,
};
use operations::undo::{
    options::{Conflicts, Counts, Options},
    plan::{Action, EntityPlan},
};
use serde_json::json;
use shared::domain::{AttributeValue, recorded_at::RecordedAt, version::Version};

use crate::{
    error::CliError,
    next,
    output::{self, Output},
};

/// Counts of plans.
#[derive(Debug, Default)]
pub(super) struct Report {
    /// Entities that change.
    pub(super) entities: u64,
    /// Entities with conflicts, and those of them that are not overwritten.
    conflicts: (u64, u64),
    write_units: u64,
    /// Versions that are undone in these entities. `counts` also covers entities that do not change.
    versions: u64,
    pub(super) counts: Counts,
    /// Text by which `--change-set` selects the undo.
    pub(super) set: Option<String>,
    /// Time before the first write, if the set can lack deletions.
    pub(super) started: Option<RecordedAt>,
    /// `true` if the plans were read from a file.
    pub(super) is_saved: bool,
    /// `true` if an item of another program is deleted, without an author and a change set.
    has_deletion: bool,
}

impl Report {
    pub(super) fn add(&mut self, plan: &EntityPlan) {
        self.entities += u64::from(plan.action != Action::None);
        self.conflicts.0 += u64::from(plan.has_conflicts());
        self.conflicts.1 += u64::from(plan.reason.is_some());
        self.write_units += plan.write_units;
        self.versions += plan.versions.len() as u64;
        self.has_deletion |= plan.key.is_some() && plan.action == Action::Delete;
    }

    /// Returns the question before the plans are carried out.
    pub(super) fn question(&self, table: &str, max: Option<NonZeroU32>) -> String {
        let seconds = max.map(|max| self.write_units.div_ceil(max.get().into()));
        let seconds = seconds.map_or_else(String::new, |seconds| format!(" in at least {seconds} s"));
        format!(
            "Undo {} versions in {} entities of {table}, with about {} write units{seconds}? Whatever reads the stream of the table \
             gets these changes, too.",
            self.versions, self.entities, self.write_units
        )
    }

    /// Prints the counts and notes. Conflicts that are left are an error.
    pub(super) fn end(self, output: &Output, options: &Options, is_dry: bool) -> Result<(), CliError> {
        let Counts {
            uncertain,
            marked,
            unattributed,
            ..
        } = self.counts;
        let notes = [
            (
                marked,
                "late, missed or the beginning of a history, and so no changes that are undone",
            ),
            (
                unattributed,
                "deletions without an author: --with-unattributed-deletions selects them, too",
            ),
            (
                uncertain,
                "by an uncertain author, and selected: --actor-changed-only leaves them out",
            ),
        ];
        for (count, what) in notes.into_iter().filter(|(count, _)| *count > 0) {
            output::note(&format!("{count} versions are {what}"));
        }
        let (entities, units) = (self.entities, self.write_units);
        if is_dry && entities > 0 {
            output::note("whatever reads the stream of the table gets the changes of an undo, too");
        }
        let again = self.set.as_ref().filter(|_| !is_dry && entities > 0);
        // Times of a stream have no fractions of a second.
        let second = |time: RecordedAt| RecordedAt::since_epoch(Duration::from_secs(time.to_duration().as_secs()));
        let deleted = self.started.filter(|_| self.has_deletion).map(|started| {
            let since = second(started);
            (
                format!(" --since {since} --with-unattributed-deletions"),
                ", and the deletions of others since",
            )
        });
        let (more, others) = deleted.unwrap_or_default();
        let again = again.map(|set| {
            format!(
                ", `vzero undo --change-set {}{more}` takes it back{others}",
                argument(set)
            )
        });
        let (verb, again) = (
            if is_dry { "would change" } else { "changed" },
            again.unwrap_or_default(),
        );
        let mut summary = file_summary(&self);
        summary["DryRun"] = is_dry.into();
        let conflicting = self.conflicts.0;
        output.sentence(
            &summary,
            &format!("{entities} entities {verb}, {conflicting} have conflicts, about {units} write units{again}"),
        )?;
        let left = match options.conflicts {
            Conflicts::Overwrite => self.conflicts.1,
            Conflicts::Leave | Conflicts::SkipPath => conflicting,
        };
        match (left, options.conflicts) {
            (0, _) => Ok(()),
            (left, _) if self.is_saved => Err(CliError::Conflict(format!(
                "entities with conflicts, which stay as they are: {left}; `vzero undo` with --plan plans the undo again"
            ))),
            (left, Conflicts::Leave) => Err(CliError::Conflict(format!(
                "entities with conflicts, which stay as they are: {left}; {} undoes their other paths, {} restores the values from before",
                next::again("--conflicts skip-path"),
                next::again("--conflicts overwrite")
            ))),
            (left, Conflicts::SkipPath | Conflicts::Overwrite) => Err(CliError::Conflict(format!(
                "entities with conflicts: {left}; `vzero log KEY` shows who changed them"
            ))),
        }
    }
}

/// Returns the last line of a plan.
pub(super) fn file_summary(report: &Report) -> serde_json::Value {
    json!({
        "Entities": report.entities, "Conflicts": report.conflicts.0, "WriteUnits": report.write_units,
        "Versions": report.versions, "Uncertain": report.counts.uncertain, "Marked": report.counts.marked,
        "UnattributedDeletions": report.counts.unattributed, "ChangeSet": report.set,
    })
}

/// Shows a plan. If it was carried out, `done` is `true` if the entity changed, with its new version.
pub(super) fn show(output: &Output, plan: &EntityPlan, done: Option<(bool, Option<Version>)>) -> Result<(), CliError> {
    if output.is_json() {
        let mut json = plan.to_json();
        if let Some((is_written, version)) = done {
            json["Outcome"] = if is_written { "Written" } else { "Unchanged" }.into();
            json["NewVersion"] = json!(version);
        }
        return output.object(&output::without_null(json));
    }
    let side = |value: &Option<AttributeValue>| {
        let text = value.as_ref().map(|value| output.shortened(&value_text(value)));
        text.unwrap_or_else(|| "(none)".to_owned())
    };
    let conflicts = plan.conflicts.iter().map(|conflict| {
        let path = match conflict.path.0.is_empty() {
            true => "the whole item".to_owned(),
            false => path_text(&conflict.path),
        };
        format!(
            "conflict: {path} is {}, and was {}",
            side(&conflict.from),
            side(&conflict.to)
        )
    });
    let reasons = plan.reason.iter().map(|reason| format!("conflict: {reason}"));
    let erased = erased_lines(&plan.erased).into_iter();
    let erased = erased.map(|(path, text)| format!("not undone: {path} was {text}"));
    let notes: Vec<_> = conflicts.chain(reasons).chain(erased).collect();
    if plan.action == Action::None && notes.is_empty() {
        return Ok(());
    }
    let id = plan.key.as_ref().map_or_else(
        || plan.entity.as_str().to_owned(),
        |key| json!(shared::domain::plain::attributes(key)).to_string(),
    );
    output.below(&format!("{id}  {}", plan.action.name()), &plan.changes(), &notes)
}
