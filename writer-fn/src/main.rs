//! The Lambda function `writer-fn`.

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), lambda_runtime::Error> {
    writer_fn::run().await
}
