//! The Lambda function `stream-fn`.

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), lambda_runtime::Error> {
    stream_fn::run().await
}
