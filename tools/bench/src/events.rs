//! Events for the functions.

use serde_json::{Value, json};
use shared::domain::attributes;

use crate::subject::{Kind, Role, Subject};

/// Recent requests in a latest item: between the minimum and the maximum of the default window.
const RECENT_REQUESTS: usize = 20;

/// Returns an event with this number of updates or of new images, each of a different entity. A single update has no envelope.
pub(crate) fn event(role: Role, items: usize, subject: &Subject) -> String {
    let records: Vec<_> = match role {
        Role::Writer if items == 1 => return update(&entity(0)).to_string(),
        Role::Writer => (0..items).map(message).collect(),
        Role::Stream => (0..items)
            .map(|index| record(index, subject.kind == Kind::Ours))
            .collect(),
    };
    json!({ "Records": records }).to_string()
}

/// Returns an event that results in no write, for either function.
pub(crate) fn empty() -> String {
    json!({"Records": []}).to_string()
}

fn entity(index: usize) -> String {
    format!("Equipment#{index:06}")
}

fn message(index: usize) -> Value {
    json!({
        "messageId": format!("00000000-0000-4000-8000-{index:012}"),
        "receiptHandle": "receipt",
        "body": update(&entity(index)).to_string(),
        "attributes": {"ApproximateReceiveCount": "1", "SentTimestamp": "1604260800000"},
        "messageAttributes": {},
        "eventSource": "aws:sqs",
        "eventSourceARN": "arn:aws:sqs:us-east-1:123456789012:Updates",
        "awsRegion": "us-east-1",
    })
}

/// Returns an update. The item that it creates has just under 600 bytes.
fn update(entity: &str) -> Value {
    json!({
        "ID": entity,
        "Time": "2020-11-01T20:04:00",
        "State": "WARNING1",
        "Factory": "Berlin-2",
        "Operator": "M. Example",
        "Temperature": 71.25,
        "Pressure": 1.013,
        "Running": true,
        "Location": {"Hall": "H7", "Row": 12, "Place": "north"},
        "Readings": [71.0, 71.1, 71.3, 71.2, 71.4, 71.1, 71.0, 71.25],
        "Note": "x".repeat(330),
    })
}

/// Returns the latest item after such an update, without recent requests.
pub(crate) fn image(index: usize) -> Value {
    let mut image = json!({
        "PK": {"S": entity(index)}, "SK": {"S": "v0"}, "Latest": {"N": "7"},
        "RequestId": {"S": format!("00000000-0000-4000-8000-{index:012}")},
    });
    let members = update("").as_object().cloned().unwrap_or_default().into_iter();
    for (name, value) in members.filter(|(name, _)| name != "ID") {
        image[name] = json!(attributes::from_json(value).ok());
    }
    image
}

/// Returns the stream record of a latest item. Only our writer adds recent requests to the item.
fn record(index: usize, ours: bool) -> Value {
    let mut image = image(index);
    if ours {
        let recent = (0..RECENT_REQUESTS).map(|index| (format!("{index:011}"), json!({"N": index.to_string()})));
        let recent: serde_json::Map<_, _> = recent.collect();
        image["RecentRequests"] = json!({ "M": recent });
    }
    json!({
        "eventID": format!("{index:032x}"),
        "eventName": "MODIFY",
        "eventVersion": "1.1",
        "eventSource": "aws:dynamodb",
        "awsRegion": "us-east-1",
        "dynamodb": {
            // In the future: stream-fn reads the purge markers of older records, which are not the common case.
            "ApproximateCreationDateTime": 4_102_444_800_u64,
            "Keys": {"PK": image["PK"], "SK": image["SK"]},
            "NewImage": image,
            "SequenceNumber": format!("{:021}", 100 + index),
            "SizeBytes": 600,
            "StreamViewType": "NEW_IMAGE",
        },
        "eventSourceARN": "arn:aws:dynamodb:us-east-1:123456789012:table/VersionControl/stream/2020-11-01T00:00:00.000",
    })
}

#[cfg(test)]
mod tests {
    use shared::domain::{Item, size};

    use super::*;

    #[test]
    fn an_item_has_just_under_600_bytes() {
        let image: Item = serde_json::from_value(record(0, false)["dynamodb"]["NewImage"].clone()).unwrap();
        let size = size::of_item(&image);
        assert!((560..600).contains(&size), "{size}");
    }
}
