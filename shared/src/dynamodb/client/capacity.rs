//! Consumed capacity of requests.

use std::sync::{Arc, Mutex, PoisonError};

use aws_sdk_dynamodb::{
    config::{
        ConfigBag, Intercept, RuntimeComponents,
        interceptors::{BeforeSerializationInterceptorContextMut, FinalizerInterceptorContextRef},
    },
    error::{BoxError, ProvideErrorMetadata as _},
    operation::{
        batch_execute_statement::{
            BatchExecuteStatementError, BatchExecuteStatementInput, BatchExecuteStatementOutput,
        },
        batch_get_item::{BatchGetItemError, BatchGetItemInput, BatchGetItemOutput},
        batch_write_item::{BatchWriteItemError, BatchWriteItemInput, BatchWriteItemOutput},
        delete_item::{DeleteItemError, DeleteItemInput, DeleteItemOutput},
        get_item::{GetItemError, GetItemInput, GetItemOutput},
        put_item::{PutItemError, PutItemInput, PutItemOutput},
        query::{QueryError, QueryInput, QueryOutput},
        scan::{ScanError, ScanInput, ScanOutput},
        transact_write_items::{TransactWriteItemsError, TransactWriteItemsInput, TransactWriteItemsOutput},
        update_item::{UpdateItemError, UpdateItemInput, UpdateItemOutput},
    },
    types::{ConsumedCapacity, ReturnConsumedCapacity},
};
use aws_smithy_runtime_api::client::interceptors::context::{Error, Input, Output};

/// Capacity units that one request consumed.
#[derive(Debug, Clone, PartialEq)]
pub struct Charge {
    /// Name of the operation.
    pub operation: &'static str,
    /// Read or write units, of all tables.
    pub units: f64,
}

/// Interceptor that requests the consumed capacity of every request of a client, and collects it.
///
/// ```
/// use aws_sdk_dynamodb::{Client, config::{BehaviorVersion, Config}};
/// use shared::dynamodb::client::capacity::Meter;
///
/// let meter = Meter::default();
/// let config = Config::builder().behavior_version(BehaviorVersion::v2026_01_12()).interceptor(meter.clone()).build();
/// let client = Client::from_conf(config);
/// assert!(meter.take().is_empty());
/// ```
#[derive(Debug, Clone, Default)]
pub struct Meter(Arc<Mutex<Vec<Charge>>>);

impl Meter {
    /// Returns the charges since the last call, in the order of completion. Failed requests have no charge.
    pub fn take(&self) -> Vec<Charge> {
        std::mem::take(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Adds the consumption of a request.
    pub fn push(&self, charge: Charge) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(charge);
    }
}

/// Has one arm for each operation that consumes capacity.
macro_rules! request_capacity {
    ($input:expr, $($kind:ty),*) => {
        $(if let Some(input) = $input.downcast_mut::<$kind>() {
            input.return_consumed_capacity = Some(ReturnConsumedCapacity::Total);
        })*
    };
}

/// Has one arm for each operation that consumes capacity, of one table or several tables.
macro_rules! output_capacity {
    ($output:expr, $($name:literal $kind:ty),*; $($names:literal $kinds:ty),*) => {
        $(if let Some(output) = $output.downcast_ref::<$kind>() {
            return Some(charge($name, &output.consumed_capacity));
        })*
        $(if let Some(output) = $output.downcast_ref::<$kinds>() {
            return Some(charge($names, output.consumed_capacity()));
        })*
    };
}

/// Sets the request parameter that returns the consumed capacity.
pub(crate) fn request_capacity(input: &mut Input) {
    request_capacity!(
        input,
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
}

/// Returns the consumed capacity of an output, `None` for an operation that consumes none.
pub(crate) fn consumed(output: &Output) -> Option<Charge> {
    output_capacity!(
        output,
        "GetItem" GetItemOutput,
        "PutItem" PutItemOutput,
        "UpdateItem" UpdateItemOutput,
        "DeleteItem" DeleteItemOutput,
        "Query" QueryOutput,
        "Scan" ScanOutput;
        "BatchExecuteStatement" BatchExecuteStatementOutput,
        "BatchGetItem" BatchGetItemOutput,
        "BatchWriteItem" BatchWriteItemOutput,
        "TransactWriteItems" TransactWriteItemsOutput
    );
    None
}

/// Has one arm for each operation that consumes capacity.
macro_rules! code {
    ($error:expr, $($kind:ty),*) => {
        $(if let Some(error) = $error.downcast_ref::<$kind>() {
            return error.code();
        })*
    };
}

/// Returns the error code of a service error.
pub(crate) fn code(error: &Error) -> Option<&str> {
    code!(
        error,
        GetItemError,
        PutItemError,
        UpdateItemError,
        DeleteItemError,
        QueryError,
        ScanError,
        BatchExecuteStatementError,
        BatchGetItemError,
        BatchWriteItemError,
        TransactWriteItemsError
    );
    None
}

fn charge<'a>(operation: &'static str, consumed: impl IntoIterator<Item = &'a ConsumedCapacity>) -> Charge {
    let units = consumed
        .into_iter()
        .filter_map(|consumed| consumed.capacity_units)
        .sum();
    Charge { operation, units }
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
        request_capacity(context.input_mut());
        Ok(())
    }

    fn read_after_execution(
        &self,
        context: &FinalizerInterceptorContextRef<'_>,
        _: &RuntimeComponents,
        _: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        let output = context.output_or_error().and_then(Result::ok);
        if let Some(charge) = output.and_then(consumed) {
            self.push(charge);
        }
        Ok(())
    }
}
