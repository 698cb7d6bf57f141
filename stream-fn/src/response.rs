//! The outcomes of stream records, and the response that names those that failed.

use std::collections::HashMap;

use aws_lambda_events::event::streams::{DynamoDbBatchItemFailure, DynamoDbEventResponse};
use shared::{
    domain::{
        entity::EntityId, erased::Erasures, request_id::RequestId, sequence::SequenceNumber, time::EpochMillis,
        version::Version, version_item::VersionItem,
    },
    dynamodb::{client::error::ServiceError, put::put_version::PutOutcome},
    logging::{chain, variant},
};

use crate::{
    error::{Error, RecordFailure},
    record::number_of,
};

/// Maximum number of requests in a log line. In logs, the id of a request has at most 36 characters.
const MAX_REQUESTS_IN_LINE: usize = 64;

/// A stream record and its outcome.
#[derive(Debug)]
pub struct ProcessedRecord {
    /// The number that identifies the record in the response.
    pub sequence_number: Option<SequenceNumber>,
    /// Time when the latest item was written.
    pub created: Option<EpochMillis>,
    /// Entity of the item that was written, if the record names a valid one.
    pub entity: Option<EntityId>,
    /// Request that created the version.
    pub request: Option<RequestId>,
    /// Version whose time is far ahead of the record's: another program wrote it, or the clock of a writer is wrong.
    pub ahead: Option<Version>,
    /// Erasures of the entity. Their values must not be stored again.
    pub(crate) erasures: Erasures,
    /// Outcome of the record.
    pub outcome: Outcome,
}

impl ProcessedRecord {
    /// Returns a record that failed and of which only its number is known.
    pub(crate) fn failed(raw: &str, failure: RecordFailure) -> Self {
        Self {
            sequence_number: number_of(raw),
            created: None,
            entity: None,
            request: None,
            ahead: None,
            erasures: Erasures::default(),
            outcome: failure.into(),
        }
    }
}

/// The outcome of a stream record.
#[derive(Debug)]
pub enum Outcome {
    /// Its version was written.
    Recorded,
    /// An earlier delivery of the record had written the same version.
    AlreadyRecorded,
    /// It contains no version: the item is not a latest item, or it was deleted.
    Skipped,
    /// It can never become a version, and is in quarantine.
    Quarantined {
        /// The version, if the record could be parsed.
        version: Option<VersionItem>,
        /// Reason.
        failure: RecordFailure,
    },
    /// Its version was purged, and is not written again.
    Purged,
    /// Its version was pruned, and is not written again.
    Pruned,
    /// Its version was not written.
    Failed {
        /// The version, if the record could be parsed.
        version: Option<VersionItem>,
        /// Reason of the failure.
        failure: RecordFailure,
    },
}

impl Outcome {
    /// Adds the version to a failure.
    #[must_use]
    pub fn with_version(self, version: VersionItem) -> Self {
        match self {
            Self::Failed { failure, .. } => Self::Failed {
                version: Some(version),
                failure,
            },
            outcome => outcome,
        }
    }
}

impl From<RecordFailure> for Outcome {
    fn from(failure: RecordFailure) -> Self {
        Self::Failed { version: None, failure }
    }
}

impl From<Result<PutOutcome, ServiceError>> for Outcome {
    fn from(put: Result<PutOutcome, ServiceError>) -> Self {
        match put {
            Ok(PutOutcome::Recorded) => Self::Recorded,
            Ok(PutOutcome::AlreadyRecorded) => Self::AlreadyRecorded,
            Ok(PutOutcome::Conflict) => RecordFailure::Conflict.into(),
            Err(error) => RecordFailure::from(error).into(),
        }
    }
}

/// Logs the outcomes of a batch, and returns the failed records as batch item failures.
pub(crate) fn of(processed: Vec<ProcessedRecord>) -> Result<DynamoDbEventResponse, Error> {
    let mut summary = Summary::default();
    let mut response = DynamoDbEventResponse::default();
    let mut unnamed = None;
    for record in processed {
        summary.count(&record);
        let sequence_number = record.sequence_number.as_ref().map(SequenceNumber::as_str);
        let entity = record.entity.as_ref().map(EntityId::digest);
        let request = record.request.as_ref().map(RequestId::in_logs);
        let number = |version: &Option<VersionItem>| version.as_ref().map(VersionItem::version);
        let (version, outcome, error) = match (&record.outcome, record.ahead) {
            // As for quarantine. With `WriteMode` `inline` or `transaction`, writer-fn recorded the version.
            (Outcome::Recorded | Outcome::AlreadyRecorded, Some(ahead)) => {
                (Some(ahead), "RecordedAhead".to_owned(), None)
            }
            (Outcome::Quarantined { version, failure }, _) => {
                (number(version), variant(&record.outcome), Some(chain(failure)))
            }
            (Outcome::Failed { version, failure }, _) => (number(version), variant(failure), Some(chain(failure))),
            _ => continue,
        };
        let version = version.map(Version::get);
        let Outcome::Failed { failure, .. } = record.outcome else {
            // The highest level, so that every `LogLevel` logs it: the alarm counts these lines.
            tracing::error!(sequence_number, entity, request, version, outcome, error, "record");
            continue;
        };
        tracing::warn!(sequence_number, entity, request, version, outcome, error, "record");
        match &record.sequence_number {
            Some(number) => {
                // The default has no item identifier, which makes Lambda retry the whole batch.
                let mut failure = DynamoDbBatchItemFailure::default();
                failure.item_identifier = Some(number.as_str().to_owned());
                response.batch_item_failures.push(failure);
            }
            None => unnamed = Some(failure),
        }
    }
    summary.log();
    match unnamed {
        Some(failure) => Err(Error::Unnamed(failure)),
        None => Ok(response),
    }
}

#[derive(Default)]
struct Summary {
    /// Number of records by the names of their outcomes.
    counts: HashMap<String, usize>,
    /// Requests whose versions are in history, in the form that logs use.
    requests: Vec<String>,
}

impl Summary {
    fn count(&mut self, record: &ProcessedRecord) {
        *self.counts.entry(variant(&record.outcome)).or_default() += 1;
        if let Outcome::Recorded | Outcome::AlreadyRecorded = record.outcome {
            self.requests.extend(record.request.as_ref().map(RequestId::in_logs));
        }
    }

    /// Logs one line for the invocation. It names the requests, so that a request id leads from the queue to the version; lines
    /// before it name those that do not fit.
    fn log(&self) {
        let mut lines = self
            .requests
            .chunks(MAX_REQUESTS_IN_LINE)
            .map(|requests| requests.join(" "));
        let requests = lines.next().unwrap_or_default();
        for requests in lines {
            tracing::info!(requests, "requests");
        }
        let count = |name| self.counts.get(name).copied().unwrap_or(0);
        let failed = count("Failed");
        tracing::info!(
            requests,
            recorded = count("Recorded"),
            already_recorded = count("AlreadyRecorded"),
            skipped = count("Skipped"),
            quarantined = count("Quarantined"),
            purged = count("Purged"),
            pruned = count("Pruned"),
            failed,
            outcome = if failed == 0 { "Recorded" } else { "PartialFailure" },
            "batch",
        );
    }
}
