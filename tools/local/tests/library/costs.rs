//! Consumed capacity of writes, compared with `docs/costs.md` and `docs/indexes.md`, and requests of concurrent writers.

use std::time::Duration;

use aws_sdk_dynamodb::types::ScalarAttributeType;
use futures::future::join_all;
use patterns::time_series::{StateTime, TimeSeries};
use sealing::{
    sealer::Sealed,
    settings::{LogPlace, Settings},
};
use serde_json::json;
use shared::{domain::keys::VersionDigits, dynamodb::Store};
use testkit::{
    database::{Database, KEYS, add_index, entity},
    endpoint::{is_about_one_table, is_skipped},
    pages::rows,
    table::create_history,
    updates::{MODES, WriteMode, WriteOutcome, ledger, mode, parse},
    world::World,
};

use crate::time_index::indexed;

/// Write units of requests, without those of reads.
fn write_units(consumed: &[(&str, f64)]) -> f64 {
    let is_write = |operation: &str| !operation.starts_with("Get") && operation != "Query";
    consumed
        .iter()
        .filter(|(operation, _)| is_write(operation))
        .map(|(_, units)| units)
        .sum()
}

#[tokio::test]
async fn measured_idempotency_costs_match_the_documentation() {
    /// Number of updates: complete rounds of pruning, after the first.
    const UPDATES: u32 = 160;
    let database = Database::start().await;
    let is_mode = |row: &Vec<String>| row[0].parse::<WriteMode>().is_ok();
    for (index, row) in rows("docs/costs.md").into_iter().filter(is_mode).enumerate() {
        let of_mode: WriteMode = row[0].parse().unwrap();
        // Some engines report too few write units for a transaction.
        let is_ledger = row[1] == "ledger";
        if is_ledger && database.endpoint.differs(&["transaction-units"]) {
            continue;
        }
        let options = if is_ledger { ledger(of_mode) } else { mode(of_mode) };
        let world = World::new(&database, &format!("Idempotency{index}"), 1)
            .await
            .with(options);
        let mut units = 0.0;
        for number in 0..UPDATES {
            // Just under 600 bytes with its keys, the number of the version and its request id.
            let json = json!({"ID": "Equipment#1", "State": "x".repeat(515), "N": number});
            let update = parse(json, &uuid::Uuid::new_v4().to_string());
            database.consumed();
            database.requests.take();
            world.record(&update).await.unwrap();
            units += write_units(&database.consumed());
            // Every item is below 1 KB. A failed condition consumes a unit, which the response does not contain.
            units += f64::from(database.requests.take().failed_conditions);
        }
        let (measured, documented): (f64, f64) = (units / f64::from(UPDATES), row[2].parse().unwrap());
        assert!((measured - documented).abs() < 0.005, "{row:?}: {measured}");
    }
}

/// A row of the table in `docs/costs.md`: name, write units, write units in the history table, read units.
type Row = (String, f64, f64, f64);

/// Measures the second version, with a latest item of just under 1 KB.
async fn measured(database: &Database, has_own_history: bool, write_mode: WriteMode) -> Row {
    let name = format!("{write_mode:?}").to_lowercase();
    let mut world = World::new(database, &format!("{name}-{has_own_history}"), 1)
        .await
        .in_mode(write_mode);
    with_history(&mut world, has_own_history).await;
    world.write(json!({"State": "x".repeat(700)})).await.unwrap();
    database.consumed();
    database.requests.take();
    world.apply(json!({"State": "x".repeat(700)})).await.unwrap();
    let mut consumed = database.consumed();
    if write_mode == WriteMode::Stream {
        world.put_version().await;
        // On AWS the stream delivers the image; this test reads it.
        let is_put = |(operation, _): &(&str, f64)| *operation != "GetItem";
        consumed.extend(database.consumed().into_iter().filter(is_put));
    }
    let statements = consumed
        .iter()
        .filter(|(operation, _)| *operation == "BatchExecuteStatement");
    let statements: f64 = statements.map(|(_, units)| units).sum();
    let in_history = match (
        has_own_history,
        database.requests.take().transactions.get(world.store.history_table()),
    ) {
        (true, transactions) => statements + transactions.copied().unwrap_or_default(),
        (false, _) => 0.0,
    };
    let (writes, all) = (
        write_units(&consumed),
        consumed.iter().map(|(_, units)| units).sum::<f64>(),
    );
    (
        name + if has_own_history { ", own" } else { "" },
        writes,
        in_history,
        all - writes,
    )
}

