//! The outcomes of stream records, and the response that names those that failed.

use aws_lambda_events::event::streams::{DynamoDbBatchItemFailure, DynamoDbEventResponse};
use shared::{
    domain::{request_id::RequestId, sequence::SequenceNumber, time::EpochMillis, version_item::VersionItem},
    dynamodb::put::put_version::{PutError, PutOutcome},
};

use crate::error::{Error, RecordFailure};

/// A stream record and its outcome.
#[derive(Debug)]
pub struct ProcessedRecord {
    /// The number that identifies the record in the response.
    pub sequence_number: Option<SequenceNumber>,
    /// Time when the latest item was written.
    pub created: Option<EpochMillis>,
    /// Request that created the version.
    pub request: Option<RequestId>,
    /// Outcome of the record.
    pub outcome: Outcome,
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
    /// Its version was purged, and is not written again.
    Purged,
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

impl From<Result<PutOutcome, PutError>> for Outcome {
    fn from(put: Result<PutOutcome, PutError>) -> Self {
        match put {
            Ok(PutOutcome::Recorded) => Self::Recorded,
            Ok(PutOutcome::AlreadyRecorded) => Self::AlreadyRecorded,
            Ok(PutOutcome::Conflict) => RecordFailure::Conflict.into(),
            Err(error) => RecordFailure::from(error).into(),
        }
    }
}

/// Logs the outcomes of a batch, and returns the failed records as batch item failures.
pub(crate) fn of(processed: Vec<ProcessedRecord>, log_keys: bool) -> Result<DynamoDbEventResponse, Error> {
    let mut summary = Summary::default();
    let mut response = DynamoDbEventResponse::default();
    let mut unnamed = None;
    for record in processed {
        summary.count(&record);
        if let Outcome::Failed { version, failure } = record.outcome {
            tracing::warn!(
                sequence_number = record.sequence_number.as_ref().map(SequenceNumber::as_str),
                entity = version.as_ref().map(|version| version.entity().in_logs(log_keys)),
                request = record.request.as_ref().map(RequestId::in_logs),
                version = version.as_ref().map(|version| version.version().get()),
                outcome = failure.name(),
                error = failure.chain(),
                "record",
            );
            match record.sequence_number {
                Some(number) => response.batch_item_failures.push(batch_item_failure(&number)),
                None => unnamed = Some(failure),
            }
        }
    }
    summary.log();
    match unnamed {
        Some(failure) => Err(Error::Unnamed(failure)),
        None => Ok(response),
    }
}

fn batch_item_failure(number: &SequenceNumber) -> DynamoDbBatchItemFailure {
    // The default has no item identifier, which makes Lambda retry the whole batch.
    let mut failure = DynamoDbBatchItemFailure::default();
    failure.item_identifier = Some(number.as_str().to_owned());
    failure
}

#[derive(Default)]
struct Summary {
    recorded: usize,
    already_recorded: usize,
    skipped: usize,
    purged: usize,
    failed: usize,
    /// Requests whose versions are in history, in the form that logs use.
    requests: Vec<String>,
}

impl Summary {
    fn count(&mut self, record: &ProcessedRecord) {
        let counter = match record.outcome {
            Outcome::Recorded => &mut self.recorded,
            Outcome::AlreadyRecorded => &mut self.already_recorded,
            Outcome::Skipped => &mut self.skipped,
            Outcome::Purged => &mut self.purged,
            Outcome::Failed { .. } => &mut self.failed,
        };
        *counter += 1;
        if let Outcome::Recorded | Outcome::AlreadyRecorded = record.outcome {
            self.requests.extend(record.request.as_ref().map(RequestId::in_logs));
        }
    }

    /// Logs one line for the invocation. It names each request, so that a request id leads from the queue to the version.
    fn log(&self) {
        tracing::info!(
            requests = self.requests.join(" "),
            recorded = self.recorded,
            already_recorded = self.already_recorded,
            skipped = self.skipped,
            purged = self.purged,
            failed = self.failed,
            outcome = if self.failed == 0 { "Recorded" } else { "PartialFailure" },
            "batch",
        );
    }
}
