//! The state of the log: how large it is, which batch was the last one, and how far the index was read. A batch belongs to the log once a
//! compare-and-swap of this item names it.

mod items;

pub use operations::sealed::Operation;
use operations::sealed::{self, PENDING};
use seal::format::leaf::Kind;
use shared::{
    domain::{Item, keys::VersionDigits, names},
    dynamodb::{
        Store,
        client::error::ServiceError,
        expression::Expression,
        key,
        read::query_items::Cursor,
        s,
        write::{Write, send_together},
    },
};

use self::items::{BATCHES, LOG, REQUEST, STAGING, STATE, batch_item, batch_of, is_request, state_item, state_of};
pub use self::items::{Batch, Request, State};
use crate::error::SealError;

/// Partition key of operations that the log contains.
const OPERATIONS: &str = "operations";
/// Maximum number of operations of a batch: a transaction has at most 100 writes, and each operation needs two.
pub const MAX_OPERATIONS: usize = 45;
/// Maximum number of requests of a run.
const MAX_REQUESTS: usize = 1_000;

/// The table of the state.
#[derive(Debug, Clone)]
pub struct StateTable(Store);

impl StateTable {
    /// Creates the table with this name.
    pub fn new(client: aws_sdk_dynamodb::Client, name: &str) -> Self {
        Self(Store::new(client, name, VersionDigits::default()))
    }

    fn name(&self) -> &str {
        self.0.latest_table()
    }

    /// Reads the state, that of an empty log if there is none.
    ///
    /// # Errors
    ///
    /// The request fails, or the item is not one of a state.
    pub async fn read(&self) -> Result<State, SealError> {
        match self.0.get_stored(LOG, STATE, true, self.name()).await? {
            Some(item) => state_of(&item).ok_or_else(|| SealError::Unreadable("the state of the log".to_owned())),
            None => Ok(State {
                root: seal::log::tree::root([]),
                ..State::default()
            }),
        }
    }

    /// Replaces the state that was read, with the item of the batch, and moves operations that the batch contains. Returns `false` if the
    /// state is another one by now.
    ///
    /// # Errors
    ///
    /// The request fails.
    pub async fn swap(
        &self,
        old: &State,
        new: &State,
        batch: &Batch,
        operations: &[Operation],
    ) -> Result<bool, SealError> {
        let mut condition = Expression::absent();
        if old.size > 0 {
            // No other state has this name: its end is random.
            condition = Expression::default();
            condition.condition("#staging = :staging");
            condition.name("#staging", STAGING).value(":staging", s(&old.staging));
        }
        let mut writes = vec![
            Write::put(self.name(), state_item(new), condition),
            Write::insert(self.name(), batch_item(batch)),
        ];
        for operation in operations {
            let key = key(PENDING, operation.sort_key());
            writes.push(Write::delete(self.name(), key, Expression::default()));
            // An operation that was added again after it was sealed must not stop the log.
            writes.push(Write::put(
                self.name(),
                operation.item(OPERATIONS),
                Expression::default(),
            ));
        }
        if send_together(self.0.client(), writes).await? {
            return Ok(true);
        }
        // An earlier attempt of the request can have succeeded without a response: the name of the batch is random.
        Ok(self.read().await?.staging == new.staging)
    }

    /// Calls `add` for each batch that can contain a version that was inserted at this time or later, or whose time is unknown.
    ///
    /// # Errors
    ///
    /// A request fails, or an item is not one of a batch.
    pub async fn each_batch(&self, since: &str, mut add: impl FnMut(Batch) -> bool) -> Result<(), SealError> {
        let mut cursor = None;
        loop {
            let (items, next) = self.page(BATCHES, since, cursor).await?;
            for item in items {
                let batch = batch_of(&item).ok_or_else(|| SealError::Unreadable("a batch of the log".to_owned()))?;
                if !add(batch) {
                    return Ok(());
                }
            }
            cursor = next;
            if cursor.is_none() {
                return Ok(());
            }
        }
    }

    /// Stores an operation that is to be sealed.
    ///
    /// # Errors
    ///
    /// The request fails.
    pub async fn add_operation(&self, operation: &Operation) -> Result<(), ServiceError> {
        operation.add(&self.0, self.name()).await
    }

