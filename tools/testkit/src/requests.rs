//! What the requests of a client did, beyond their units.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
};

use aws_sdk_dynamodb::{
    config::{
        ConfigBag, Intercept, RuntimeComponents,
        interceptors::{BeforeSerializationInterceptorContextRef, FinalizerInterceptorContextRef},
    },
    error::BoxError,
    operation::{transact_write_items::TransactWriteItemsOutput, update_item::UpdateItemError},
};

/// Counts of requests.
#[derive(Debug, Default)]
pub struct Counts {
    /// Requests that were started.
    pub started: u32,
    /// Updates whose condition failed. Such an update consumes write units, but its error reports none.
    pub failed_conditions: u32,
    /// Write units of transactions, by table.
    pub transactions: BTreeMap<String, f64>,
    /// Body of the last response.
    pub response: Vec<u8>,
}

/// Interceptor that counts the requests of a client.
#[derive(Debug, Clone, Default)]
pub struct RequestCounter(Arc<Mutex<Counts>>);

impl RequestCounter {
    /// Returns the counts since the last call.
    pub fn take(&self) -> Counts {
        std::mem::take(&mut self.0.lock().unwrap())
    }
}

impl Intercept for RequestCounter {
    fn name(&self) -> &'static str {
        "requests"
    }

    fn read_before_serialization(
        &self,
        _: &BeforeSerializationInterceptorContextRef<'_>,
        _: &RuntimeComponents,
        _: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        self.0.lock().unwrap().started += 1;
        Ok(())
    }

    fn read_after_execution(
        &self,
        context: &FinalizerInterceptorContextRef<'_>,
        _: &RuntimeComponents,
        _: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        let mut counts = self.0.lock().unwrap();
        let body = context.response().and_then(|response| response.body().bytes());
        body.unwrap_or_default().clone_into(&mut counts.response);
        match context.output_or_error() {
            Some(Ok(output)) => {
                let output = output.downcast_ref().map(TransactWriteItemsOutput::consumed_capacity);
                for consumed in output.unwrap_or_default() {
                    let table = consumed.table_name().unwrap_or_default().to_owned();
                    *counts.transactions.entry(table).or_default() += consumed.capacity_units().unwrap_or_default();
                }
            }
            Some(Err(error)) => {
                let error = error.as_operation_error().and_then(|error| error.downcast_ref());
                if error.is_some_and(UpdateItemError::is_conditional_check_failed_exception) {
                    counts.failed_conditions += 1;
                }
            }
            None => {}
        }
        Ok(())
    }
}
