use serde_json::{Value, json};
use testkit::replay;

use super::*;
use crate::{
    error::Kind,
    failures::source::Source,
    progress::Silent,
    redrive::{Feed, Replay, Services, replayed},
};

const LETTERS: &str = "https://sqs.eu-central-1.amazonaws.com/1/Letters";
const UPDATES: &str = "https://sqs.eu-central-1.amazonaws.com/1/Updates";

struct Redriven {
    result: Result<(), OperationError>,
    tally: Tally,
    requests: Vec<(String, Value)>,
}

impl Redriven {
    fn operations(&self) -> Vec<&str> {
        self.requests.iter().map(|(operation, _)| operation.as_str()).collect()
    }

    /// Bodies of the requests of an operation.
    fn bodies(&self, operation: &str) -> Vec<&Value> {
        let of = self.requests.iter().filter(|(found, _)| found == operation);
        of.map(|(_, body)| body).collect()
    }

    fn counts(&self) -> Value {
        let counts = self.tally.counts(false);
        json!([
            counts["Resent"],
            counts["NotResent"],
            counts["NotDocuments"],
            counts["MessagesDeleted"],
            counts["MessagesKept"]
        ])
    }

    fn reasons(&self) -> Vec<Value> {
        let lists = self.tally.lists().flat_map(|(_, list)| list);
        lists.map(|entry| entry["Reason"].clone()).collect()
    }
}

/// Redrives the dead-letter queue with these responses of SQS.
async fn redrive(resend: impl Into<Option<Resend>>, responses: impl IntoIterator<Item = Value>) -> Redriven {
    let resend = resend.into();
    let responses = replay::Replay::new(responses);
    let connection = replayed(&responses, "T");
    let services = Services::default();
    let mut feed = Feed::new(&connection, &services, &Silent);
    let is_dry = resend.as_ref().is_none_or(|resend| resend.is_dry);
    feed.resend = resend;
    let sink = Replay::new(&connection, &services, is_dry);
    let mut tally = Tally::default();
    let result = feed.all(&[Source::Queue(LETTERS.to_owned())], &sink, &mut tally).await;
    Redriven {
        result,
        tally,
        requests: responses.requests(),
    }
}

fn to_source() -> Resend {
    Resend::default()
}

fn to(url: &str) -> Resend {
    Resend {
        to: Some(url.to_owned()),
        is_dry: false,
    }
}

fn message(id: &str, body: &str) -> Value {
    json!({
        "MessageId": id, "ReceiptHandle": format!("receipt of {id}"), "Body": body,
        "Attributes": {"SentTimestamp": "1767323045678", "ApproximateReceiveCount": "7"},
    })
}

