//! The queues and the bucket of a template: the event source of the writer, and the on-failure destination.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::{
    error::{TemplateError, number},
    resolve::{Resolver, text},
};

/// A queue, with the parameters of `CreateQueue`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Queue {
    /// Logical id, used as the name.
    pub name: String,
    /// Attributes except `RedrivePolicy`.
    pub attributes: BTreeMap<String, String>,
    /// The redrive policy: maximum receive count and dead-letter queue.
    pub dead_letter_queue: Option<(u64, Box<Queue>)>,
}

/// An SQS event source of a function.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueueEvent {
    pub function: String,
    pub queue: Queue,
    /// Maximum number of messages of one invocation: 1 to 10, default 10.
    pub batch_size: usize,
    /// Maximum number of concurrent invocations: 2 to 1,000, default 5.
    pub maximum_concurrency: usize,
    /// `true` if the response of the function names the messages that failed.
    pub report_batch_item_failures: bool,
}

/// A bucket for failure documents.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bucket {
    pub name: String,
    pub versioned: bool,
    pub notifies: Option<Queue>,
}

pub(super) fn event(
    function: &str,
    properties: &Map<String, Value>,
    resources: &Map<String, Value>,
    place: &str,
    resolver: &Resolver,
) -> Result<QueueEvent, TemplateError> {
    let id = named(properties.get("Queue"));
    let id = id.ok_or_else(|| TemplateError::missing(place, "Queue: !GetAtt <queue>.Arn"))?;
    let mut event = QueueEvent {
        function: function.to_owned(),
        queue: queue(id, resources, resolver)?,
        batch_size: 10,
        maximum_concurrency: 5,
        report_batch_item_failures: false,
    };
    for (name, value) in properties {
        let count = |value: &Value| -> Result<usize, TemplateError> {
            let count = number(Some(resolver.resolve(value)?), 0, place, name)?;
            usize::try_from(count).map_err(|_| TemplateError::invalid(place, name))
        };
        match name.as_str() {
            "Queue" | "Enabled" | "MetricsConfig" => {}
            "BatchSize" => event.batch_size = count(value)?,
            "ScalingConfig" => {
                if let Some(max) = value.get("MaximumConcurrency") {
                    event.maximum_concurrency = count(max)?;
                }
            }
            "FunctionResponseTypes" => {
                let types = resolver.resolve(value)?;
                let reports = |kind: &Value| kind.as_str() == Some("ReportBatchItemFailures");
                event.report_batch_item_failures = types.as_array().is_some_and(|types| types.iter().any(reports));
            }
            _ => return Err(TemplateError::Unsupported(place.to_owned(), name.clone())),
        }
    }
    // Lambda's bounds. A batch is the output of one ReceiveMessage request.
    for (name, ok) in [
        ("BatchSize", (1..=10).contains(&event.batch_size)),
        ("MaximumConcurrency", (2..=1000).contains(&event.maximum_concurrency)),
    ] {
        if !ok {
            return Err(TemplateError::invalid(place, name));
        }
    }
    Ok(event)
}

/// Returns the bucket in a mapping's `DestinationConfig`, if there is one.
pub(super) fn destination(
    properties: &Map<String, Value>,
    resources: &Map<String, Value>,
    resolver: &Resolver,
) -> Result<Option<Bucket>, TemplateError> {
    let config = properties.get("DestinationConfig");
    let target = config.and_then(|config| config.pointer("/OnFailure/Destination"));
    let Some((id, resource)) = named(target).and_then(|id| Some((id, resources.get(id)?))) else {
        return Ok(None);
    };
    if resource.get("Type").and_then(Value::as_str) != Some("AWS::S3::Bucket") {
        return Ok(None);
    }
    let name = resource.pointer("/Properties/BucketName");
    let name = name.map(|name| resolver.resolve(name)).transpose()?;
    let target = resource.pointer("/Properties/NotificationConfiguration/QueueConfigurations/0/Queue");
    Ok(Some(Bucket {
        name: name.as_ref().map_or_else(|| id.to_lowercase(), text),
        versioned: resource
            .pointer("/Properties/VersioningConfiguration/Status")
            .map(text)
            .as_deref()
            == Some("Enabled"),
        notifies: named(target).map(|id| queue(id, resources, resolver)).transpose()?,
    }))
}

fn queue(id: &str, resources: &Map<String, Value>, resolver: &Resolver) -> Result<Queue, TemplateError> {
    let resource = resources
        .get(id)
        .ok_or_else(|| TemplateError::NotAnObject(id.to_owned()))?;
    let properties = resource.get("Properties").and_then(Value::as_object);
    let mut attributes = BTreeMap::new();
    let mut dead_letter_queue = None;
    for (name, value) in properties.into_iter().flatten() {
        match name.as_str() {
            "QueueName" | "Tags" => {}
            "RedrivePolicy" => {
                let count = value
                    .get("maxReceiveCount")
                    .map(|count| resolver.resolve(count))
                    .transpose()?;
                let count = number(count, 0, id, name)?;
                let target = named(value.get("deadLetterTargetArn"));
                let target = target.ok_or_else(|| TemplateError::missing(id, "RedrivePolicy.deadLetterTargetArn"))?;
                dead_letter_queue = Some((count, Box::new(queue(target, resources, resolver)?)));
            }
            _ => {
                attributes.insert(name.clone(), text(&resolver.resolve(value)?));
            }
        }
    }
    Ok(Queue {
        name: id.to_owned(),
        attributes,
        dead_letter_queue,
    })
}

/// Returns the logical id in `!GetAtt <id>.Arn`.
fn named(value: Option<&Value>) -> Option<&str> {
    value?.pointer("/Fn::GetAtt/0").and_then(Value::as_str)
}
