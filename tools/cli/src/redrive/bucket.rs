//! Documents in a bucket.

use aws_sdk_s3::{Client, error::SdkError, operation::get_object::GetObjectError};

use super::{RequestError, Services};
use crate::{connection::Connection, error::CliError};

/// No document is larger: an invocation's payload has 6 MB at most.
const MAX_BYTES: i64 = 64 * 1024 * 1024;

/// S3.
#[derive(Debug, Clone)]
pub(crate) struct Buckets(Client);

/// What an object holds.
pub(crate) enum Content {
    /// A text.
    Text(String),
    /// Nothing that can be a document, and why.
    Other(&'static str),
}

impl Buckets {
    pub(crate) fn new(connection: &Connection, services: &Services) -> Self {
        let mut config = aws_sdk_s3::config::Builder::from(&connection.sdk).timeout_config(super::feed::timeouts());
        if let Some(url) = &services.s3_endpoint_url {
            // Other endpoints have no host name for each bucket.
            config = config.endpoint_url(url).force_path_style(true);
        }
        Self(Client::from_conf(config.build()))
    }

    /// The keys that begin so, page by page: this one alone if there is an object of the very name.
    pub(crate) async fn keys(&self, bucket: &str, prefix: &str) -> Result<Vec<String>, CliError> {
        let mut keys = Vec::new();
        let mut token = None;
        loop {
            let request = self.0.list_objects_v2().bucket(bucket).prefix(prefix);
            let page = request.set_continuation_token(token).send().await.map_err(|error| {
                let error = RequestError::new("ListObjectsV2", &error);
                match error.is(&["NoSuchBucket"]) {
                    true => CliError::NotFound(format!("there is no bucket {bucket}")),
                    false => error.into(),
                }
            })?;
            keys.extend(
                page.contents
                    .unwrap_or_default()
                    .into_iter()
                    .filter_map(|object| object.key),
            );
            if !prefix.is_empty() && keys.first().is_some_and(|key| key == prefix) {
                keys.truncate(1);
                return Ok(keys);
            }
            token = page.next_continuation_token;
            if token.is_none() {
                // A console's folder is an object without content.
                keys.retain(|key| !key.ends_with('/'));
                return Ok(keys);
            }
        }
    }

    /// What an object holds.
    pub(crate) async fn read(&self, bucket: &str, key: &str) -> Result<Content, CliError> {
        const OPERATION: &str = "GetObject";
        let object = match self.0.get_object().bucket(bucket).key(key).send().await {
            Ok(object) => object,
            Err(SdkError::ServiceError(error)) if matches!(error.err(), GetObjectError::NoSuchKey(_)) => {
                return Ok(Content::Other("there is no such object"));
            }
            Err(error) => {
                let error = RequestError::new(OPERATION, &error);
                return match error.is(&["NoSuchBucket"]) {
                    true => Ok(Content::Other("there is no such bucket")),
                    false => Err(error.into()),
                };
            }
        };
        if object.content_length.is_some_and(|bytes| bytes > MAX_BYTES) {
            return Ok(Content::Other("it is too large for a document"));
        }
        let body = object.body.collect().await;
        let bytes = body.map_err(|_| RequestError::unreadable(OPERATION))?.into_bytes();
        Ok(match String::from_utf8(bytes.into()) {
            Ok(text) => Content::Text(text),
            Err(_) => Content::Other("it is no text"),
        })
    }
}
