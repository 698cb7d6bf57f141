//! `vzero attach`.

mod write_rate;

use std::{path::PathBuf, time::Duration};

use attach::{
    attachable::{AttachableTable, attachable_table},
    check,
    enable_stream::{ENABLE_TIMEOUT, enable_stream},
    find::find,
    shell,
};
use operations::{connection::Connection, error::OperationError};
use serde_json::{Value, json};
use shared::{
    clock::since_epoch,
    domain::{
        attached::{AttachedTable, definition::AttachedSettings},
        keys::VersionDigits,
        layout::table_name,
    },
    dynamodb::{Store, client::error::ErrorKind},
    json,
};

use super::values::parsed;
use crate::{
    connection,
    error::CliError,
    globals::Globals,
    next,
    output::{self, Output},
    plan,
};

/// Size of an item in bytes if the table has none.
const DEFAULT_ITEM_BYTES: u64 = 1_024;
const UNREADABLE: &str = "the SAM CLI cannot read a name with a backslash before a quote or at its end: deploy the template with other \
                          tools";

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Attach {
    /// Name of the table whose history is to be stored
    #[arg(value_name = "TABLE")]
    name: String,
    /// Name of the history table [default: TABLE-history]
    #[arg(long, value_name = "NAME")]
    history_table: Option<String>,
    /// Attribute in which the writers keep a version number of their own
    #[arg(long, value_name = "NAME", conflicts_with = "check")]
    version_attribute: Option<String>,
    /// Attribute with the author of the last change, such as updatedBy
    #[arg(long, value_name = "NAME", conflicts_with = "check")]
    actor_attribute: Option<String>,
    /// Attribute with the reason of the last change
    #[arg(long, value_name = "NAME", conflicts_with = "check")]
    reason_attribute: Option<String>,
    /// Attribute that names a set of changes, such as job
    #[arg(long, value_name = "NAME", conflicts_with = "check")]
    change_set_attribute: Option<String>,
    /// Attribute whose change alone makes no version; can be repeated
    #[arg(long, value_name = "NAME")]
    ignore: Vec<String>,
    /// Items that get a history: attributes with rules in JSON, or a pattern of the event source mapping
    #[arg(long, value_name = "JSON", conflicts_with = "check")]
    filter: Option<String>,
    /// Changes per second, for the cost [default: the measured rate of the last 14 days]
    #[arg(long, value_name = "R", value_parser = |text: &str| plan::within(text, 0.0, 1e9), conflicts_with = "check")]
    updates_per_second: Option<f64>,
    /// Write the definition of the attached table to this file
    #[arg(long, value_name = "FILE", conflicts_with = "check")]
    write: Option<PathBuf>,
    /// Index the versions by time, for `vzero log --all` and `vzero undo`: one more write unit per version
    #[arg(long, conflicts_with = "check")]
    time_index: bool,
    /// Enable the stream of the table, with new and old images, if it has none
    #[arg(long, conflicts_with = "check")]
    enable_stream: bool,
    /// Compare items of the table with their history
    #[arg(long)]
    check: bool,
    /// Maximum number of items to compare, 1 to 1000
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u16).range(1..=1000), requires = "check")]
    sample: u16,
    /// Seconds to wait for versions that may still be in the stream, if an item differs
    #[arg(long, value_name = "SECONDS", default_value_t = 60, requires = "check")]
    lag: u64,
}

const EXAMPLES: &str = "\
Examples:
  vzero attach Orders
  vzero attach Orders --enable-stream --actor-attribute updatedBy --ignore lastSeen --write orders.json
  vzero attach Orders --filter '{\"status\": [\"open\"]}'
  vzero attach Orders --check
The command inspects the table, and prints the commands that deploy tools/attach/template.yaml for it. It changes nothing, except
for the stream with --enable-stream. Exit code 4 if the table has to change before it can be attached, or if --check finds items
that differ from their history; 3 if there is no such table.";

