//! The largest latest item that a table takes, and whether its version item fits, marks and all.

use aws_sdk_dynamodb::{
    Client,
    error::{DisplayErrorContext, SdkError},
    types::AttributeValue,
};
use serde_json::{Map, Value, json};
use shared::{
    domain::{
        entity::EntityId,
        names,
        size::{self, MAX_ITEM_BYTES},
        update::{Ordering, Update},
        version_item::VersionItem,
    },
    dynamodb::{
        Store,
        client::error::ErrorKind,
        put::put_version::RecordOutcome,
        write::{WriteOptions, WriteOutcome},
    },
};

/// What of the version item may get later, in `UpdateItem`'s words.
const MARK: &str = "SET #ttl = :ttl, #pinned = :pinned";
/// Half of the item, written first.
const FIRST: usize = MAX_ITEM_BYTES / 2;

/// The sizes at the edge.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Edge {
    /// The largest latest item that was accepted.
    pub latest: usize,
    /// Its version item.
    pub version: usize,
    /// Whether the version item could be marked.
    pub marked: bool,
}

/// Grows the latest item of an entity, in steps that no single update shows, until the next byte is refused, and puts its
/// version item.
pub async fn find(
    client: &Client,
    table: &str,
    store: &Store,
    id: &str,
    options: WriteOptions,
) -> Result<Edge, String> {
    let entity = EntityId::new(id).map_err(|error| error.to_string())?;
    write(store, id, "First", FIRST, options)
        .await?
        .ok_or("half an item is refused")?;
    let (mut fits, mut refused) = (0, FIRST);
    while refused - fits > 1 {
        let middle = usize::midpoint(fits, refused);
        match write(store, id, "Second", middle, options).await? {
            Some(()) => fits = middle,
            None => refused = middle,
        }
    }
    // Each write makes the list of requests a little longer. What is refused changes nothing, so from here it is down, byte by
    // byte.
    while write(store, id, "Second", fits, options).await?.is_none() {
        fits = fits.checked_sub(1).ok_or("what fitted once no longer does")?;
    }
    let latest = store.get(&entity, &store.digits().latest_key(), true).await;
    let latest = latest
        .map_err(|error| error.to_string())?
        .ok_or("there is no latest item")?;
    let version = VersionItem::from_image(latest.clone(), store.digits()).map_err(|error| error.to_string())?;
    match store.record_version(&version).await {
        Ok(RecordOutcome::Recorded | RecordOutcome::AlreadyRecorded) => {}
        other => return Err(format!("the version item does not fit: {other:?}")),
    }
    let marked = client
        .update_item()
        .table_name(table)
        .key(names::PK, AttributeValue::S(id.to_owned()))
        .key(
            names::SK,
            AttributeValue::S(store.digits().version_key(version.version())),
        )
        .update_expression(MARK)
        .expression_attribute_names("#ttl", names::TTL)
        .expression_attribute_names("#pinned", "Pinned")
        .expression_attribute_values(":ttl", AttributeValue::N("1999999999".to_owned()))
        .expression_attribute_values(":pinned", AttributeValue::Bool(true))
        .send()
        .await;
    let marked = match marked {
        Ok(_) => true,
        Err(SdkError::ServiceError(_)) => false,
        Err(error) => return Err(DisplayErrorContext(error).to_string()),
    };
    Ok(Edge {
        latest: size::of_item(&latest),
        version: size::of_item(version.item()),
        marked,
    })
}

/// Writes an attribute of this many bytes. `None` where it is refused for its size.
async fn write(store: &Store, id: &str, name: &str, bytes: usize, options: WriteOptions) -> Result<Option<()>, String> {
    let mut update = Map::from_iter([("ID".to_owned(), json!(id))]);
    update.insert(name.to_owned(), json!("x".repeat(bytes)));
    let request = uuid::Uuid::new_v4().to_string();
    let update =
        Update::parse(Value::Object(update), &request, Ordering::Arrival).map_err(|error| error.to_string())?;
    match store.write(&update, options).await {
        Ok(WriteOutcome::Written { .. }) => Ok(Some(())),
        Err(error) if error.kind() == ErrorKind::Rejected => {
            let line = shared::logging::chain(&error);
            let says_why = line.contains("larger than 400 KB") || line.contains("409600 are allowed");
            if says_why { Ok(None) } else { Err(line) }
        }
        other => Err(format!("{other:?}")),
    }
}
