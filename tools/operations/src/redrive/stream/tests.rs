use serde_json::{Value, json};
use testkit::replay::Replay;

use super::*;
use crate::{error::Kind, redrive::test_connection::replayed};

fn responding(responses: impl IntoIterator<Item = Value>) -> (TableStream, Replay) {
    let responses = Replay::new(responses);
    (TableStream::new(&replayed(&responses, "T")), responses)
}

/// Batch of three records.
fn batch(first: u64, last: u64) -> Batch {
    Batch {
        stream_arn: "arn".to_owned(),
        shard: "shard-1".to_owned(),
        first: number(first),
        last: number(last),
        size: 3,
    }
}

fn number(number: u64) -> SequenceNumber {
    SequenceNumber::new(number.to_string()).unwrap()
}

fn error(code: &str) -> Value {
    json!({"__type": code})
}

fn iterator() -> Value {
    json!({"ShardIterator": "iterator"})
}

fn page(numbers: &[u64]) -> Value {
    let record = |n: &u64| json!({"eventName": "INSERT", "dynamodb": {"SequenceNumber": n.to_string()}});
    json!({"Records": numbers.iter().map(record).collect::<Vec<_>>(), "NextShardIterator": "next"})
}

/// Number of records of a batch from 8 to 11, the first of them, `true` if it is complete, and the number of requests.
async fn fetched(responses: impl IntoIterator<Item = Value>) -> (usize, Option<SequenceNumber>, bool, usize) {
    let (stream, http) = responding(responses);
    let fetched = stream.fetch(&batch(8, 11)).await.unwrap();
    let requests = http.requests().len();
    (fetched.records.len(), fetched.first, fetched.is_whole, requests)
}

#[tokio::test]
async fn trimmed_records_are_distinguished_from_existing_ones() {
    let (trimmed, gone) = ("TrimmedDataAccessException", "ResourceNotFoundException");
    let whole = [iterator(), page(&[]), page(&[8, 9]), page(&[]), page(&[11, 12])];
    assert_eq!(fetched(whole).await, (3, Some(number(8)), true, 5));
    // The oldest remaining record belongs to the batch, or follows it.
    let half = [error(trimmed), iterator(), page(&[10, 11])];
    assert_eq!(fetched(half).await, (2, Some(number(10)), false, 3));
    let after = [error(trimmed), iterator(), page(&[12])];
    assert_eq!(fetched(after).await, (0, None, false, 3));
    assert_eq!(fetched([error(trimmed), error(trimmed)]).await, (0, None, false, 2));
    assert_eq!(fetched([error(gone), error(gone)]).await, (0, None, false, 2));
    assert_eq!(fetched([iterator(), error(trimmed)]).await, (0, None, false, 2));
    // The end of the shard, and one that has none.
    let closed = [iterator(), json!({"Records": []})];
    assert_eq!(fetched(closed).await, (0, None, false, 2));
    let endless = std::iter::once(iterator()).chain((0..200).map(|_| page(&[])));
    assert_eq!(fetched(endless).await, (0, None, false, 51));
}

#[tokio::test]
async fn records_of_an_attached_table_are_whole() {
    let mut record = json!({
        "eventID": "e", "eventName": "REMOVE", "eventVersion": "1.1", "eventSource": "aws:dynamodb", "awsRegion": "r",
        "userIdentity": {"Type": "Service", "PrincipalId": "dynamodb.amazonaws.com"},
        "dynamodb": {
            "ApproximateCreationDateTime": 1_795_328_688.0, "Keys": {"id": {"S": "a"}}, "SequenceNumber": "8", "SizeBytes": 7,
            "OldImage": {"id": {"S": "a"}, "n": {"N": "1"}}, "StreamViewType": "NEW_AND_OLD_IMAGES",
        },
    });
    let (mut stream, _) = responding([iterator(), json!({"Records": [record]})]);
    stream.attached = Some(Selection::default());
    let fetched = stream.fetch(&batch(8, 8)).await.unwrap();
    record["eventSourceARN"] = json!("arn");
    record["dynamodb"]["ApproximateCreationDateTime"] = json!(1_795_328_688);
    record["userIdentity"] = json!({"type": "Service", "principalId": "dynamodb.amazonaws.com"});
    assert_eq!(serde_json::from_str::<Value>(&fetched.records[0]).unwrap(), record);
}

#[tokio::test]
async fn records_are_not_lost_after_an_unexpected_error() {
    let refused = || error("AccessDeniedException");
    for responses in [
        vec![refused()],
        vec![iterator(), refused()],
        vec![error(GONE[0]), refused()],
    ] {
        let (stream, _) = responding(responses);
        let error = stream.fetch(&batch(8, 8)).await.unwrap_err();
        let is_named = error.to_string().contains("failed with AccessDeniedException ");
        assert!(error.kind() == Kind::Unavailable && is_named, "{error}");
    }
}
