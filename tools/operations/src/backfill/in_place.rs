//! Items of the versioned table itself: a latest item without `Latest`, or at a padded key.
//!
//! No attribute is lost if an update comes first: it changes the latest item, whose other attributes stay.

use aws_sdk_dynamodb::operation::update_item::builders::UpdateItemInputBuilder;
use aws_sdk_dynamodb::types::{ReturnValue, ReturnValuesOnConditionCheckFailure};

use crate::{
    backfill::{
        import::{Backfill, ItemOutcome},
        mapping::{Refusal, request_id},
    },
    condition::outcome,
    error::OperationError,
    latest::{self, move_latest::move_latest, raise_latest::raise_latest},
};
use shared::{
    config::WriteMode,
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
    dynamodb::{
        Store,
        client::error::ServiceError,
        n,
        put::put_version::{PutError, PutOutcome},
        s,
    },
};

use writer_fn::counter::WriteError;

/// Highest version of an entity. `None` if the next one would be below the floor.
type Highest = Option<Option<(Version, Item)>>;

impl Backfill {
    /// Sets `Latest` of a latest item that has none.
    pub(super) async fn adopt(&self, item: &Item) -> Result<ItemOutcome, OperationError> {
        let Some(id) = partition_key_of(item) else {
            return Ok(ItemOutcome::Skipped);
        };
        let keys = [names::PK, names::SK].map(str::to_owned);
        let request_id = request_id(self.target.store.latest_table(), &keys, item);
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
        let Some(highest) = self.highest(&entity).await? else {
            return Ok(ItemOutcome::Refused(Refusal::Uncounted));
        };
        // A latest item that lost its counter has them too.
        let recent = highest.is_none().then_some(names::RECENT_REQUESTS);
        let mut reserved = recent.into_iter().chain([names::TTL, names::PINNED]);
        if let Some(name) = reserved.find(|name| item.contains_key(*name)) {
            return Ok(ItemOutcome::Refused(Refusal::Reserved(name)));
        }
        if self.dry_run {
            return Ok(ItemOutcome::Written);
        }
        let adopted = match latest::adopted(item, highest.as_ref(), self.target.store.digits()) {
            _ if highest.is_none() => {
                let adopt = async |store: &Store| adopt(store, &entity, &request_id).await;
                self.target.send(adopt).await?
            }
            Some(to) => {
                let raise = async |store: &Store| raise_latest(store, &entity, None, to).await;
                self.target.send(raise).await?
            }
            None => None,
        };
        self.put_version_of(adopted).await
    }

    /// Moves a latest item from the padded key of version 0 to `v0`.
    pub(super) async fn move_padded(&self, item: &Item) -> Result<ItemOutcome, OperationError> {
        let Some(entity) = partition_key_of(item).and_then(|id| EntityId::new(id).ok()) else {
            return Ok(ItemOutcome::Skipped);
        };
        if self.target.get(&entity, LATEST_KEY).await?.is_some() {
            return Ok(ItemOutcome::AlreadyThere);
        }
        let Some(highest) = self.highest(&entity).await? else {
            return Ok(ItemOutcome::Refused(Refusal::Uncounted));
        };
        let Some((_, latest)) = latest::moved(item, highest.as_ref(), self.target.store.digits()) else {
            return Ok(ItemOutcome::Skipped);
        };
        if self.dry_run {
            return Ok(ItemOutcome::Written);
        }
        let move_latest = async |store: &Store| move_latest(store, item, &latest).await;
        let is_moved = self.target.send(move_latest).await?;
        self.put_version_of(is_moved.then_some(latest)).await
    }

    async fn highest(&self, entity: &EntityId) -> Result<Highest, ServiceError> {
        let newest = async |store: &Store| store.newest_in_history(entity, true).await;
        let highest = self.target.send(newest).await?;
        let floor = self.target.floor(entity).await?;
        let is_below_floor = floor > highest.as_ref().map_or(Version::FIRST, |(version, _)| *version);
        Ok((!is_below_floor).then_some(highest))
    }

    /// Puts version 1 of a latest item, if it is missing: an interrupted run may have set `Latest`, but not put the version. The
    /// item does not show that, because it keeps its own request id. A different version 1 is a finding of the audit.
    async fn put_missing_first(&self, latest: &Item) -> Result<(), OperationError> {
        let is_first = latest_of(latest) == Ok(Version::FIRST);
        // Otherwise, the time of the version comes from its stream record.
        let is_own = Writer::of(latest, Version::FIRST) == Writer::Own;
        if self.options.mode == WriteMode::Stream || !is_first || !is_own {
            return Ok(());
        }
        let item = self.version_of(latest.clone())?;
        let preview = async |store: &Store| store.preview_put(&item).await;
        if self.target.send(preview).await? == PutOutcome::Recorded {
            self.put_version_of(Some(latest.clone())).await?;
        }
        Ok(())
    }

    /// Puts the version of a changed latest item, unless stream-fn does. `None` if another client was first.
    async fn put_version_of(&self, image: Option<Item>) -> Result<ItemOutcome, OperationError> {
        let Some(image) = image else {
            return Ok(ItemOutcome::AlreadyThere);
        };
        if self.options.mode != WriteMode::Stream {
            let item = self.version_of(image)?;
            let put = self.target.send(async |store| store.put_version(&item).await).await;
            if put.map_err(|PutError(error)| error)? == PutOutcome::Conflict {
                let version = item.version();
                return Err(WriteError::Taken { version }.into());
            }
        }
        Ok(ItemOutcome::Written)
    }

    fn version_of(&self, image: Item) -> Result<VersionItem, WriteError> {
        VersionItem::from_image(image, self.target.store.digits()).map_err(WriteError::Latest)
    }
}

/// Sets `Latest` of an existing latest item to 1, and returns the item, `None` if it has `Latest`.
async fn adopt(store: &Store, entity: &EntityId, request_id: &RequestId) -> Result<Option<Item>, ServiceError> {
    store.check_writable("UpdateItem")?;
    let now = store.now();
    let request = request(entity, request_id, now, store.latest_table());
    // The response to an earlier attempt was lost.
    let is_ours = |stored: &Item| {
        latest_of(stored) == Ok(Version::FIRST) && text(stored, names::RECORDED_AT) == Some(now.to_string().as_str())
    };
    Ok(match outcome("UpdateItem", request.send_with(store.client()).await)? {
        Ok(output) => Some(Item::from(output.attributes.unwrap_or_default())),
        Err(stored) => stored.filter(is_ours),
    })
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
