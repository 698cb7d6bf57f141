//! Options of commands that write versions.

use clap::builder::FalseyValueParser;
use shared::{
    config::{self, Idempotency, Ordering, Retention, Window, WriteMode},
    domain::{AttributeValue, attached::AttachedTable},
};

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
    pub(crate) idempotency: String,
    /// Number of recent requests that an entity keeps, with --idempotency recent [default: 100]
    #[arg(long, value_name = "N")]
    pub(crate) idempotency_window: Option<Window>,
    /// Number of days that requests are kept, with --idempotency ledger
    #[arg(long, default_value_t, value_name = "DAYS")]
    pub(crate) ledger_ttl_days: Retention,
}

impl Method {
    pub(crate) fn idempotency(&self, default_window: Window) -> Result<Idempotency, CliError> {
        let window = self.idempotency_window.unwrap_or(default_window);
        Idempotency::named(&self.idempotency, window, self.ledger_ttl_days)
            .map_err(|error| CliError::usage("--idempotency", error))
    }
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
    pub(crate) fn options(&self) -> Result<config::WriteOptions, CliError> {
        // A window smaller than the functions' would drop requests that they keep. They cut a larger one down.
        let window = Window::new(Window::MAX).unwrap_or_default();
        Ok(config::WriteOptions {
            mode: self.method.mode,
            idempotency: self.method.idempotency(window)?,
            skip_unchanged: self.skip_unchanged,
        })
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
    /// Returns the attributes of an item of an attached table that have the author and the reason, each after its option.
    ///
    /// # Errors
    ///
    /// Returns [`CliError::Usage`] for a value that its items have no place for.
    pub(crate) fn of_item(
        &self,
        table: &AttachedTable,
    ) -> Result<Vec<(&'static str, String, AttributeValue)>, CliError> {
        if self.expect.is_some() || self.request_id.is_some() || self.time.is_some() {
            return Err(CliError::Usage(
                "--expect, --request-id and --time are not for an attached table: its items have no place for them"
                    .to_owned(),
            ));
        }
        let values = [
            ("--actor", &self.actor, &table.settings().actor_attribute),
            ("--reason", &self.reason, &table.settings().reason_attribute),
        ];
        let values = values
            .into_iter()
            .filter_map(|(option, value, name)| Some((option, value.as_ref()?, name)));
        let values = values.map(|(option, value, name)| match name {
            Some(name) => Ok((option, name.to_owned(), AttributeValue::S(value.clone()))),
            None => Err(CliError::Usage(format!(
                "{option}: no attribute of the items has it; `vzero attach {} {option}-attribute NAME` defines one",
                table.table()
            ))),
        });
        values.collect()
    }
}
