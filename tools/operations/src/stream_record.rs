//! Shards of a table's stream, and its records in the form in which an event source mapping delivers them to a function.

use std::collections::HashMap;

use aws_sdk_dynamodbstreams::{
    Client,
    error::SdkError,
    operation::describe_stream::DescribeStreamError,
    primitives::DateTimeFormat as Format,
    types::{AttributeValue, Record, Shard},
};
use serde_json::{Map, Value, json};
use shared::{domain::Item, json};

/// Lists the shards of a stream.
pub async fn shards(client: &Client, stream_arn: &str) -> Result<Vec<Shard>, SdkError<DescribeStreamError>> {
    let (mut shards, mut start) = (Vec::new(), None);
    loop {
        let request = client.describe_stream().stream_arn(stream_arn);
        let output = request.set_exclusive_start_shard_id(start).send().await?;
        let Some(stream) = output.stream_description else {
            return Ok(shards);
        };
        shards.extend(stream.shards.unwrap_or_default());
        start = stream.last_evaluated_shard_id;
        if start.is_none() {
            return Ok(shards);
        }
    }
}

/// Returns a record that `GetRecords` returned. The mapping adds the ARN of the stream. `None` if the record has no change.
pub fn delivered(record: Record, stream_arn: &str) -> Option<Value> {
    let change = record.dynamodb?;
    let created = match change.approximate_creation_date_time {
        // Seconds since 1970, with the fraction that the stream has.
        Some(created) => Some(json::parse(&created.fmt(Format::EpochSeconds).ok()?).ok()?),
        None => None,
    };
    let view = change.stream_view_type;
    let members = [
        ("SequenceNumber", change.sequence_number.map(Value::from)),
        ("Keys", change.keys.map(image)),
        ("OldImage", change.old_image.map(image)),
        ("NewImage", change.new_image.map(image)),
        ("ApproximateCreationDateTime", created),
        ("StreamViewType", view.map(|view| json!(view.as_str()))),
        ("SizeBytes", change.size_bytes.map(Value::from)),
    ];
    let members = members.into_iter();
    let dynamodb = members.filter_map(|(name, value)| Some((name.to_owned(), value?)));
    let mut json = json!({
        "eventID": record.event_id,
        "eventName": record.event_name.map(|name| name.as_str().to_owned()),
        "eventVersion": record.event_version,
        "eventSource": record.event_source,
        "awsRegion": record.aws_region,
        "dynamodb": dynamodb.collect::<Map<_, _>>(),
        "eventSourceARN": stream_arn,
    });
    if let Some(identity) = record.user_identity {
        json["userIdentity"] = json!({"type": identity.r#type, "principalId": identity.principal_id});
    }
    Some(json)
}

fn image(image: HashMap<String, AttributeValue>) -> Value {
    // Attribute values always have a JSON form.
    serde_json::to_value(Item::from(image)).unwrap_or_default()
}
