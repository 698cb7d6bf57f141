//! The command line: global options and commands.

use clap::{Parser, Subcommand};

use crate::{
    commands::{
        attach::Attach,
        audit::Audit,
        backfill::Backfill,
        blame::Blame,
        console::Console,
        diff::{Diff, Versions},
        entity::Metadata,
        entity::Pin,
        erase::Erase,
        get::Get,
        hold::Hold,
        log::Log,
        prove::Prove,
        prune::Prune,
        purge::Purge,
        quarantine::Quarantine,
        redrive::Redrive,
        repair::Repair,
        restore::Restore,
        snapshot::Snapshot,
        state::State,
        table::Table,
        undo::Undo,
        verify::Verify,
        write::Delete,
        write::Put,
    },
    connection::Width,
    globals::{self, Globals},
    plan::{self, PlanArgs},
    target::Target,
};

/// Reads, writes, compares and restores versions of the items of a DynamoDB table.
///
/// Exit codes: 0 done, 1 a proof or a sealed history does not hold, 2 usage, 3 not found, 4 conflict, stale update or other findings, 5 service
/// or network.
#[derive(Debug, Parser)]
#[command(name = "vzero", version, after_help = EXAMPLES, after_long_help = after_long_help(), mut_subcommands(hide_admin))]
pub(crate) struct Args {
    #[command(subcommand)]
    pub(crate) command: Command,
    #[command(flatten)]
    pub(crate) globals: Globals,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// List who changed what, when and why: one line for each version, newest first
    #[command(visible_alias = "history")]
    Log(Log),
    /// Show who made a version, when and why, and its changes
    #[command(after_help = "Example: vzero show Equipment#1 7")]
    Show(Versions),
    /// Show the last change, the changes between two versions, or of all entities between two times
    Diff(Diff),
    /// Show who set each value last, when, and in which version
    Blame(Blame),
    /// Show the latest version, another version, or the item as it was at a time
    Get(Get),
    /// Export or copy the whole table as it was at a time
    Snapshot(Snapshot),
    /// Create a new version: change the given attributes, keep all others
    Put(Put),
    /// Create a new version with the attributes of an old one
    Restore(Restore),
    /// Take back one version, or selected versions of all entities, and keep what came after
    Undo(Undo),
    /// Create a new version of a deleted entity, with the attributes of its newest version that is no tombstone
    Undelete(Delete),
    /// Inspect a table that other programs write, and prepare or check its history
    Attach(Attach),
    /// Serve the history console on this machine, and open it in the web browser
    Console(Console),
    /// Delete, audit, repair, prune, move and estimate: `vzero admin --help` lists the commands
    #[command(subcommand)]
    Admin(Admin),
    /// These commands without `admin`, hidden.
    #[command(flatten)]
    WithoutAdmin(Admin),
}

/// Commands that few users need every day.
#[derive(Debug, Subcommand)]
pub(crate) enum Admin {
    /// Create a tombstone: a version that marks the entity as deleted
    Delete(Delete),
    /// Find versions that are missing or unexpected, and latest items that differ from their version
    Audit(Audit),
    /// Show how far history is behind the latest version
    Lag(Target),
    /// Show or change the metadata of an entity
    Metadata(Metadata),
    /// Show all items of an entity: metadata, latest item, versions, states and others
    #[command(after_help = "Example: vzero admin items Equipment#1 --output json")]
    Items(Target),
    /// Put, load, show and list states by time, without version numbers
    #[command(subcommand)]
    State(State),
    /// Create the table
    #[command(subcommand)]
    Table(Table),
    /// Put existing items under versioning, as version 1
    Backfill(Backfill),
    /// Mark old versions for deletion, and let history begin after them
    Prune(Prune),
    /// Protect a version from prune
    Pin(Pin),
    /// Keep prune and purge from removing versions of an entity, until the hold is released
    Hold(Hold),
    /// Permanently delete an entity with all its items
    Purge(Purge),
    /// Erase values from all versions of an entity, so that proofs of everything else still hold
    Erase(Erase),
    /// List stream records that stream-fn can never store as a version, with the reason
    Quarantine(Quarantine),
    /// Replay failure documents: put the version items that stream-fn could not put
    Redrive(Redrive),
    /// Restore missing versions and counters that an audit finds
    Repair(Repair),
    /// Prove to an auditor that versions are sealed in the public log
    Prove(Prove),
    /// Verify a proof of versions that an auditor received, without a table or a network
    Verify(Verify),
    /// Estimate capacity, invocations and monthly costs for a rate of updates; needs no table
    #[command(after_help = plan::EXAMPLES)]
    Plan(PlanArgs),
    /// Explain the words of this help: entities, versions, times, paths and values
    #[command(long_about = CONCEPTS, help_template = "{about}")]
    Concepts,
    /// Print a completion script for a shell, for its configuration: source <(vzero admin completions bash)
    Completions {
        /// Name of the shell
        shell: clap_complete::Shell,
    },
}

/// Hides a command that the group `admin` has.
fn hide_admin(command: clap::Command) -> clap::Command {
    let is_admin = Admin::has_subcommand(command.get_name());
    if is_admin { command.hide(true) } else { command }
}

impl Command {
    /// Returns the command of the group `admin`, `None` if it is another one.
    pub(crate) fn admin(&self) -> Option<&Admin> {
        match self {
            Self::Admin(admin) | Self::WithoutAdmin(admin) => Some(admin),
            _ => None,
        }
    }

