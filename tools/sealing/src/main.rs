//! The Lambda function `seal-fn`.

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), lambda_runtime::Error> {
    Box::pin(sealing::run()).await
}
