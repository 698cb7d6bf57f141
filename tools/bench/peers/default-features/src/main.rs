//! Our two functions without tuning: default features and configuration of the SDK, no warm-up requests or checks
//! during initialization, the default release profile. The first argument selects the function.

// The SDK's futures exceed the default recursion limit.
#![recursion_limit = "256"]

use aws_config::BehaviorVersion;
use lambda_runtime::{LambdaEvent, service_fn};
use serde_json::value::RawValue;
use shared::{clock::Deadline, config::Config, logging};
use stream_fn::HistoryWriter;
use writer_fn::{Writer, event::request::Carrier};

/// The first argument is missing or does not name a function.
#[derive(Debug, thiserror::Error)]
#[error("the first argument must be stream-fn or writer-fn")]
struct UsageError;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), lambda_runtime::Error> {
    logging::init();
    let function = std::env::args().nth(1).ok_or(UsageError)?;
    let config = Config::from_env()?;
    let client = aws_sdk_dynamodb::Client::new(&aws_config::load_defaults(BehaviorVersion::latest()).await);
    match function.as_str() {
        "stream-fn" => record(&HistoryWriter::new(client, &config)).await,
        "writer-fn" => write(&Writer::new(client, &config)).await,
        _ => Err(UsageError.into()),
    }
}

async fn record(recorder: &HistoryWriter) -> Result<(), lambda_runtime::Error> {
    lambda_runtime::run(service_fn(async |event: LambdaEvent<Box<RawValue>>| {
        let deadline = Deadline::at_epoch_millis(event.context.deadline);
        recorder
            .handle(&event.payload, &event.context.request_id, deadline)
            .await
    }))
    .await
}

async fn write(writer: &Writer) -> Result<(), lambda_runtime::Error> {
    lambda_runtime::run(service_fn(async |event: LambdaEvent<Box<RawValue>>| {
        let deadline = Deadline::at_epoch_millis(event.context.deadline);
        let invocation = Carrier::invocation(&event.context.request_id);
        writer.handle(&invocation, Some(event.payload.get()), deadline).await
    }))
    .await
}
