//! Selection of the versions that an undo takes back.

use std::{collections::BTreeSet, path::Path, sync::Arc};

use attach::shell::argument;
use clap::Arg;
use operations::{
    connection::Connection,
    undo::{selection::Selection, set_file::UndoSet, table::has_prefix},
};
use shared::domain::entity::EntityId;

use crate::{commands::filters::Filters, error::CliError, target::id_of_line};

/// Path of the file that an option names.
pub(super) fn file_of(text: &str) -> Option<&Path> {
    text.strip_prefix('@').map(Path::new)
}

fn with_file(change_set: Arg) -> Arg {
    change_set.help(
        "Only versions of this change set. On a table of other programs, @FILE selects the versions of an undo that stored its set in the file",
    )
}

/// Conditions of versions.
#[derive(Debug, clap::Args)]
#[command(
    next_help_heading = "Undo the versions of all entities that fulfill all conditions",
    mut_arg("change_set", with_file)
)]
pub(super) struct Selected {
    #[command(flatten)]
    pub(super) filters: Filters,
    /// Of entities whose key begins with this text, or is a line of @FILE; can be repeated
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
        let mut filter = self.filters.filter(connection.store.now())?;
        let written = connection.store.attached_table().and_then(|table| {
            let set = filter.change_set.take_if(|set| file_of(set).is_some())?;
            let set = UndoSet::read(file_of(&set)?, table).map(Arc::new);
            Some(set.map_err(|error| CliError::usage("--change-set", error)))
        });
        Ok(Selection {
            versions: None,
            first: None,
            since: filter.since,
            until: filter.until,
            actor: filter.actor,
            reason: filter.reason,
            change_set: filter.change_set,
            written: written.transpose()?,
            actor_changed_only: self.actor_changed_only,
            with_unattributed_deletions: self.with_unattributed_deletions,
        })
    }

    /// Returns the prefixes of entities.
    pub(super) fn prefixes(&self) -> Vec<String> {
        self.entity
            .iter()
            .filter(|text| file_of(text).is_none())
            .cloned()
            .collect()
    }

    /// Returns the entities that files name. `None` if any entity can have selected versions.
    pub(super) fn listed(
        &self,
        connection: &Connection,
        selection: &Selection,
    ) -> Result<Option<Vec<EntityId>>, CliError> {
        let (prefixes, mut listed) = (self.prefixes(), BTreeSet::new());
        if let Some(set) = selection
            .written
            .as_ref()
            .filter(|_| prefixes.len() == self.entity.len())
        {
            let own = set
                .entities()
                .filter(|entity| has_prefix(&connection.store, entity, &prefixes));
            return Ok(Some(own.cloned().collect()));
        }
        for (text, path) in self.entity.iter().filter_map(|text| Some((text, file_of(text)?))) {
            let option = format!("--entity {}", argument(text));
            let lines = std::fs::read_to_string(path).map_err(|error| CliError::usage(&option, error))?;
            for line in lines.lines().filter(|line| !line.is_empty()) {
                listed.insert(connection.entity(&id_of_line(connection, line)?)?);
            }
        }
        match (listed.is_empty(), prefixes.is_empty()) {
            (true, _) if prefixes.len() == self.entity.len() => Ok(None),
            (true, _) => Err(CliError::Usage("--entity: the file has no lines".to_owned())),
            (false, true) => Ok(Some(listed.into_iter().collect())),
            (false, false) => Err(CliError::Usage(
                "--entity: a prefix needs a search of all entities, and a file names them: use two commands".to_owned(),
            )),
        }
    }
}
