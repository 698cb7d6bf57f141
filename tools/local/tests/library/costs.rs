//! What each way of writing costs, as `docs/costs.md` says.

use serde_json::json;
use shared::{
    domain::Item,
    dynamodb::write::WriteMode,
    time_series::{StateTime, TimeSeries},
};

use crate::support::{Database, entity, mode, update, write};

/// The rows of the table in `docs/costs.md`: name, requests of the writer, write units, read units.
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

#[tokio::test]
async fn the_documented_costs_are_the_measured_ones() {
    let database = Database::start().await;
    let store = database.store("Table", 1).await;
    let mut measured = Vec::new();
    for of in [WriteMode::Stream, WriteMode::Inline, WriteMode::Transaction] {
        // The second version, of an item of just under 1 KB.
        for _ in 0..2 {
            database.consumed();
            let name = format!("{of:?}").to_lowercase();
            let large = update(json!({"ID": name, "State": "x".repeat(850)}));
            store.write(&large, mode(of)).await.unwrap();
        }
        let mut consumed = database.consumed();
        if of == WriteMode::Stream {
            crate::support::record(&store, &entity("stream")).await;
            // The stream hands the image over; here it was read.
            consumed.extend(
                database
                    .consumed()
                    .into_iter()
                    .filter(|(operation, _)| *operation == "PutItem"),
            );
        }
        measured.push((format!("{of:?}").to_lowercase(), consumed));
    }
    let series = TimeSeries::new(database.client.clone(), "Table");
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
    let _ = write(&store, &update(json!({"ID": "E"})), mode(WriteMode::Stream)).await;
}
