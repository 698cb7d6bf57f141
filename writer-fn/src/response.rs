//! The responses of the function.

use std::collections::BTreeMap;

use aws_lambda_events::event::sqs::SqsBatchResponse;
use serde::Serialize;
use serde_json::json;
use shared::domain::{entity::EntityId, version::Version};

use crate::{
    counter::{WriteOutcome, set::SetOutcome},
    error::{Error, InvalidEvent},
    update::{InvalidUpdate, Update},
};

/// The response to an invocation.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub enum Response {
    /// Response to a direct invocation or an `EventBridge` event.
    Update(UpdateResponse),
    /// Response to a batch of SQS or Kinesis: the messages that failed.
    Batch(SqsBatchResponse),
    /// Response to an HTTP request.
    Http(HttpResponse),
}

/// Response of a function URL or an HTTP API in [payload format
/// 2.0](https://docs.aws.amazon.com/lambda/latest/dg/urls-invocation.html#urls-payloads).
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct HttpResponse {
    status_code: u16,
    headers: BTreeMap<&'static str, String>,
    body: String,
}

impl HttpResponse {
    /// Creates the response. The body is the one of an invocation: an outcome, or `errorType` and `errorMessage`.
    pub(crate) fn new(response: Result<UpdateResponse, Error>) -> Self {
        let (status_code, version, body) = match response {
            Ok(response) => {
                let version = response.versions().next();
                let is_created = version == Some(1) && response.outcome() == "Written";
                let status_code = if is_created { 201 } else { 200 };
                (
                    status_code,
                    version,
                    serde_json::to_string(&response).unwrap_or_default(),
                )
            }
            Err(error) => {
                let latest = match error {
                    Error::VersionConflict { latest, .. } => Some(latest).filter(|latest| *latest > 0),
                    _ => None,
                };
                let body = json!({"errorMessage": error.message(), "errorType": error.error_type()});
                (status_of(&error), latest, body.to_string())
            }
        };
        let mut headers = BTreeMap::from([("content-type", "application/json".to_owned())]);
        headers.extend(version.map(|version| ("etag", format!("\"{version}\""))));
        match status_code {
            405 => _ = headers.insert("allow", "POST".to_owned()),
            503 => _ = headers.insert("retry-after", "1".to_owned()),
            _ => {}
        }
        Self {
            status_code,
            headers,
            body,
        }
    }
}

fn status_of(error: &Error) -> u16 {
    match error {
        Error::InvalidEvent(InvalidEvent::Http(invalid)) => invalid.status(),
        // The request id belongs to another update.
        Error::InvalidEvent(InvalidEvent::Never(_)) | Error::Stale { .. } | Error::Undecided(_) => 409,
        Error::InvalidEvent(
            InvalidEvent::TooManyParts
            | InvalidEvent::Update(
                InvalidUpdate::TooLarge(_) | InvalidUpdate::TooManyBytes(_) | InvalidUpdate::TooManyAttributes(_),
            ),
        ) => 413,
        Error::InvalidEvent(InvalidEvent::Rejected(_)) => 422,
        Error::InvalidEvent(InvalidEvent::Panicked(_)) | Error::Panicked(_) => 500,
        Error::InvalidEvent(_) => 400,
        Error::VersionConflict { .. } => 412,
        Error::OfEntity { source, .. } => status_of(source),
        // It may have been applied.
        Error::NotInTime => 504,
        Error::Throttled(_) | Error::Layout(_) if error.error_type() == "Throttled" => 503,
        Error::Throttled(_) | Error::Internal(_) | Error::Layout(_) => 500,
    }
}

/// A version of an entity.
#[derive(Debug, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct WrittenVersion {
    #[serde(rename = "ID")]
    id: String,
    version: Version,
}

impl WrittenVersion {
    fn new(entity: &EntityId, version: Version) -> Self {
        Self {
            id: entity.as_str().to_owned(),
            version,
        }
    }
}

