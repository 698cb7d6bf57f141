//! Metrics that AWS documents for a healthy stack and for each fault.
//!
//! A fault begins at minute 0. Sources:
//!
//! - [LAMBDA](https://docs.aws.amazon.com/lambda/latest/dg/monitoring-metrics-types.html): functions, asynchronous
//!   invocations, and event source mappings
//! - [DESTINATION](https://docs.aws.amazon.com/lambda/latest/dg/services-dynamodb-errors.html): discarded stream records
//! - [SQS](https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/sqs-available-cloudwatch-metrics.html)
//! - [ASYNC](https://docs.aws.amazon.com/lambda/latest/dg/invocation-async-error-handling.html): attempts, and reserved
//!   concurrency 0

use super::{Metric, Values};

/// Interval of the heartbeat in minutes, as in `HeartbeatRule`.
pub(super) const HEARTBEAT: i64 = 5;
/// Minutes before the fault.
const BEFORE: i64 = 60;
/// Minutes after the fault in which an alarm must fire.
pub(super) const AFTER: i64 = 30;

/// Value of a metric in a minute of the fault. `None`: it is not published.
type Series = fn(i64) -> Option<i64>;

/// A fault, the metrics that it silences, and those that it adds. `docs/operations.md` has its first alarm.
pub(super) struct Fault {
    /// The row of the table in `docs/operations.md`.
    pub(super) name: &'static str,
    /// Healthy metrics that end with the fault, by name.
    silences: &'static [(Of, &'static str)],
    adds: &'static [(Of, &'static str, Series)],
}

/// Where a metric is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Of {
    Writer,
    Stream,
    WriterMapping,
    StreamMapping,
    Updates,
    UpdatesDeadLetterQueue,
    StreamDeadLetterQueue,
    Log,
}

/// Time in minutes after which SQS delivers a failing message again, as `VisibilityTimeout`.
const VISIBILITY: i64 = 3;
/// Number of deliveries of a message, as `maxReceiveCount`.
const RECEIVES: i64 = 5;
/// Longest time in minutes between two retries of the stream's mapping. AWS does not document it; this is an assumption.
const STREAM_RETRY: i64 = 3;

const ALWAYS: Series = |_| Some(1);
const ZERO: Series = |_| Some(0);
const ONCE: Series = |minute| (minute == 0).then_some(1);
/// Deliveries of a message that fails: at once, and after each visibility timeout.
const RECEIVED: Series = |minute| is_received(minute).then_some(1);
/// A message that failed five times is in the dead-letter queue from its sixth receive on.
const DEAD: Series = |minute| Some(i64::from(minute >= VISIBILITY * RECEIVES));
/// The stream's mapping retries the records of a lane. Its other lane succeeds.
const RETRIED: Series = |minute| Some(i64::from(minute % STREAM_RETRY == 0));
/// Ages of a message and of a record that nothing processes.
const SECONDS: Series = |minute| Some((minute + 1) * 60 - 1);
const MILLISECONDS: Series = |minute| Some((minute + 1) * 60_000 - 1);
/// Deliveries of the heartbeats, each of which fails.
const HEARTBEATS: Series = |minute| Some(i64::from(heartbeats(minute).any(|sent| is_received(minute - sent))));
/// Age in seconds of the oldest message if every heartbeat since minute 0 fails. SQS: the age does not include messages that
/// were received three times.
const AGE_OF_HEARTBEATS: Series = |minute| {
    let ages = heartbeats(minute).map(|sent| minute - sent);
    let included = ages.filter(|age| *age < 2 * VISIBILITY);
    Some(included.max().map_or(0, |age| (age + 1) * 60 - 1))
};

fn is_received(minute: i64) -> bool {
    minute >= 0 && minute % VISIBILITY == 0 && minute / VISIBILITY < RECEIVES
}

/// Minutes in which a heartbeat was sent, up to this one.
fn heartbeats(minute: i64) -> impl Iterator<Item = i64> {
    (0..=minute).filter(|sent| sent % HEARTBEAT == 0)
}

