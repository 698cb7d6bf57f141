//! Consumed capacity of requests.

use std::sync::{Arc, Mutex, PoisonError};

use aws_sdk_dynamodb::{
    config::{
        ConfigBag, Intercept, RuntimeComponents,
        interceptors::{BeforeSerializationInterceptorContextMut, FinalizerInterceptorContextRef},
    },
    error::{BoxError, ProvideErrorMetadata as _},
    operation::{
        batch_execute_statement, batch_get_item, batch_write_item, delete_item, get_item, put_item, query, scan,
        transact_write_items, update_item,
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

fn units<'a>(consumed: impl Iterator<Item = &'a ConsumedCapacity>) -> f64 {
    consumed.filter_map(|consumed| consumed.capacity_units).sum()
}

/// Writes the functions with one arm for each operation that consumes capacity, of one table, or of several with `flatten`.
macro_rules! operations {
    ($($module:ident, $name:literal, $input:ident, $output:ident, $error:ident $(, $each:ident)?;)*) => {
        /// Sets the request parameter that returns the consumed capacity.
        pub(crate) fn request_capacity(input: &mut Input) {
            $(if let Some(input) = input.downcast_mut::<$module::$input>() {
                input.return_consumed_capacity = Some(ReturnConsumedCapacity::Total);
            })*
        }

        /// Returns the consumed capacity of an output, `None` for an operation that consumes none.
        pub(crate) fn consumed(output: &Output) -> Option<Charge> {
            $(if let Some(output) = output.downcast_ref::<$module::$output>() {
                let units = units(output.consumed_capacity.iter()$(.$each())?);
                return Some(Charge { operation: $name, units });
            })*
            None
        }

        /// Returns the error code of a service error.
        pub(crate) fn code(error: &Error) -> Option<&str> {
            $(if let Some(error) = error.downcast_ref::<$module::$error>() {
                return error.code();
            })*
            None
        }
    };
}

operations! {
    get_item, "GetItem", GetItemInput, GetItemOutput, GetItemError;
    put_item, "PutItem", PutItemInput, PutItemOutput, PutItemError;
    update_item, "UpdateItem", UpdateItemInput, UpdateItemOutput, UpdateItemError;
    delete_item, "DeleteItem", DeleteItemInput, DeleteItemOutput, DeleteItemError;
    query, "Query", QueryInput, QueryOutput, QueryError;
    scan, "Scan", ScanInput, ScanOutput, ScanError;
    batch_execute_statement, "BatchExecuteStatement",
        BatchExecuteStatementInput, BatchExecuteStatementOutput, BatchExecuteStatementError, flatten;
    batch_get_item, "BatchGetItem", BatchGetItemInput, BatchGetItemOutput, BatchGetItemError, flatten;
    batch_write_item, "BatchWriteItem", BatchWriteItemInput, BatchWriteItemOutput, BatchWriteItemError, flatten;
    transact_write_items, "TransactWriteItems",
        TransactWriteItemsInput, TransactWriteItemsOutput, TransactWriteItemsError, flatten;
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
