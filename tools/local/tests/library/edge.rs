//! Finds the largest latest item that a table accepts, and checks that its version item fits, with later attributes.

use aws_sdk_dynamodb::{Client, error::SdkError, types::AttributeValue};
use serde_json::{Value, json};
use shared::{
    config::{Ordering, WriteOptions},
    domain::{
        keys::LATEST_KEY,
        names,
        size::{self, MAX_ITEM_BYTES},
        version_item::VersionItem,
    },
    dynamodb::{Store, client::error::ErrorKind, put::put_version::PutOutcome},
    logging::chain,
};
use testkit::database::entity;
use writer_fn::{
    counter::{self, WriteOutcome},
    update::Update,
};

/// Update expression with the attributes that a version item may get later.
const MARK: &str = "SET #ttl = :ttl, #pinned = :pinned";
const FIRST_BYTES: usize = MAX_ITEM_BYTES / 2;

/// Sizes of the largest items, in bytes.
#[derive(Debug)]
pub(crate) struct Edge {
    pub(crate) latest: usize,
    pub(crate) version: usize,
    /// `true` if the version item accepted the later attributes.
    pub(crate) marked: bool,
}

/// Grows the latest item of an entity until DynamoDB rejects one more byte, and puts its version item.
pub(crate) async fn find(client: &Client, table: &str, store: &Store, id: &str, options: WriteOptions) -> Edge {
    let fits = async |name: &str, bytes: usize| fits(store, id, name, bytes, options).await;
    assert!(fits("First", FIRST_BYTES).await);
    let (mut accepted, mut rejected) = (0, FIRST_BYTES);
    while rejected - accepted > 1 {
        let middle = usize::midpoint(accepted, rejected);
        match fits("Second", middle).await {
            true => accepted = middle,
            false => rejected = middle,
        }
    }
    // Each accepted write lengthens the list of recent requests, so that the largest size may no longer fit.
    while !fits("Second", accepted).await {
        accepted -= 1;
    }
    let latest = store.get(&entity(id), LATEST_KEY, true).await.unwrap().unwrap();
    let version = VersionItem::from_image(latest.clone(), store.digits()).unwrap();
    let put = store.put_version(&version).await.unwrap();
    assert!(
        matches!(put, PutOutcome::Recorded | PutOutcome::AlreadyRecorded),
        "{put:?}"
    );
    let key = store.digits().version_key(version.version());
    let marked = client
        .update_item()
        .table_name(table)
        .key(names::PK, AttributeValue::S(id.to_owned()))
        .key(names::SK, AttributeValue::S(key))
        .update_expression(MARK)
        .expression_attribute_names("#ttl", names::TTL)
        .expression_attribute_names("#pinned", "Pinned")
        .expression_attribute_values(":ttl", AttributeValue::N("1999999999".to_owned()))
        .expression_attribute_values(":pinned", AttributeValue::Bool(true))
        .send()
        .await;
    Edge {
        latest: size::of_item(&latest),
        version: size::of_item(version.item()),
        marked: match marked {
            Ok(_) => true,
            Err(SdkError::ServiceError(_)) => false,
            Err(error) => panic!("{error:?}"),
        },
    }
}

/// Writes an attribute of this many bytes. Returns `false` if DynamoDB rejects the item for its size.
async fn fits(store: &Store, id: &str, name: &str, bytes: usize, options: WriteOptions) -> bool {
    let mut update: Value = json!({"ID": id});
    update[name] = json!("x".repeat(bytes));
    let request = uuid::Uuid::new_v4().to_string();
    let update = Update::parse(update, &request, Ordering::Arrival).unwrap();
    match counter::write(store, &update, options).await {
        Ok(WriteOutcome::Written { .. }) => true,
        Err(error) if error.kind() == ErrorKind::Rejected => {
            let line = chain(&error);
            let too_large = line.contains("larger than 400 KB") || line.contains("409600 are allowed");
            assert!(too_large, "{line}");
            false
        }
        other => panic!("{other:?}"),
    }
}