/// The faults, in the order of the table.
pub(super) const FAULTS: &[Fault] = &[
    // LAMBDA: a batch item failure counts as failed. SQS: the number of messages in the dead-letter queue.
    Fault {
        name: "An update fails five times: it is invalid, or expects another version",
        silences: &[],
        adds: &[
            (Of::UpdatesDeadLetterQueue, VISIBLE, DEAD),
            (Of::WriterMapping, FAILED, RECEIVED),
        ],
    },
    // ASYNC: the event is sent to the destination without an attempt. LAMBDA: it counts as dropped.
    Fault {
        name: "writer-fn has reserved concurrency 0, and an EventBridge rule invokes it",
        silences: &[(Of::Writer, "Invocations")],
        adds: &[
            (Of::UpdatesDeadLetterQueue, VISIBLE, ALWAYS),
            (Of::Writer, "AsyncEventsDropped", ALWAYS),
        ],
    },
    // LAMBDA: throttled invocations. AWS documents neither that they count as failed events, nor that they do not count as
    // receives. This assumes the slower alternative of both. Only the heartbeats are in the queue.
    Fault {
        name: "writer-fn has reserved concurrency 0, and only the queue invokes it",
        silences: &[(Of::Updates, AGE), (Of::Writer, "Invocations")],
        adds: &[
            (Of::Writer, "Throttles", ALWAYS),
            (Of::Updates, AGE, AGE_OF_HEARTBEATS),
            (Of::UpdatesDeadLetterQueue, VISIBLE, DEAD),
        ],
    },
    // SQS: the age of the oldest message that is not deleted.
    Fault {
        name: "The event source mapping of the queue is disabled, or its role cannot receive messages",
        silences: &[
            (Of::Updates, AGE),
            (Of::WriterMapping, POLLED),
            (Of::Writer, "Invocations"),
        ],
        adds: &[(Of::Updates, AGE, SECONDS)],
    },
    // LAMBDA: a batch item failure counts as failed and is not an error. Only the heartbeats are in the queue.
    Fault {
        name: "writer-fn may not update the table, so that all updates of the queue fail",
        silences: &[(Of::Updates, AGE)],
        adds: &[
            (Of::WriterMapping, FAILED, HEARTBEATS),
            (Of::Updates, AGE, AGE_OF_HEARTBEATS),
            (Of::UpdatesDeadLetterQueue, VISIBLE, DEAD),
        ],
    },
    // LAMBDA: the record could not be sent to the destination.
    Fault {
        name: "writer-fn may not send to the dead-letter queue, and an asynchronous update fails",
        silences: &[],
        adds: &[
            (Of::Writer, "DestinationDeliveryFailures", ONCE),
            (Of::Writer, "AsyncEventsDropped", ONCE),
        ],
    },
    // LAMBDA: exceptions of the code and of the runtime, also during initialization.
    Fault {
        name: "Direct invocations of writer-fn fail, or it does not start",
        silences: &[],
        adds: &[(Of::Writer, "Errors", ALWAYS)],
    },
    // LAMBDA: an invocation that succeeds counts 0 errors.
    Fault {
        name: "stream-fn does not start, is killed, or times out, or does not have the layout of the table",
        silences: PROGRESS,
        adds: &[(Of::Stream, "Errors", RETRIED), (Of::StreamMapping, FAILED, RETRIED)],
    },
    // LAMBDA: a throttled request counts neither as an invocation nor as an error.
    Fault {
        name: "stream-fn has reserved concurrency 0, or the concurrency of the account is used up",
        silences: PROGRESS,
        adds: &[(Of::Stream, "Throttles", RETRIED)],
    },
    // LAMBDA: a mapping that is disabled publishes nothing. An empty poll counts 0.
    Fault {
        name: "The event source mapping of the stream is disabled or deleted",
        silences: &[(Of::StreamMapping, POLLED), (Of::Stream, ITERATOR_AGE)],
        adds: &[],
    },
    // AWS does not document that polls which fail count as polls. This assumes that they do.
    Fault {
        name: "stream-fn's role cannot read the stream, or the table's stream is disabled",
        silences: PROGRESS,
        adds: &[(Of::StreamMapping, POLLED, ZERO)],
    },
    Fault {
        name: "No heartbeat is sent",
        silences: PROGRESS,
        adds: &[],
    },
    // LAMBDA: the age of the last record when the mapping sends the batch.
    Fault {
        name: "stream-fn is slower than the updates",
        silences: PROGRESS,
        adds: &[(Of::Stream, ITERATOR_AGE, MILLISECONDS)],
    },
    Fault {
        name: "DynamoDB throttles stream-fn or fails, or stream-fn may not put version items",
        silences: PROGRESS,
        adds: &[(Of::StreamMapping, FAILED, RETRIED)],
    },
    // LAMBDA: the event was delivered to the on-failure destination.
    Fault {
        name: "A record is older than 12 h, and the notification of the failure bucket is missing",
        silences: &[],
        adds: &[(Of::StreamMapping, "OnFailureDestinationDeliveredEventCount", ONCE)],
    },
    Fault {
        name: "A failure document was not redriven",
        silences: &[],
        adds: &[(Of::StreamDeadLetterQueue, VISIBLE, ALWAYS)],
    },
    // LAMBDA, DESTINATION: dropped without having been sent to the destination.
    Fault {
        name: "A record is older than 12 h, and the failure bucket cannot be written",
        silences: &[],
        adds: &[
            (Of::StreamMapping, "DroppedEventCount", ONCE),
            (Of::Stream, "DestinationDeliveryFailures", ONCE),
        ],
    },
    Fault {
        name: "A record can never become a version",
        silences: &[],
        adds: &[(Of::Log, "QuarantinedRecords", ONCE)],
    },
    Fault {
        name: "The clock of a writer is wrong, or another program writes a time in the future",
        silences: &[],
        adds: &[(Of::Log, "AheadRecords", ONCE)],
    },
];

