//! What each mutation must change: requests of the product, and events, responses and records in its formats.

use std::sync::Arc;

use serde_json::json;

use super::super::*;
use crate::caller::Author;

/// Something that a mutation must change. Requests are those of the product: the snapshots of its own tests.
pub(super) enum Example {
    /// A request with the operation in the snapshot, and text that it contains only afterwards.
    Request(&'static str, &'static str),
    /// As [`Self::Request`], after its sender stopped waiting for it.
    DelayedRequest(&'static str, &'static str),
    /// The request of a snapshot, and its response, which a function receives.
    Response(Sender, &'static str, Value),
    /// A request with this operation and body.
    Body(&'static str, Value),
    Event(Value),
    Record(Value),
    /// A change that its own test covers.
    Time,
    /// A response of a function.
    Failures(fn(Mutation, &mut Value)),
    /// A batch that the function does not accept.
    Batch(Value),
}

/// A compressed image of 32 levels.
const DEEP: &str = "eJyrVnJUsqpW8lGyih6aZLCSlVKFUm0sRbAWAOBHUQM=";

#[derive(Clone, Copy)]
pub(super) enum Sender {
    Writer,
    Stream,
    Operator,
}

impl Sender {
    pub(super) fn caller(self) -> Arc<Caller> {
        Caller::new(match self {
            Self::Operator => Author::Operator,
            Self::Stream => Author::StreamFunction,
            Self::Writer => Author::Writer(Vec::new()),
        })
    }
}

/// Returns what each mutation must change. A new mutation needs an example.
#[allow(clippy::too_many_lines, reason = "a table")]
pub(super) fn examples(mutation: Mutation) -> Vec<Example> {
    use Example::{Batch, Body, DelayedRequest, Event, Failures, Record, Request, Response, Time};
    use Mutation as M;
    let version =
        json!({"PK": {"S": "Equipment#1"}, "SK": {"S": "v7"}, "RequestId": {"S": "r"}, "RequestPayload": {"S": "p"}});
    match mutation {
        M::AttachedRecord => vec![Response(
            Sender::Stream,
            "attached_tail",
            json!({"Items": [{"RequestId": {"S": "7"}, "Stream": {"S": "2026"}}]}),
        )],
        M::AttachedOldImage => vec![Record(
            json!({"dynamodb": {"Keys": {"id": {"S": "i"}}, "OldImage": {"id": {"S": "i"}}}}),
        )],
        M::AttachedFloor => vec![Response(
            Sender::Stream,
            "get_item",
            json!({"Item": {"SK": {"S": "floor"}, "Floor": {"N": "2"}}}),
        )],
        M::AttachedLate => vec![Response(
            Sender::Stream,
            "attached_tail",
            json!({"Items": [{"SK": {"S": "late#2026"}}]}),
        )],
        M::AttachedConsistent => vec![Body("Query", json!({"ConsistentRead": true}))],
        M::Guard => vec![
            Request("write_stream", "OR NOT (attribute_not_exists(#request)"),
            Request("write_version", "OR NOT (attribute_not_exists(#recent.#hash)"),
        ],
        M::Ledger => vec![Request("write_ledger", "request#request-1")],
        M::Condition => vec![
            Request("put_version", "v7"),
            Request("put_versions", "v10"),
            Request("write_transaction", "v7"),
        ],
        M::ForcedCompression => vec![Body(
            "PutItem",
            json!({"Item": {"SK": {"S": "v1"}, "ImageDeflate": {"B": DEEP}}}),
        )],
        M::Parts => vec![Response(
            Sender::Stream,
            "get_item",
            json!({"Item": {"SK": {"S": "part#v7#2"}, "ImageDeflate": {"B": "AAAA"}}}),
        )],
        M::Quarantine => vec![Request("quarantine", "lost#")],
        M::RequestsSince => vec![Request(
            "recent_requests_replace",
            "#since = if_not_exists(#since, :zero)",
        )],
        M::RetryGuard => vec![Request("guard_base", "#dropped <= :base))")],
        M::RequestsDropped => vec![Request(
            "recent_requests_replace",
            "#dropped = if_not_exists(#dropped, :zero)",
        )],
        M::Eviction => vec![Request("recent_requests_replace", "REMOVE #recent.#f0")],
        M::MapCreation => vec![
            Request("recent_requests_create", "OR NOT (attribute_not_exists(#latest)))"),
            Request(
                "recent_requests_create_with_last",
                "OR NOT (attribute_not_exists(#recent) AND #latest = :read))",
            ),
        ],
        M::SentTime => vec![Request("guard_sent", "\"5007\"")],
        M::Clock => vec![Request("write_version", "OR NOT (attribute_not_exists(#recorded)")],
        M::OtherForm => vec![Body(
            "UpdateItem",
            json!({"UpdateExpression": "SET #request = :request", "ConditionExpression": "#recorded = :stored"}),
        )],
        M::Delay => vec![
            DelayedRequest("write_version", "OR NOT (attribute_not_exists(#recorded)"),
            DelayedRequest("guard_base", "#dropped <= :base))"),
        ],
        M::Ratchet => vec![
            Request("write_version_by_time", "OR NOT (#timestamp <= :timestamp"),
            Request("write_transaction", "OR NOT (#timestamp <= :timestamp"),
        ],
        M::ExpectedVersion => vec![
            Request("write_version_tombstone", "(#latest = :expected OR "),
            Request("write_version_first", "OR NOT (attribute_not_exists(#pk))"),
        ],
        M::MaximumVersion => vec![Request("write_version", "NOT #latest >= :max))")],
        M::EndedState => vec![Request("write_version", "#deleted <> :deleted))")],
        M::Tombstone => vec![Request("write_version_after_deletion", "OR NOT (#deleted = :deleted")],
        M::Staged => vec![Request(
            "write_version_after_deletion",
            "OR NOT (attribute_not_exists(#staged))",
        )],
        M::Removal => vec![Request("remove_ended_state", "OR NOT (#latest = :latest AND")],
        M::StaleRead => vec![
            Request("write_transaction", "(#latest = :read OR "),
            Request("write_transaction_first", "OR NOT (attribute_not_exists(#pk))"),
        ],
        M::Author => vec![Request("write_version", "NoActor")],
        M::Compare => vec![
            Response(Sender::Stream, "put_version", json!({"Item": version})),
            Response(
                Sender::Stream,
                "put_versions",
                json!({"Responses": [{"Error": {"Code": "DuplicateItem"}}]}),
            ),
        ],
        M::HistorySearch => vec![
            Response(
                Sender::Writer,
                "batch_get_items",
                json!({"Responses": {"Table": [version]}}),
            ),
            Response(Sender::Writer, "newest_in_history", json!({"Items": [version]})),
        ],
        M::HistoryWait => vec![Response(
            Sender::Writer,
            "batch_get_items",
            json!({"Responses": {"Table": []}}),
        )],
        M::Uncounted => vec![Response(
            Sender::Writer,
            "has_history",
            json!({"Items": [version], "Count": 1}),
        )],
        M::Fingerprint => vec![
            Request("write_version", "{\"N\":\"1\"}"),
            Request("recent_requests_create", "\"M\":{\"GfEGS2G\":{\"N\":\"1\"}}"),
            Response(
                Sender::Writer,
                "batch_get_items",
                json!({"Responses": {"Table": [version]}}),
            ),
            Response(
                Sender::Writer,
                "write_ledger",
                json!({"CancellationReasons": [{}, {"Item": {"Payload": {"S": "p"}}}]}),
            ),
        ],
        M::SkipUnchanged => vec![Response(
            Sender::Writer,
            "get_item",
            json!({"Item": {"SK": {"S": "v0"}, "Latest": {"N": "1"}}}),
        )],
        M::PurgeMarker => vec![Response(Sender::Stream, "purge_markers", marker())],
        M::RedriveMarker => vec![
            Response(Sender::Operator, "purge_markers", marker()),
            Request("purge_marker_raised", "PurgedAt"),
        ],
        M::PrunedFloor => vec![Response(
            Sender::Operator,
            "purge_markers",
            json!({"Responses": {"Table": [{"PK": {"S": "E"}, "SK": {"S": "floor"}, "Floor": {"N": "3"}}]}}),
        )],
        M::AboveLatest => vec![Response(
            Sender::Operator,
            "counted_versions",
            json!({"Responses": {"Table": []}}),
        )],
        M::BeforeTombstone => vec![Response(
            Sender::Operator,
            "get_item",
            json!({"Item": {"SK": {"S": "v0"}, "Deleted": {"BOOL": true}}}),
        )],
        M::CopiedLayout => vec![Response(
            Sender::Operator,
            "describe_table",
            json!({"Table": {"TableId": "id"}}),
        )],
        M::UnprocessedKeys => vec![Response(
            Sender::Operator,
            "batch_get_items",
            json!({"UnprocessedKeys": {"Table": {"Keys": [{}]}}}),
        )],
        M::Redelivery => vec![
            Event(json!({"id": "r", "detail-type": "t", "time": "2026-01-01T00:00:00Z", "detail": {}})),
            Event(json!({"ID": "E", "RequestId": "r", "RequestSentAt": 1})),
            Event(json!({"Records": [{"body": "{}", "attributes": {"ApproximateReceiveCount": "2"}}]})),
        ],
        M::RawSplit => vec![Batch(
            json!({"Records": [{"dynamodb": {"NewImage": {"A": {"Q": "type"}}}}]}),
        )],
        M::PartialFailures => vec![Failures(Mutation::stream_response)],
        M::MessageFailures => vec![Failures(Mutation::writer_response)],
        M::Deadline | M::PurgeWait | M::Lag | M::StreamLayout | M::WriterLayout => {
            vec![Time]
        }
        M::Filter => vec![Record(json!({"dynamodb": {"Keys": {"SK": {"S": "v1"}}}}))],
        M::OwnVersion => vec![Record(json!({
            "dynamodb": {"NewImage": {"Latest": {"N": "2"}, "RecordedVersion": {"N": "1"}}},
        }))],
        M::StreamTime => vec![Record(
            json!({"dynamodb": {"ApproximateCreationDateTime": 1, "NewImage": {"Latest": {"N": "2"}}}}),
        )],
        M::Revive => vec![Request("revive_latest", "v0"), Request("move_latest", "v00")],
        M::Raise => vec![
            Request("raise_latest", "(#latest = :from OR attribute_exists(#latest))"),
            Request(
                "raise_latest_adopted",
                "(attribute_not_exists(#latest) OR attribute_exists(#latest))",
            ),
            Request("move_latest_counted", "(#latest = :read OR attribute_exists(#latest))"),
        ],
        M::RevivedRequests => vec![Request("raise_latest", "\":requests\":{\"M\":{}}")],
        M::Floor => vec![Request("prune_floor", "(#floor < :floor OR #floor >= :floor)")],
        M::Pin => vec![Request(
            "prune_mark",
            "(attribute_not_exists(#pinned) OR attribute_exists(#pinned))",
        )],
        M::Mark => ["prune_mark", "prune_pin", "prune_unpin"]
            .map(|name| Request(name, "(attribute_exists(#pk) OR attribute_not_exists(#pk))"))
            .into(),
        M::Adopt => vec![Request(
            "backfill_adopt",
            "(attribute_not_exists(#latest) OR attribute_exists(#latest))",
        )],
        M::PurgeCondition => vec![Request("purge_latest", "v0"), Request("purge_latest_uncounted", "v0")],
        M::MarkerOrder => vec![
            Request("purge_marker", "PurgedAt"),
            Request("purge_marker_raised", "PurgedAt"),
        ],
        M::TimeSequence => vec![Request("raise_latest_retimed", "#latest = :to")],
        M::Incarnation => vec![Request("write_stream", "same"), Request("write_transaction", "same")],
    }
}

fn marker() -> Value {
    json!({"Responses": {"Table": [{"SK": {"S": "purged"}, "PurgedAt": {"S": "t"}, "Purged": {"M": {}}}]}})
}
