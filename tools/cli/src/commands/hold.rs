//! `vzero admin hold`.

use clap::builder::NonEmptyStringValueParser;
use operations::{connection::Connection, hold};
use serde_json::json;

use crate::{error::CliError, output::Output, selector::Subject, target::Target};

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Hold {
    #[command(flatten)]
    target: Target,
    /// Set the hold, for this reason
    #[arg(long, value_name = "TEXT", value_parser = NonEmptyStringValueParser::new())]
    reason: Option<String>,
    /// Author of the hold
    #[arg(long, value_name = "NAME", requires = "reason")]
    as_actor: Option<String>,
    /// Release the hold
    #[arg(long, conflicts_with = "reason")]
    release: bool,
}

const EXAMPLES: &str = "\
Without options, it shows the hold. A version that was marked before still expires: pin it.
Examples:
  vzero admin hold Equipment#1 --reason 'case 4711' --as-actor amy
  vzero admin hold Equipment#1 --release";

impl Hold {
    pub(crate) async fn run(&self, connection: &Connection, output: &Output) -> Result<(), CliError> {
        let Subject { entity, id, .. } = self.target.subject(connection, 0..=0)?;
        let store = &connection.store;
        if self.release {
            let is_released = hold::release(store, &entity).await?;
            let text = if is_released { "is released" } else { "was not on hold" };
            return output.sentence(
                &json!({"ID": entity.as_str(), "Released": is_released}),
                &format!("{id} {text}"),
            );
        }
        let found = match &self.reason {
            Some(reason) => {
                let new = hold::Hold::new(store.now(), reason, self.as_actor.as_deref());
                hold::set(store, &entity, &new).await?;
                Some(new)
            }
            None => hold::hold_of(store, &entity).await?,
        };
        let text = found
            .as_ref()
            .map_or_else(|| "not on hold".to_owned(), ToString::to_string);
        output.sentence(
            &json!({"ID": entity.as_str(), "Hold": found}),
            &format!("{id} is {text}"),
        )
    }
}
