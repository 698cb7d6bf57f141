//! What requests cost: the capacity that DynamoDB says they consumed.

use std::sync::{Arc, Mutex, PoisonError};

use aws_sdk_dynamodb::{
    config::{
        ConfigBag, Intercept, RuntimeComponents,
        interceptors::{BeforeSerializationInterceptorContextMut, FinalizerInterceptorContextRef},
    },
    error::BoxError,
    operation::{
        batch_execute_statement::{BatchExecuteStatementInput, BatchExecuteStatementOutput},
        batch_get_item::{BatchGetItemInput, BatchGetItemOutput},
        batch_write_item::{BatchWriteItemInput, BatchWriteItemOutput},
        delete_item::{DeleteItemInput, DeleteItemOutput},
        get_item::{GetItemInput, GetItemOutput},
        put_item::{PutItemInput, PutItemOutput},
        query::{QueryInput, QueryOutput},
        scan::{ScanInput, ScanOutput},
        transact_write_items::{TransactWriteItemsInput, TransactWriteItemsOutput},
        update_item::{UpdateItemInput, UpdateItemOutput},
    },
    types::{ConsumedCapacity, ReturnConsumedCapacity},
};

/// One request, and the capacity units it consumed.
#[derive(Debug, Clone, PartialEq)]
pub struct Charge {
    /// The operation, in DynamoDB's words.
    pub operation: &'static str,
    /// Read or write units, of all its tables.
    pub units: f64,
}

/// Asks every request of a client for its cost, and keeps the answers.
///
/// ```
/// use aws_sdk_dynamodb::{Client, config::{BehaviorVersion, Config}};
/// use shared::dynamodb::capacity::Meter;
///
/// let meter = Meter::default();
/// let config = Config::builder().behavior_version(BehaviorVersion::v2026_01_12()).interceptor(meter.clone()).build();
/// let client = Client::from_conf(config);
/// assert!(meter.take().is_empty());
/// ```
#[derive(Debug, Clone, Default)]
pub struct Meter(Arc<Mutex<Vec<Charge>>>);

impl Meter {
    /// The requests since it was asked last, in the order of their answers. Requests that failed tell no cost.
    pub fn take(&self) -> Vec<Charge> {
        std::mem::take(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn add<'a>(&self, operation: &'static str, consumed: impl IntoIterator<Item = &'a ConsumedCapacity>) {
        let units = consumed
            .into_iter()
            .filter_map(|consumed| consumed.capacity_units)
            .sum();
        self.push(Charge { operation, units });
    }

    pub(super) fn push(&self, charge: Charge) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(charge);
    }
}

/// One arm for each operation that has a cost.
macro_rules! ask {
    ($context:expr, $($input:ty),*) => {
        $(if let Some(input) = $context.input_mut().downcast_mut::<$input>() {
            input.return_consumed_capacity = Some(ReturnConsumedCapacity::Total);
        })*
    };
}

/// One arm for each operation that has a cost.
macro_rules! answer {
    ($meter:expr, $output:expr, $($name:literal $kind:ty),*) => {
        $(if let Some(output) = $output.downcast_ref::<$kind>() {
            $meter.add($name, &output.consumed_capacity);
        })*
    };
}

impl Intercept for Meter {
    fn name(&self) -> &'static str {
        "capacity meter"
    }

    fn modify_before_serialization(
        &self,
        context: &mut BeforeSerializationInterceptorContextMut<'_>,
        _: &RuntimeComponents,
        _: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        ask!(
            context,
            GetItemInput,
            PutItemInput,
            UpdateItemInput,
            DeleteItemInput,
            QueryInput,
            ScanInput,
            BatchExecuteStatementInput,
            BatchGetItemInput,
            BatchWriteItemInput,
            TransactWriteItemsInput
        );
        Ok(())
    }

    fn read_after_execution(
        &self,
        context: &FinalizerInterceptorContextRef<'_>,
        _: &RuntimeComponents,
        _: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        if let Some(Ok(output)) = context.output_or_error() {
            answer!(
                self, output,
                "GetItem" GetItemOutput,
                "PutItem" PutItemOutput,
                "UpdateItem" UpdateItemOutput,
                "DeleteItem" DeleteItemOutput,
                "Query" QueryOutput,
                "Scan" ScanOutput
            );
            if let Some(output) = output.downcast_ref::<BatchExecuteStatementOutput>() {
                self.add("BatchExecuteStatement", output.consumed_capacity());
            }
            if let Some(output) = output.downcast_ref::<BatchGetItemOutput>() {
                self.add("BatchGetItem", output.consumed_capacity());
            }
            if let Some(output) = output.downcast_ref::<BatchWriteItemOutput>() {
                self.add("BatchWriteItem", output.consumed_capacity());
            }
            if let Some(output) = output.downcast_ref::<TransactWriteItemsOutput>() {
                self.add("TransactWriteItems", output.consumed_capacity());
            }
        }
        Ok(())
    }
}
