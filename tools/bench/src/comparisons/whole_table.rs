//! Commands on a whole table, each in a process of its own: `vzero log --all`, `snapshot`, `diff --all`, `undo` and
//! `admin prune --all`. The embedded database is in this process, whose memory is not measured.
//!
//! The writer writes [`WRITTEN`] entities, whose items are then copied under the keys of all others.

use std::{
    collections::BTreeSet,
    io,
    net::{Ipv4Addr, TcpListener},
    path::Path,
    process::{ExitStatus, Stdio},
    time::{Duration, Instant},
};

use aws_sdk_dynamodb::Client;
use local::dynamodb::{Embedded, sdk_config};
use operations::{
    read::items::scan_items,
    table::{create::create_table, settings::TableSettings},
};
use serde_json::json;
use shared::{
    clock::Clock,
    config::{Ordering, WriteMode, WriteOptions},
    domain::{Item, entity::is_reserved, keys::VersionDigits, keys::partition_key_of, recorded_at::RecordedAt},
    dynamodb::Store,
};
use tokio::{
    io::{AsyncBufReadExt as _, AsyncRead, AsyncReadExt as _, BufReader},
    process::Command,
    time::sleep,
};
use writer_fn::{counter, update::Update};

use crate::{
    error::{BenchError, cannot},
    figure::{Figure, Target, megabytes},
    harness::Bench,
    hosted::peak_memory,
    subject,
};

const TABLE: &str = "VersionControl";
/// Versions of each entity. The fifth one is the job's.
const VERSIONS: u64 = 10;
const JOB: (u64, &str) = (5, "import-7");
/// The command that prints only a summary.
const PRUNE: &str = "prune";
/// Entities that the writer writes, the minimum of a table.
const WRITTEN: u64 = 20;
/// Entities whose items are copied in one transaction.
const COPIED: u64 = 2_000;
/// Seconds between two versions of an entity. The first one is of this time, in seconds since 1970.
const INTERVAL: u64 = 1_000;
const FIRST: u64 = 1_767_225_600;
/// Maximum number of entities beside which the others are measured.
const FEW: u64 = 10_000;
/// Maximum memory of a command, in MB, and its maximum growth with more entities: the variance of the allocator.
const MAX_MEMORY: f64 = 200.0;
const MAX_GROWTH: f64 = 1.05;
/// Maximum exponent with which the time of a command grows with the entities: 1 is in proportion, 1.1 is 26 % more at ten times the entities, because
/// the database has a deeper tree and a colder cache.
const MAX_EXPONENT: f64 = 1.1;
/// Interval in which the peak memory of a running process is read.
const POLL: Duration = Duration::from_millis(5);

/// A command, and what its figures count.
struct Measured {
    name: &'static str,
    arguments: Vec<String>,
    counted: &'static str,
    /// Number of items for each entity.
    each: u64,
}

/// Output of a process: its lines, text on standard error, duration in seconds, and peak memory in MB.
struct Ended {
    lines: u64,
    errors: String,
    seconds: f64,
    memory: f64,
}

pub(super) async fn measure(bench: &Bench) -> Result<Vec<Figure>, BenchError> {
    let vzero = match &bench.vzero {
        Some(vzero) if !vzero.is_file() => {
            let vzero = vzero.display();
            return Err(BenchError::Usage(format!(
                "there is no program {vzero}: build it with cargo build --release -p vzero"
            )));
        }
        Some(vzero) => vzero.clone(),
        None => subject::build_vzero().await?,
    };
    // The units of an item do not depend on the number of items.
    let units = run(&vzero, bench.size(1_000, 100), true).await?;
    let many = bench.entities.unwrap_or_else(|| bench.size(20_000, 1_000));
    let mut results = Vec::new();
    let sizes = [many / 1_000, many / 100, many / 10, (many / 3).min(FEW), many];
    for size in BTreeSet::from(sizes.map(|size| size.max(WRITTEN))) {
        results.push((size, run(&vzero, size, false).await?.into_iter()));
    }
    let mut figures = Vec::new();
    for (command, metered) in units {
        let (name, counted, each) = (command.name, command.counted, command.each);
        let ended = results.iter_mut().map(|(size, all)| Some((*size, all.next()?.1)));
        let ended: Vec<(u64, Ended)> = ended.flatten().collect();
        let [.., (few, small), (_, large)] = ended.as_slice() else {
            continue;
        };
        let figure = |unit: String, value| Figure::new(format!("{unit}, {name}"), value);
        let memory = |size: u64, ended: &Ended| figure(format!("MB resident, {size} entities"), ended.memory);
        let rate = count(many * each) / large.seconds;
        figures.push(figure(format!("{counted} a second"), rate));
        for (kind, units) in metered_units(&metered.errors) {
            let units = units / count(bench.size(1_000, 100) * each);
            figures.extend((units > 0.0).then(|| figure(format!("{kind} units for each of the {counted}"), units)));
        }
        for (size, ended) in &ended {
            figures.push(figure(format!("s, {size} entities"), ended.seconds));
            figures.extend((*size < many).then(|| memory(*size, ended)));
        }
        let growth = memory(many, large).compared_with(format!("{few} entities"), small.memory);
        let exponent = (large.seconds / small.seconds).ln() / (count(many) / count(*few)).ln();
        let exponent = figure(format!("exponent of the time from {few} entities"), exponent);
        figures.extend([
            memory(many, large).with_target(Target::AtMost(MAX_MEMORY)),
            growth.with_target(Target::RatioAtMost(MAX_GROWTH)),
            exponent.with_target(Target::AtMost(MAX_EXPONENT)),
        ]);
    }
    Ok(figures)
}

