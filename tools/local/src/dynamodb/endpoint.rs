//! The endpoint, Region and credentials with which each part of the stack connects to DynamoDB.

use std::{collections::BTreeMap, time::Duration};

use aws_config::{Region, SdkConfig};
use aws_sdk_dynamodb::config::{Credentials, ProvideCredentials as _};
use shared::dynamodb::client::{self, ClientSettings};

use crate::{
    error::{LocalError, failed},
    template::resolve::REGION,
};

/// Maximum time in which the mapping receives a page of stream records. A page can have many MB, which the embedded database creates
/// in seconds. With the timeouts of the functions, the mapping would read such a page again and again.
const PAGE_TIMEOUT: Duration = Duration::from_secs(60);
/// Access key of the stack itself. The embedded DynamoDB accepts any.
pub(crate) const ACCESS_KEY: &str = "local";
/// Access key of the mapping: on AWS, it uses the role of the function.
const MAPPING_ACCESS_KEY: &str = "mapping";

/// A DynamoDB outside of the stack.
#[derive(Debug, Clone)]
pub enum Dynamodb {
    /// A URL that accepts any credentials.
    At(String),
    Aws(Box<SdkConfig>),
}

/// Connection settings of the stack, its mapping and its functions.
pub(crate) struct Endpoint {
    pub(crate) url: String,
    pub(crate) config: SdkConfig,
    pub(crate) mapping_config: SdkConfig,
    pub(crate) environment: BTreeMap<String, String>,
}

impl Endpoint {
    pub(crate) async fn of(dynamodb: Dynamodb) -> Result<Self, LocalError> {
        Ok(match dynamodb {
            Dynamodb::At(url) => {
                let settings = ClientSettings {
                    read_timeout: PAGE_TIMEOUT,
                    attempt_timeout: PAGE_TIMEOUT,
                    operation_timeout: PAGE_TIMEOUT * 2,
                    ..ClientSettings::default()
                };
                Self {
                    config: sdk_config(&url).await,
                    mapping_config: sdk_config_with(&url, MAPPING_ACCESS_KEY, &settings).await,
                    environment: BTreeMap::from([("AWS_ENDPOINT_URL_DYNAMODB".to_owned(), url.clone())]),
                    url,
                }
            }
            Dynamodb::Aws(config) => {
                let region = config.region().map(Region::as_ref).unwrap_or_default();
                Self {
                    url: format!("https://dynamodb.{region}.amazonaws.com"),
                    environment: environment(&config).await?.into_iter().collect(),
                    mapping_config: (*config).clone(),
                    config: *config,
                }
            }
        })
    }
}

/// Returns the access key of a function: the letters and digits of its binary, as DynamoDB Local requires.
pub(crate) fn access_key(binary: &str) -> String {
    binary.chars().filter(char::is_ascii_alphanumeric).collect()
}

/// Returns the SDK configuration for an endpoint on this machine.
pub async fn sdk_config(endpoint: &str) -> SdkConfig {
    sdk_config_with(endpoint, ACCESS_KEY, &ClientSettings::default()).await
}

async fn sdk_config_with(endpoint: &str, access_key: &str, settings: &ClientSettings) -> SdkConfig {
    client::sdk_config(settings)
        .endpoint_url(endpoint)
        .region(Region::from_static(REGION))
        .credentials_provider(Credentials::new(access_key, access_key, None, None, "local"))
        .load()
        .await
}

/// Returns the Region and credentials of a configuration as environment variables.
pub async fn environment(config: &SdkConfig) -> Result<Vec<(String, String)>, LocalError> {
    let none = "no AWS credentials found";
    let provider = config.credentials_provider().ok_or_else(|| LocalError::new(none))?;
    let credentials = provider.provide_credentials().await.map_err(failed(none))?;
    let region = config.region().map(Region::as_ref).unwrap_or_default();
    let variables = [
        ("AWS_REGION", Some(region)),
        ("AWS_DEFAULT_REGION", Some(region)),
        ("AWS_ACCESS_KEY_ID", Some(credentials.access_key_id())),
        ("AWS_SECRET_ACCESS_KEY", Some(credentials.secret_access_key())),
        ("AWS_SESSION_TOKEN", credentials.session_token()),
    ];
    let given = variables.into_iter();
    let given = given.filter_map(|(name, value)| Some((name.to_owned(), value?.to_owned())));
    Ok(given.collect())
}