    /// Returns the reason why the command is not for an attached table, `None` if it is.
    pub(crate) fn not_attached(&self) -> Option<&'static str> {
        match (self, self.admin()) {
            (_, Some(Admin::Metadata(_))) => Some("other programs write the items of an attached table"),
            (_, Some(Admin::Repair(_))) => Some(
                "the history of an attached table follows from its stream alone, so there is nothing to repair it from: use \
                 `vzero admin redrive` for the records that failed",
            ),
            (_, Some(Admin::State(_) | Admin::Table(_))) => Some("the command is not for an attached table"),
            _ => None,
        }
    }

    /// Returns `true` if the command only shows what it reads, so that a pager can show it.
    pub(crate) fn only_shows(&self) -> bool {
        match (self, self.admin()) {
            (Self::Log(log), _) => log.ends(),
            (Self::Diff(diff), _) => !diff.all,
            (Self::Get(_) | Self::Show(_) | Self::Blame(_), _) | (_, Some(Admin::Items(_) | Admin::Plan(_))) => true,
            (_, Some(Admin::State(state))) => state.only_shows(),
            _ => false,
        }
    }

    /// Returns `true` if the command limits the units that its requests consume.
    pub(crate) fn is_paced(&self) -> bool {
        let admin = self.admin();
        matches!(
            admin,
            Some(Admin::Audit(_) | Admin::Quarantine(_) | Admin::Prune(_) | Admin::Backfill(_))
        ) || matches!(
            self,
            Self::Console(_) | Self::Snapshot(_) | Self::Diff(_) | Self::Undo(_)
        ) || matches!(self, Self::Log(log) if log.is_of_all())
    }

    pub(crate) fn width(&self) -> Width {
        match (self, self.admin()) {
            (Self::Attach(_), _) | (_, Some(Admin::State(_) | Admin::Table(_))) => Width::Unused,
            (Self::Put(_), _) => Width::Store,
            (_, Some(Admin::Backfill(backfill))) if !backfill.confirmation.dry_run => Width::StoreBeside,
            _ => Width::Read,
        }
    }
}

/// Returns the remaining options and the examples.
fn after_long_help() -> String {
    format!("Other global options:\n{}\n\n{EXAMPLES}", globals::others())
}

const EXAMPLES: &str = "\
Examples:
  vzero put Equipment#1 --set State=WARNING1 --time 2020-11-01T20:04:00
  vzero log Equipment#1 --since yesterday
  vzero get Equipment#1 --at 'yesterday 14:05'
  vzero diff Equipment#1 6 7
  vzero blame Equipment#1 --path State
  vzero restore Equipment#1 6 --actor me --reason 'wrong reading'
With the local stack: --endpoint-url http://127.0.0.1:8000 (needs no credentials)
Any table with an attached history: vzero --table Orders get c1 7
`vzero help concepts` explains keys, versions, times and paths.";

/// One screen: `vzero help concepts`.
pub(crate) const CONCEPTS: &str = "\
Entity       has versions: a partition key of a versioned table, or an item of
             any table with an attached history
Version      a state of an entity, with its number: 1, 2, 3, without gaps
Latest item  the newest version. Writes change only this one
amy?         uncertain author: the version before has the same one, so another
             client can have made the change. `log --actor amy` includes it
History      all versions. They never change, and follow the latest item within
             a second, through the stream
Tombstone    the version of a deletion. `vzero undelete KEY` writes one after it
Undo         `vzero undo KEY VERSION` takes back a change, and keeps those after
             it. It stores a new version, so it can be undone, too

KEY      Equipment#1; of any table its key attributes in their order: c1 7,
         or JSON: '{\"customerId\": \"c1\", \"orderNo\": 7}'
VERSION  7 or v7, latest, -1 for the one before it, or the one at a time:
         @yesterday, @2d, @2026-11-20, @14:05
TIME     2026-11-20T14:05, 2026-11-20, 14:05, yesterday, 2d or 90m ago. Local,
         unless an offset is given: 2026-11-20T14:05Z. A time of day that is
         still to come is yesterday's
PATH     Lines[2].Price is in the third element of the list Lines; names with
         other characters are in quotes: \"a.b\"
VALUE    --set Total=5 is a number, --set Name=abc a text, --set Code='\"5\"' a
         text of a digit; --set-json takes lists and maps";

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn the_command_line_is_sound() {
        Args::command().debug_assert();
    }

    #[test]
    fn the_help_lists_few_commands_and_the_group_admin() {
        let command = Args::command();
        let subcommands = command.get_subcommands();
        let (shown, hidden): (Vec<_>, Vec<_>) = subcommands.partition(|subcommand| !subcommand.is_hide_set());
        let shown: Vec<_> = shown.into_iter().map(clap::Command::get_name).collect();
        let expected = "log show diff blame get snapshot put restore undo undelete attach console admin";
        assert_eq!(shown.join(" "), expected);
        let admin = command.find_subcommand("admin").unwrap();
        let hidden = hidden.into_iter().map(clap::Command::get_name);
        assert!(admin.get_subcommands().map(clap::Command::get_name).eq(hidden));
    }

    #[test]
    fn the_concepts_fit_on_one_screen() {
        let lines: Vec<_> = CONCEPTS.lines().collect();
        assert!(lines.len() <= 24 && lines.iter().all(|line| line.len() <= 80));
    }

    #[test]
    fn help_does_not_show_the_values_of_variables() {
        fn check(command: &clap::Command) -> usize {
            let variables = command.get_arguments().filter(|argument| argument.get_env().is_some());
            let variables = variables.inspect(|argument| assert!(argument.is_hide_env_values_set(), "{argument}"));
            variables.count() + command.get_subcommands().map(check).sum::<usize>()
        }
        assert!(check(&Args::command()) > 2);
    }
}
