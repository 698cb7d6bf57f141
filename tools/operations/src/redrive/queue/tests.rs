use serde_json::{Value, json};
use testkit::{command::members, replay};

use super::*;
use crate::{
    error::Kind,
    failures::source::Source,
    progress::Silent,
    redrive::{Feed, Services, test_connection::replayed},
};

const LETTERS: &str = "https://sqs.eu-central-1.amazonaws.com/1/Letters";
const RECEIVED_AND_RELEASED: [&str; 3] = ["ReceiveMessage", "ReceiveMessage", "ChangeMessageVisibilityBatch"];
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
        let names = ["Resent", "NotResent", "NotDocuments", "MessagesDeleted", "MessagesKept"];
        members(&self.tally.summary(false), &names)
    }

    fn reasons(&self) -> Vec<Value> {
        let summary = self.tally.summary(false);
        let lists = ["Left", "UpdatesNotResent"].map(|name| summary[name].as_array().unwrap().clone());
        lists.concat().iter().map(|entry| entry["Reason"].clone()).collect()
    }
}

/// Redrives the dead-letter queue with these responses of SQS.
async fn redrive(resend: impl Into<Option<Options>>, responses: impl IntoIterator<Item = Value>) -> Redriven {
    let done = try_redrive(resend, responses).await;
    assert!(done.result.is_ok(), "{:?}", done.result);
    done
}

async fn try_redrive(resend: impl Into<Option<Options>>, responses: impl IntoIterator<Item = Value>) -> Redriven {
    let resend = resend.into();
    let responses = replay::Replay::new(responses);
    let connection = replayed(&responses, "T");
    let services = Services::default();
    let process = async |_: &str, _: Vec<&str>| Vec::new();
    let feed = Feed::new(&connection, &services, resend.as_ref(), &Silent, process);
    let mut tally = Tally::default();
    let result = feed.all(&[Source::Queue(LETTERS.to_owned())], &mut tally).await;
    Redriven {
        result,
        tally,
        requests: responses.requests(),
    }
}

