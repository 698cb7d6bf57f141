//! The operator's commands that read or write a whole table: requests, time and memory, for a table and for one with ten times as many items.
//!
//! Each command is a process of its own on the embedded DynamoDB. The larger table has 100,000 items, or the number in the environment variable
//! `VZERO_BENCH_ITEMS`, such as 1000000.

use std::time::Duration;

use aws_sdk_dynamodb::types::AttributeValue;
use shared::{
    domain::{entity::EntityId, keys::VersionDigits},
    dynamodb::Store,
};

use crate::{
    engine::Engine,
    error::BenchError,
    figure::{Figure, Plot, Target},
    harness::{Bench, Measured},
    seed,
    vzero::{self, Finished},
};

const ITEMS: &str = "VZERO_BENCH_ITEMS";
/// Number of items of an entity: its latest item, and its versions.
const ENTITY_ITEMS: u64 = 100;
/// One of this many entities lacks its newest version item, which `audit` finds and `repair` puts.
const BROKEN: u64 = 20;
/// Size of an attribute of each item: each segment of the smaller table has several pages of 1 MB. With fewer, the memory of a command is not
/// yet at its maximum.
const NOTE: usize = 2_000;
const TABLE: &str = "Operators";
const SOURCE: &str = "Source";
const SOURCE_KEY: &str = "Id";

/// Maximum ratios of a table with ten times as many items.
const MAX_REQUESTS: f64 = 1.2;
const MAX_TIME: f64 = 1.3;
const MAX_MEMORY: f64 = 1.15;

/// A command, its arguments, and its exit code.
const COMMANDS: [(&str, &[&str], i32); 5] = [
    ("audit --all", &["audit", "--all", "--lag", "0"], 4),
    ("repair --all", &["repair", "--all", "--lag", "0", "--yes"], 0),
    ("prune --all", &["prune", "--all", "--keep", "90"], 0),
    ("migrate", &["migrate", "--wait", "0s"], 0),
    ("backfill", &["backfill", "--from-table", SOURCE, "--yes"], 0),
];

/// A run of a command.
struct Run {
    requests: f64,
    finished: Finished,
}

pub(super) async fn measure(bench: &Bench) -> Result<Measured, BenchError> {
    bench.progress.show("operators: building vzero");
    let program = vzero::build(bench.prebuilt).await?;
    let items = bench.size(environment().unwrap_or(100_000), 3_000);
    let sizes = [items / 10, items];
    let mut runs = [Vec::new(), Vec::new()];
    for (size, runs) in sizes.iter().zip(&mut runs) {
        let engine = Engine::start().await?;
        bench.progress.show(&format!("operators: writing {size} items"));
        let store = seeded(&engine, *size).await?;
        let mut store = Some(store);
        for (name, arguments, code) in COMMANDS {
            let table = prepare(&engine, name, *size, &mut store).await?;
            bench.progress.show(&format!("operators: {name}, {size} items"));
            let before = engine.requests();
            let finished = vzero::run(&program, engine.endpoint(), table, arguments, code).await?;
            #[allow(clippy::cast_precision_loss, reason = "a few million")]
            let requests = (engine.requests() - before) as f64;
            runs.push(Run { requests, finished });
        }
    }
    let [tenth, all] = &runs;
    let named = COMMANDS.iter().zip(tenth.iter().zip(all));
    let figures = named
        .clone()
        .flat_map(|((name, ..), (tenth, run))| figures(name, sizes, [tenth, run]));
    let series = named.map(|((name, ..), (tenth, run))| {
        let points = sizes.into_iter().zip([tenth, run]).map(|(size, run)| point(size, run));
        ((*name).to_owned(), points.collect())
    });
    Ok(Measured {
        figures: figures.collect(),
        plot: Plot::Lines {
            x: "items",
            y: "µs CPU an item",
            series: series.collect(),
        },
    })
}

#[allow(clippy::disallowed_methods, reason = "an option of one comparison")]
fn environment() -> Option<u64> {
    std::env::var(ITEMS).ok()?.parse().ok()
}

/// Creates the table with complete histories, except for the broken ones.
async fn seeded(engine: &Engine, items: u64) -> Result<Store, BenchError> {
    let digits = VersionDigits::default();
    let store = engine.create(TABLE, digits).await?;
    let last = format!("v{}", ENTITY_ITEMS - 1);
    let all = (0..items / ENTITY_ITEMS).flat_map(move |index| {
        let (is_broken, last) = (index % BROKEN == 0, last.clone());
        let entity = EntityId::new(format!("Equipment#{index}")).into_iter();
        let items = entity.flat_map(move |entity| seed::items(entity, digits, ENTITY_ITEMS - 1));
        let items =
            items.filter(move |item| !is_broken || item.get("SK").and_then(|key| key.as_s().ok()) != Some(&last));
        items.map(with_note)
    });
    engine.import(TABLE, all).await?;
    Ok(store)
}

/// Prepares what a command needs, and returns its table.
async fn prepare(
    engine: &Engine,
    command: &str,
    items: u64,
    store: &mut Option<Store>,
) -> Result<&'static str, BenchError> {
    const TARGET: &str = "Target";
    match (command, store.take()) {
        ("migrate", Some(store)) => engine.add_history(store, format!("{TABLE}-history")).await?,
        ("backfill", _) => {
            engine.create(TARGET, VersionDigits::default()).await?;
            engine.create_plain(SOURCE, SOURCE_KEY).await?;
            engine.import(SOURCE, (0..items).map(source_item)).await?;
            return Ok(TARGET);
        }
        (_, kept) => *store = kept,
    }
    Ok(TABLE)
}

fn with_note(mut item: seed::SeedItem) -> seed::SeedItem {
    item.insert("Note".to_owned(), AttributeValue::S("x".repeat(NOTE)));
    item
}

fn source_item(index: u64) -> seed::SeedItem {
    let attributes = [(SOURCE_KEY, format!("Order#{index}")), ("State", "OK".to_owned())];
    let attributes = attributes.map(|(name, value)| (name.to_owned(), AttributeValue::S(value)));
    with_note(attributes.into())
}

#[allow(clippy::cast_precision_loss, reason = "a few million")]
fn point(items: u64, run: &Run) -> (f64, f64) {
    (items as f64, run.finished.cpu.as_secs_f64() * 1e6 / items as f64)
}

/// Returns the figures of a command, each compared with the table of a tenth of the items.
#[allow(clippy::cast_precision_loss, reason = "a few million")]
fn figures(command: &str, sizes: [u64; 2], runs: [&Run; 2]) -> Vec<Figure> {
    let [tenth, all] = sizes;
    let figure = |unit: &str, value: &dyn Fn(&Run) -> f64, is_each: bool, max: Option<f64>| {
        let of = |items: u64, run| value(run) / if is_each { items as f64 } else { 1.0 };
        let figure = Figure::new(format!("{unit}, {command}, {all} items"), of(all, runs[1]));
        Figure {
            target: max.map(Target::RatioAtMost),
            ..figure.compared_with(format!("{tenth} items"), of(tenth, runs[0]))
        }
    };
    let micros = |time: Duration| time.as_secs_f64() * 1e6;
    vec![
        figure("requests an item", &|run| run.requests, true, Some(MAX_REQUESTS)),
        figure("µs CPU an item", &|run| micros(run.finished.cpu), true, Some(MAX_TIME)),
        // Most of it is the time of the embedded DynamoDB.
        figure("µs an item", &|run| micros(run.finished.elapsed), true, None),
        figure(
            "MB at most",
            &|run| run.finished.memory as f64 / 1e6,
            false,
            Some(MAX_MEMORY),
        ),
    ]
}
