//! Change sets: the response, races, and the order in a batch.

use serde_json::{Value, json};
use shared::domain::request_id::{RequestHash, RequestId};
use testkit::{
    replay::{Replay, failures},
    scripted::{Reply, Scripted},
};

use super::{batch, handle, message, writer};

/// Returns a latest item whose recent requests have the request of the invocation with this value, if there is one.
fn latest(id: &str, version: u64, entry: Option<&str>) -> Value {
    let hash = RequestHash::of(&RequestId::new("request-1").unwrap());
    let requests = entry.map_or(json!({}), |entry| json!({hash.key(): {"N": entry}}));
    json!({
        "PK": {"S": id}, "SK": {"S": "v0"}, "Latest": {"N": version.to_string()}, "RecentRequests": {"M": requests},
    })
}

fn read(a: Value, b: Value) -> Value {
    json!({"Responses": {"Table": [a, b]}})
}

fn cancelled(codes: [&str; 2], message: &str) -> Value {
    let reasons = codes.map(|code| json!({"Code": code, "Message": message}));
    json!({"__type": "com.amazonaws.dynamodb.v20120810#TransactionCanceledException", "CancellationReasons": reasons})
}

#[tokio::test(start_paused = true)]
async fn a_set_is_written_or_fails_with_one_id() {
    let before = read(latest("secret-a", 3, None), latest("secret-b", 5, None));
    let applied = read(latest("secret-a", 4, Some("4")), latest("secret-b", 7, Some("6")));
    // One was read before the first delivery was applied, or has dropped the request meanwhile.
    let half = read(latest("secret-a", 3, None), latest("secret-b", 6, Some("6")));
    let again = json!({"Item": latest("secret-a", 4, Some("4"))});
    let reused = read(latest("secret-a", 4, Some("4.99999")), latest("secret-b", 6, None));
    let lost = json!({"__type": "com.amazonaws.dynamodb.v20120810#InternalServerError"});
    let progress = json!({"__type": "com.amazonaws.dynamodb.v20120810#TransactionInProgressException"});
    let condition = cancelled(["None", "ConditionalCheckFailed"], "");
    let conflict = cancelled(["TransactionConflict", "None"], "");
    let throttled = cancelled(["None", "ThrottlingError"], "");
    let written = r#"{"Outcome":"Written","Updates":[{"ID":"secret-a","Version":4},{"ID":"secret-b","Version":6}]}"#;
    let rejected = "ID secret-b: the event is invalid: DynamoDB rejects the update: failed to write the version: \
        TransactWriteItems failed with TransactionCanceledException (request unknown) because of ValidationError";
    let too_large =
        "the event is invalid: the items of the change set have more than 4 MB, and a transaction has at most 4 MB";
    let size = "Collection size of items exceeded, or the aggregate size of the items in the transaction exceeded the 4MB limit";
    let ok = json!({});
    let large = cancelled(["ValidationError", "None"], size);
    let invalid = cancelled(["None", "ValidationError"], "secret");
    let cases = [
        (0, vec![&before, &ok], written),
        (0, vec![&applied], written),
        (0, vec![&half, &again], written),
        (0, vec![&before, &lost, &condition, &applied], written),
        (0, vec![&before, &conflict, &before, &throttled, &before, &ok], written),
        (0, vec![&before, &progress, &progress, &progress, &applied], written),
        (
            0,
            vec![&reused],
            "ID secret-a: the event is invalid: the request id was used for another update, version 4",
        ),
        (4, vec![&before], "ID secret-b: expected version 4, but the latest is 5"),
        (5, vec![&before, &ok], written),
        (0, vec![&before, &invalid], rejected),
        (0, vec![&before, &large], too_large),
    ];
    for (expected_version, replies, expected) in cases {
        let replay = Replay::new(replies.iter().map(|reply| (*reply).clone()));
        let mut updates = json!([{"ID": "secret-a", "A": 1}, {"ID": "secret-b", "A": 2}]);
        if expected_version > 0 {
            updates[1]["ExpectedVersion"] = json!(expected_version);
        }
        let response = handle(&writer(replay.http()), &json!({"Updates": updates})).await;
        let found = response["errorMessage"]
            .as_str()
            .map_or_else(|| response.to_string(), str::to_owned);
        assert_eq!(found, expected);
        assert_eq!(replay.requests().len(), replies.len(), "{expected}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_set_that_fails_stops_all_of_its_entities() {
    let body = |updates: Value| json!({"Updates": updates}).to_string();
    let set = body(json!([{"ID": "a"}, {"ID": "b"}]));
    let other = body(json!([{"ID": "b"}, {"ID": "c"}]));
    let messages = [
        message("1", &set, &json!({})),
        message("2", r#"{"ID": "b"}"#, &json!({})),
        message("3", &other, &json!({})),
        message("4", r#"{"ID": "c"}"#, &json!({})),
        message("5", r#"{"ID": "d"}"#, &json!({})),
    ];
    let http = Scripted::new(|operation, body| {
        Reply::now(match operation {
            "BatchGetItem" => read(latest("a", 1, None), latest("b", 1, None)),
            "TransactWriteItems" => json!({"__type": "com.amazonaws.dynamodb.v20120810#InternalServerError"}),
            _ => {
                assert_eq!(body["Key"]["PK"]["S"], "d");
                json!({"Attributes": {"Latest": {"N": "1"}}})
            }
        })
    });
    let response = handle(&writer(http), &batch(&messages)).await;
    assert_eq!(failures(&response), ["1", "2", "3", "4"]);
}
