//! SDK configuration and access keys for endpoints on this machine.

use aws_sdk_dynamodb::config::{Credentials, Region};

use crate::template::resolve::REGION;

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
    shared::dynamodb::client::sdk_defaults()
        .endpoint_url(endpoint)
        .region(Region::from_static(REGION))
        .credentials_provider(Credentials::new(access_key, access_key, None, None, "local"))
        .load()
        .await
}
