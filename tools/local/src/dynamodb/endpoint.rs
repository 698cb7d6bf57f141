//! The endpoint, Region and credentials with which each part of the stack connects to DynamoDB.

use std::collections::BTreeMap;

use aws_config::{Region, SdkConfig};
use aws_sdk_dynamodb::config::ProvideCredentials as _;
use thiserror::Error;

use super::config::{mapping_config, sdk_config};

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
    pub(crate) async fn of(dynamodb: Dynamodb) -> Result<Self, NoCredentials> {
        match dynamodb {
            Dynamodb::At(endpoint) => Ok(Self::at(endpoint).await),
            Dynamodb::Aws(config) => Self::aws(*config).await,
        }
    }

    async fn at(endpoint: String) -> Self {
        Self {
            config: sdk_config(&endpoint).await,
            // A separate access key: on AWS, the mapping uses the role of the function.
            mapping_config: mapping_config(&endpoint).await,
            environment: BTreeMap::from([("AWS_ENDPOINT_URL_DYNAMODB".to_owned(), endpoint.clone())]),
            url: endpoint,
        }
    }

    async fn aws(config: SdkConfig) -> Result<Self, NoCredentials> {
        let region = config.region().map(Region::as_ref).unwrap_or_default();
        Ok(Self {
            url: format!("https://dynamodb.{region}.amazonaws.com"),
            environment: environment(&config).await?.into_iter().collect(),
            mapping_config: config.clone(),
            config,
        })
    }
}

/// Returns the Region and credentials of a configuration as environment variables.
pub async fn environment(config: &SdkConfig) -> Result<Vec<(String, String)>, NoCredentials> {
    let provider = config.credentials_provider().ok_or(NoCredentials)?;
    let credentials = provider.provide_credentials().await;
    let credentials = credentials.map_err(|_| NoCredentials)?;
    let region = config.region().map(Region::as_ref).unwrap_or_default();
    let variables = [
        ("AWS_REGION", Some(region)),
        ("AWS_DEFAULT_REGION", Some(region)),
        ("AWS_ACCESS_KEY_ID", Some(credentials.access_key_id())),
        ("AWS_SECRET_ACCESS_KEY", Some(credentials.secret_access_key())),
        ("AWS_SESSION_TOKEN", credentials.session_token()),
    ];
    let given = variables
        .into_iter()
        .filter_map(|(name, value)| Some((name.to_owned(), value?.to_owned())));
    Ok(given.collect())
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("no AWS credentials found")]
pub struct NoCredentials;
