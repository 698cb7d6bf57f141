//! Items that are there, brought under versioning.

use futures::{StreamExt as _, TryStreamExt as _, stream};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use shared::{
    domain::{
        Item,
        backfill::{Mapping, Refusal, Template},
        names, plain,
    },
    dynamodb::{
        Store,
        maintain::{
            backfill::{Backfill, Counts, Progress},
            rate_limit::{Consumed, Limits, Pace},
        },
        read::{describe_table::Description, scan_segment::Segment},
    },
};

use crate::{
    args::{self, Args},
    checkpoint::Checkpoint,
    connection::Connection,
    error::CliError,
    output::Output,
    progress, writes,
};

/// What a killed backfill goes on from.
#[derive(Serialize, Deserialize, PartialEq)]
#[serde(rename_all = "PascalCase")]
struct State {
    command: String,
    table: String,
    from_table: String,
    version_digits: String,
    /// How entities are named.
    id: Option<String>,
    segments: Vec<Progress>,
    read_units: f64,
    write_units: f64,
}

impl State {
    fn counts(&self) -> Counts {
        let mut counts = Counts::default();
        for progress in &self.segments {
            counts.merge(&progress.counts);
        }
        counts
    }
}

pub(crate) async fn run(
    connection: &Connection,
    args: &Args,
    backfill: &args::Backfill,
    output: &Output,
) -> Result<(), CliError> {
    let from = backfill.from_table.as_deref().unwrap_or(&connection.table);
    let source = Store::new(connection.client.clone(), from, connection.store.digits());
    let table = source.describe().await?;
    let limits = Limits {
        read: backfill.max_read_units,
        write: backfill.max_write_units,
    };
    let pace = Pace::new(connection.pace_meter.clone(), limits);
    let job = Backfill {
        mapping: mapping(connection, args, backfill, from, &table)?,
        source,
        target: connection.store.clone(),
        options: writes::options(args)?,
        pace: pace.clone(),
        dry_run: backfill.dry_run,
    };
    let mut checkpoint = Checkpoint::new(backfill.state.as_deref());
    let mut state = begin(connection, backfill, from, &checkpoint)?;
    let (read_before, write_before) = (state.read_units, state.write_units);
    let total = u32::try_from(state.segments.len()).unwrap_or(u32::MAX);
    let job = &job;
    let segments = (0..total).zip(state.segments.clone()).map(|(index, progress)| {
        stream::try_unfold(progress, move |mut progress| async move {
            let refused = job.step(Segment { index, total }, &mut progress).await?;
            Ok::<_, CliError>(refused.map(|refused| ((index, refused, progress.clone()), progress)))
        })
        .boxed_local()
    });
    let mut steps = stream::select_all(segments);
    let bar = progress::Progress::new(table.items);
    while let Some((index, refused, progress)) = steps.try_next().await? {
        bar.around(|| {
            let mut refused = refused.iter();
            refused.try_for_each(|(item, why)| say_refused(&table, item, why, output))
        })?;
        if let Some(segment) = state.segments.get_mut(index as usize) {
            *segment = progress;
        }
        let Consumed { read, write } = pace.consumed();
        (state.read_units, state.write_units) = (read_before + read, write_before + write);
        checkpoint.save(&state)?;
        let counts = state.counts();
        bar.set(counts.items, format!(", {} written", counts.written));
    }
    drop(bar);
    checkpoint.remove()?;
    let counts = state.counts();
    output.object(&json!({
        "Items": counts.items,
        "Written": counts.written,
        "AlreadyThere": counts.already_there,
        "Skipped": counts.skipped,
        "Refused": counts.refused,
        "ReadUnits": state.read_units,
        "WriteUnits": state.write_units,
        "DryRun": backfill.dry_run,
    }))?;
    match counts.refused {
        0 => Ok(()),
        refused => Err(CliError::Wrong(format!(
            "{refused} items could not be brought under versioning"
        ))),
    }
}

/// How items become updates. Within one table, only where it is said how their entities are named.
fn mapping(
    connection: &Connection,
    args: &Args,
    backfill: &args::Backfill,
    from: &str,
    table: &Description,
) -> Result<Option<Mapping>, CliError> {
    let keys: Vec<_> = table.keys.iter().map(|(name, _)| name.clone()).collect();
    let id = match (&backfill.id, keys.as_slice()) {
        (Some(template), _) => template.clone(),
        (None, _) if from == connection.table => return Ok(None),
        (None, [key]) => Template::attribute(key),
        (None, _) => {
            let named: Vec<_> = keys.iter().map(|key| format!("{{{key}}}")).collect();
            return Err(CliError::Usage(format!(
                "{from} has two keys: name its entities, such as --id '{}'",
                named.join("#")
            )));
        }
    };
    if let Some(key) = keys.iter().find(|key| !id.names(key)) {
        return Err(CliError::Usage(format!(
            "--id: without {{{key}}}, two items can be one entity"
        )));
    }
    Ok(Some(Mapping {
        table: from.to_owned(),
        keys,
        id,
        rename: backfill.rename.iter().cloned().collect(),
        ordering: args.ordering,
    }))
}

fn begin(
    connection: &Connection,
    args: &args::Backfill,
    from: &str,
    checkpoint: &Checkpoint,
) -> Result<State, CliError> {
    let begun = State {
        command: "backfill".to_owned(),
        table: connection.table.clone(),
        from_table: from.to_owned(),
        version_digits: connection.store.digits().to_string(),
        id: args.id.as_ref().map(ToString::to_string),
        segments: Vec::new(),
        read_units: 0.0,
        write_units: 0.0,
    };
    let wanted = args.segments.unwrap_or(args::SEGMENTS) as usize;
    let Some(mut state) = checkpoint.load::<State>()? else {
        return Ok(State {
            segments: vec![Progress::default(); wanted],
            ..begun
        });
    };
    let segments = std::mem::take(&mut state.segments);
    let (read_units, write_units) = (state.read_units, state.write_units);
    (state.read_units, state.write_units) = (0.0, 0.0);
    if state != begun || args.segments.is_some_and(|wanted| wanted as usize != segments.len()) {
        return Err(CliError::Usage("--state: the file is of another run".to_owned()));
    }
    Ok(State {
        segments,
        read_units,
        write_units,
        ..begun
    })
}

fn say_refused(table: &Description, item: &Item, why: &Refusal, output: &Output) -> Result<(), CliError> {
    let keys = table.keys.iter().filter_map(|(name, _)| {
        let value = item.get(name)?;
        Some((name.clone(), plain::attribute(value)))
    });
    let keys: Map<String, Value> = keys.collect();
    output.object(&json!({"Key": keys, "Refused": why.to_string()}))
}

/// `OLD=NEW`.
pub(crate) fn rename(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((old, new)) if !old.is_empty() && !new.is_empty() => Ok((old.to_owned(), new.to_owned())),
        _ => Err(format!("a name is changed by OLD=NEW, such as {}=Expires", names::TTL)),
    }
}
