//! Items of the versioned table itself: a latest item without `Latest`, or at a padded key.
//!
//! No attribute is lost if an update comes first: it changes the latest item, whose other attributes stay.

use aws_sdk_dynamodb::{
    operation::update_item::{UpdateItemError, builders::UpdateItemInputBuilder},
    types::{ReturnValue, ReturnValuesOnConditionCheckFailure},
};
use shared::{
    config::{Ordering, WriteMode},
    domain::{
        Item,
        attributes::text,
        attribution::Writer,
        entity::EntityId,
        keys::{LATEST_KEY, partition_key_of},
        names,
        recorded_at::RecordedAt,
        request_id::RequestId,
        version::Version,
        version_item::{VersionItem, latest_of},
    },
    dynamodb::{Store, client::error::ServiceError, n, put::put_version::PutOutcome, s},
};
use writer_fn::counter::WriteError;

use crate::{
    backfill::{
        import::{Backfill, BackfillError, ItemOutcome},
        mapping::{Mapping, Refusal, Template},
    },
    latest::{
        move_latest::move_latest,
        raise_latest::raise_latest,
        repair::{self, Step},
    },
};

impl Backfill {
    /// Sets `Latest` of a latest item that has none.
    pub(super) async fn adopt(&self, item: &Item) -> Result<ItemOutcome, BackfillError> {
        let Some(id) = partition_key_of(item) else {
            return Ok(ItemOutcome::Skipped);
        };
        let request_id = self.mapping_of_own_keys().request_id(item);
        let (entity, request_id) = match (EntityId::new(id), request_id) {
            (Ok(entity), Ok(request_id)) => (entity, request_id),
            (Err(why), _) => return Ok(ItemOutcome::Refused(why.into())),
            (_, Err(why)) => return Ok(ItemOutcome::Refused(why)),
        };
        if item.contains_key(names::LATEST) {
            if !self.dry_run {
                self.put_missing_first(item).await?;
            }
            return Ok(ItemOutcome::AlreadyThere);
        }
        let highest = self.highest(&entity).await?;
        if self.is_below_floor(&entity, highest.as_ref()).await? {
            return Ok(ItemOutcome::Refused(Refusal::Uncounted));
        }
        // A latest item that lost its counter has them too.
        let is_reserved = |name: &&str| highest.is_none() || *name != names::RECENT_REQUESTS;
        let reserved = [names::RECENT_REQUESTS, names::TTL, names::PINNED];
        let mut reserved = reserved.into_iter().filter(is_reserved);
        if let Some(name) = reserved.find(|name| item.contains_key(*name)) {
            return Ok(ItemOutcome::Refused(Refusal::Reserved { name }));
        }
        if self.dry_run {
            return Ok(ItemOutcome::Written);
        }
        let adopted = match repair::adopted(item, highest.as_ref(), self.target.digits()) {
            _ if highest.is_none() => {
                let adopted = self
                    .limiter
                    .run(async || adopt(&self.target, &entity, &request_id).await);
                adopted.await?
            }
            Some(to) => {
                let raised = self
                    .limiter
                    .run(async || raise_latest(&self.target, &entity, None, to).await);
                raised.await?
            }
            None => None,
        };
        let Some(image) = adopted else {
            return Ok(ItemOutcome::AlreadyThere);
        };
        self.put_version_of(image).await?;
        Ok(ItemOutcome::Written)
    }

    /// Moves a latest item from the padded key of version 0 to `v0`.
    pub(super) async fn move_padded(&self, item: &Item) -> Result<ItemOutcome, BackfillError> {
        let Some(entity) = partition_key_of(item).and_then(|id| EntityId::new(id).ok()) else {
            return Ok(ItemOutcome::Skipped);
        };
        let latest = self
            .limiter
            .run(async || self.target.get(&entity, LATEST_KEY, true).await);
        if latest.await?.is_some() {
            return Ok(ItemOutcome::AlreadyThere);
        }
        let highest = self.highest(&entity).await?;
        if self.is_below_floor(&entity, highest.as_ref()).await? {
            return Ok(ItemOutcome::Refused(Refusal::Uncounted));
        }
        let Some(Step::Move { padded, latest, .. }) = repair::move_padded(item, highest.as_ref(), self.target.digits())
        else {
            return Ok(ItemOutcome::Skipped);
        };
        if self.dry_run {
            return Ok(ItemOutcome::Written);
        }
        let moved = self
            .limiter
            .run(async || move_latest(&self.target, &padded, &latest).await);
        if !moved.await? {
            return Ok(ItemOutcome::AlreadyThere);
        }
        self.put_version_of(latest).await?;
        Ok(ItemOutcome::Written)
    }

    async fn highest(&self, entity: &EntityId) -> Result<Option<(Version, Item)>, ServiceError> {
        self.limiter
            .run(async || self.target.newest_in_history(entity, true).await)
            .await
    }