pub(crate) const VISIBLE: &str = "ApproximateNumberOfMessagesVisible";
pub(super) const AGE: &str = "ApproximateAgeOfOldestMessage";
pub(crate) const POLLED: &str = "PolledEventCount";
pub(crate) const FAILED: &str = "FailedInvokeEventCount";
pub(crate) const ITERATOR_AGE: &str = "IteratorAge";
/// Published when a batch is processed:
/// <https://docs.aws.amazon.com/lambda/latest/dg/with-ddb.html#events-dynamodb-metrics>.
const PROGRESS: &[(Of, &str)] = &[(Of::Stream, ITERATOR_AGE)];

/// Load of a stack before the fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Load {
    /// No updates except the heartbeat, in the minutes with this remainder by [`HEARTBEAT`].
    Idle(i64),
    /// No updates at all.
    Silent,
    /// Updates every minute, with single errors, throttles and retries, and a peak of two minutes.
    Busy,
}

impl Load {
    pub(super) const ALL: [Self; 6] = [
        Self::Idle(0),
        Self::Idle(1),
        Self::Idle(2),
        Self::Idle(3),
        Self::Idle(4),
        Self::Busy,
    ];

    fn metrics(self, minute: i64) -> Vec<(Of, &'static str, i64)> {
        // LAMBDA: polls of an enabled mapping, also without records. SQS: queues are measured every minute.
        let mut metrics = vec![
            (Of::StreamMapping, POLLED, 0),
            (Of::WriterMapping, POLLED, 0),
            (Of::Updates, AGE, 0),
            (Of::Updates, VISIBLE, 0),
            (Of::UpdatesDeadLetterQueue, VISIBLE, 0),
            (Of::StreamDeadLetterQueue, VISIBLE, 0),
        ];
        let has_updates = match self {
            Self::Idle(phase) => minute.rem_euclid(HEARTBEAT) == phase,
            Self::Silent => false,
            Self::Busy => true,
        };
        if has_updates {
            let polled = (Of::StreamMapping, POLLED, 2);
            metrics.extend([polled, (Of::WriterMapping, POLLED, 1), (Of::Stream, ITERATOR_AGE, 900)]);
            metrics.extend([Of::Writer, Of::Stream].map(|of| (of, "Invocations", 1)));
        }
        if self == Self::Busy {
            let minute = minute.rem_euclid(20);
            // A new execution environment is throttled, an invocation fails, a hot entity is sent again.
            if minute == 0 {
                metrics.extend([Of::Writer, Of::Stream].map(|of| (of, "Throttles", 3)));
                metrics.extend([Of::WriterMapping, Of::StreamMapping].map(|of| (of, FAILED, 3)));
            }
            if minute == 10 {
                metrics.extend([Of::Writer, Of::Stream].map(|of| (of, "Errors", 1)));
                metrics.extend([Of::WriterMapping, Of::StreamMapping].map(|of| (of, FAILED, 1)));
            }
            // A peak, and messages that are delivered again after their visibility timeout.
            if minute < 2 {
                metrics.extend([(Of::Updates, AGE, 310), (Of::Stream, ITERATOR_AGE, 320_000)]);
            }
        }
        metrics
    }
}

/// Returns the metrics of a stack under a load, with a fault from minute 0 on. `mapping` is the stream's mapping.
pub(super) fn values(load: Load, fault: Option<&Fault>, mapping: &str) -> Values {
    let mut values = Values::new();
    for minute in -BEFORE..AFTER {
        let mut metrics = load.metrics(minute);
        if let Some(fault) = fault.filter(|_| minute >= 0) {
            metrics.retain(|(of, name, _)| !fault.silences.contains(&(*of, *name)));
            let adds = fault.adds.iter();
            metrics.extend(adds.filter_map(|(of, name, value)| Some((*of, *name, value(minute)?))));
        }
        for (of, name, value) in metrics {
            let points = values.entry(metric(of, name, mapping)).or_default();
            let point = points.entry(minute).or_insert(value);
            // The maximum of two values, which is also that of their sum in all metrics here.
            *point = value.max(*point);
        }
    }
    values
}

pub(crate) fn metric(of: Of, name: &str, mapping: &str) -> Metric {
    let (namespace, dimension) = match of {
        Of::Writer => ("AWS/Lambda", Some(("FunctionName", "WriterFunction"))),
        Of::Stream => ("AWS/Lambda", Some(("FunctionName", "StreamFunction"))),
        // The only dimension of these metrics.
        Of::WriterMapping => ("AWS/Lambda", Some(("EventSourceMappingUUID", "WriterFunctionUpdates"))),
        Of::StreamMapping => ("AWS/Lambda", Some(("EventSourceMappingUUID", mapping))),
        Of::Updates => ("AWS/SQS", Some(("QueueName", "Updates.QueueName"))),
        Of::UpdatesDeadLetterQueue => ("AWS/SQS", Some(("QueueName", "UpdatesDeadLetterQueue.QueueName"))),
        Of::StreamDeadLetterQueue => ("AWS/SQS", Some(("QueueName", "StreamDeadLetterQueue.QueueName"))),
        Of::Log => ("VersionControl/local", None),
    };
    let dimensions = dimension.map(|(name, value)| (name.to_owned(), value.to_owned()));
    Metric {
        namespace: namespace.to_owned(),
        name: name.to_owned(),
        dimensions: dimensions.into_iter().collect(),
    }
}
