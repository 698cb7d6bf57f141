//! Finds the largest latest item that a table accepts, and checks that its version item fits, with later attributes.

use aws_sdk_dynamodb::{Client, error::SdkError, operation::update_item::UpdateItemError, types::AttributeValue};
use serde_json::{Map, Value, json};
use shared::{
    domain::{
        entity::{EntityId, InvalidEntityId},
        keys::LATEST_KEY,
        names,
        size::{self, MAX_ITEM_BYTES},
        update::{InvalidUpdate, Ordering, Update},
        version_item::{InvalidImage, VersionItem},
    },
    dynamodb::{
        Store,
        client::error::{ErrorKind, ServiceError},
        put::put_version::{PutError, PutOutcome},
        write::{WriteError, WriteOptions, WriteOutcome},
    },
};
use thiserror::Error;

/// Update expression with the attributes that a version item may get later.
const MARK: &str = "SET #ttl = :ttl, #pinned = :pinned";
const FIRST_BYTES: usize = MAX_ITEM_BYTES / 2;

/// Sizes of the largest items, in bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Edge {
    pub latest: usize,
    pub version: usize,
    /// `true` if the version item accepted the later attributes.
    pub marked: bool,
}

/// Grows the latest item of an entity until DynamoDB rejects one more byte, and puts its version item.
pub async fn find(
    client: &Client,
    table: &str,
    store: &Store,
    id: &str,
    options: WriteOptions,
) -> Result<Edge, EdgeError> {
    let entity = EntityId::new(id)?;
    write(store, id, "First", FIRST_BYTES, options)
        .await?
        .ok_or(EdgeError::Unexpected("half an item is rejected"))?;
    let (mut fits, mut rejected) = (0, FIRST_BYTES);
    while rejected - fits > 1 {
        let middle = usize::midpoint(fits, rejected);
        match write(store, id, "Second", middle, options).await? {
            Some(()) => fits = middle,
            None => rejected = middle,
        }
    }
    // Each accepted write lengthens the list of recent requests, so that the largest size may no longer fit.
    while write(store, id, "Second", fits, options).await?.is_none() {
        fits = fits.checked_sub(1).ok_or(EdgeError::Unexpected("no size fits"))?;
    }
    let latest = store.get(&entity, LATEST_KEY, true).await;
    let latest = latest?.ok_or(EdgeError::Unexpected("there is no latest item"))?;
    let version = VersionItem::from_image(latest.clone(), store.digits())?;
    match store.put_version(&version).await {
        Ok(PutOutcome::Recorded | PutOutcome::AlreadyRecorded) => {}
        Ok(_) => return Err(EdgeError::Unexpected("another version item exists")),
        Err(error) => return Err(error.into()),
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
        Err(error) => return Err(Box::new(error).into()),
    };
    Ok(Edge {
        latest: size::of_item(&latest),
        version: size::of_item(version.item()),
        marked,
    })
}

/// Writes an attribute of this many bytes. Returns `None` if DynamoDB rejects the item for its size.
async fn write(
    store: &Store,
    id: &str,
    name: &str,
    bytes: usize,
    options: WriteOptions,
) -> Result<Option<()>, EdgeError> {
    let mut update = Map::from_iter([("ID".to_owned(), json!(id))]);
    update.insert(name.to_owned(), json!("x".repeat(bytes)));
    let request = uuid::Uuid::new_v4().to_string();
    let update = Update::parse(Value::Object(update), &request, Ordering::Arrival)?;
    match store.write(&update, options).await {
        Ok(WriteOutcome::Written { .. }) => Ok(Some(())),
        Err(error) if error.kind() == ErrorKind::Rejected => {
            let line = shared::logging::chain(&error);
            let too_large = line.contains("larger than 400 KB") || line.contains("409600 are allowed");
            if too_large { Ok(None) } else { Err(error.into()) }
        }
        Ok(_) => Err(EdgeError::Unexpected("the update was not written")),
        Err(error) => Err(error.into()),
    }
}

#[derive(Debug, Error)]
pub enum EdgeError {
    #[error(transparent)]
    Entity(#[from] InvalidEntityId),
    #[error(transparent)]
    Update(#[from] InvalidUpdate),
    #[error(transparent)]
    VersionItem(#[from] InvalidImage),
    #[error(transparent)]
    Read(#[from] ServiceError),
    #[error(transparent)]
    Write(#[from] WriteError),
    #[error(transparent)]
    Record(#[from] PutError),
    #[error(transparent)]
    Mark(#[from] Box<SdkError<UpdateItemError>>),
    #[error("{0}")]
    Unexpected(&'static str),
}
