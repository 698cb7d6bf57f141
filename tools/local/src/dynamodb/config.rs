//! SDK configuration and access keys for endpoints on this machine.

use std::time::Duration;

use aws_sdk_dynamodb::config::{Credentials, Region};
use shared::dynamodb::client::ClientSettings;

use crate::template::resolve::REGION;

/// Maximum time in which the mapping receives a page of stream records.
const PAGE_TIMEOUT: Duration = Duration::from_secs(60);

/// Access key of all clients on this machine. The embedded DynamoDB accepts any.
pub const ACCESS_KEY: &str = "local";
pub const MAPPING_ACCESS_KEY: &str = "mapping";

/// Returns the access key of a function: the letters and digits of its binary, as DynamoDB Local requires.
pub fn access_key(binary: &str) -> String {
    binary.chars().filter(char::is_ascii_alphanumeric).collect()
}

pub async fn sdk_config(endpoint: &str) -> aws_config::SdkConfig {
    sdk_config_of(endpoint, ACCESS_KEY).await
}

pub async fn sdk_config_of(endpoint: &str, access_key: &str) -> aws_config::SdkConfig {
    sdk_config_with(endpoint, access_key, &ClientSettings::default()).await
}

/// Returns the configuration of the mapping. A page of records can have many MB, which the embedded database creates in seconds. With
/// the timeouts of the functions, the mapping would read such a page again and again.
pub(super) async fn mapping_config(endpoint: &str) -> aws_config::SdkConfig {
    let settings = ClientSettings {
        read_timeout: PAGE_TIMEOUT,
        attempt_timeout: PAGE_TIMEOUT,
        operation_timeout: PAGE_TIMEOUT * 2,
        ..ClientSettings::default()
    };
    sdk_config_with(endpoint, MAPPING_ACCESS_KEY, &settings).await
}

async fn sdk_config_with(endpoint: &str, access_key: &str, settings: &ClientSettings) -> aws_config::SdkConfig {
    shared::dynamodb::client::sdk_config(settings)
        .endpoint_url(endpoint)
        .region(Region::from_static(REGION))
        .credentials_provider(Credentials::new(access_key, access_key, None, None, "local"))
        .load()
        .await
}
