//! SDK client with timeouts and retries.

pub mod capacity;
pub mod error;
pub(crate) mod failure;
pub mod request_spans;

use std::time::Duration;

use aws_config::{BehaviorVersion, ConfigLoader, retry::RetryConfig, timeout::TimeoutConfig};
use aws_sdk_dynamodb::Client;
use aws_smithy_http_client::{
    Builder, ConnectorBuilder,
    proxy::ProxyConfig,
    tls::{Provider, rustls_provider::CryptoMode},
};
use aws_smithy_runtime_api::client::http::SharedHttpClient;

use crate::dynamodb::client::request_spans::RequestSpans;

/// Maximum duration of one operation with all its attempts. The Lambda functions' timeouts are longer.
pub const OPERATION_TIMEOUT: Duration = Duration::from_secs(8);

/// Creates the client of a function. Region, credentials and endpoint come from the environment.
pub async fn from_env() -> Client {
    let config = sdk_defaults().load().await;
    let config = aws_sdk_dynamodb::config::Builder::from(&config).interceptor(RequestSpans);
    Client::from_conf(config.build())
}

/// Returns a loader of SDK settings with this project's HTTP client, timeouts and retries.
pub fn sdk_defaults() -> ConfigLoader {
    aws_config::defaults(BehaviorVersion::v2026_01_12())
        .http_client(http_client())
        .timeout_config(timeouts())
        .retry_config(retries())
}

/// Returns an HTTP client with TLS by rustls and ring. Like the SDK's default client, it keeps connections open and uses the
/// proxy that the environment names.
pub fn http_client() -> SharedHttpClient {
    Builder::new().build_with_connector_fn(|settings, components| {
        let mut connector = ConnectorBuilder::default()
            .tls_provider(Provider::Rustls(CryptoMode::Ring))
            .proxy_config(ProxyConfig::from_env());
        connector.set_connector_settings(settings.cloned());
        connector.set_sleep_impl(components.and_then(aws_sdk_dynamodb::config::RuntimeComponents::sleep_impl));
        connector.build()
    })
}

/// Returns timeouts for the client. By default, the SDK has no read and operation timeout: a call could block forever.
pub fn timeouts() -> TimeoutConfig {
    TimeoutConfig::builder()
        .connect_timeout(Duration::from_secs(1))
        .read_timeout(Duration::from_secs(2))
        .operation_attempt_timeout(Duration::from_secs(2))
        .operation_timeout(OPERATION_TIMEOUT)
        .build()
}

/// Returns the retry settings: three attempts, the SDK's default, with shorter waits, because clients and the event source
/// mapping retry too.
pub fn retries() -> RetryConfig {
    RetryConfig::standard()
        .with_max_attempts(3)
        .with_initial_backoff(Duration::from_millis(100))
        .with_max_backoff(Duration::from_secs(1))
}
