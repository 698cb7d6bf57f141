//! What requests cost: the capacity that DynamoDB says they consumed.

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
    /// The requests since it was asked last, in the order of their answers. Requests that failed tell no cost.
    pub fn take(&self) -> Vec<Charge> {
        std::mem::take(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub(crate) fn push(&self, charge: Charge) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(charge);
    }
}

/// One arm for each operation that has a cost.
macro_rules! ask {
    ($input:expr, $($kind:ty),*) => {
        $(if let Some(input) = $input.downcast_mut::<$kind>() {
            input.return_consumed_capacity = Some(ReturnConsumedCapacity::Total);
        })*
    };
}

/// One arm for each operation that has a cost, with one table or several.
macro_rules! answer {
    ($output:expr, $($name:literal $kind:ty),*; $($names:literal $kinds:ty),*) => {
        $(if let Some(output) = $output.downcast_ref::<$kind>() {
            return Some(charge($name, &output.consumed_capacity));
        })*
        $(if let Some(output) = $output.downcast_ref::<$kinds>() {
            return Some(charge($names, output.consumed_capacity()));
        })*
    };
}

/// Asks a request for its cost.
pub(crate) fn ask(input: &mut Input) {
    ask!(
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

/// What an answer says that its request consumed. `None` for an operation without a cost.
pub(crate) fn consumed(output: &Output) -> Option<Charge> {
    answer!(
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

/// One arm for each operation that has a cost.
macro_rules! code {
    ($error:expr, $($kind:ty),*) => {
        $(if let Some(error) = $error.downcast_ref::<$kind>() {
            return error.code();
        })*
    };
}

/// The code of the error that a service answered.
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
        ask(context.input_mut());
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