/// Stores versions in a history table, or beside the latest items, with any layout of the tests.
async fn with_history(world: &mut World<'_>, has_own_history: bool) {
    let history = format!("{}-versions", world.table);
    if has_own_history {
        world.database.table(&history, &KEYS).await;
    }
    let history = has_own_history.then(|| world.database.table_name(&history));
    world.store = world.store.clone().with_history(history);
}

#[tokio::test]
async fn measured_costs_match_the_documentation() {
    if is_about_one_table() {
        return;
    }
    let database = Database::start().await;
    // Versions are inserted by statements, whose units DynamoDB Local does not count as AWS does.
    let rows_of_statements = ["statement-units", "large-statement-units"];
    let is_metered = !database.endpoint.differs(&rows_of_statements);
    let mut measured_rows = Vec::new();
    for has_own_history in if is_metered { vec![false, true] } else { vec![false] } {
        for mode in MODES {
            measured_rows.push(measured(&database, has_own_history, mode).await);
        }
    }
    database.store("Table", 1).await;
    let series = TimeSeries::new(database.client.clone(), database.table_name("Table"));
    let (time, state) = (
        StateTime::parse("2020-11-12T20:04:00").unwrap(),
        json!({"State": {"S": "x".repeat(850)}}),
    );
    database.consumed();
    let state = serde_json::from_value(state).unwrap();
    series.put(&entity("series"), &time, state, false).await.unwrap();
    measured_rows.push(("state".to_owned(), database.units(), 0.0, 0.0));
    let documented = rows("docs/costs.md")
        .into_iter()
        .filter(|row| row[0].starts_with('`'))
        .map(|row| {
            let [writes, in_history, reads] = [2, 3, 4].map(|cell| row[cell].parse().unwrap());
            (row[0].trim_matches('`').to_owned(), writes, in_history, reads)
        });
    let is_measured = |row: &Row| is_metered || !row.0.ends_with(", own");
    assert_eq!(measured_rows, documented.filter(is_measured).collect::<Vec<_>>());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn twenty_concurrent_writers_of_one_entity_take_few_requests() {
    const WRITERS: u32 = 20;
    const UPDATES: u32 = 20;
    /// Maximum number of requests of an update, on average. `docs/adr/0019-author-and-time-of-a-version.md` names it.
    const MAX_REQUESTS: f64 = 3.0;
    let database = Database::start().await;
    let world = World::new(&database, "Table", 1).await.in_mode(WriteMode::Stream);
    let writer = async || {
        for _ in 0..UPDATES {
            let outcome = world.apply(json!({"State": "OK"})).await;
            assert!(matches!(outcome, Ok(WriteOutcome::Written { .. })), "{outcome:?}");
        }
    };
    database.requests.take();
    join_all((0..WRITERS).map(|_| writer())).await;
    // Successful requests, and those whose condition failed.
    let requests = u32::try_from(database.consumed().len()).unwrap() + database.requests.take().failed_conditions;
    let requests = f64::from(requests) / f64::from(WRITERS * UPDATES);
    assert!(requests <= MAX_REQUESTS, "{requests} requests per update");
    assert_eq!(world.latest().await.version.get(), u64::from(WRITERS * UPDATES));
}

type Index = (&'static str, &'static [(&'static str, ScalarAttributeType)]);

const INDEXES: [Index; 2] = [
    ("ByState", &[("State", ScalarAttributeType::S)]),
    (
        "LatestByState",
        &[("State", ScalarAttributeType::S), ("Latest", ScalarAttributeType::N)],
    ),
];

/// Returns the number of entries of an entity with three versions, and the write units of storing another version.
async fn measured_index(database: &Database, layout: &str, index: Index) -> (f64, f64) {
    let table = format!("{layout}-{}", index.0);
    let mut world = World::new(database, &table, 1).await.in_mode(WriteMode::Stream);
    add_index(&database.client, world.store.latest_table(), index.0, index.1).await;
    with_history(&mut world, layout == "own").await;
    for number in 1..=3 {
        world.writes(json!({"State": "OK", "N": number}), number).await;
    }
    let scan = database
        .client
        .scan()
        .table_name(world.store.latest_table())
        .index_name(index.0);
    let entries = f64::from(scan.send().await.unwrap().count);
    world.apply(json!({"State": "OK", "N": 4})).await.unwrap();
    database.consumed();
    world.put_version().await;
    (entries, write_units(&database.consumed()))
}

#[tokio::test]
async fn versions_in_indexes_match_the_documentation() {
    if is_skipped("an index takes time to be created") {
        return;
    }
    let database = Database::start().await;
    let mut measured = Vec::new();
    for layout in ["same", "own"] {
        let by_state = measured_index(&database, layout, INDEXES[0]).await;
        let latest = measured_index(&database, layout, INDEXES[1]).await;
        let cells = [by_state.0, latest.0, by_state.1, latest.1].map(|cell| cell.to_string());
        measured.push([&[format!("`{layout}`")][..], &cells].concat());
    }
    let is_layout = |row: &Vec<String>| ["`same`", "`own`"].contains(&row[0].as_str());
    let documented: Vec<_> = rows("docs/indexes.md").into_iter().filter(is_layout).collect();
    assert_eq!(measured, documented);
}

/// Returns the requests of a process that applies updates of an entity, and puts their versions.
async fn requests_of_a_process(database: &Database, world: &World<'_>, id: &str) -> Vec<(&'static str, f64)> {
    let history = world.store.own_history().map(str::to_owned);
    let store = Store::new(
        database.client.clone(),
        world.store.latest_table(),
        VersionDigits::default(),
    );
    let process = World {
        store: store.with_history(history).with_time_index(None),
        ..world.clone()
    };
    database.consumed();
    database.requests.take();
    for number in 0..3 {
        let update = json!({"ID": id, "State": "x".repeat(700), "N": number, "Deleted": number == 2});
        process.write(update).await.unwrap();
    }
    let mut consumed = database.consumed();
    consumed.push(("started", f64::from(database.requests.take().started)));
    consumed
}

/// With the index by time, before and after the versions are sealed.
#[tokio::test]
async fn sealing_adds_no_request_and_no_unit_to_writes() {
    if is_skipped("an index takes time to be created") {
        return;
    }
    let database = Database::start().await;
    for (number, mode) in MODES.into_iter().flat_map(|mode| [mode; 2]).enumerate() {
        let (table, folder) = (format!("T{number}"), tempfile::tempdir().unwrap());
        let history = (number % 2 == 1).then(|| format!("T{number}-history"));
        let store = indexed(&database, &table, history.as_deref()).await;
        store.claim_layout().await.unwrap();
        let world = World {
            database: &database,
            options: testkit::updates::mode(mode),
            table,
            store,
        };
        let before = requests_of_a_process(&database, &world, "A").await;
        let [state, keys] = ["state", "keys"].map(|kind| database.table_name(&format!("{}-{kind}", world.table)));
        for name in [&state, &keys] {
            create_history(&database.client, name).await.unwrap();
        }
        let settings = Settings {
            tables: vec![(world.store.latest_table().to_owned(), None)],
            state,
            keys,
            origin: "example.com/log".to_owned(),
            place: LogPlace::Folder {
                folder: folder.path().join("log"),
                key: folder.path().join("key"),
            },
        };
        let sealer = settings.sealer(&database.endpoint.config, &database.client).await;
        let (sealer, mut sealed) = (sealer.unwrap(), Sealed::default());
        let deadline = tokio::time::Instant::now() + Duration::from_secs(60);
        sealer.run(deadline, &mut sealed).await.unwrap();
        assert_eq!(sealed.leaves, 3, "{mode:?}");
        let after = requests_of_a_process(&database, &world, "B").await;
        assert_eq!(before, after, "{mode:?}");
    }
}
