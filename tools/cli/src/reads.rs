//! Reading versions.

use std::collections::BTreeSet;

use serde_json::json;
use shared::{
    domain::{
        time::EpochMillis,
        version::Version,
        view::{Diff, VersionView},
    },
    dynamodb::read::history::HistoryQuery,
};

use crate::{
    args,
    connection::{Connection, entity},
    error::CliError,
    output::{self, Output},
};

pub(crate) async fn get(connection: &Connection, get: &args::Get, output: &Output) -> Result<(), CliError> {
    let entity = entity(&get.id)?;
    let (store, consistent) = (&connection.store, connection.consistent);
    let found = match (get.number, &get.at) {
        (Some(number), _) => store.version(&entity, version(number)?, consistent).await?,
        (None, Some(time)) => {
            let time = EpochMillis::parse_iso(time).map_err(|error| CliError::usage("--at", error))?;
            store.as_of(&entity, time, consistent).await?
        }
        (None, None) => store.latest(&entity, consistent).await?,
    };
    match found {
        Some(view) if !view.deleted || get.deleted => output.object(&view.to_json()),
        Some(view) => Err(CliError::NotFound(format!(
            "{} is deleted as of version {}",
            get.id, view.version
        ))),
        None => {
            let floor = store.floor(&entity, consistent).await?;
            let is_pruned = get.number.is_some_and(|number| number < floor.get());
            Err(CliError::NotFound(if is_pruned {
                format!("it was pruned: the history of {} begins at version {floor}", get.id)
            } else {
                format!("there is no such version of {}", get.id)
            }))
        }
    }
}

pub(crate) async fn history(connection: &Connection, args: &args::History, output: &Output) -> Result<(), CliError> {
    let entity = entity(&args.id)?;
    let query = HistoryQuery {
        from: args.from.map(version).transpose()?,
        to: args.to.map(version).transpose()?,
        oldest_first: args.oldest_first,
        limit: args.limit,
        consistent: connection.consistent,
    };
    let history = connection.store.history(&entity, query).await?;
    let Some(mut history) = history else {
        return Err(CliError::NotFound(format!("there is no {}", args.id)));
    };
    let mut seen = BTreeSet::new();
    let mut all = Vec::new();
    while let Some(page) = history.next_page().await? {
        seen.extend(page.iter().map(|view| view.version.get()));
        if output.is_json() {
            output.versions(&page)?;
        } else {
            all.extend(page);
        }
    }
    if !output.is_json() {
        output.versions(&all)?;
    }
    if args.limit.is_none() && !is_dense(args.from.unwrap_or(1), &seen) {
        let floor = connection.store.floor(&entity, connection.consistent).await?;
        say_missing(args.from.unwrap_or(1).max(floor.get()), &seen);
    }
    Ok(())
}

fn is_dense(from: u64, seen: &BTreeSet<u64>) -> bool {
    (from..).zip(seen).all(|(expected, number)| expected == *number)
}

/// Versions are dense, so one that is not there is missing: history lags, or has a gap.
fn say_missing(from: u64, seen: &BTreeSet<u64>) {
    let (mut expected, mut gaps) = (from, Vec::new());
    for number in seen.range(from..) {
        match number - expected {
            0 => {}
            1 => gaps.push(expected.to_string()),
            _ => gaps.push(format!("{expected} to {}", number - 1)),
        }
        expected = number + 1;
    }
    if !gaps.is_empty() {
        output::say_note(&format!("not in the history yet: {}", gaps.join(", ")));
    }
}

pub(crate) async fn diff(connection: &Connection, args: &args::Diff, output: &Output) -> Result<(), CliError> {
    let (from, to) = (
        one(connection, &args.id, args.from).await?,
        one(connection, &args.id, args.to).await?,
    );
    output.object(&Diff::new(from, to).to_json())
}

pub(crate) async fn lag(connection: &Connection, id: &str, output: &Output) -> Result<(), CliError> {
    let lag = connection.store.lag(&entity(id)?).await?;
    let lag = lag.ok_or_else(|| CliError::NotFound(format!("there is no {id}")))?;
    let through = lag.through.map_or(0, Version::get);
    let sentence = format!("head is {}, history through {through}", lag.head);
    output.sentence(&json!({"ID": id, "Head": lag.head, "Through": through}), &sentence)
}

async fn one(connection: &Connection, id: &str, number: u64) -> Result<VersionView, CliError> {
    let view = connection
        .store
        .version(&entity(id)?, version(number)?, connection.consistent)
        .await?;
    view.ok_or_else(|| CliError::NotFound(format!("there is no version {number} of {id}")))
}

/// A version by what the user called it.
pub(crate) fn version(number: u64) -> Result<Version, CliError> {
    Version::new(number).ok_or_else(|| CliError::Usage("versions count from 1".to_owned()))
}
