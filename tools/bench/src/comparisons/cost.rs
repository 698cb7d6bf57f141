//! Write units a version, as DynamoDB Local counts them, over 160 updates of one item of just under 600 bytes.
//!
//! It counts a transaction as if its writes were single ones. DynamoDB bills twice that, and so does this comparison.

use serde_json::json;
use shared::{
    domain::{
        entity::EntityId,
        keys::VersionDigits,
        ledger::Retention,
        recent::Window,
        update::{Ordering, Update},
        version_item::VersionItem,
    },
    dynamodb::{
        Store,
        write::{Idempotency, WriteMode, WriteOptions},
    },
};

use super::Bench;
use crate::{
    error::BenchError,
    figure::{Comparison, Figure, Plot, Target},
    table::{Tables, failed},
};

const ENTITY: &str = "Equipment#1";

/// How versions are written, and what one is to cost.
const CASES: [(&str, WriteMode, Idempotence, f64); 6] = [
    ("stream", WriteMode::Stream, Idempotence::Recent, 2.2),
    ("inline", WriteMode::Inline, Idempotence::Recent, 2.2),
    ("transaction", WriteMode::Transaction, Idempotence::Recent, 4.0),
    ("stream, window 1", WriteMode::Stream, Idempotence::Last, 2.0),
    ("inline, window 1", WriteMode::Inline, Idempotence::Last, 2.0),
    ("stream, ledger", WriteMode::Stream, Idempotence::Ledger, 5.0),
];

#[derive(Clone, Copy)]
enum Idempotence {
    /// The default.
    Recent,
    Last,
    Ledger,
}

impl From<Idempotence> for Idempotency {
    fn from(idempotence: Idempotence) -> Self {
        match idempotence {
            Idempotence::Recent => Self::Recent(Window::default()),
            Idempotence::Last => Self::Recent(Window::LAST),
            Idempotence::Ledger => Self::Ledger(Retention::default()),
        }
    }
}

pub(super) async fn measure(bench: &Bench) -> Result<Comparison, BenchError> {
    let mut figures = Vec::new();
    if let Some(tables) = Tables::start(&bench.progress).await? {
        // Whole rounds of forgetting.
        let updates = bench.size(160, 40);
        for (index, (name, mode, idempotence, target)) in CASES.into_iter().enumerate() {
            bench.progress.doing(&format!("cost: {name}"));
            let store = tables.make(&format!("Cost{index}"), VersionDigits::default()).await?;
            let options = WriteOptions {
                mode,
                idempotency: idempotence.into(),
                skip_unchanged: false,
            };
            let units = units(&tables, &store, options, updates).await?;
            let doubled = match options.idempotency {
                Idempotency::Recent(_) if mode != WriteMode::Transaction => "",
                _ => " (transactions doubled)",
            };
            let unit = format!("write units a version, {name}{doubled}");
            let figure = Figure::new(unit, units / f64::from(updates));
            figures.push(figure.aiming_at(Target::AtMost(target)));
        }
    }
    Ok(Comparison {
        name: "cost",
        figures,
        plot: Plot::Bars,
    })
}

/// The write units of so many updates and their versions.
async fn units(tables: &Tables, store: &Store, options: WriteOptions, updates: u32) -> Result<f64, BenchError> {
    tables.meter.take();
    tables.requests.take();
    for number in 0..updates {
        let update = json!({"ID": ENTITY, "State": "x".repeat(515), "N": number});
        // A request id of the length that they mostly have.
        let update = Update::parse(update, &format!("{number:036}"), Ordering::Arrival).map_err(failed)?;
        store.write(&update, options).await.map_err(failed)?;
        if options.mode == WriteMode::Stream {
            record(store).await?;
        }
    }
    let charges = tables.meter.take();
    let units = charges.iter().map(|charge| match charge.operation {
        "TransactWriteItems" => 2.0 * charge.units,
        operation if operation.starts_with("Get") => 0.0,
        _ => charge.units,
    });
    let (_, refused) = tables.requests.take();
    // No item here is above 1 KB.
    Ok(units.sum::<f64>() + f64::from(refused))
}

/// What stream-fn does with the new image. The stream hands it over; here it is read.
async fn record(store: &Store) -> Result<(), BenchError> {
    let entity = EntityId::new(ENTITY).map_err(failed)?;
    let image = store.get(&entity, &store.digits().latest_key(), true).await;
    let image = image.map_err(failed)?.unwrap_or_default();
    let version = VersionItem::from_image(image, store.digits()).map_err(failed)?;
    store.record_version(&version).await.map_err(failed)?;
    Ok(())
}