    /// Returns `true` if history begins above its highest version: the next one would be below the floor.
    async fn is_below_floor(&self, entity: &EntityId, highest: Option<&(Version, Item)>) -> Result<bool, ServiceError> {
        let floor = self.limiter.run(async || self.target.floor(entity, true).await).await?;
        Ok(floor > highest.map_or(Version::FIRST, |(version, _)| *version))
    }

    /// Puts version 1 of a latest item, if it is missing: an interrupted run may have set `Latest`, but not put the version. The
    /// item does not show that, because it keeps its own request id. A different version 1 is a finding of the audit.
    async fn put_missing_first(&self, latest: &Item) -> Result<(), BackfillError> {
        let is_first = latest_of(latest) == Ok(Version::FIRST);
        // Otherwise, the time of the version comes from its stream record.
        let is_own = Writer::of(latest, Version::FIRST) == Writer::Own;
        if self.options.mode == WriteMode::Stream || !is_first || !is_own {
            return Ok(());
        }
        let item = VersionItem::from_image(latest.clone(), self.target.digits())?;
        let stored = self.limiter.run(async || self.target.preview_put(&item).await);
        match stored.await? {
            PutOutcome::Recorded => self.put_version_of(latest.clone()).await,
            PutOutcome::AlreadyRecorded | PutOutcome::Conflict => Ok(()),
        }
    }

    /// Puts the version of a latest item, unless stream-fn does.
    async fn put_version_of(&self, image: Item) -> Result<(), BackfillError> {
        if self.options.mode == WriteMode::Stream {
            return Ok(());
        }
        let item = VersionItem::from_image(image, self.target.digits())?;
        let put = self.limiter.run(async || self.target.put_version(&item).await);
        let version = item.version();
        match put.await? {
            PutOutcome::Conflict => Err(WriteError::Taken { version }.into()),
            PutOutcome::Recorded | PutOutcome::AlreadyRecorded => Ok(()),
        }
    }

    fn mapping_of_own_keys(&self) -> Mapping {
        Mapping {
            table: self.target.latest_table().to_owned(),
            keys: vec![names::PK.to_owned(), names::SK.to_owned()],
            id: Template::attribute(names::PK),
            rename: std::collections::BTreeMap::new(),
            ordering: Ordering::Arrival,
        }
    }
}

/// Sets `Latest` of an existing latest item to 1, and returns the item, `None` if it has `Latest`.
async fn adopt(store: &Store, entity: &EntityId, request_id: &RequestId) -> Result<Option<Item>, ServiceError> {
    store.check_writable("UpdateItem")?;
    let now = store.now();
    let request = request(entity, request_id, now, store.latest_table());
    match request.send_with(store.client()).await {
        Ok(output) => Ok(Some(Item::from(output.attributes.unwrap_or_default()))),
        Err(error) => match error.as_service_error() {
            Some(UpdateItemError::ConditionalCheckFailedException(failure)) => {
                let stored = failure.item().map(|item| Item::from(item.clone()));
                // The response to an earlier attempt was lost.
                let is_ours = |stored: &Item| {
                    latest_of(stored) == Ok(Version::FIRST)
                        && text(stored, names::RECORDED_AT) == Some(now.to_string().as_str())
                };
                Ok(stored.filter(is_ours))
            }
            _ => Err(ServiceError::new("UpdateItem", &error)),
        },
    }
}

/// Builds the request that sets `Latest` to 1. An existing request id is kept.
pub fn request(entity: &EntityId, request_id: &RequestId, now: RecordedAt, table: &str) -> UpdateItemInputBuilder {
    UpdateItemInputBuilder::default()
        .table_name(table)
        .key(names::PK, s(entity.as_str()))
        .key(names::SK, s(LATEST_KEY))
        .update_expression(
            "SET #latest = :one, #version = :one, #recorded = :recorded, \
             #request = if_not_exists(#request, :request) REMOVE #tick",
        )
        .condition_expression("attribute_exists(#pk) AND attribute_not_exists(#latest) AND attribute_not_exists(#ttl)")
        .expression_attribute_names("#pk", names::PK)
        .expression_attribute_names("#latest", names::LATEST)
        .expression_attribute_names("#version", names::RECORDED_VERSION)
        .expression_attribute_names("#recorded", names::RECORDED_AT)
        .expression_attribute_names("#tick", names::RECORDED_TICK)
        .expression_attribute_names("#request", names::REQUEST_ID)
        .expression_attribute_names("#ttl", names::TTL)
        .expression_attribute_values(":one", n(1))
        .expression_attribute_values(":recorded", s(now.to_string()))
        .expression_attribute_values(":request", s(request_id.as_str()))
        .return_values(ReturnValue::AllNew)
        .return_values_on_condition_check_failure(ReturnValuesOnConditionCheckFailure::AllOld)
}
