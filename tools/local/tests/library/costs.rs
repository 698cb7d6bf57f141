//! Consumed capacity of each write mode, compared with `docs/costs.md`.

use serde_json::json;
use shared::{
    domain::{
        Item,
        ledger::Retention,
        update::{Ordering, Update},
    },
    dynamodb::write::{Idempotency, WriteMode, WriteOptions},
    time_series::{StateTime, TimeSeries},
};

use testkit::database::{Database, entity, update};

/// Returns the rows of the table in `docs/costs.md`: name, write units, read units.
fn documented() -> Vec<(String, f64, f64)> {
    let text = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/costs.md")).unwrap();
    let cells = |line: &str| {
        line.trim_matches('|')
            .split('|')
            .map(|cell| cell.trim().to_owned())
            .collect::<Vec<_>>()
    };
    let rows = text.lines().filter(|line| line.starts_with("| `")).map(cells);
    rows.map(|row| {
        (
            row[0].trim_matches('`').to_owned(),
            row[2].parse().unwrap(),
            row[3].parse().unwrap(),
        )
    })
    .collect()
}

/// Returns the rows of the idempotency table: settings, and write units per version.
fn documented_idempotency() -> Vec<(Vec<String>, f64)> {
    let text = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/costs.md")).unwrap();
    let rows = text.lines().filter(|line| {
        line.starts_with("| stream") || line.starts_with("| inline") || line.starts_with("| transaction")
    });
    rows.map(|line| {
        let cells: Vec<_> = line.trim_matches('|').split('|').map(str::trim).collect();
        let settings = cells[..2].iter().map(|cell| (*cell).to_owned()).collect();
        (settings, cells[2].parse().unwrap())
    })
    .collect()
}

#[tokio::test]
async fn measured_idempotency_costs_match_the_documentation() {
    /// Number of updates: complete rounds of pruning, after the first.
    const UPDATES: u32 = 160;
    let database = Database::start().await;
    for (index, (settings, documented)) in documented_idempotency().into_iter().enumerate() {
        // Some engines report too few write units for a transaction.
        let ledger = settings[1] == "ledger";
        if ledger
            && database
                .endpoint
                .differs(&format!("the cost of {settings:?}"), &["transaction-units"])
        {
            continue;
        }
        let mode: WriteMode = settings[0].parse().unwrap();
        let options = WriteOptions {
            mode,
            idempotency: match settings[1].as_str() {
                "ledger" => Idempotency::Ledger(Retention::default()),
                recent => Idempotency::Recent(recent.strip_prefix("recent, ").unwrap().parse().unwrap()),
            },
            skip_unchanged: false,
            tombstone_ttl: None,
        };
        let store = database.store(&format!("Idempotency{index}"), 1).await;
        let mut units = 0.0;
        for number in 0..UPDATES {
            // Just under 600 bytes with its keys, the number of the version and its request id.
            let json = json!({"ID": "Equipment#1", "State": "x".repeat(515), "N": number});
            let update = Update::parse(json, &uuid::Uuid::new_v4().to_string(), Ordering::Arrival).unwrap();
            database.consumed();
            database.requests.take();
            store.write(&update, options).await.unwrap();
            if mode == WriteMode::Stream {
                testkit::database::put_version(&store, &entity("Equipment#1")).await;
            }
            let consumed = database.consumed();
            units += consumed
                .iter()
                .filter(|(operation, _)| !operation.starts_with("Get") && *operation != "Query")
                .map(|(_, units)| units)
                .sum::<f64>();
            // Every item is below 1 KB.
            units += f64::from(database.requests.take().1);
        }
        let measured = units / f64::from(UPDATES);
        assert!(
            (measured - documented).abs() < 0.005,
            "{settings:?}: {measured} instead of {documented}"
        );
    }
}

#[tokio::test]
async fn measured_costs_match_the_documentation() {
    let database = Database::start().await;
    let store = database.store("Table", 1).await;
    let mut measured = Vec::new();
    for mode in [WriteMode::Stream, WriteMode::Inline, WriteMode::Transaction] {
        // Measures the second version, with a latest item of just under 1 KB.
        for _ in 0..2 {
            database.consumed();
            let name = format!("{mode:?}").to_lowercase();
            let large = update(json!({"ID": name, "State": "x".repeat(700)}));
            store.write(&large, testkit::database::mode(mode)).await.unwrap();
        }
        let mut consumed = database.consumed();
        if mode == WriteMode::Stream {
            testkit::database::put_version(&store, &entity("stream")).await;
            // On AWS the stream delivers the image; this test reads it.
            consumed.extend(
                database
                    .consumed()
                    .into_iter()
                    .filter(|(operation, _)| *operation == "PutItem"),
            );
        }
        measured.push((format!("{mode:?}").to_lowercase(), consumed));
    }
    let series = TimeSeries::new(database.client.clone(), database.table_name("Table"));
    database.consumed();
    let state = serde_json::from_value::<Item>(json!({"State": {"S": "x".repeat(850)}})).unwrap();
    series
        .put(
            &entity("series"),
            &StateTime::parse("2020-11-12T20:04:00").unwrap(),
            state,
            false,
        )
        .await
        .unwrap();
    measured.push(("state".to_owned(), database.consumed()));

    let units = |consumed: &[(&str, f64)], reads: bool| -> f64 {
        consumed
            .iter()
            .filter(|(operation, _)| operation.starts_with("Get") == reads)
            .map(|(_, units)| units)
            .sum()
    };
    let measured: Vec<_> = measured
        .iter()
        .map(|(name, consumed)| (name.clone(), units(consumed, false), units(consumed, true)))
        .collect();
    assert_eq!(measured, documented());
}
