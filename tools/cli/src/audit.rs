//! Whether the versions that should be there are there.

use std::time::Duration;

use futures::{StreamExt as _, TryStreamExt as _, stream};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use shared::dynamodb::{
    maintain::{
        audit::{Audited, Auditor},
        audit_segment::{Counts, Progress, SegmentAudit, Step},
        rate_limit::{Limits, Pace},
    },
    read::scan_segment::Segment,
};

use crate::{
    args,
    checkpoint::Checkpoint,
    connection::{Connection, entity},
    error::CliError,
    output::{self, Output},
    progress,
};

pub(crate) async fn run(connection: &Connection, args: &args::Audit, output: &Output) -> Result<(), CliError> {
    if !args.all && (args.state.is_some() || args.segments.is_some()) {
        return Err(CliError::Usage("--state and --segments are for --all".to_owned()));
    }
    let limits = Limits {
        read: args.max_read_units,
        write: None,
    };
    let pace = Pace::new(connection.pace_meter.clone(), limits);
    let mut report = Report {
        output,
        rows: Vec::new(),
    };
    let (counts, read_units, not_found) = if args.all {
        let (counts, read_units) = table(connection, args, &pace, &mut report).await?;
        (counts, read_units, None)
    } else {
        let (counts, not_found) = entities(connection, args, &pace, &mut report).await?;
        (counts, pace.consumed().read, not_found)
    };
    report.end(&counts, read_units)?;
    if counts.wrong {
        return Err(CliError::Wrong("the audit found something wrong".to_owned()));
    }
    not_found.map_or(Ok(()), |id| Err(CliError::NotFound(format!("there is no {id}"))))
}

/// Audits single entities, and waits for what may be on its way once for all of them. Tells the last one that is not there.
async fn entities(
    connection: &Connection,
    args: &args::Audit,
    pace: &Pace,
    report: &mut Report<'_>,
) -> Result<(Counts, Option<String>), CliError> {
    let mut auditor = Auditor::new(connection.store.clone(), pace.clone(), lag(args), Vec::new());
    let (mut counts, mut not_found) = (Counts::default(), None);
    for id in &args.ids {
        let entity = entity(id)?;
        let Some((versions, findings)) = auditor.entity(&entity).await? else {
            output::say_note(&format!("there is no {id}"));
            not_found = Some(id.clone());
            continue;
        };
        counts.entities += 1;
        counts.versions += versions;
        let audited = Audited { entity, findings };
        counts.add(&audited);
        report.say(&audited)?;
    }
    while let Some(audited) = auditor.settle().await? {
        counts.add(&audited);
        report.say(&audited)?;
    }
    Ok((counts, not_found))
}

/// What a killed audit goes on from.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct State {
    command: String,
    table: String,
    version_digits: String,
    segments: Vec<Progress>,
    read_units: f64,
}

impl State {
    fn counts(&self) -> Counts {
        let mut counts = Counts::default();
        self.segments.iter().for_each(|progress| counts.merge(&progress.counts));
        counts
    }
}

async fn table(
    connection: &Connection,
    args: &args::Audit,
    pace: &Pace,
    report: &mut Report<'_>,
) -> Result<(Counts, f64), CliError> {
    let mut checkpoint = Checkpoint::new(args.state.as_deref());
    let mut state = begin(connection, args, &checkpoint)?;
    let read_before = state.read_units;
    let total = u32::try_from(state.segments.len()).unwrap_or(u32::MAX);
    let segments = (0..total).zip(state.segments.clone()).map(|(index, progress)| {
        let (store, pace) = (connection.store.clone(), pace.clone());
        let audit = SegmentAudit::new(store, pace, lag(args), Segment { index, total }, progress);
        stream::try_unfold(audit, move |mut audit| async move {
            let step = audit.step().await?;
            Ok::<_, CliError>(step.map(|step| ((index, step), audit)))
        })
        .boxed_local()
    });
    let items = connection.store.describe().await.map_or(0, |table| table.items);
    let bar = progress::Progress::new(items);
    let mut steps = stream::select_all(segments);
    loop {
        let next = match checkpoint.due() {
            Some(due) => tokio::time::timeout_at(due, steps.try_next()).await,
            None => Ok(steps.try_next().await),
        };
        let Ok(next) = next else {
            checkpoint.save(&state)?;
            continue;
        };
        let Some((index, Step { audited, progress })) = next? else {
            break;
        };
        bar.around(|| audited.iter().try_for_each(|audited| report.say(audited)))?;
        if let Some(segment) = state.segments.get_mut(index as usize) {
            *segment = progress;
        }
        state.read_units = read_before + pace.consumed().read;
        checkpoint.save(&state)?;
        let counts = state.counts();
        let found: u64 = counts.findings.values().sum();
        bar.set(counts.items, format!(", {found} findings"));
    }
    checkpoint.remove()?;
    Ok((state.counts(), state.read_units))
}

fn begin(connection: &Connection, args: &args::Audit, checkpoint: &Checkpoint) -> Result<State, CliError> {
    let digits = connection.store.digits().to_string();
    let Some(state) = checkpoint.load::<State>()? else {
        return Ok(State {
            command: "audit".to_owned(),
            table: connection.table.clone(),
            version_digits: digits,
            segments: vec![Progress::default(); args.segments.unwrap_or(args::SEGMENTS) as usize],
            read_units: 0.0,
        });
    };
    let is_ours = state.command == "audit" && state.table == connection.table && state.version_digits == digits;
    let is_split_so = args
        .segments
        .is_none_or(|segments| segments as usize == state.segments.len());
    if !is_ours || !is_split_so {
        return Err(CliError::Usage(format!(
            "--state: the file is of another run: {} of {} with {} segments",
            state.command,
            state.table,
            state.segments.len()
        )));
    }
    Ok(state)
}

fn lag(args: &args::Audit) -> Duration {
    Duration::from_secs(args.lag)
}

/// Findings as they come, or as one table at the end.
struct Report<'a> {
    output: &'a Output,
    rows: Vec<Vec<String>>,
}

impl Report<'_> {
    fn say(&mut self, audited: &Audited) -> Result<(), CliError> {
        for finding in &audited.findings {
            let json = finding.to_json(&audited.entity);
            if self.output.is_json() {
                self.output.object(&json)?;
                continue;
            }
            let cell = |value: Option<&Value>| match value {
                Some(Value::String(text)) => text.clone(),
                Some(value) => value.to_string(),
                None => String::new(),
            };
            let Value::Object(mut members) = json else { continue };
            let (id, name) = (members.shift_remove("ID"), members.shift_remove("Finding"));
            let about: Vec<_> = members
                .iter()
                .map(|(name, value)| format!("{name} {}", cell(Some(value))))
                .collect();
            self.rows
                .push(vec![cell(id.as_ref()), cell(name.as_ref()), about.join(", ")]);
        }
        Ok(())
    }

    fn end(&self, counts: &Counts, read_units: f64) -> Result<(), CliError> {
        if !self.rows.is_empty() {
            output::say_table(&["ID", "Finding", ""], &self.rows)?;
        }
        let findings: Map<String, Value> = counts
            .findings
            .iter()
            .map(|(name, count)| (name.clone(), json!(count)))
            .collect();
        self.output.object(&json!({
            "Entities": counts.entities,
            "Versions": counts.versions,
            "Findings": findings,
            "ReadUnits": read_units,
        }))
    }
}
