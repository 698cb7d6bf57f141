//! Events for the functions.

use std::ops::Range;

use serde_json::{Map, Value, json};
use shared::{clock, domain::attributes};

use crate::subject::{Kind, Role, Subject};

/// Recent requests in a latest item: between the minimum and the maximum of the default window.
const RECENT_REQUESTS: usize = 20;
/// Updates of a change set.
const SET: usize = 10;
/// Time at which a message was sent, in milliseconds since 1970.
const SENT: u128 = 1_604_260_800_000;
/// Stream of the records.
pub(crate) const STREAM_ARN: &str =
    "arn:aws:dynamodb:us-east-1:123456789012:table/VersionControl/stream/2020-11-01T00:00:00.000";

/// Returns an event with this number of updates or of new images, each of a different entity. A single update has no envelope.
pub(crate) fn event(role: Role, items: usize, subject: &Subject) -> String {
    let records: Vec<_> = match role {
        Role::Writer if items == 1 => return update(&entity(0)).to_string(),
        Role::Writer => {
            let updates: Vec<_> = (0..items).map(|index| update(&entity(index))).collect();
            let bodies = match subject.kind {
                Kind::Sets => updates.chunks(SET).map(|set| json!({ "Updates": set })).collect(),
                _ => updates,
            };
            let messages = bodies.iter().enumerate();
            messages.map(|(index, body)| message(index, SENT, body)).collect()
        }
        Role::Stream => (0..items).map(|index| record(index, subject.kind)).collect(),
    };
    json!({ "Records": records }).to_string()
}

/// Returns an event with the updates of these numbers, sent now, in turn to so many entities.
pub(crate) fn updates(numbers: Range<usize>, entities: usize) -> String {
    let sent = clock::since_epoch().as_millis();
    let message = |number| message(number, sent, &numbered(number, entities));
    json!({ "Records": numbers.map(message).collect::<Vec<_>>() }).to_string()
}

/// Returns the update of this number, as an event of its own.
pub(crate) fn single(number: usize, entities: usize) -> String {
    numbered(number, entities).to_string()
}

fn numbered(number: usize, entities: usize) -> Value {
    let mut update = update(&entity(number % entities));
    update["Temperature"] = number.into();
    update
}

/// Returns an event that results in no write, for either function.
pub(crate) fn empty() -> String {
    json!({"Records": []}).to_string()
}

pub(crate) fn entity(index: usize) -> String {
    format!("Equipment#{index:06}")
}

fn message(index: usize, sent: u128, body: &Value) -> Value {
    json!({
        "messageId": format!("00000000-0000-4000-8000-{index:012}"),
        "receiptHandle": "receipt",
        "body": body.to_string(),
        "attributes": {"ApproximateReceiveCount": "1", "SentTimestamp": sent.to_string()},
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

/// Returns the latest items that a request reads, by their table.
pub(crate) fn latest_items(request: &[u8]) -> Map<String, Value> {
    let mut request: Value = serde_json::from_slice(request).unwrap_or_default();
    let tables = request["RequestItems"].as_object_mut().into_iter().flatten();
    let of_table = |(table, read): (&String, &mut Value)| {
        let keys = read["Keys"].as_array_mut().into_iter().flatten();
        let items = keys.map(|key| {
            let mut latest = with_recent(image(0));
            latest["PK"] = key["PK"].take();
            latest["RequestId"] = json!({"S": "earlier"});
            latest["RecordedVersion"] = latest["Latest"].clone();
            latest["RecordedAt"] = json!({"S": "2020-11-01T20:04:00.000000007Z"});
            latest
        });
        (table.clone(), items.collect())
    };
    tables.map(of_table).collect()
}

/// Returns the item before such an update of an attached table.
fn old_image(index: usize) -> Value {
    let mut image = image(index);
    image["State"] = json!({"S": "NORMAL"});
    image
}

/// Returns the newest version that an attached table's history has of the item of which a request has the key.
pub(crate) fn newest_version(request: &[u8]) -> Value {
    let text = String::from_utf8_lossy(request);
    let (_, key) = text.split_once("Equipment#").unwrap_or_default();
    let index = key.get(..6).and_then(|digits| digits.parse().ok()).unwrap_or_default();
    let (_, label) = STREAM_ARN.split_once("stream/").unwrap_or_default();
    json!({
        "PK": {"S": "KEY"}, "SK": {"S": "v0000000006"}, "RequestId": {"S": "99"}, "Stream": {"S": label},
        "RecordedBy": {"S": "stream"}, "RecordedAt": {"S": "2020-11-01T20:04:00.000000006Z"}, "Image": {"M": old_image(index)},
    })
}

fn with_recent(mut image: Value) -> Value {
    let recent = (0..RECENT_REQUESTS).map(|index| (format!("{index:011}"), json!({"N": index.to_string()})));
    let recent: Map<_, _> = recent.collect();
    image["RecentRequests"] = json!({ "M": recent });
    image
}

/// Returns the stream record of a latest item, or of an item of an attached table. Only our writer adds recent requests to the item.
fn record(index: usize, kind: Kind) -> Value {
    let is_attached = kind == Kind::Attached;
    let image = match kind {
        Kind::Ours => with_recent(image(index)),
        _ => image(index),
    };
    let mut record = json!({
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
            "StreamViewType": if is_attached { "NEW_AND_OLD_IMAGES" } else { "NEW_IMAGE" },
        },
        "eventSourceARN": STREAM_ARN,
    });
    if is_attached {
        record["dynamodb"]["OldImage"] = old_image(index);
    }
    record
}

#[cfg(test)]
mod tests {
    use shared::domain::{Item, size};

    use super::*;

    #[test]
    fn an_item_has_just_under_600_bytes() {
        let image: Item = serde_json::from_value(record(0, Kind::Sequential)["dynamodb"]["NewImage"].clone()).unwrap();
        let size = size::of_item(&image);
        assert!((560..600).contains(&size), "{size}");
    }
    #[test]
    fn the_newest_version_of_an_attached_item_is_the_state_before_its_change() {
        let (record, key) = (record(12, Kind::Attached), json!({"PK": entity(12), "SK": "v0"}));
        let request = json!({"ExpressionAttributeValues": {":id": {"S": key.to_string()}}}).to_string();
        let change = &record["dynamodb"];
        assert_eq!(newest_version(request.as_bytes())["Image"]["M"], change["OldImage"]);
        assert_ne!(change["OldImage"], change["NewImage"]);
    }
}