fn to(url: &str) -> Options {
    Options {
        to: Some(url.to_owned()),
        ..Options::default()
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

/// Response to a request that sends, deletes or releases messages, or to one that receives none.
fn nothing() -> Value {
    json!({})
}

fn error(code: &str) -> Value {
    json!({"__type": format!("com.amazonaws.sqs#{code}")})
}

#[tokio::test]
async fn updates_are_sent_to_the_source_queue_and_then_deleted() {
    let mut with_attributes = message("m", r#"{"ID":"E","N":0.10}"#);
    let attributes = json!({
        "Text": {"StringValue": "s", "DataType": "String"}, "Bytes": {"BinaryValue": "AP8=", "DataType": "Binary.x"},
    });
    with_attributes["MessageAttributes"] = attributes.clone();
    // A body with an id and a time of its own is sent unchanged.
    let own = r#"{"ID": "E",  "RequestId": "own", "RequestSentAt": "2026-01-01T00:00:00Z"}"#;
    let responses = [
        received(&[with_attributes]),
        sources(&[UPDATES]),
        nothing(),
        nothing(),
        received(&[message("own", own)]),
        nothing(),
        nothing(),
        nothing(),
    ];
    let done = redrive(Options::default(), responses).await;
    done.tally.verdict().unwrap();
    let send_and_delete = ["SendMessage", "DeleteMessage", "ReceiveMessage"];
    let find = ["ReceiveMessage", "ListDeadLetterSourceQueues"];
    assert_eq!(
        done.operations(),
        [&find[..], &send_and_delete, &send_and_delete].concat()
    );
    let body = r#"{"ID":"E","N":0.10,"RequestId":"m","RequestSentAt":"2026-01-02T03:04:05.678Z"}"#;
    let request = json!({"QueueUrl": UPDATES, "MessageBody": body, "MessageAttributes": attributes});
    let unchanged = json!({"QueueUrl": UPDATES, "MessageBody": own});
    assert_eq!(done.bodies("SendMessage"), [&request, &unchanged]);
    let deleted = |id: &str| json!({"QueueUrl": LETTERS, "ReceiptHandle": format!("receipt of {id}")});
    assert_eq!(done.bodies("DeleteMessage"), [&deleted("m"), &deleted("own")]);
    assert_eq!(
        done.bodies("ListDeadLetterSourceQueues"),
        [&json!({"QueueUrl": LETTERS})]
    );
    assert_eq!(done.counts(), json!([2, 0, 0, 2, 0]));
    let summary = done.tally.summary(false);
    assert_eq!(summary["Destinations"], json!([{"Queue": UPDATES, "Updates": 2}]));
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
    let done = redrive(Options::default(), [received(&messages), nothing(), nothing()]).await;
    assert_eq!(done.operations(), RECEIVED_AND_RELEASED);
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
async fn a_dry_run_and_a_search_for_records_send_and_delete_nothing() {
    let messages = [message("a", r#"{"ID": "E"}"#), message("b", r#"{"ID": "F"}"#)];
    let dry = Options {
        is_dry: true,
        ..Options::default()
    };
    let responses = [received(&messages), sources(&[UPDATES]), nothing(), nothing()];
    let done = redrive(dry, responses).await;
    assert!(!done.operations().contains(&"SendMessage") && !done.operations().contains(&"DeleteMessage"));
    assert_eq!(done.counts(), json!([2, 0, 0, 0, 2]));
    let destinations = &done.tally.summary(false)["Destinations"];
    assert_eq!(destinations, &json!([{"Queue": UPDATES, "Updates": 2}]));
    let done = redrive(None, [received(&messages), nothing(), nothing()]).await;
    assert_eq!(done.counts(), json!([0, 2, 0, 0, 2]));
    assert_eq!(done.operations(), RECEIVED_AND_RELEASED);
}

/// SQS rejects the first message: the messages of its group stay, and the other messages are sent.
#[tokio::test]
async fn messages_of_a_fifo_queue_keep_their_group_deduplication_id_and_order() {
    let messages = [fifo("a", "g"), fifo("b", "h"), fifo("c", "g"), fifo("d", "h")];
    let rejected = [received(&messages), error("InvalidParameterValue")];
    let responses = rejected
        .into_iter()
        .chain([nothing(), nothing(), nothing(), nothing(), nothing(), nothing()]);
    let done = redrive(to(UPDATES), responses).await;
    let sent = done.bodies("SendMessage").into_iter();
    let sent: Vec<_> = sent
        .map(|body| members(body, &["MessageGroupId", "MessageDeduplicationId"]))
        .collect();
    let original = |group: &str, id: &str| json!([group, format!("original of {id}")]);
    assert_eq!(sent, [original("g", "a"), original("h", "b"), original("h", "d")]);
    assert_eq!(done.counts(), json!([2, 2, 0, 2, 2]));
    let reasons = [
        "SendMessage failed with InvalidParameterValue (request unknown)",
        "an earlier message of its message group was not sent",
    ];
    assert_eq!(done.reasons(), reasons);
    let deleted = ["b", "d"].map(|id| json!({"QueueUrl": LETTERS, "ReceiptHandle": format!("receipt of {id}")}));
    assert_eq!(done.bodies("DeleteMessage"), deleted.iter().collect::<Vec<_>>());
}

#[tokio::test]
async fn a_run_that_can_send_nothing_ends_and_leaves_the_messages() {
    let same = "https://eu-central-1.queue.amazonaws.com/1/Letters";
    let none = "Letters are sent to: it is the dead-letter queue of 0";
    for (resend, response, kind, reason) in [
        (
            to(UPDATES),
            Some(error("AccessDeniedException")),
            Kind::Unavailable,
            "AccessDeniedException",
        ),
        (to(UPDATES), Some(error("QueueDoesNotExist")), Kind::NotFound, UPDATES),
        // Without exactly one source queue.
        (Options::default(), Some(sources(&[])), Kind::Invalid, none),
        (
            Options::default(),
            Some(sources(&[UPDATES, "https://other"])),
            Kind::Invalid,
            "of 2 queues",
        ),
        (to(same), None, Kind::Invalid, "to the same queue"),
    ] {
        let received = received(&[message("a", r#"{"ID": "E"}"#)]);
        let responses = [Some(received), response, Some(nothing())].into_iter().flatten();
        let done = try_redrive(resend, responses).await;
        let error = done.result.as_ref().unwrap_err();
        assert!(error.kind() == kind && error.to_string().contains(reason), "{error}");
        assert_eq!(done.counts(), json!([0, 0, 0, 0, 1]));
        assert!(done.bodies("DeleteMessage").is_empty());
    }
}
