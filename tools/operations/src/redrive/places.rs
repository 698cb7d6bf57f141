//! Failure documents in files and in S3.

use std::{
    fmt, fs,
    io::{Read as _, Write as _},
    path::{Path, PathBuf},
    time::Duration,
};

use aws_config::timeout::TimeoutConfig;
use aws_sdk_s3::Client;

use super::Services;
use crate::{
    connection::Connection,
    error::OperationError,
    failures::{
        document::{self, Document},
        message::Object,
    },
    request_error::RequestError,
};

/// Maximum size of a document, in bytes. The payload of an invocation has at most 6 MB, and more as a JSON string.
const MAX_BYTES: u64 = 32 * 1024 * 1024;
const GET: &str = "GetObject";

/// A file or an object that is expected to be a document.
#[derive(Debug)]
pub(super) enum Place {
    File(PathBuf),
    Object(Object),
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => path.display().fmt(f),
            Self::Object(Object { bucket, key }) => write!(f, "s3://{bucket}/{key}"),
        }
    }
}

/// Returns the file itself, or every file below the folder, sorted by name.
pub(super) fn files(path: &Path) -> Result<Vec<Place>, OperationError> {
    let read = |error| file_error(path, error);
    if fs::metadata(path).map_err(read)?.is_file() {
        return Ok(vec![Place::File(path.to_owned())]);
    }
    let (mut files, mut folders) = (Vec::new(), vec![path.to_owned()]);
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).map_err(read)? {
            let entry = entry.map_err(read)?;
            // Links to folders are not followed: they can form a cycle.
            if entry.file_type().map_err(read)?.is_dir() {
                folders.push(entry.path());
            } else if fs::metadata(entry.path()).is_ok_and(|file| file.is_file()) {
                files.push(entry.path());
            }
        }
    }
    files.sort();
    Ok(files.into_iter().map(Place::File).collect())
}

fn file_error(path: &Path, source: std::io::Error) -> OperationError {
    OperationError::File {
        path: path.to_owned(),
        source,
    }
}

/// Reader of places.
#[derive(Debug, Clone)]
pub(super) struct Places(Client);

impl Places {
    pub(super) fn new(connection: &Connection, services: &Services) -> Self {
        let mut config = aws_sdk_s3::config::Builder::from(&connection.sdk).timeout_config(timeouts());
        if let Some(url) = &services.s3_endpoint_url {
            // Other endpoints have no host name per bucket.
            config = config.endpoint_url(url).force_path_style(true);
        }
        Self(Client::from_conf(config.build()))
    }

    /// Returns the objects whose keys have this prefix, or only the one whose key equals the prefix.
    pub(super) async fn objects(&self, bucket: &str, prefix: &str) -> Result<Vec<Place>, OperationError> {
        let mut places = Vec::new();
        let request = self.0.list_objects_v2().bucket(bucket).prefix(prefix);
        let mut pages = request.into_paginator().send();
        while let Some(page) = pages.next().await {
            let page = page
                .map_err(RequestError::of("ListObjectsV2"))
                .map_err(|error| match error {
                    error if error.is(&["NoSuchBucket"]) => OperationError::NotFound(format!("bucket {bucket}")),
                    error => error.into(),
                })?;
            for key in page.contents.into_iter().flatten().filter_map(|object| object.key) {
                let is_only = !prefix.is_empty() && key == prefix;
                // A folder that was created in the S3 console is an empty object.
                if !key.ends_with('/') {
                    let bucket = bucket.to_owned();
                    places.push(Place::Object(Object { bucket, key }));
                }
                // No other key with this prefix comes before it.
                if is_only && !places.is_empty() {
                    return Ok(places);
                }
            }
        }
        Ok(places)
    }

    /// Returns the document at a place, or the reason why its content is none.
    pub(super) async fn read(&self, place: &Place) -> Result<Result<Document, String>, OperationError> {
        let text = self.text(place).await?;
        Ok(text.and_then(|text| document::parse(&text).map_err(|error| error.to_string())))
    }

    /// Returns the text at a place, or the reason why it is none of a document.
    pub(super) async fn text(&self, place: &Place) -> Result<Result<String, String>, OperationError> {
        let mut bytes = Vec::new();
        match place {
            Place::File(path) => {
                let read = fs::File::open(path).and_then(|file| file.take(MAX_BYTES + 1).read_to_end(&mut bytes));
                read.map_err(|error| file_error(path, error))?;
            }
            Place::Object(Object { bucket, key }) => {
                let object = self.0.get_object().bucket(bucket).key(key).send().await;
                let mut body = match object.map_err(RequestError::of(GET)) {
                    Err(error) if error.is(&["NoSuchKey"]) => return Ok(Err("there is no such object".to_owned())),
                    Err(error) if error.is(&["NoSuchBucket"]) => return Ok(Err("there is no such bucket".to_owned())),
                    object => object?.body,
                };
                let unreadable = |_| RequestError::unreadable(GET);
                while bytes.len() as u64 <= MAX_BYTES
                    && let Some(part) = body.try_next().await.map_err(unreadable)?
                {
                    bytes.extend_from_slice(&part);
                }
            }
        }
        Ok(match String::from_utf8(bytes) {
            Ok(text) if text.len() as u64 <= MAX_BYTES => Ok(text),
            Ok(_) => Err("it is too large for a document".to_owned()),
            Err(_) => Err("it is no text".to_owned()),
        })
    }

    /// Writes a text over the one at a place. Returns `true` if the old one is still there, as a version of an object.
    pub(super) async fn replace(&self, place: &Place, text: String) -> Result<bool, OperationError> {
        match place {
            Place::File(path) => {
                let folder = path.parent().unwrap_or(Path::new("."));
                let written = tempfile::NamedTempFile::new_in(folder).and_then(|mut file| {
                    file.write_all(text.as_bytes())?;
                    file.as_file().sync_all()?;
                    file.persist(path).map_err(|error| error.error)
                });
                written.map_err(|error| file_error(path, error))?;
                Ok(false)
            }
            Place::Object(Object { bucket, key }) => {
                let put = self.0.put_object().bucket(bucket).key(key);
                let put = put.content_type("application/json").body(text.into_bytes().into());
                let put = put.send().await.map_err(RequestError::of("PutObject"))?;
                Ok(put.version_id.is_some())
            }
        }
    }
}

/// Timeouts of requests to S3 and SQS: a document can have 6 MB, and a receive request waits for messages.
pub(super) fn timeouts() -> TimeoutConfig {
    TimeoutConfig::builder()
        .connect_timeout(Duration::from_secs(2))
        .read_timeout(Duration::from_secs(10))
        .operation_attempt_timeout(Duration::from_secs(20))
        .operation_timeout(Duration::from_secs(60))
        .build()
}