/// The outcome of an update or of a change set.
#[derive(Debug, Serialize)]
#[serde(untagged, rename_all_fields = "PascalCase")]
pub enum UpdateResponse {
    /// `{"ID": "Equipment#1", "Version": 7, "Outcome": "Written"}`
    Update {
        /// Version that the update created or, if it created none, the latest version.
        #[serde(flatten)]
        version: WrittenVersion,
        /// `Written`, `Duplicate`, `Stale` or `Unchanged`.
        outcome: &'static str,
    },
    /// `{"Outcome": "Written", "Updates": [{"ID": "Equipment#1", "Version": 7}, …]}`
    Set {
        /// `Written`, also for a second delivery.
        outcome: &'static str,
        /// Versions that the set created.
        updates: Vec<WrittenVersion>,
        /// `true` for a second delivery.
        #[serde(skip)]
        is_duplicate: bool,
    },
}

impl UpdateResponse {
    /// Creates the response for the outcome of an update. A conflict is an error.
    pub fn new(entity: &EntityId, outcome: WriteOutcome) -> Result<Self, Error> {
        let (outcome, version) = match outcome {
            WriteOutcome::Written { version } => ("Written", version),
            WriteOutcome::Duplicate { version } => ("Duplicate", version),
            WriteOutcome::Stale { version } => ("Stale", version),
            WriteOutcome::Unchanged { version } => ("Unchanged", version),
            WriteOutcome::Conflict { expected, latest } => return Err(Error::VersionConflict { expected, latest }),
        };
        let version = WrittenVersion::new(entity, version);
        Ok(Self::Update { version, outcome })
    }

    /// Creates the response for the outcome of a change set. The refusal of an update is an error.
    pub fn of_set(set: &[Update], outcome: SetOutcome) -> Result<Self, Error> {
        let (versions, is_duplicate) = match outcome {
            SetOutcome::Written(versions) => (versions, false),
            SetOutcome::Duplicate(versions) => (versions, true),
            SetOutcome::Refused { update, outcome } => {
                let entity = &set[update].entity;
                let error = match outcome {
                    WriteOutcome::Conflict { expected, latest } => Error::VersionConflict { expected, latest },
                    WriteOutcome::Written { version }
                    | WriteOutcome::Duplicate { version }
                    | WriteOutcome::Stale { version }
                    | WriteOutcome::Unchanged { version } => Error::Stale { version },
                };
                return Err(error.of(entity));
            }
        };
        let entities = set.iter().map(|update| &update.entity);
        let updates = entities
            .zip(versions)
            .map(|(entity, version)| WrittenVersion::new(entity, version));
        Ok(Self::Set {
            outcome: "Written",
            updates: updates.collect(),
            is_duplicate,
        })
    }

    /// Returns `Written`, `Duplicate`, `Stale` or `Unchanged`.
    pub fn outcome(&self) -> &'static str {
        match self {
            Self::Set { is_duplicate: true, .. } => "Duplicate",
            Self::Update { outcome, .. } | Self::Set { outcome, .. } => outcome,
        }
    }

    /// Returns the version of each entity: the one that its update created or, if it created none, the latest version.
    pub fn versions(&self) -> impl Iterator<Item = u64> {
        let versions = match self {
            Self::Update { version, .. } => std::slice::from_ref(version),
            Self::Set { updates, .. } => updates,
        };
        versions.iter().map(|written| written.version.get())
    }
}

#[cfg(test)]
mod tests {
    use shared::panics::Panicked;

    use super::*;
    use crate::{counter::WriteError, event::invalid_http::InvalidHttp};

    #[test]
    fn an_http_response_shows_if_a_retry_can_succeed() {
        let entity = EntityId::new("E").unwrap();
        let version = Version::FIRST;
        let written = |outcome| HttpResponse::new(UpdateResponse::new(&entity, outcome)).status_code;
        assert_eq!(written(WriteOutcome::Written { version }), 201);
        assert_eq!(written(WriteOutcome::Duplicate { version }), 200);
        assert_eq!(written(WriteOutcome::Conflict { expected: 1, latest: 0 }), 412);
        for (error, status) in [
            (Error::NotInTime, 504),
            (Panicked.into(), 500),
            (InvalidEvent::from(Panicked).into(), 500),
            (WriteError::VersionUnknown.into(), 500),
            (WriteError::Contended { attempts: 20 }.into(), 503),
            (WriteError::TooManyToSearch.into(), 409),
            (WriteError::RequestIdReused { version }.into(), 409),
            (InvalidEvent::Http(InvalidHttp::NoCaller).into(), 403),
            (InvalidEvent::Http(InvalidHttp::IfMatch).into(), 400),
        ] {
            assert_eq!(HttpResponse::new(Err(error)).status_code, status);
        }
    }
}
