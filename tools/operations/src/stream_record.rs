//! Shards of a table's stream, and its records in the form in which an event source mapping delivers them to a function.

use std::collections::HashMap;

use aws_sdk_dynamodbstreams::{
    Client,
    error::SdkError,
    operation::describe_stream::DescribeStreamError,
    primitives::DateTimeFormat as Format,
    types::{Record, Shard},
};
use serde_json::{Value, json};
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
    // Attribute values always have a JSON form.
    let image = |image: HashMap<_, _>| serde_json::to_value(Item::from(image)).unwrap_or_default();
    // Seconds since 1970, with the fraction that the stream has.
    let created = change.approximate_creation_date_time;
    let created = created.and_then(|created| json::parse(&created.fmt(Format::EpochSeconds).ok()?).ok());
    let mut dynamodb = json!({
        "SequenceNumber": change.sequence_number,
        "Keys": change.keys.map(image),
        "OldImage": change.old_image.map(image),
        "NewImage": change.new_image.map(image),
        "ApproximateCreationDateTime": created,
        "StreamViewType": change.stream_view_type.map(|view| view.as_str().to_owned()),
        "SizeBytes": change.size_bytes,
    });
    dynamodb.as_object_mut()?.retain(|_, member| !member.is_null());
    let mut json = json!({
        "eventID": record.event_id,
        "eventName": record.event_name.map(|name| name.as_str().to_owned()),
        "eventVersion": record.event_version,
        "eventSource": record.event_source,
        "awsRegion": record.aws_region,
        "dynamodb": dynamodb,
        "eventSourceARN": stream_arn,
    });
    if let Some(identity) = record.user_identity {
        json["userIdentity"] = json!({"type": identity.r#type, "principalId": identity.principal_id});
    }
    Some(json)
}
