//! Write units of a version, as DynamoDB Local counts them, over 160 updates of one item of just under 600 bytes.
//!
//! DynamoDB Local counts two units for each table of a transaction, however many items of it are written. DynamoDB bills two for each of
//! the two items here, so this comparison doubles the units of a transaction in one table.

use serde_json::json;
use shared::{
    config::{Idempotency, Ordering, Retention, Window, WriteMode, WriteOptions},
    domain::{
        entity::EntityId,
        keys::{LATEST_KEY, VersionDigits},
        size::of_item,
        version_item::VersionItem,
    },
    dynamodb::Store,
};
use writer_fn::{counter, update::Update};

use crate::{
    error::{BenchError, cannot},
    figure::{Figure, Target},
    harness::{Bench, Measured},
    tables::Tables,
};

const ENTITY: &str = "Equipment#1";

pub(super) async fn measure(bench: &Bench) -> Result<Measured, BenchError> {
    let mut figures = Vec::new();
    let Some(tables) = Tables::start(&bench.progress).await? else {
        return Ok(figures.into());
    };
    // A multiple of the updates after which a latest item is pruned of old requests.
    let updates = bench.size(160, 40);
    let recent = Idempotency::default();
    let large = Idempotency::Recent(Window::new(100).unwrap_or_default());
    let ledger = Idempotency::Ledger(Retention::default());
    for (index, (name, mode, idempotency, own, max)) in [
        ("stream", WriteMode::Stream, recent, false, 2.2),
        ("inline", WriteMode::Inline, recent, false, 2.2),
        ("transaction", WriteMode::Transaction, recent, false, 4.0),
        ("stream, window 100", WriteMode::Stream, large, false, 5.0),
        ("stream, ledger", WriteMode::Stream, ledger, false, 5.0),
        ("stream, history table", WriteMode::Stream, recent, true, 2.2),
        ("inline, history table", WriteMode::Inline, recent, true, 2.2),
        ("transaction, history table", WriteMode::Transaction, recent, true, 4.0),
    ]
    .into_iter()
    .enumerate()
    {
        bench.progress.show(&format!("cost: {name}"));
        let table = format!("Cost{index}");
        let store = match own {
            true => tables.create_with_history(&table).await?,
            false => tables.create(&table, VersionDigits::default()).await?,
        };
        let options = WriteOptions {
            mode,
            idempotency,
            skip_unchanged: false,
        };
        let units = write_units(&tables, &store, options, updates).await?;
        let doubled = if !own && (mode == WriteMode::Transaction || idempotency == ledger) {
            " (transactions doubled)"
        } else {
            ""
        };
        let figure = Figure::new(
            format!("write units a version, {name}{doubled}"),
            units / f64::from(updates),
        );
        figures.push(figure.with_target(Target::AtMost(max)));
    }
    Ok(figures.into())
}

async fn write_units(tables: &Tables, store: &Store, options: WriteOptions, updates: u32) -> Result<f64, BenchError> {
    tables.meter.take();
    tables.requests.take();
    let entity = EntityId::new(ENTITY).map_err(cannot("create the entity"))?;
    let mut rejected = 0.0;
    for number in 0..updates {
        let before = store.get(&entity, LATEST_KEY, true).await;
        let size = before
            .map_err(cannot("read the latest item"))?
            .as_ref()
            .map_or(0, of_item);
        let update = json!({"ID": ENTITY, "State": "x".repeat(515), "N": number});
        // Most request IDs have 36 characters.
        let update = Update::parse(update, &format!("{number:036}"), Ordering::Arrival);
        let update = update.map_err(cannot("parse an update"))?;
        counter::write(store, &update, options)
            .await
            .map_err(cannot("write an update"))?;
        if options.mode == WriteMode::Stream {
            put_version(store, &update.entity).await?;
        }
        let (_, failed_conditions) = tables.requests.take();
        // Each consumes the units of the item that it does not change.
        rejected += f64::from(failed_conditions) * units_of(size);
    }
    let charges = tables.meter.take();
    let units = charges.iter().map(|charge| match charge.operation {
        "TransactWriteItems" if !store.has_own_history() => 2.0 * charge.units,
        operation if operation.starts_with("Get") => 0.0,
        _ => charge.units,
    });
    let mut units = units.sum::<f64>() + rejected;
    // A transaction puts the versions, and its charge contains them.
    if store.has_own_history() && options.mode != WriteMode::Transaction {
        for key in store.digits().version_keys(1..=u64::from(updates)) {
            units += tables.units_of_version(store, &entity, &key).await?;
        }
    }
    Ok(units)
}

/// Returns the write units of an item of this size in bytes.
#[allow(clippy::cast_precision_loss, reason = "at most 400")]
fn units_of(size: usize) -> f64 {
    size.div_ceil(1_024).max(1) as f64
}

/// Puts the version item as stream-fn does. stream-fn gets the image from the stream; this function reads it.
async fn put_version(store: &Store, entity: &EntityId) -> Result<(), BenchError> {
    let image = store.get(entity, LATEST_KEY, true).await;
    let image = image.map_err(cannot("read the latest item"))?.unwrap_or_default();
    let version = VersionItem::from_image(image, store.digits()).map_err(cannot("parse the latest item"))?;
    store
        .put_version(&version)
        .await
        .map_err(cannot("put the version item"))?;
    Ok(())
}
