//! Write units of a version, as DynamoDB Local counts them, over 160 updates of one item of just under 600 bytes; and write units of a version
//! that consists of a long text, with and without compression.
//!
//! DynamoDB Local counts two units for each table of a transaction, however many items of it are written. DynamoDB bills two for each of
//! the two items here, so this comparison doubles the units of a transaction in one table.

use serde_json::json;
use shared::{
    config::{Idempotency, Retention, Window, WriteMode, WriteOptions},
    domain::{
        compression::Compression,
        entity::EntityId,
        keys::{LATEST_KEY, VersionDigits},
        size::of_item,
        version_item::VersionItem,
    },
    dynamodb::{Store, client::capacity::Charge},
};

use crate::{
    error::{BenchError, cannot},
    figure::{Figure, Measured, Target},
    harness::Bench,
    print_error,
    tables::{self, Tables, units_of},
};

/// Text in English. A repetition of it is farther away than the 32 KB that zlib looks back.
const TEXT: [&str; 4] = [
    include_str!("../../../../docs/vzero.md"),
    include_str!("../../../../docs/operations.md"),
    include_str!("../../../../docs/users.md"),
    include_str!("../../../../docs/reliability.md"),
];
/// Maximum share of the write units that remain with compression.
const MAX_COMPRESSED: f64 = 0.67;

pub(super) async fn measure(bench: &Bench) -> Result<Measured, BenchError> {
    let mut figures = Vec::new();
    let Some(tables) = Tables::start().await? else {
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
        print_error(&format!("cost: {name}"));
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
        let mut units = 0.0;
        for number in 0..updates {
            let (charged, key) = write(&tables, &store, options, "Equipment#1", &"x".repeat(515), number).await?;
            units += charged;
            // A transaction puts the version, and its charge contains it.
            if own && mode != WriteMode::Transaction {
                units += tables.units_of_version(&store, "Equipment#1", &key).await?;
            }
        }
        let units = units / f64::from(updates);
        let is_doubled = !own && (mode == WriteMode::Transaction || idempotency == ledger);
        let doubled = if is_doubled { " (transactions doubled)" } else { "" };
        let figure = Figure::new(format!("write units a version, {name}{doubled}"), units);
        figures.push(figure.with_target(Target::AtMost(max)));
    }
    let store = tables.create_with_history("Text").await?;
    for kilobytes in [10, 100, 390] {
        let [plain, compressed] = [Compression::None, Compression::Deflate].map(async |compression| {
            let store = store.clone().with_compression(compression);
            let entity = format!("{kilobytes}-{compression:?}");
            let text = text(kilobytes * 1024 - 600);
            let (_, key) = write(&tables, &store, WriteOptions::default(), &entity, &text, 0).await?;
            tables.units_of_version(&store, &entity, &key).await
        });
        let unit = format!("write units of a version, text, {kilobytes} KB");
        let figure = Figure::new(unit, compressed.await?).compared_with("uncompressed", plain.await?);
        figures.push(figure.with_target(Target::RatioAtMost(MAX_COMPRESSED)));
    }
    Ok(figures.into())
}

fn text(bytes: usize) -> String {
    TEXT.concat()
        .chars()
        .filter(char::is_ascii)
        .cycle()
        .take(bytes)
        .collect()
}

/// Writes an update and its version, and returns their units and the key of the version.
async fn write(
    tables: &Tables,
    store: &Store,
    options: WriteOptions,
    id: &str,
    state: &str,
    number: u32,
) -> Result<(f64, String), BenchError> {
    let entity = EntityId::new(id).map_err(cannot("create the entity"))?;
    let latest = async || {
        store
            .get(&entity, LATEST_KEY, true)
            .await
            .map_err(cannot("read the latest item"))
    };
    let before = latest().await?.as_ref().map_or(0, of_item);
    tables.meter.take();
    tables.requests.take();
    let update = json!({"ID": id, "State": state, "N": number});
    // Most request IDs have 36 characters.
    tables::write(store, update, &format!("{number:036}"), options).await?;
    // stream-fn gets the image from the stream; this function reads it.
    let image = latest().await?.unwrap_or_default();
    let version = VersionItem::from_image(image, store.digits()).map_err(cannot("parse the latest item"))?;
    if options.mode == WriteMode::Stream {
        store
            .put_version(&version)
            .await
            .map_err(cannot("put the version item"))?;
    }
    // Each failed condition consumes the units of the item that it does not change.
    let failed_conditions = tables.requests.take().failed_conditions;
    let failed = f64::from(failed_conditions) * units_of(before);
    let charged = |charge: &Charge| match charge.operation {
        "TransactWriteItems" if !store.has_own_history() => 2.0 * charge.units,
        operation if operation.starts_with("Get") => 0.0,
        _ => charge.units,
    };
    let units = failed + tables.meter.take().iter().map(charged).sum::<f64>();
    Ok((units, store.digits().version_key(version.version())))
}
