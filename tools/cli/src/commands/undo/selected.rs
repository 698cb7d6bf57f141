//! Selection of the versions that an undo takes back.

use attach::shell::argument;
use operations::{connection::Connection, undo::selection::Selection};

use crate::{commands::filters::Filters, error::CliError};

/// Conditions of versions.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Undo the versions of all entities that fulfill all conditions")]
pub(super) struct Selected {
    #[command(flatten)]
    filters: Filters,
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

impl Selected {
    pub(super) fn is_none(&self) -> bool {
        self.filters.conditions().next().is_none() && self.entity.is_empty()
    }

    /// Returns the conditions as a part of a reason: `actor import-7, since 14:00`.
    pub(super) fn text(&self) -> String {
        let conditions = self.filters.conditions().map(|(name, value)| format!("{name} {value}"));
        conditions.collect::<Vec<_>>().join(", ")
    }

    pub(super) fn selection(&self, connection: &Connection) -> Result<Selection, CliError> {
        if self.filters.conditions().next().is_none() && !self.entity.is_empty() {
            return Err(CliError::Usage(
                "--entity alone would take back whole histories: add --since, --until, --actor, --reason or --change-set".to_owned(),
            ));
        }
        let filter = self.filters.filter(connection.store.now())?;
        Ok(Selection {
            versions: None,
            first: None,
            since: filter.since,
            until: filter.until,
            actor: filter.actor,
            reason: filter.reason,
            change_set: filter.change_set,
            actor_changed_only: self.actor_changed_only,
            with_unattributed_deletions: self.with_unattributed_deletions,
        })
    }

    /// Returns the prefixes of entities, with those of files.
    pub(super) fn prefixes(&self) -> Result<Vec<String>, CliError> {
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
