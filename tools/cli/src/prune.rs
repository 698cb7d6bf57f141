//! Old versions taken away, single ones kept, and whole entities deleted.

use std::{
    io::{self, BufRead as _, IsTerminal as _},
    time::Duration,
};

use futures::{StreamExt as _, TryStreamExt as _, stream};
use jiff::SpanRelativeTo;
use serde_json::{Map, Value, json};
use shared::{
    clock,
    domain::{keys::ItemKind, prune::Keep, time::EpochMillis, version::Version},
    dynamodb::maintain::{
        purge::Tally,
        rate_limit::{Limits, Pace},
    },
};

use crate::{
    args,
    connection::{Connection, entity},
    error::CliError,
    output::{self, Output},
    progress::Progress,
    reads::version,
};

/// The most marks under way at once.
const CONCURRENCY: usize = 16;

pub(crate) async fn prune(connection: &Connection, args: &args::Prune, output: &Output) -> Result<(), CliError> {
    let store = &connection.store;
    let entity = entity(&args.id)?;
    let now = clock::since_epoch();
    let keep = match (args.keep, args.older_than) {
        (Some(count), _) => Keep::Newest(count.get()),
        (None, Some(age)) => {
            let since = now.saturating_sub(age).as_millis();
            Keep::Since(EpochMillis::new(i64::try_from(since).unwrap_or(i64::MAX)))
        }
        (None, None) => return Err(CliError::Usage("--keep or --older-than says what is kept".to_owned())),
    };
    let limits = Limits {
        read: args.max_read_units,
        write: args.max_write_units,
    };
    let pace = Pace::new(connection.pace_meter.clone(), limits);
    let plan = store.plan_prune(&entity, keep, args.over_gaps, &pace).await?;
    let plan = plan.ok_or_else(|| CliError::NotFound(format!("there is no {}", args.id)))?;
    if let Some(missing) = plan.stopped_at {
        output::say_note(&format!(
            "version {missing} is missing, and the floor stays below it; --over-gaps raises it all the same"
        ));
    }
    let expires = now + args.grace;
    let mut marked = 0u64;
    if args.dry_run {
        marked = plan.mark.len();
    } else {
        if plan.floor > plan.before {
            pace.run(async || store.raise_floor(&entity, plan.floor).await).await?;
        }
        let bar = Progress::new(plan.mark.len());
        let (pace, entity) = (&pace, &entity);
        let mut marks = stream::iter(plan.mark.numbers().filter_map(Version::new))
            .map(|version| async move {
                let mark = pace.run(async || store.mark_version(entity, version, expires).await);
                mark.await
            })
            .buffer_unordered(CONCURRENCY);
        while let Some(is_marked) = marks.try_next().await? {
            marked += u64::from(is_marked);
            bar.set(marked, String::new());
        }
    }
    output.object(&json!({
        "ID": args.id,
        "Floor": plan.floor,
        "Marked": marked,
        "Left": plan.settled,
        "Expires": expires.as_secs(),
        "DryRun": args.dry_run,
    }))
}

/// An age: `90d`, `12h`. A day has 24 hours.
pub(crate) fn age(text: &str) -> Result<Duration, String> {
    let span: jiff::Span = text
        .parse()
        .map_err(|_| "an age is such as 90d, 12h or 30m".to_owned())?;
    let age = span.to_duration(SpanRelativeTo::days_are_24_hours());
    let age = age.map_err(|_| "months and years have no fixed length: say it in days".to_owned())?;
    Duration::try_from(age).map_err(|_| "an age is not negative".to_owned())
}

pub(crate) async fn pin(connection: &Connection, args: &args::Pin, output: &Output) -> Result<(), CliError> {
    let (store, entity, number) = (&connection.store, entity(&args.id)?, version(args.number)?);
    let found = if args.unpin {
        store.unpin_version(&entity, number).await?
    } else {
        store.pin_version(&entity, number, clock::since_epoch()).await?
    };
    if !found {
        return Err(CliError::NotFound(format!(
            "there is no version {number} of {}",
            args.id
        )));
    }
    if args.unpin && number < store.floor(&entity, true).await? {
        output::say_note("it is below the floor: the next prune marks it");
    }
    output.object(&json!({"ID": args.id, "Version": number, "Pinned": !args.unpin}))
}

pub(crate) async fn purge(connection: &Connection, args: &args::Purge, output: &Output) -> Result<(), CliError> {
    let (store, entity) = (&connection.store, entity(&args.id)?);
    let there = store.tally(&entity).await?;
    if there.is_empty() {
        return Err(CliError::NotFound(format!("there is no {}", args.id)));
    }
    if args.dry_run {
        return output.object(&json!({"ID": args.id, "WouldDelete": shown(&there)}));
    }
    if !args.yes {
        ask(&args.id, &there)?;
    }
    let mut deleted = Tally::new();
    let mut done = store.purge(&entity, &mut deleted).await;
    if done.is_ok() && !args.wait.is_zero() {
        tokio::time::sleep(args.wait).await;
        // What was under way in the stream.
        done = store.purge(&entity, &mut deleted).await;
    }
    // What was deleted is said, however it ended.
    output.object(&json!({"ID": args.id, "Deleted": shown(&deleted)}))?;
    Ok(done?)
}

fn shown(tally: &Tally) -> Value {
    let name = |kind: &ItemKind| match kind {
        ItemKind::Latest => "v0",
        ItemKind::Version => "versions",
        ItemKind::Floor => "floor",
        ItemKind::Metadata => "metadata",
        ItemKind::Request => "requests",
        ItemKind::State => "states",
        ItemKind::Other => "other",
    };
    let members = tally.iter().map(|(kind, count)| (name(kind).to_owned(), json!(count)));
    Value::Object(members.collect::<Map<_, _>>())
}

/// Nothing but the entity's own name will do.
fn ask(id: &str, there: &Tally) -> Result<(), CliError> {
    let refused = |why: &str| CliError::Usage(format!("purge asks before it deletes: {why}"));
    let stdin = io::stdin();
    if !stdin.is_terminal() {
        return Err(refused("standard input is no terminal, and there is no --yes"));
    }
    output::say_note(&format!("{id} has {}. All of it will be gone for good.", shown(there)));
    output::say_note("type the ID to delete it:");
    let mut line = String::new();
    stdin.lock().read_line(&mut line)?;
    if line.trim_end_matches(['\r', '\n']) == id {
        Ok(())
    } else {
        Err(refused("that was another ID, nothing is deleted"))
    }
}