    /// Returns `true` if an operation with this id is sealed, or is to be sealed.
    ///
    /// # Errors
    ///
    /// A request fails.
    pub async fn has_operation(&self, operation: &Operation) -> Result<bool, ServiceError> {
        for partition in [PENDING, OPERATIONS] {
            let item = self
                .0
                .get_stored(partition, &operation.sort_key(), true, self.name())
                .await?;
            if item.is_some() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Reads operations that are to be sealed, at most [`MAX_OPERATIONS`].
    ///
    /// # Errors
    ///
    /// The request fails, or an item is not one of an operation.
    pub async fn pending(&self) -> Result<Vec<Operation>, SealError> {
        let (mut items, _) = self.page(PENDING, "", None).await?;
        items.retain(|item| !is_request(item));
        items.truncate(MAX_OPERATIONS);
        items
            .iter()
            .map(|item| Operation::of(item).ok_or_else(unreadable_operation))
            .collect()
    }

    /// Reads a page of operations: of those that are sealed, or of those that are not yet.
    ///
    /// # Errors
    ///
    /// The request fails, or an item is not one of an operation.
    pub async fn operations(
        &self,
        is_sealed: bool,
        start: Option<Cursor>,
    ) -> Result<(Vec<Operation>, Option<Cursor>), SealError> {
        let partition = if is_sealed { OPERATIONS } else { PENDING };
        let (items, next) = self.page(partition, "", start).await?;
        let operations = items.iter().filter(|item| !is_request(item));
        let operations = operations.map(|item| Operation::of(item).ok_or_else(unreadable_operation));
        Ok((operations.collect::<Result<_, _>>()?, next))
    }

    /// Asks seal-fn to seal a version that the index does not show.
    ///
    /// # Errors
    ///
    /// The request fails.
    pub async fn add_request(&self, request: &Request) -> Result<(), ServiceError> {
        let put = Write::put(self.name(), request.item(), Expression::default());
        let _ = put.send(self.0.client()).await?;
        Ok(())
    }

    /// Reads versions that are to be sealed, at most 1,000.
    ///
    /// # Errors
    ///
    /// The request fails, or an item is not one of a request.
    pub async fn requests(&self) -> Result<Vec<Request>, SealError> {
        let (mut items, _) = self.page(PENDING, REQUEST, None).await?;
        items.truncate(MAX_REQUESTS);
        let request = |item| Request::of(item).ok_or_else(|| SealError::Unreadable("a version to seal".to_owned()));
        items.iter().map(request).collect()
    }

    /// Deletes a request that was met.
    ///
    /// # Errors
    ///
    /// The request fails.
    pub async fn remove_request(&self, request: &Request) -> Result<(), ServiceError> {
        let delete = Write::delete(self.name(), key(PENDING, request.sort_key()), Expression::default());
        let _ = delete.send(self.0.client()).await?;
        Ok(())
    }

    async fn page(
        &self,
        partition: &str,
        since: &str,
        start: Option<Cursor>,
    ) -> Result<(Vec<Item>, Option<Cursor>), SealError> {
        let request = self
            .0
            .client()
            .query()
            .table_name(self.name())
            .consistent_read(true)
            .expression_attribute_names("#pk", names::PK)
            .expression_attribute_values(":pk", s(partition))
            .set_exclusive_start_key(start);
        let request = match since {
            "" => request.key_condition_expression("#pk = :pk"),
            since => request
                .key_condition_expression("#pk = :pk AND #sk >= :since")
                .expression_attribute_names("#sk", names::SK)
                .expression_attribute_values(":since", s(since)),
        };
        let output = request.send().await;
        let page = output.map_err(|error| ServiceError::new("Query", &error))?;
        let items = page.items.unwrap_or_default().into_iter().map(Item::from);
        Ok((items.collect(), page.last_evaluated_key.filter(|key| !key.is_empty())))
    }
}

/// Returns the kind of an operation's leaf.
pub fn kind_of(operation: &Operation) -> Kind {
    match operation.kind {
        sealed::Kind::Prune => Kind::Prune,
        sealed::Kind::Purge => Kind::Purge,
        sealed::Kind::Erase => Kind::Erase,
    }
}

fn unreadable_operation() -> SealError {
    SealError::Unreadable("an operation to seal".to_owned())
}
