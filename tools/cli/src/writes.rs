//! Making versions.

use serde_json::{Map, Value, json};
use shared::{
    domain::{entity::EntityId, names, plain, recent::Window, update::Update},
    dynamodb::write::{Idempotency, WriteOptions, WriteOutcome, metadata, restore::Revision},
};

use crate::{
    args::{self, Args},
    change,
    connection::{Connection, entity},
    error::CliError,
    output::Output,
    reads::version,
};

pub(crate) async fn put(
    connection: &Connection,
    args: &Args,
    put: &args::Put,
    output: &Output,
) -> Result<(), CliError> {
    let update = change::update(&put.id, args, change::read(&put.changes)?)?;
    let outcome = connection.store.write(&update, options(args)?).await?;
    say(&put.id, outcome, output)
}

pub(crate) async fn restore(
    connection: &Connection,
    args: &Args,
    restore: &args::Restore,
    output: &Output,
) -> Result<(), CliError> {
    let number = version(restore.number)?;
    let update = change::update(&restore.id, args, Map::new())?;
    let (entity, request_id, revision) = parts(update);
    let outcome = connection
        .store
        .restore(&entity, number, request_id, revision, options(args)?)
        .await?;
    say(&restore.id, outcome, output)
}

pub(crate) async fn set_deleted(
    connection: &Connection,
    args: &Args,
    target: &args::Entity,
    deleted: bool,
    output: &Output,
) -> Result<(), CliError> {
    let (entity, request_id, revision) = parts(change::update(&target.id, args, Map::new())?);
    let done = connection
        .store
        .set_deleted(&entity, deleted, request_id, revision, options(args)?)
        .await?;
    if let Some(outcome) = done {
        return say(&target.id, outcome, output);
    }
    let latest = connection.store.latest(&entity, true).await?;
    let latest = latest.ok_or_else(|| CliError::NotFound(format!("there is no {}", target.id)))?;
    let version = latest.version;
    say(&target.id, WriteOutcome::Unchanged { version }, output)
}

pub(crate) async fn metadata(connection: &Connection, args: &args::Metadata, output: &Output) -> Result<(), CliError> {
    let entity = entity(&args.id)?;
    let members = change::read(&args.changes)?;
    change::refuse_reserved(&members)?;
    let item = if members.is_empty() {
        let found = connection
            .store
            .get(&entity, metadata::SORT_KEY, connection.consistent)
            .await?;
        found.ok_or_else(|| CliError::NotFound(format!("{} has no metadata", args.id)))?
    } else {
        connection
            .store
            .update_metadata(&entity, &change::changes(members)?)
            .await?
    };
    let mut attributes = plain::attributes(&item);
    attributes.remove(names::PK);
    attributes.remove(names::SK);
    output.object(&json!({"ID": args.id, "Attributes": Value::Object(attributes)}))
}

fn parts(update: Update) -> (EntityId, shared::domain::request_id::RequestId, Revision) {
    let revision = Revision {
        expected: update.expected,
        timestamp: update.timestamp,
        changes: update.changes,
    };
    (update.entity, update.request_id, revision)
}

pub(crate) fn options(args: &Args) -> Result<WriteOptions, CliError> {
    // A smaller window than the functions' would forget for them, a larger one is cut down by them.
    let window = args.idempotency_window.or(Window::new(Window::MAX)).unwrap_or_default();
    Ok(WriteOptions {
        mode: args.mode,
        idempotency: Idempotency::named(&args.idempotency, window, args.ledger_ttl_days)
            .map_err(|error| CliError::usage("--idempotency", error))?,
        skip_unchanged: args.skip_unchanged,
    })
}

fn say(id: &str, outcome: WriteOutcome, output: &Output) -> Result<(), CliError> {
    let (name, version) = match outcome {
        WriteOutcome::Written { version } => ("Written", version),
        WriteOutcome::Duplicate { version } => ("Duplicate", version),
        WriteOutcome::Unchanged { version } => ("Unchanged", version),
        WriteOutcome::Stale { .. } | WriteOutcome::Conflict { .. } => {
            return CliError::of_outcome(outcome).map_or(Ok(()), Err);
        }
    };
    output.object(&json!({"ID": id, "Version": version, "Outcome": name}))
}
