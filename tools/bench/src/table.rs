//! Tables on Amazon's DynamoDB Local, and what is asked of them.

use std::sync::{
    Arc,
    atomic::{AtomicU32, Ordering},
};

use aws_sdk_dynamodb::{
    Client,
    config::{
        ConfigBag, Intercept, RuntimeComponents,
        interceptors::{BeforeSerializationInterceptorContextRef, FinalizerInterceptorContextRef},
    },
    error::BoxError,
    operation::update_item::UpdateItemError,
};
use local::{
    dynamodb::{sdk_config, table},
    template::Table,
};
use shared::{
    domain::keys::VersionDigits,
    dynamodb::{Store, client::capacity::Meter},
    logging::chain,
};

use crate::{dynamodb_local::DynamoDbLocal, error::BenchError, progress::Progress};

/// A DynamoDB Local of one comparison.
pub(crate) struct Tables {
    pub(crate) client: Client,
    pub(crate) meter: Meter,
    pub(crate) requests: Requests,
    local: DynamoDbLocal,
}

impl Tables {
    /// Starts it, or says that it is not installed.
    pub(crate) async fn start(progress: &Progress) -> Result<Option<Self>, BenchError> {
        let Some(folder) = DynamoDbLocal::find() else {
            progress.note("DynamoDB Local is not installed, and left out: tools/bench/peers/install dynamodb-local");
            return Ok(None);
        };
        let local = DynamoDbLocal::start(&folder).await?;
        let (meter, requests) = (Meter::default(), Requests::default());
        let config = aws_sdk_dynamodb::config::Builder::from(&sdk_config(local.endpoint()).await)
            .interceptor(meter.clone())
            .interceptor(requests.clone())
            .build();
        Ok(Some(Self {
            client: Client::from_conf(config),
            meter,
            requests,
            local,
        }))
    }

    /// Where it is.
    pub(crate) fn endpoint(&self) -> &str {
        self.local.endpoint()
    }

    /// Makes a table with version keys of this width.
    pub(crate) async fn make(&self, name: &str, digits: VersionDigits) -> Result<Store, BenchError> {
        let pair = |name: &str, what: &str| (name.to_owned(), what.to_owned());
        let settings = Table {
            name: name.to_owned(),
            attributes: vec![pair("PK", "S"), pair("SK", "S")],
            keys: vec![pair("PK", "HASH"), pair("SK", "RANGE")],
            stream_view_type: "NEW_IMAGE".to_owned(),
            ttl: None,
        };
        table::ensure(&self.client, &settings).await.map_err(failed)?;
        Ok(Store::new(self.client.clone(), name, digits))
    }
}

/// What a table, or a request to it, failed of.
#[allow(clippy::needless_pass_by_value, reason = "for map_err")]
pub(crate) fn failed(error: impl std::error::Error + 'static) -> BenchError {
    BenchError::Table(chain(&error))
}

/// Counts the requests of a client, and those among them that were updates whose condition failed: these cost write units too,
/// and no answer says so.
#[derive(Debug, Clone, Default)]
pub(crate) struct Requests(Arc<(AtomicU32, AtomicU32)>);

impl Requests {
    /// How many there were since it was asked last, and how many updates were refused.
    pub(crate) fn take(&self) -> (u32, u32) {
        (self.0.0.swap(0, Ordering::Relaxed), self.0.1.swap(0, Ordering::Relaxed))
    }
}

impl Intercept for Requests {
    fn name(&self) -> &'static str {
        "requests"
    }

    fn read_before_serialization(
        &self,
        _: &BeforeSerializationInterceptorContextRef<'_>,
        _: &RuntimeComponents,
        _: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        self.0.0.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    fn read_after_execution(
        &self,
        context: &FinalizerInterceptorContextRef<'_>,
        _: &RuntimeComponents,
        _: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        let error = match context.output_or_error() {
            Some(Err(error)) => error.as_operation_error(),
            _ => None,
        };
        let error = error.and_then(|error| error.downcast_ref::<UpdateItemError>());
        if error.is_some_and(UpdateItemError::is_conditional_check_failed_exception) {
            self.0.1.fetch_add(1, Ordering::Relaxed);
        }
        Ok(())
    }
}
