//! SDK client with timeouts and retries.

pub mod capacity;
pub mod error;
pub mod failure;
pub mod request_log;
pub mod settings;

use aws_config::{BehaviorVersion, ConfigLoader};
use aws_sdk_dynamodb::Client;
use aws_smithy_http_client::{
    Builder, ConnectorBuilder,
    proxy::ProxyConfig,
    tls::{Provider, TlsContext, TrustStore, rustls_provider::CryptoMode},
};
use aws_smithy_runtime_api::client::http::SharedHttpClient;

use crate::dynamodb::client::request_log::RequestLog;
pub use crate::dynamodb::client::settings::ClientSettings;

/// Creates the client of a function. Region, credentials and endpoint come from the environment.
pub async fn from_env(settings: &ClientSettings) -> Client {
    let config = sdk_config(settings).load().await;
    let config = aws_sdk_dynamodb::config::Builder::from(&config).interceptor(RequestLog);
    Client::from_conf(config.build())
}

/// Returns a loader of SDK settings with this project's HTTP client, and the default timeouts and retries.
pub fn sdk_defaults() -> ConfigLoader {
    sdk_config(&ClientSettings::default())
}

/// Returns a loader of SDK settings with this project's HTTP client, and these timeouts and retries.
pub fn sdk_config(settings: &ClientSettings) -> ConfigLoader {
    aws_config::defaults(BehaviorVersion::v2026_01_12())
        .http_client(http_client())
        .timeout_config(settings.timeouts())
        .retry_config(settings.retries())
}

/// Returns an HTTP client with TLS by rustls and ring. Like the SDK's default client, it keeps connections open and uses the
/// proxy that the environment names.
pub fn http_client() -> SharedHttpClient {
    Builder::new().build_with_connector_fn(|settings, components| {
        // A new client asks for a connector without settings, and drops it. With roots, this would parse them once more.
        let roots = settings.map_or_else(TrustStore::empty, |_| TrustStore::default());
        let context = TlsContext::builder().with_trust_store(roots).build();
        let mut connector = ConnectorBuilder::default()
            .tls_provider(Provider::Rustls(CryptoMode::Ring))
            .tls_context(context.unwrap_or_default())
            .proxy_config(ProxyConfig::from_env());
        connector.set_connector_settings(settings.cloned());
        connector.set_sleep_impl(components.and_then(aws_sdk_dynamodb::config::RuntimeComponents::sleep_impl));
        connector.build()
    })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use aws_config::Region;
    use aws_sdk_dynamodb::config::Credentials;

    use super::*;
    use crate::{domain::keys::VersionDigits, dynamodb::Store};

    async fn client(settings: &ClientSettings) -> Client {
        let loader = sdk_config(settings).region(Region::new("eu-central-1"));
        let credentials = Credentials::new("key", "secret", None, None, "test");
        Client::new(&loader.credentials_provider(credentials).load().await)
    }

    #[tokio::test]
    async fn a_client_has_its_settings() {
        for settings in [
            ClientSettings::default(),
            ClientSettings {
                max_attempts: 7,
                connect_timeout: Duration::from_millis(1),
                read_timeout: Duration::from_millis(2),
                attempt_timeout: Duration::from_millis(3),
                operation_timeout: Duration::from_millis(4),
            },
        ] {
            let client = client(&settings).await;
            let (retries, timeouts) = (client.config().retry_config(), client.config().timeout_config());
            let (retries, timeouts) = (retries.unwrap(), timeouts.unwrap());
            assert_eq!(retries.max_attempts(), settings.max_attempts);
            assert_eq!(timeouts.connect_timeout(), Some(settings.connect_timeout));
            assert_eq!(timeouts.read_timeout(), Some(settings.read_timeout));
            assert_eq!(timeouts.operation_attempt_timeout(), Some(settings.attempt_timeout));
            assert_eq!(timeouts.operation_timeout(), Some(settings.operation_timeout));
            // The update of the latest item has the same timeouts; the store counts its attempts.
            let store = Store::new(client, "Table", VersionDigits::default());
            let once = store.client_without_retries.config();
            assert_eq!(once.retry_config().unwrap().max_attempts(), 1);
            assert_eq!(store.max_attempts(), settings.max_attempts);
            let timeouts = once.timeout_config().unwrap();
            assert_eq!(timeouts.operation_attempt_timeout(), Some(settings.attempt_timeout));
        }
    }
}
