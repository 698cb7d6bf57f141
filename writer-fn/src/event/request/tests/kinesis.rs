//! Records of a Kinesis stream.

use super::*;

fn record(data: &str) -> Value {
    json!({
        "kinesis": {
            "partitionKey": "E", "sequenceNumber": "495", "data": STANDARD.encode(data), "approximateArrivalTimestamp": 1.0509,
        },
        "eventSource": "aws:kinesis", "eventID": "shardId-0:495", "eventSourceARN": "arn:stream",
    })
}

/// The response names a record by its sequence number, also if nothing else of it can be read.
#[test]
fn records_of_a_stream() {
    const RECORDS: &str = r#"
        // Sequence numbers are text of any length.
        ["/kinesis/sequenceNumber", "99999999999999999999999999999999999999999999999999999999"] -> shardId-0:495 1050
        ["/kinesis/sequenceNumber", ""]                        -> shardId-0:495 1050
        ["/kinesis/sequenceNumber", 495]                       -> shardId-0:495 1050
        ["/kinesis/partitionKey"]                              -> shardId-0:495 1050
        ["/eventSourceARN", "arn:stream"]                      -> shardId-0:495 1050
        ["/kinesis/approximateArrivalTimestamp", 1.604e9]      -> shardId-0:495 1604000000000
        ["/kinesis/approximateArrivalTimestamp", 1e300]        -> shardId-0:495
        ["/kinesis/approximateArrivalTimestamp", -1]           -> shardId-0:495
        ["/kinesis/approximateArrivalTimestamp", "1"]          -> shardId-0:495
        ["/kinesis/approximateArrivalTimestamp", null]         -> shardId-0:495
        // Without an id, the update needs its own.
        ["/eventID"]                                           -> the event is invalid: RequestId has 0 bytes, and 1 to 1000 are allowed
        ["/eventID", null]                                     -> the event is invalid: RequestId has 0 bytes, and 1 to 1000 are allowed
        ["/kinesis/data"]                                      -> the event is invalid: the record is not one of a Kinesis stream
        ["/kinesis/data", null]                                -> the event is invalid: the record is not one of a Kinesis stream
        ["/kinesis/data", {"ID": "E"}]                         -> the event is invalid: the record is not one of a Kinesis stream
        ["/kinesis/data", "%"]                                 -> the event is invalid: it is not base64
        ["/kinesis/data", "eyJ"]                               -> the event is invalid: it is not base64
        ["/kinesis/data", "/w=="]                              -> the event is invalid: it is not JSON, or nested too deeply
        // Aggregated by the Kinesis Producer Library.
        ["/kinesis/data", "84mawg=="]                          -> the event is invalid: it is not JSON, or nested too deeply
        ["/kinesis/data", ""]                                  -> the event is invalid: it is not JSON, or nested too deeply
        ["/kinesis", null]                                     -> the event is invalid: the record is not one of a Kinesis stream
        ["/kinesis", []]                                       -> the event is invalid: the record is not one of a Kinesis stream
    "#;
    for (patch, expected) in cases(RECORDS) {
        let event = patched(record(r#"{"ID": "E"}"#), &patch);
        let is_named = event["kinesis"]["sequenceNumber"]
            .as_str()
            .is_some_and(|number| !number.is_empty());
        // Neighbours that are no records.
        let message = messages(&json!({"Records": [null, event, 7]})).remove(1);
        assert_eq!(message.id.is_some(), is_named, "{patch}");
        let found = message
            .body
            .and_then(|body| body.open(&message.carrier, Ordering::Arrival));
        let found = match found.map_err(Error::from) {
            Ok(updates) => {
                let update = &updates[0];
                assert_eq!(update.sender.as_deref(), Some("arn:stream"), "{patch}");
                let sent = update.sent_at.map(|sent| sent.earliest.get().to_string());
                format!("{} {}", update.request_id.as_str(), sent.unwrap_or_default())
            }
            Err(error) => error.message(),
        };
        assert_eq!(found.trim(), expected, "{patch}");
    }
    // An event of EventBridge in a record.
    let event = json!({"Records": [record(&bridge(&json!({"ID": "E"})).to_string())]});
    let update = opened(&event).unwrap();
    assert_eq!(
        (update.request_id.as_str(), update.sender.as_deref()),
        ("bridge", Some("app via arn:stream"))
    );
    let twice = r#"{"Records": [{"eventSource": "aws:kinesis", "eventID": "a", "eventID": "b",
        "kinesis": {"data": "7", "sequenceNumber": "1", "sequenceNumber": "2", "data": "eyJJRCI6IkUifQ=="}}]}"#;
    let Ok(Request::Batch(messages)) = parse(twice) else {
        panic!()
    };
    assert_eq!((messages[0].id.as_deref(), &*messages[0].carrier.id), (Some("2"), "b"));
}
