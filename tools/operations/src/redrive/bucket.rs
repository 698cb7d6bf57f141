//! Failure documents in S3.

use aws_sdk_s3::{
    Client,
    error::SdkError,
    operation::{get_object::GetObjectError, list_objects_v2::ListObjectsV2Error},
};

use super::{
    folder::{self, Content},
    services::{Services, timeouts},
};
use crate::{connection::Connection, error::OperationError, request_error::RequestError};

#[derive(Debug, Clone)]
pub(super) struct Buckets(Client);

impl Buckets {
    pub(super) fn new(connection: &Connection, services: &Services) -> Self {
        let mut config = aws_sdk_s3::config::Builder::from(&connection.sdk).timeout_config(timeouts());
        if let Some(url) = &services.s3_endpoint_url {
            // Other endpoints have no host name per bucket.
            config = config.endpoint_url(url).force_path_style(true);
        }
        Self(Client::from_conf(config.build()))
    }

    /// Returns the keys with this prefix, or only the key that equals the prefix.
    pub(super) async fn keys(&self, bucket: &str, prefix: &str) -> Result<Vec<String>, OperationError> {
        let mut keys: Vec<String> = Vec::new();
        let request = self.0.list_objects_v2().bucket(bucket).prefix(prefix);
        let mut pages = request.into_paginator().send();
        while let Some(page) = pages.try_next().await.map_err(|error| unlisted(bucket, &error))? {
            let found = page.contents.unwrap_or_default().into_iter();
            // A folder that was created in the S3 console is an empty object.
            keys.extend(found.filter_map(|object| object.key).filter(|key| !key.ends_with('/')));
            if !prefix.is_empty() && keys.first().is_some_and(|key| key == prefix) {
                keys.truncate(1);
                break;
            }
        }
        Ok(keys)
    }

    pub(super) async fn read(&self, bucket: &str, key: &str) -> Result<Content, OperationError> {
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
        let (mut body, mut bytes) = (object.body, Vec::new());
        while let Some(part) = body.try_next().await.map_err(|_| RequestError::unreadable(OPERATION))? {
            if (bytes.len() + part.len()) as u64 > folder::MAX_BYTES {
                return Ok(Content::TOO_LARGE);
            }
            bytes.extend_from_slice(&part);
        }
        Ok(Content::of(bytes))
    }
}

fn unlisted<R>(bucket: &str, error: &SdkError<ListObjectsV2Error, R>) -> OperationError {
    let error = RequestError::new("ListObjectsV2", error);
    match error.is(&["NoSuchBucket"]) {
        true => OperationError::NoBucket(bucket.to_owned()),
        false => error.into(),
    }
}