impl Attach {
    pub(crate) async fn run(
        &self,
        connection: &Connection,
        globals: &Globals,
        output: &Output,
    ) -> Result<(), CliError> {
        let store = Store::new(connection.client.clone(), &self.name, VersionDigits::default());
        let described = attachable_table(&store).await;
        let described = described.map_err(|error| match error.kind {
            ErrorKind::Rejected => CliError::usage("TABLE", error),
            _ => error.into(),
        })?;
        let mut table = described.ok_or_else(|| CliError::NotFound(format!("there is no table {}", self.name)))?;
        let filter = parsed("--filter", self.filter.as_deref(), json::parse)?;
        let stored = self.stored(connection, globals, &store).await;
        let stored_filter = stored.as_ref().and_then(|stored| json::parse(stored.filter()?).ok());
        let settings = self.settings(stored.as_ref());
        let defined = attach::define(&table, settings, filter.or(stored_filter).as_ref());
        let (definition, attached) = defined.map_err(|error| CliError::usage("the attachment", error))?;
        if self.check {
            return self.check(connection, &attached, output).await;
        }
        let mut notes = Vec::new();
        if stored.is_some() {
            notes.push(format!(
                "the table has a history already, in {}: the command to deploy keeps its settings, except for those given now",
                attached.history_table()
            ));
        }
        notes.extend(self.enable_stream(&store, &mut table).await?);
        if let Some(path) = &self.write {
            let text = serde_json::to_string_pretty(&definition).map_err(|error| CliError::usage("--write", error))?;
            std::fs::write(path, text + "\n").map_err(|error| CliError::usage(&path.display().to_string(), error))?;
        }
        let rate = self.changes_per_second(connection, &table).await;
        if let Err(reason) = &rate {
            notes.push(format!(
                "the write rate is not known, so there is no cost: {reason}; pass --updates-per-second"
            ));
        }
        let required = attach::required_changes(&table);
        let history = Store::attached(connection.client.clone(), attached.clone()).with_time_index(None);
        let is_indexed = async || stored.is_some() && history.has_time_index().await.unwrap_or_default();
        let has_time_index = self.time_index || is_indexed().await;
        let deploy = attach::deploy::commands(&table, &attached, has_time_index).filter(|_| required.is_empty());
        if required.is_empty() && deploy.is_none() {
            notes.push(UNREADABLE.to_owned());
        }
        notes.extend(attach::notes(&table));
        let (rate, stream) = (rate.ok(), table.stream.as_ref());
        let keys: Value = table
            .keys
            .iter()
            .map(|(name, kind)| (name.clone(), kind.as_str()))
            .collect();
        let mut report = output::without_null(json!({
            "Table": table.name,
            "Arn": table.arn,
            "Status": table.status.as_str(),
            "Keys": keys,
            "Stream": stream.map(|stream| json!({"Arn": stream.arn, "ViewType": stream.view.as_str()})),
            "Replicas": Some(&table.replicas).filter(|replicas| !replicas.is_empty()),
            "Items": table.items,
            "Bytes": table.bytes,
            "HistoryTable": attached.history_table(),
            "UpdatesPerSecond": rate.map(|rate| (rate * 1e3).round() / 1e3),
            "MonthlyCost": rate.map(|rate| plan::attached::monthly_cost(rate, item_bytes(&table), has_time_index)),
        }));
        let deploy = deploy.unwrap_or_default();
        if output.is_json() {
            (report["Required"], report["Notes"]) = (json!(required), json!(notes));
            (report["Deploy"], report["Definition"]) = (json!(deploy), definition);
        }
        output.object(&report)?;
        if !output.is_json() {
            // Text in which commands can be copied.
            for (kind, texts) in [("required", &required), ("note", &notes)] {
                let mut texts = texts.iter();
                texts.try_for_each(|text| output::print(&format!("{kind}: {text}")))?;
            }
            if !deploy.is_empty() {
                let commands = deploy.join("\n  ");
                output::print(&format!("\nDeploy, in the root of the repository:\n  {commands}"))?;
            }
        }
        if required.is_empty() {
            return Ok(());
        }
        let next = match table.stream {
            None => next::again("--enable-stream"),
            Some(_) => format!("change what is required, then type {}", next::again("")),
        };
        Err(CliError::Conflict(format!(
            "{} cannot be attached as it is: {next}",
            self.name
        )))
    }