#[allow(clippy::cast_precision_loss, reason = "some millions")]
fn count(items: u64) -> f64 {
    items as f64
}

/// Returns the commands. Those that write are the last.
fn commands() -> [Measured; 5] {
    let at = |version: u64| {
        RecordedAt::since_epoch(Duration::from_secs(FIRST + version * INTERVAL + INTERVAL / 2)).to_string()
    };
    let (before, after) = (at(JOB.0 - 1), at(JOB.0));
    let command = |name, arguments: &[&str], counted, each| Measured {
        name,
        arguments: arguments.iter().map(|argument| (*argument).to_owned()).collect(),
        counted,
        each,
    };
    [
        command("log", &["log", "--all"], "versions", VERSIONS),
        command("snapshot", &["snapshot", "--at", &after], "entities", 1),
        command(
            "diff",
            &["diff", "--all", "--from-time", &before, "--to-time", &after],
            "entities",
            1,
        ),
        command("undo", &["undo", "--actor", JOB.1], "entities", 1),
        command(PRUNE, &["admin", "prune", "--all", "--keep", "5"], "entities", 1),
    ]
}

/// Runs all commands on a table of so many entities. If `is_metered`, they print the units of each request.
async fn run(vzero: &Path, entities: u64, is_metered: bool) -> Result<Vec<(Measured, Ended)>, BenchError> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let embedded = Embedded::serve(listener, None).map_err(cannot("serve the database"))?;
    populate(&embedded, entities).await?;
    let mut results = Vec::new();
    for measured in commands() {
        let mut command = Command::new(vzero);
        command.args(&measured.arguments).args([
            "--output",
            "json",
            "--yes",
            "--attempt-timeout-ms",
            "20000",
            // Sets a limit for pages: without one, the embedded database reads all further items of the segment for each.
            "--max-read-units",
            "8000",
            "--endpoint-url",
            embedded.direct_endpoint(),
        ]);
        command.args(is_metered.then_some("--consumed-capacity"));
        let ended = ended(command).await?;
        let is_summary = measured.name == PRUNE;
        let expected = if is_summary { 1 } else { entities * measured.each };
        // The log and the undo end with a line of their own.
        if !(expected..=expected + 1).contains(&ended.lines) {
            let (name, lines) = (measured.name, ended.lines);
            return Err(BenchError::Failed(format!(
                "{name} printed {lines} lines for {expected}"
            )));
        }
        results.push((measured, ended));
    }
    Ok(results)
}

/// Creates the table of so many entities, as the functions would leave it.
async fn populate(embedded: &Embedded, entities: u64) -> Result<(), BenchError> {
    let client = Client::new(&sdk_config(embedded.direct_endpoint()).await);
    let store = Store::new(client, TABLE, VersionDigits::default());
    let settings = TableSettings {
        point_in_time_recovery: false,
        // The embedded database would read all items again and again, and other requests would wait.
        ttl: None,
        ..TableSettings::default()
    };
    create_table(&store, &settings)
        .await
        .map_err(cannot("create the table"))?;
    store.claim_layout().await.map_err(cannot("store the layout"))?;
    let inline = WriteOptions {
        mode: WriteMode::Inline,
        ..WriteOptions::default()
    };
    for entity in 0..WRITTEN {
        for version in 1..=VERSIONS {
            let store = store.clone().with_clock(Clock::new(move || {
                Duration::from_secs(FIRST + version * INTERVAL + entity)
            }));
            let request = format!("request-{entity}-{version}");
            let update = Update::parse(update(entity, version), &request, Ordering::Arrival)
                .map_err(cannot("parse an update"))?;
            counter::write(&store, &update, inline)
                .await
                .map_err(cannot("write an update"))?;
        }
    }
    let written = scan_items(&store).await.map_err(cannot("read the items"))?;
    let written: Vec<Vec<Item>> = (0..WRITTEN)
        .map(|number| {
            let of_entity =
                |item: &&Item| partition_key_of(item).is_some_and(|id| !is_reserved(id) && id == key(number));
            written.iter().filter(of_entity).cloned().collect()
        })
        .collect();
    for first in (0..entities).step_by(usize::try_from(COPIED).unwrap_or(1)) {
        for (number, items) in (0..).zip(&written) {
            let keys = (first..entities.min(first + COPIED))
                .filter(|entity| entity % WRITTEN == number)
                .map(key);
            embedded
                .put_copies(TABLE, items, keys)
                .map_err(cannot("put the items"))?;
        }
    }
    Ok(())
}

