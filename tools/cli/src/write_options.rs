//! Options of commands that write versions.

use clap::builder::FalseyValueParser;
use operations::item_change::ItemOptions;
use shared::config::{self, Idempotency, Ordering, WriteMode};

use crate::{confirmation::Confirmation, error::CliError};

/// Write mode and duplicate detection.
#[derive(Debug, Clone, clap::Args)]
#[command(mut_args(|argument| argument.hide_env_values(true)))]
pub(crate) struct Method {
    /// Write mode: stream, inline or transaction
    #[arg(long, env = "WRITE_MODE", default_value = "stream", value_name = "MODE")]
    pub(crate) mode: WriteMode,
    /// Strategy for detecting duplicate requests: recent or ledger
    #[arg(long, env = "IDEMPOTENCY", default_value = "recent", value_name = "KIND")]
    pub(crate) idempotency: Idempotency,
}

/// Options of commands that write many versions, or let the user write them.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Write options")]
pub(crate) struct Writing {
    #[command(flatten)]
    pub(crate) method: Method,
    /// Order of updates: arrival or time
    #[arg(long, env = "ORDERING", hide_env_values = true, default_value = "arrival")]
    pub(crate) ordering: Ordering,
    /// Create no version if nothing would change
    #[arg(long)]
    pub(crate) skip_unchanged: bool,
}

impl Writing {
    pub(crate) fn options(&self) -> config::WriteOptions {
        config::WriteOptions {
            mode: self.method.mode,
            idempotency: self.method.idempotency,
            skip_unchanged: self.skip_unchanged,
        }
    }
}

/// Options of commands that write one version.
#[derive(Debug, clap::Args)]
pub(crate) struct WriteOptions {
    #[command(flatten)]
    pub(crate) writing: Writing,
    /// Write only if this is the latest version, 0 for none
    #[arg(long, value_name = "N")]
    pub(crate) expect: Option<u64>,
    /// Idempotency key of the write [default: a random one]
    #[arg(long, value_name = "ID")]
    pub(crate) request_id: Option<String>,
    /// Time of the version, ISO 8601
    #[arg(long)]
    pub(crate) time: Option<String>,
    /// Author of the version, stored in its attribute Actor
    #[arg(long)]
    pub(crate) actor: Option<String>,
    /// Reason for the version, stored in its attribute Reason
    #[arg(long)]
    pub(crate) reason: Option<String>,
    /// Set of changes to which the version belongs, stored in its attribute `ChangeSet`
    #[arg(long, value_name = "ID")]
    pub(crate) change_set: Option<String>,
    /// Do not wait until history has the version
    #[arg(long, env = "VZERO_NO_WAIT", hide_env_values = true, value_parser = FalseyValueParser::new())]
    pub(crate) no_wait: bool,
    /// Of a table of other programs: let DynamoDB delete the item if its time to live has passed
    #[arg(long)]
    pub(crate) allow_expired: bool,
    #[command(flatten)]
    pub(crate) confirmation: Confirmation,
}

impl WriteOptions {
    /// Returns the options of a change of an item of an attached table.
    ///
    /// # Errors
    ///
    /// Returns [`CliError::Usage`] for a value that its items have no place for.
    pub(crate) fn of_item(&self) -> Result<ItemOptions, CliError> {
        if self.expect.is_some() || self.request_id.is_some() || self.time.is_some() {
            return Err(CliError::Usage(
                "--expect, --request-id and --time are not for an attached table: its items have no place for them"
                    .to_owned(),
            ));
        }
        Ok(ItemOptions {
            actor: self.actor.clone(),
            reason: self.reason.clone(),
            change_set: self.change_set.clone(),
            allow_expired: self.allow_expired,
            only_changed: false,
        })
    }
}