    /// Enables the stream, if that is wanted. Returns a note if the table has one.
    async fn enable_stream(&self, store: &Store, table: &mut AttachableTable) -> Result<Option<String>, CliError> {
        match &table.stream {
            Some(stream) if self.enable_stream => Ok(Some(format!(
                "the table has a stream, {}, which was not changed",
                stream.view
            ))),
            None if self.enable_stream => {
                let timeout = ENABLE_TIMEOUT.as_secs();
                let text = format!("the stream is not enabled after {timeout} s; run the command again");
                *table = enable_stream(store).await?.ok_or(OperationError::Retryable(text))?;
                Ok(None)
            }
            _ => Ok(None),
        }
    }

    /// Returns the definition that is stored beside the history of the table. `None` if it has none, or if it cannot be read.
    async fn stored(&self, connection: &Connection, globals: &Globals, store: &Store) -> Option<AttachedTable> {
        let name = table_name(&self.name);
        let history = self.history_table.clone().unwrap_or_else(|| format!("{name}-history"));
        if let Ok(Some(stored)) = find(store, &history, true).await {
            return Some(stored);
        }
        let parameter = connection::parameter(globals, &connection.sdk, name).await.ok()??;
        let parameter = json::parse(&parameter).ok()?;
        find(store, parameter.get("HistoryTable")?.as_str()?, true).await.ok()?
    }

    /// Returns the settings of the options, and for those that are not given the stored ones.
    fn settings(&self, stored: Option<&AttachedTable>) -> AttachedSettings {
        let stored = stored.map(|stored| stored.settings().clone()).unwrap_or_default();
        let of = |given: &Option<String>, stored| given.clone().or(stored);
        AttachedSettings {
            history_table: of(&self.history_table, stored.history_table),
            version_attribute: of(&self.version_attribute, stored.version_attribute),
            actor_attribute: of(&self.actor_attribute, stored.actor_attribute),
            reason_attribute: of(&self.reason_attribute, stored.reason_attribute),
            change_set_attribute: of(&self.change_set_attribute, stored.change_set_attribute),
            ignored: match self.ignore.is_empty() {
                true => stored.ignored,
                false => self.ignore.iter().cloned().collect(),
            },
            ..AttachedSettings::default()
        }
    }

    /// Returns the changes per second: those of the option, or those that the consumed write units stand for.
    async fn changes_per_second(&self, connection: &Connection, table: &AttachableTable) -> Result<f64, String> {
        if let Some(rate) = self.updates_per_second {
            return Ok(rate);
        }
        if connection.endpoint_url.is_some() {
            return Err("CloudWatch does not measure a table at another endpoint".to_owned());
        }
        let units = write_rate::write_units(&connection.sdk, &table.name, table.created, since_epoch()).await?;
        Ok(units / plan::write_units(item_bytes(table)))
    }

    async fn check(&self, connection: &Connection, table: &AttachedTable, output: &Output) -> Result<(), CliError> {
        let lag = Duration::from_secs(self.lag);
        let waiting = |different| {
            output::note(&format!(
                "{different} items differ: waiting {} s for the stream",
                self.lag
            ));
        };
        let checked = check::check(&connection.client, table, self.sample, lag, waiting).await?;
        let no_table = || OperationError::NoTable(table.history_table().to_owned());
        let (counts, differences) = checked.ok_or_else(no_table)?;
        for (entity, version) in &differences {
            output.object(&json!({"ID": entity.as_str(), "Finding": "Differs", "Version": version}))?;
        }
        output.object(&json!({
            "Checked": counts.checked,
            "Following": counts.following,
            "Behind": counts.behind,
            "Missing": counts.missing,
            "Differs": counts.differs,
        }))?;
        match differences.first() {
            None => Ok(()),
            Some((entity, _)) => Err(CliError::Conflict(format!(
                "{} items differ from their history: `vzero --table {} admin audit {}` examines the first",
                counts.differs,
                shell::argument(table.table()),
                shell::argument(entity.as_str())
            ))),
        }
    }
}

/// Returns the average size of an item.
fn item_bytes(table: &AttachableTable) -> u64 {
    table.bytes.checked_div(table.items).unwrap_or(DEFAULT_ITEM_BYTES)
}
