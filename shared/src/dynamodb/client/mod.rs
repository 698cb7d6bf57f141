//! SDK client with timeouts and retries.

pub mod capacity;
pub mod error;
pub mod failure;
pub mod request_log;
pub mod settings;

use aws_config::{
    BehaviorVersion, ConfigLoader,
    environment::{EnvironmentVariableCredentialsProvider, EnvironmentVariableRegionProvider},
    meta::region::ProvideRegion as _,
};
use aws_sdk_dynamodb::{Client, Config, config::Builder};
use aws_smithy_http_client::{
    ConnectorBuilder,
    proxy::ProxyConfig,
    tls::{Provider, TlsContext, TrustStore, rustls_provider::CryptoMode},
};
use aws_smithy_runtime_api::client::http::SharedHttpClient;

pub use crate::dynamodb::client::settings::ClientSettings;
use crate::{config::variable, dynamodb::client::request_log::RequestLog};

/// Creates the client of a function. Region, credentials and endpoint come from the environment variables that Lambda sets. The SDK's loader
/// also contains profiles, STS and metadata services, which are a tenth of a package.
pub async fn from_env(settings: &ClientSettings) -> Client {
    let config = at_endpoint(settings, &variable)
        .region(EnvironmentVariableRegionProvider::new().region().await)
        .credentials_provider(EnvironmentVariableCredentialsProvider::new())
        .http_client(http_client());
    Client::from_conf(config.build())
}

/// Returns the configuration of a function's client, with the endpoint that the variables define.
fn at_endpoint(settings: &ClientSettings, variable: &dyn Fn(&str) -> Option<String>) -> Builder {
    let text = |name: &str| variable(name).filter(|value| !value.is_empty());
    let is_set = |name| text(name).is_some_and(|value| value.eq_ignore_ascii_case("true"));
    let mut config = Config::builder()
        .behavior_version(BehaviorVersion::v2026_01_12())
        .use_fips(is_set("AWS_USE_FIPS_ENDPOINT"))
        .use_dual_stack(is_set("AWS_USE_DUALSTACK_ENDPOINT"))
        .timeout_config(settings.timeouts())
        .retry_config(settings.retries())
        .interceptor(RequestLog);
    config.set_endpoint_url(text("AWS_ENDPOINT_URL_DYNAMODB").or_else(|| text("AWS_ENDPOINT_URL")));
    config
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
    aws_smithy_http_client::Builder::new().build_with_connector_fn(|settings, components| {
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
    use aws_sdk_dynamodb::config::{Credentials, http::HttpRequest};
    use serde_json::json;
    use testkit::replay::Replay;

    use super::*;
    use crate::{domain::keys::VersionDigits, dynamodb::Store};

    fn at(settings: &ClientSettings, variables: &[(&str, &str)]) -> Builder {
        let find = |name: &str| variables.iter().find(|(other, _)| *other == name);
        at_endpoint(settings, &|name| find(name).map(|(_, value)| (*value).to_owned()))
            .region(Region::new("eu-central-1"))
            .credentials_provider(Credentials::for_tests())
    }

    #[tokio::test]
    async fn the_variables_define_the_endpoint() {
        let (all, service) = (("AWS_ENDPOINT_URL", "http://all"), "AWS_ENDPOINT_URL_DYNAMODB");
        let (fips, dual_stack) = ("AWS_USE_FIPS_ENDPOINT", "AWS_USE_DUALSTACK_ENDPOINT");
        for (variables, expected) in [
            (&[][..], "https://dynamodb.eu-central-1.amazonaws.com/"),
            (&[all], "http://all/"),
            (&[all, (service, "")], "http://all/"),
            (&[all, (service, "http://one")], "http://one/"),
            (&[(fips, "false")], "https://dynamodb.eu-central-1.amazonaws.com/"),
            (&[(fips, "TRUE")], "https://dynamodb-fips.eu-central-1.amazonaws.com/"),
            (&[(dual_stack, "true")], "https://dynamodb.eu-central-1.api.aws/"),
        ] {
            let http = Replay::new([json!({})]).http();
            let config = at(&ClientSettings::default(), variables).http_client(http.clone());
            Client::from_conf(config.build()).list_tables().send().await.unwrap();
            assert!(http.actual_requests().map(HttpRequest::uri).eq([expected]));
        }
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
            let loaded = sdk_config(&settings).region(Region::new("eu-central-1")).load().await;
            assert_eq!(loaded.timeout_config(), Some(&settings.timeouts()));
            assert_eq!(loaded.retry_config(), Some(&settings.retries()));
            let client = Client::from_conf(at(&settings, &[]).build());
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
