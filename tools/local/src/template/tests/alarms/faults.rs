//! Metrics of a healthy stack and of each fault of `tests/fixtures/faults.yaml`, which has the sources.
//!
//! A metric is written as its place and its name, such as `Stream IteratorAge`.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::Values;
use crate::template::yaml;

/// Minutes between two updates of a stack with little load.
const IDLE: i64 = 5;
/// Minutes before the fault.
const BEFORE: i64 = 60;
/// Minutes after the fault in which an alarm must fire.
pub(super) const AFTER: i64 = 60;
/// Time in minutes after which SQS delivers a failing message again, as `VisibilityTimeout`.
const VISIBILITY: i64 = 3;
/// Number of deliveries of a message, as `maxReceiveCount`.
const RECEIVES: i64 = 5;
/// Longest time in minutes between two retries of the stream's mapping. AWS does not document it; this is an assumption.
const STREAM_RETRY: i64 = 3;

const VISIBLE: &str = "StreamDeadLetterQueue ApproximateNumberOfMessagesVisible";
const POLLED: &str = "StreamMapping PolledEventCount";
const FAILED: &str = "StreamMapping FailedInvokeEventCount";
/// Published when a batch is processed:
/// <https://docs.aws.amazon.com/lambda/latest/dg/with-ddb.html#events-dynamodb-metrics>.
const ITERATOR_AGE: &str = "Stream IteratorAge";

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Fault {
    /// The row of the table in `docs/operations.md`.
    #[serde(rename = "fault")]
    pub(super) name: String,
    #[serde(default)]
    silences: Vec<String>,
    #[serde(default)]
    adds: BTreeMap<String, String>,
}

/// Returns the faults, in the order of the table.
pub(super) fn faults() -> Vec<Fault> {
    let faults = yaml::parse(include_str!("../../../../tests/fixtures/faults.yaml")).unwrap();
    serde_json::from_value(faults).unwrap()
}

/// Returns the value of a series in a minute of the fault. `None`: it is not published.
fn series(name: &str, minute: i64) -> Option<i64> {
    let updates = || (0..=minute).filter(|sent| sent % IDLE == 0);
    Some(match name {
        "always" => 1,
        "zero" => 0,
        "once" => (minute == 0).then_some(1)?,
        // A message that fails is delivered at once, and after each visibility timeout.
        "received" => is_received(minute).then_some(1)?,
        // After the last of these deliveries, it is in the dead-letter queue.
        "dead" => i64::from(minute >= VISIBILITY * RECEIVES),
        // The stream's mapping retries the records of a lane. Its other lane succeeds.
        "retried" => i64::from(minute % STREAM_RETRY == 0),
        // Ages of a message and of a record that nothing processes.
        "seconds" => (minute + 1) * 60 - 1,
        "milliseconds" => (minute + 1) * 60_000 - 1,
        // Deliveries of an update every five minutes, each of which fails.
        "updates" => i64::from(updates().any(|sent| is_received(minute - sent))),
        // Age in seconds of the oldest of them. SQS: it does not include messages that were received three times.
        "age of updates" => {
            let ages = updates().map(|sent| minute - sent);
            let included = ages.filter(|age| *age < 2 * VISIBILITY);
            included.max().map_or(0, |age| (age + 1) * 60 - 1)
        }
        other => panic!("no series {other}"),
    })
}

fn is_received(minute: i64) -> bool {
    minute >= 0 && minute % VISIBILITY == 0 && minute / VISIBILITY < RECEIVES
}

/// Load of a stack before the fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Load {
    /// One update, in the minutes with this remainder by [`IDLE`].
    Idle(i64),
    /// No updates at all.
    Silent,
    /// Updates every minute, with single errors, throttles and retries, and a peak of two minutes.
    Busy,
}

impl Load {
    pub(super) fn all() -> impl Iterator<Item = Self> {
        (0..IDLE).map(Self::Idle).chain([Self::Busy])
    }

    fn metrics(self, minute: i64) -> Vec<(&'static str, i64)> {
        // LAMBDA: polls of an enabled mapping, also without records. SQS: queues are measured every minute.
        let mut metrics = vec![
            (POLLED, 0),
            ("WriterMapping PolledEventCount", 0),
            ("Updates ApproximateAgeOfOldestMessage", 0),
            ("Updates ApproximateNumberOfMessagesVisible", 0),
            ("UpdatesDeadLetterQueue ApproximateNumberOfMessagesVisible", 0),
            (VISIBLE, 0),
        ];
        let has_updates = match self {
            Self::Idle(phase) => minute.rem_euclid(IDLE) == phase,
            Self::Silent => false,
            Self::Busy => true,
        };
        if has_updates {
            metrics.extend([(POLLED, 2), ("WriterMapping PolledEventCount", 1), (ITERATOR_AGE, 900)]);
            metrics.extend([("Writer Invocations", 1), ("Stream Invocations", 1)]);
        }
        if self == Self::Busy {
            let minute = minute.rem_euclid(20);
            // A new execution environment is throttled, an invocation fails, a hot entity is sent again.
            if minute == 0 {
                metrics.extend([("Writer Throttles", 3), ("Stream Throttles", 3)]);
                metrics.extend([("WriterMapping FailedInvokeEventCount", 3), (FAILED, 3)]);
            }
            if minute == 10 {
                metrics.extend([("Writer Errors", 1), ("Stream Errors", 1)]);
                metrics.extend([("WriterMapping FailedInvokeEventCount", 1), (FAILED, 1)]);
            }
            // A peak, and messages that are delivered again after their visibility timeout.
            if minute < 2 {
                metrics.extend([("Updates ApproximateAgeOfOldestMessage", 310), (ITERATOR_AGE, 320_000)]);
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
            metrics.retain(|(name, _)| !fault.silences.iter().any(|silenced| silenced == name));
            let adds = fault.adds.iter();
            metrics.extend(adds.filter_map(|(name, values)| Some((name.as_str(), series(values, minute)?))));
        }
        for (name, value) in metrics {
            let points = values.entry(metric(name, mapping)).or_default();
            let point = points.entry(minute).or_insert(value);
            // The maximum of two values, which is also that of their sum in all metrics here.
            *point = value.max(*point);
        }
    }
    values
}

/// Returns the namespace, name and dimensions of a metric.
pub(super) fn metric(metric: &str, mapping: &str) -> String {
    let (place, name) = metric.split_once(' ').unwrap();
    match place {
        "Writer" | "Stream" => format!("AWS/Lambda {name} FunctionName={place}Function"),
        // The only dimension of these metrics.
        "WriterMapping" => format!("AWS/Lambda {name} EventSourceMappingUUID=WriterFunctionUpdates"),
        "StreamMapping" => format!("AWS/Lambda {name} EventSourceMappingUUID={mapping}"),
        "Index" => format!("AWS/DynamoDB {name} TableName=VersionControl GlobalSecondaryIndexName=TimeIndex"),
        "Log" => format!("VersionControl/local {name} "),
        queue => format!("AWS/SQS {name} QueueName={queue}.QueueName"),
    }
}