fn key(entity: u64) -> String {
    format!("Equipment#{entity:08}")
}

/// Returns an update that changes two of the attributes. The item has just under 500 bytes.
fn update(entity: u64, version: u64) -> serde_json::Value {
    let (number, actor) = JOB;
    let mut update = json!({
        "ID": key(entity), "State": format!("STATE{version}"), "Location": {"Hall": format!("H{entity}"), "Row": 12},
        "Readings": [71.0, 71.1, 71.3, 71.2], "Note": "x".repeat(200), "Actor": "collector",
    });
    if version >= number {
        update["Price"] = 7.into();
    }
    if version == number {
        update["Actor"] = actor.into();
        update["State"] = format!("STATE{}", version - 1).into();
    }
    update
}

/// Runs a command to its end.
async fn ended(mut command: Command) -> Result<Ended, BenchError> {
    command
        .env("AWS_REGION", "us-east-1")
        .env("AWS_ACCESS_KEY_ID", "bench")
        .env("AWS_SECRET_ACCESS_KEY", "bench")
        // The embedded database can be busy with a page for longer than an attempt to connect.
        .env("AWS_EC2_METADATA_DISABLED", "true")
        .env("AWS_MAX_ATTEMPTS", "10");
    command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true);
    let started = Instant::now();
    let mut child = command.spawn()?;
    let (pid, output, errors) = (child.id(), child.stdout.take(), child.stderr.take());
    let mut memory = 0;
    let poll = async {
        loop {
            memory = pid.and_then(peak_memory).unwrap_or_default().max(memory);
            sleep(POLL).await;
        }
    };
    let (output, mut text) = (lines(output), String::new());
    let all = async {
        let read = async {
            match errors {
                Some(mut errors) => errors.read_to_string(&mut text).await,
                None => Ok(0),
            }
        };
        let (lines, _) = tokio::try_join!(output, read)?;
        Ok::<_, io::Error>((lines, child.wait().await?))
    };
    let (lines, status) = tokio::select! {
        all = all => all?,
        () = poll => (0, ExitStatus::default()),
    };
    let ended = Ended {
        lines,
        errors: text,
        seconds: started.elapsed().as_secs_f64(),
        memory: megabytes(memory),
    };
    match status.success() {
        true => Ok(ended),
        false => Err(BenchError::Failed(format!("vzero failed, {status}: {}", ended.errors))),
    }
}

/// Counts the lines of a stream.
async fn lines(stream: Option<impl AsyncRead + Unpin>) -> io::Result<u64> {
    let Some(stream) = stream else { return Ok(0) };
    let (mut lines, mut count) = (BufReader::new(stream).split(b'\n'), 0);
    while lines.next_segment().await?.is_some() {
        count += 1;
    }
    Ok(count)
}

/// Returns the read and the write units of lines as `Query: 0.5 units`.
fn metered_units(text: &str) -> [(&'static str, f64); 2] {
    let mut units = [("read", 0.0), ("write", 0.0)];
    let charges = text
        .lines()
        .filter_map(|line| line.strip_suffix(" units")?.split_once(": "));
    for (operation, charge) in charges {
        let is_write = ["Put", "Update", "Delete", "TransactWrite", "BatchWrite"]
            .iter()
            .any(|write| operation.starts_with(write));
        units[usize::from(is_write)].1 += charge.parse().unwrap_or(0.0);
    }
    units
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_are_those_of_reads_and_of_writes() {
        let text =
            "note: x\nScan: 128.5 units\nGetItem: 1 units\nUpdateItem: 2 units\ntotal: 131.5 units in 3 requests\n";
        assert_eq!(metered_units(text), [("read", 129.5), ("write", 2.0)]);
    }

    #[tokio::test]
    async fn a_process_has_lines_errors_and_memory() {
        let mut command = Command::new("sh");
        command.args(["-c", "echo 1; echo 2; sleep 0.1; echo failed >&2"]);
        let ended = ended(command).await.unwrap();
        assert_eq!((ended.lines, ended.errors.as_str()), (2, "failed\n"));
        assert!(ended.memory > 0.1 && ended.seconds > 0.1);
        assert!(super::ended(Command::new("false")).await.is_err());
    }
}