fn fifo(id: &str, group: &str) -> Value {
    let mut message = message(id, r#"{"ID": "E"}"#);
    message["Attributes"] = json!({
        "SentTimestamp": "1767323045678", "MessageGroupId": group,
        "MessageDeduplicationId": format!("original of {id}"), "SequenceNumber": "1",
    });
    message
}

fn received(messages: &[Value]) -> Value {
    json!({"Messages": messages})
}

fn sources(urls: &[&str]) -> Value {
    json!({"queueUrls": urls})
}

fn empty() -> Value {
    json!({})
}

fn sent() -> Value {
    json!({"MessageId": "new", "MD5OfMessageBody": "0"})
}

fn error(code: &str) -> Value {
    json!({"__type": format!("com.amazonaws.sqs#{code}")})
}

fn released() -> Value {
    json!({"Successful": [{"Id": "0"}], "Failed": []})
}

#[tokio::test]
async fn an_update_is_sent_to_the_source_queue_and_then_deleted() {
    let mut with_attributes = message("m", r#"{"ID":"E","N":0.10}"#);
    let attributes = json!({
        "Text": {"StringValue": "s", "DataType": "String"}, "Bytes": {"BinaryValue": "AP8=", "DataType": "Binary.x"},
    });
    with_attributes["MessageAttributes"] = attributes.clone();
    let done = redrive(
        to_source(),
        [
            received(&[with_attributes]),
            sources(&[UPDATES]),
            sent(),
            empty(),
            empty(),
        ],
    )
    .await;
    done.result.as_ref().unwrap();
    done.tally.verdict().unwrap();
    assert_eq!(
        done.operations(),
        [
            "ReceiveMessage",
            "ListDeadLetterSourceQueues",
            "SendMessage",
            "DeleteMessage",
            "ReceiveMessage"
        ]
    );
    let body = r#"{"ID":"E","N":0.10,"RequestId":"m","RequestSentAt":"2026-01-02T03:04:05.678Z"}"#;
    let request = json!({"QueueUrl": UPDATES, "MessageBody": body, "MessageAttributes": attributes});
    assert_eq!(done.bodies("SendMessage"), [&request]);
    let deleted = json!({"QueueUrl": LETTERS, "ReceiptHandle": "receipt of m"});
    assert_eq!(done.bodies("DeleteMessage"), [&deleted]);
    assert_eq!(
        done.bodies("ListDeadLetterSourceQueues"),
        [&json!({"QueueUrl": LETTERS})]
    );
    assert_eq!(done.counts(), json!([1, 0, 0, 1, 0]));
    let summary = done.tally.summary(false);
    assert_eq!(summary["Destinations"], json!([{"Queue": UPDATES, "Updates": 1}]));
}

#[tokio::test]
async fn bodies_with_an_id_of_their_own_are_sent_unchanged() {
    let own = r#"{"ID": "E",  "RequestId": "own", "RequestSentAt": "2026-01-01T00:00:00Z"}"#;
    let bridge = r#"{"id": "b",  "time": "2026-01-01T00:00:00Z", "detail-type": "t", "detail": {"ID": "E"}}"#;
    let sns = json!({"Type": "Notification", "MessageId": "n", "Timestamp": "2026-01-01T00:00:00Z", "Message": bridge});
    let sns = sns.to_string();
    for body in [own, bridge, &sns] {
        let responses = [received(&[message("m", body)]), sent(), empty(), empty()];
        let done = redrive(to(UPDATES), responses).await;
        done.result.as_ref().unwrap();
        assert_eq!(done.bodies("SendMessage")[0]["MessageBody"], body);
        assert_eq!(done.counts(), json!([1, 0, 0, 1, 0]));
    }
}

#[tokio::test]
async fn what_can_never_be_applied_stays() {
    let bodies = [
        r#"secret {"ID": "E"}"#,
        r#"{"secret": 1}"#,
        r#"{"ID": "E", "Latest": "secret"}"#,
        r#"{"ID": "E", "RequestId": ["secret"]}"#,
    ];
    let messages: Vec<_> = (bodies.iter().enumerate())
        .map(|(index, body)| message(&index.to_string(), body))
        .collect();
    let done = redrive(to_source(), [received(&messages), empty(), released()]).await;
    done.result.as_ref().unwrap();
    assert_eq!(
        done.operations(),
        ["ReceiveMessage", "ReceiveMessage", "ChangeMessageVisibilityBatch"]
    );
    assert_eq!(done.counts(), json!([0, 2, 2, 0, 4]));
    let neither = "it is neither an S3 event notification, nor a failure document, nor an update";
    assert_eq!(
        done.reasons(),
        [neither, neither, "Latest is reserved", "RequestId is not a string"]
    );
    let verdict = done.tally.verdict().unwrap_err();
    assert_eq!(verdict.kind(), Kind::Conflict);
    assert_eq!(
        verdict.to_string(),
        "not everything was redriven: 2 neither a document nor an update, 2 not sent again"
    );
    assert!(!done.tally.summary(false).to_string().contains("secret"));
}

#[tokio::test]
async fn a_dry_run_sends_and_deletes_nothing() {
    let resend = Resend { to: None, is_dry: true };
    let messages = [message("a", r#"{"ID": "E"}"#), message("b", r#"{"ID": "F"}"#)];
    let responses = [received(&messages), sources(&[UPDATES]), empty(), released()];
    let done = redrive(resend, responses).await;
    done.result.as_ref().unwrap();
    assert!(!done.operations().contains(&"SendMessage") && !done.operations().contains(&"DeleteMessage"));
    assert_eq!(done.counts(), json!([2, 0, 0, 0, 2]));
    assert_eq!(done.tally.destinations(), [json!({"Queue": UPDATES, "Updates": 2})]);
}

#[tokio::test]
async fn a_failed_send_leaves_the_message() {
    // SQS rejects one message: the others are sent.
    let messages = [fifo("a", "g"), fifo("b", "h")];
    let rejected = [
        received(&messages),
        error("InvalidParameterValue"),
        sent(),
        empty(),
        empty(),
        released(),
    ];
    let done = redrive(to(UPDATES), rejected).await;
    done.result.as_ref().unwrap();
    assert_eq!(done.counts(), json!([1, 1, 0, 1, 1]));
    assert_eq!(done.reasons(), ["SendMessage failed with InvalidParameterValue"]);
    let deleted = json!({"QueueUrl": LETTERS, "ReceiptHandle": "receipt of b"});
    assert_eq!(done.bodies("DeleteMessage"), [&deleted]);
    // It rejects every message: the run ends.
    for (code, kind) in [
        ("AccessDeniedException", Kind::Unavailable),
        ("QueueDoesNotExist", Kind::NotFound),
    ] {
        let responses = [received(&[message("a", r#"{"ID": "E"}"#)]), error(code), released()];
        let done = redrive(to(UPDATES), responses).await;
        assert_eq!(done.result.as_ref().unwrap_err().kind(), kind);
        assert_eq!(done.counts(), json!([0, 0, 0, 0, 1]));
        assert!(done.bodies("DeleteMessage").is_empty());
    }
}

#[tokio::test]
async fn messages_of_a_fifo_queue_keep_their_group_deduplication_id_and_order() {
    let messages = [fifo("a", "g"), fifo("b", "h"), fifo("c", "g"), fifo("d", "h")];
    let responses = [
        received(&messages),
        error("InvalidParameterValue"),
        sent(),
        sent(),
        empty(),
        empty(),
        empty(),
        released(),
    ];
    let done = redrive(to(UPDATES), responses).await;
    done.result.as_ref().unwrap();
    let sent: Vec<_> = (done.bodies("SendMessage").into_iter())
        .map(|body| (&body["MessageGroupId"], &body["MessageDeduplicationId"]))
        .collect();
    let original = |group: &str, id: &str| (json!(group), json!(format!("original of {id}")));
    let (a, b, d) = (original("g", "a"), original("h", "b"), original("h", "d"));
    assert_eq!(sent, [(&a.0, &a.1), (&b.0, &b.1), (&d.0, &d.1)]);
    assert_eq!(done.counts(), json!([2, 2, 0, 2, 2]));
    assert_eq!(
        done.reasons()[1],
        "an earlier message of its message group was not sent"
    );
}

#[tokio::test]
async fn without_exactly_one_source_queue_nothing_is_sent() {
    for urls in [&[][..], &[UPDATES, "https://sqs.eu-central-1.amazonaws.com/1/Others"]] {
        let messages = [message("a", r#"{"ID": "E"}"#)];
        let done = redrive(to_source(), [received(&messages), sources(urls), released()]).await;
        let error = done.result.as_ref().unwrap_err();
        let OperationError::SourceQueues { queue, sources } = error else {
            panic!("{error}");
        };
        assert_eq!(
            (queue.as_str(), *sources, error.kind()),
            (LETTERS, urls.len(), Kind::Invalid)
        );
        assert!(done.bodies("SendMessage").is_empty() && done.bodies("DeleteMessage").is_empty());
        assert_eq!(done.counts(), json!([0, 0, 0, 0, 1]));
    }
    let same = "https://eu-central-1.queue.amazonaws.com/1/Letters";
    let done = redrive(to(same), [received(&[message("a", r#"{"ID": "E"}"#)]), released()]).await;
    assert!(matches!(done.result, Err(OperationError::SameQueue(_))));
}

#[tokio::test]
async fn a_search_for_records_leaves_updates() {
    let done = redrive(None, [received(&[message("a", r#"{"ID": "E"}"#)]), empty(), released()]).await;
    done.result.as_ref().unwrap();
    assert_eq!(done.counts(), json!([0, 1, 0, 0, 1]));
    assert_eq!(
        done.operations(),
        ["ReceiveMessage", "ReceiveMessage", "ChangeMessageVisibilityBatch"]
    );
}
