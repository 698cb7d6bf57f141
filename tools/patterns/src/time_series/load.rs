//! Load of many states: `BatchWriteItem`, 25 states in a request.
//!
//! `BatchWriteItem` has no conditions, so a loaded state replaces an existing state of the same time. For the same reason a
//! load can be repeated after an error. All states are checked before the first request: two states of one entity and time
//! are an error, because only one of them would be kept, and so is a state above a limit, which DynamoDB would reject together
//! with the others of its request. States that DynamoDB leaves unprocessed are sent again together with the next ones.

use std::{collections::HashMap, time::Duration};

use aws_sdk_dynamodb::types::{PutRequest, WriteRequest};
use shared::{
    domain::{
        entity::EntityId,
        size::{self, MAX_ITEM_BYTES, OverLimit},
    },
    dynamodb::client::error::{ErrorKind, ServiceError},
};
use thiserror::Error;

use super::{State, TimeSeries, item};

const OPERATION: &str = "BatchWriteItem";
/// Maximum number of puts in a request, see
/// [`BatchWriteItem`](https://docs.aws.amazon.com/amazondynamodb/latest/APIReference/API_BatchWriteItem.html).
const MAX_PUTS: usize = 25;
/// Maximum number of consecutive requests that store no state, because of throttling.
const MAX_IDLE_REQUESTS: u32 = 12;
/// Maximum wait before unprocessed states are sent again; it doubles with each consecutive request that stores no state.
const INITIAL_WAIT: Duration = Duration::from_millis(50);
const MAX_WAIT: Duration = Duration::from_secs(10);

impl TimeSeries {
    /// Stores many states, and returns their number. An existing state of the same entity and time is replaced.
    /// `progress` is called with the number of states that are stored so far.
    ///
    /// ```no_run
    /// # async fn example(client: aws_sdk_dynamodb::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// use patterns::time_series::{State, StateTime, TimeSeries};
    /// use shared::domain::{attributes, entity::EntityId};
    ///
    /// let state = |time: &str, json: &str| -> Result<_, Box<dyn std::error::Error>> {
    ///     let state = State { time: StateTime::parse(time)?, attributes: attributes::item_from_dynamodb_json(json)? };
    ///     Ok((EntityId::new("Equipment#1")?, state))
    /// };
    /// let states = [
    ///     state("2023-10-03T12:32:00", r#"{"State": {"S": "NORMAL"}}"#)?,
    ///     state("2023-11-05T12:12:00", r#"{"State": {"S": "WARNING1"}}"#)?,
    /// ];
    /// let stored = TimeSeries::new(client, "VersionControl").load(&states, |_| ()).await?;
    /// assert_eq!(stored, 2);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// Returns [`LoadError::Twice`] or [`LoadError::Invalid`] before the first request, and [`LoadError::Service`] if a
    /// request fails, or if DynamoDB throttles all requests for about half a minute.
    pub async fn load(&self, states: &[(EntityId, State)], mut progress: impl FnMut(u64)) -> Result<u64, LoadError> {
        check_states(states)?;
        let failed = |stored, source| LoadError::Service {
            stored,
            states: states.len() as u64,
            source,
        };
        let (table, mut left) = (self.store.latest_table(), states.iter());
        let (mut batch, mut stored, mut idle_requests) = (Vec::new(), 0, 0);
        loop {
            for (entity, state) in left.by_ref().take(MAX_PUTS - batch.len()) {
                let item = item(entity, &state.time, state.attributes.clone());
                let put = PutRequest::builder().set_item(Some(item.into())).build();
                let put = put.map_err(|_| failed(stored, ServiceError::not_built(OPERATION)))?;
                batch.push(WriteRequest::builder().put_request(put).build());
            }
            if batch.is_empty() {
                return Ok(stored);
            }
            let sent = batch.len();
            let request = self.store.client().batch_write_item();
            let mut error = ServiceError::unprocessed(OPERATION);
            match request.request_items(table, batch.clone()).send().await {
                Ok(output) => {
                    let unprocessed = output.unprocessed_items.unwrap_or_default().remove(table);
                    batch = unprocessed.unwrap_or_default();
                }
                Err(found) => error = ServiceError::new(OPERATION, &found),
            }
            let done = sent.saturating_sub(batch.len());
            idle_requests = if done == 0 { idle_requests + 1 } else { 0 };
            if error.kind != ErrorKind::Throttled || idle_requests == MAX_IDLE_REQUESTS {
                return Err(failed(stored, error));
            }
            if done > 0 {
                stored += done as u64;
                progress(stored);
            }
            if !batch.is_empty() {
                let wait = (INITIAL_WAIT * (1 << idle_requests)).min(MAX_WAIT);
                tokio::time::sleep(wait.mul_f64(fastrand::f64())).await;
            }
        }
    }
}

/// Checks states as [`TimeSeries::load`] does.
///
/// # Errors
///
/// Returns [`LoadError::Twice`] or [`LoadError::Invalid`].
pub fn check_states(states: &[(EntityId, State)]) -> Result<(), LoadError> {
    let mut keys = HashMap::with_capacity(states.len());
    for (index, (entity, state)) in states.iter().enumerate() {
        check_state(entity, state).map_err(|source| LoadError::Invalid { index, source })?;
        if let Some(first) = keys.insert((entity, &state.time), index) {
            return Err(LoadError::Twice { first, second: index });
        }
    }
    Ok(())
}

fn check_state(entity: &EntityId, state: &State) -> Result<(), InvalidState> {
    for (name, value) in state.attributes.iter() {
        size::check_attribute(name, value)?;
    }
    match size::of_item(&item(entity, &state.time, state.attributes.clone())) {
        bytes if bytes > MAX_ITEM_BYTES => Err(InvalidState::TooLarge),
        _ => Ok(()),
    }
}

/// Reason why states were not loaded.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum LoadError {
    /// Two states have the same entity and time. No state was stored.
    #[error("states {first} and {second} have the same entity and time")]
    Twice {
        /// Position of the first one, from 0.
        first: usize,
        /// Position of the second one.
        second: usize,
    },
    /// A state is above a limit of DynamoDB. No state was stored.
    #[error("state {index} cannot be stored")]
    Invalid {
        /// Position of the state, from 0.
        index: usize,
        /// Reason.
        source: InvalidState,
    },
    /// A request failed. Loading all states again replaces those that are stored.
    #[error("{stored} of {states} states are stored; load all of them again")]
    Service {
        /// Number of states that are stored.
        stored: u64,
        /// Number of all states.
        states: u64,
        /// Reason.
        source: ServiceError,
    },
}

/// Reason why DynamoDB cannot store a state.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum InvalidState {
    /// A name is too long, or the nesting too deep.
    #[error(transparent)]
    OverLimit(#[from] OverLimit),
    /// The item is larger than [`MAX_ITEM_BYTES`].
    #[error("the item would be larger than 400 KB")]
    TooLarge,
}
