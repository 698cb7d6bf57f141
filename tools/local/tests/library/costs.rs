//! Consumed capacity of each write mode, compared with `docs/costs.md`.

use std::sync::{Arc, Mutex};

use aws_sdk_dynamodb::{
    Client,
    config::{ConfigBag, Intercept, RuntimeComponents, interceptors::AfterDeserializationInterceptorContextRef},
    error::BoxError,
    operation::{
        batch_execute_statement::BatchExecuteStatementOutput, put_item::PutItemOutput,
        transact_write_items::TransactWriteItemsOutput,
    },
    types::{ConsumedCapacity, ScalarAttributeType},
};
use patterns::time_series::{StateTime, TimeSeries};
use serde_json::json;
use shared::{
    config::{Idempotency, Ordering, Retention, WriteMode, WriteOptions},
    domain::Item,
};
use testkit::{
    database::{Database, entity, update},
    pages::rows,
};
use writer_fn::{counter, update::Update};

/// A row of the table in `docs/costs.md`: name, write units, write units in the history table, read units.
type Row = (String, f64, f64, f64);

/// Returns the rows of the table.
fn documented() -> Vec<Row> {
    let rows = rows("docs/costs.md").into_iter().filter(|row| row[0].starts_with('`'));
    let units = |cell: &str| cell.parse().unwrap();
    rows.map(|row| {
        (
            row[0].trim_matches('`').to_owned(),
            units(&row[2]),
            units(&row[3]),
            units(&row[4]),
        )
    })
    .collect()
}

/// Returns the rows of the idempotency table: settings, and write units per version.
fn documented_idempotency() -> Vec<(Vec<String>, f64)> {
    let is_mode = |row: &Vec<String>| row[0].parse::<WriteMode>().is_ok();
    let rows = rows("docs/costs.md").into_iter().filter(is_mode);
    rows.map(|row| (row[..2].to_vec(), row[2].parse().unwrap())).collect()
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
        };
        let store = database.store(&format!("Idempotency{index}"), 1).await;
        let mut units = 0.0;
        for number in 0..UPDATES {
            // Just under 600 bytes with its keys, the number of the version and its request id.
            let json = json!({"ID": "Equipment#1", "State": "x".repeat(515), "N": number});
            let update = Update::parse(json, &uuid::Uuid::new_v4().to_string(), Ordering::Arrival).unwrap();
            database.consumed();
            database.requests.take();
            counter::write(&store, &update, options).await.unwrap();
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

/// Sums the write units that requests consumed in one table.
#[derive(Debug, Clone)]
struct UnitsOf {
    table: String,
    units: Arc<Mutex<f64>>,
}

impl Intercept for UnitsOf {
    fn name(&self) -> &'static str {
        "UnitsOf"
    }

    fn read_after_deserialization(
        &self,
        context: &AfterDeserializationInterceptorContextRef<'_>,
        _: &RuntimeComponents,
        _: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        let output = context.output_or_error();
        let Ok(output) = output else { return Ok(()) };
        let consumed = if let Some(output) = output.downcast_ref::<BatchExecuteStatementOutput>() {
            output.consumed_capacity()
        } else if let Some(output) = output.downcast_ref::<TransactWriteItemsOutput>() {
            output.consumed_capacity()
        } else if let Some(output) = output.downcast_ref::<PutItemOutput>() {
            output.consumed_capacity().map(std::slice::from_ref).unwrap_or_default()
        } else {
            &[]
        };
        let of_table = consumed.iter().filter(|one| one.table_name() == Some(&self.table));
        *self.units.lock().unwrap() += of_table.filter_map(ConsumedCapacity::capacity_units).sum::<f64>();
        Ok(())
    }
}

/// Measures the second version, with a latest item of just under 1 KB.
async fn measured(database: &Database, own: bool, mode: WriteMode) -> Row {
    let name = format!("{mode:?}").to_lowercase();
    let history = format!("{name}-versions");
    let units_of = UnitsOf {
        table: database.table_name(&history),
        units: Arc::default(),
    };
    let store = database.store(&format!("{name}-{own}"), 1).await.with_history(None);
    let (name, store) = if own {
        database
            .table(
                &history,
                &[("PK", ScalarAttributeType::S), ("SK", ScalarAttributeType::S)],
            )
            .await;
        let config = database.client.config().to_builder().interceptor(units_of.clone());
        let store = store.with_client(Client::from_conf(config.build()));
        let history = units_of.table.clone();
        (format!("{name}, own"), store.with_history(Some(history)))
    } else {
        (name, store)
    };
    let large = || update(json!({"ID": "E", "State": "x".repeat(700)}));
    let options = testkit::database::mode(mode);
    counter::write(&store, &large(), options).await.unwrap();
    database.consumed();
    *units_of.units.lock().unwrap() = 0.0;
    counter::write(&store, &large(), options).await.unwrap();
    let mut consumed = database.consumed();
    if mode == WriteMode::Stream {
        testkit::database::put_version(&store, &entity("E")).await;
        // On AWS the stream delivers the image; this test reads it.
        let put = database
            .consumed()
            .into_iter()
            .filter(|(operation, _)| *operation != "GetItem");
        consumed.extend(put);
    }
    let in_history = *units_of.units.lock().unwrap();
    (name, units(&consumed, false), in_history, units(&consumed, true))
}

fn units(consumed: &[(&str, f64)], reads: bool) -> f64 {
    let of_kind = consumed
        .iter()
        .filter(|(operation, _)| operation.starts_with("Get") == reads);
    of_kind.map(|(_, units)| units).sum()
}

#[tokio::test]
async fn measured_costs_match_the_documentation() {
    if testkit::endpoint::is_about_one_table("measured_costs_match_the_documentation") {
        return;
    }
    let database = Database::start().await;
    let mut rows = Vec::new();
    // Versions are inserted by statements, whose units DynamoDB Local does not count as AWS does.
    let test = "the cost of statements";
    let is_metered = !database
        .endpoint
        .differs(test, &["statement-units", "large-statement-units"]);
    for own in if is_metered { vec![false, true] } else { vec![false] } {
        for mode in [WriteMode::Stream, WriteMode::Inline, WriteMode::Transaction] {
            rows.push(measured(&database, own, mode).await);
        }
    }
    database.store("Table", 1).await;
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
    let consumed = database.consumed();
    rows.push(("state".to_owned(), units(&consumed, false), 0.0, units(&consumed, true)));
    let is_measured = |row: &Row| is_metered || !row.0.ends_with(", own");
    assert_eq!(rows, documented().into_iter().filter(is_measured).collect::<Vec<_>>());
}
