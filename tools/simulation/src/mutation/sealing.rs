//! Mutations of sealing and of erasures: requests and responses of seal-fn, and the items that an erasure writes and reads.

use aws_smithy_runtime_api::client::orchestrator::{HttpRequest, HttpResponse};
use serde_json::{Value, json};
use shared::domain::{
    recorded_at::RecordedAt,
    time_index::{LATE, millis},
};

use crate::{
    caller::Caller,
    http::Response,
    mutation::{
        Mutation, Mutations,
        expressions::{VALUES, remove, remove_condition, sort_key, writes},
    },
    requests::text,
    schedule::{HISTORY, KEYS, STATE, TABLE},
};

/// A request to S3 or KMS.
pub(crate) struct CloudRequest {
    /// For example `PUT log/checkpoint`.
    name: String,
    has_swapped: bool,
}

impl CloudRequest {
    /// Describes a request of an instance that has swapped the state, or has not.
    pub(crate) fn of(request: &HttpRequest, has_swapped: bool) -> Self {
        // https://BUCKET.s3.REGION.amazonaws.com/KEY?QUERY
        let uri = request.uri().split('?').next().unwrap_or_default();
        let (host, key) = uri.trim_start_matches("https://").split_once('/').unwrap_or_default();
        let bucket = host.split('.').next().unwrap_or_default();
        Self {
            name: format!("{} {bucket}/{key}", request.method()),
            has_swapped,
        }
    }
}

/// Responds to a request that is not executed. `None` if it is.
pub(crate) fn respond(mutations: Mutations, request: &CloudRequest) -> Option<HttpResponse> {
    let is_of_earlier_swap = request.name.starts_with("PUT log/") && !request.has_swapped;
    (mutations.is("seal-finish") && is_of_earlier_swap && mutations.disable("seal-finish")).then(|| response(""))
}

/// Removes the condition of a put.
pub(crate) fn change_headers(mutations: Mutations, request: &CloudRequest, http: &mut HttpRequest) {
    let is_checkpoint = request.name == "PUT log/checkpoint";
    if is_checkpoint && mutations.is("seal-checkpoint") {
        mutations.disable("seal-checkpoint");
        http.headers_mut().remove("if-match");
        http.headers_mut().remove("if-none-match");
    } else if !is_checkpoint && mutations.is("seal-create") && http.headers_mut().remove("if-none-match").is_some() {
        mutations.disable("seal-create");
    }
}

/// Changes a response. `state` is the state of the log.
pub(crate) fn change_response(mutations: Mutations, request: &CloudRequest, state: &Value, http: &mut HttpResponse) {
    let body = http.body().bytes().unwrap_or_default();
    let size = |text: &str| text.lines().nth(1)?.parse::<u64>().ok();
    if mutations.is("seal-known") && request.name.starts_with("GET staging/") {
        let mut batch: Value = serde_json::from_slice(body).unwrap_or_default();
        if batch["Known"].as_object().is_some_and(|known| !known.is_empty()) && mutations.disable("seal-known") {
            batch["Known"] = json!({});
            *http = response(&batch.to_string());
        }
    } else if mutations.is("seal-larger") && request.name == "GET log/checkpoint" && !request.has_swapped {
        let published = std::str::from_utf8(body).ok().and_then(size);
        let of_state = text(state, "/Item/Size/N").parse().unwrap_or(0);
        if published > Some(of_state) && mutations.disable("seal-larger") {
            *http = response("<Error><Code>NoSuchKey</Code></Error>");
            *http.status_mut() = 404_u16.try_into().unwrap_or(http.status());
        }
    }
}

fn response(body: &str) -> HttpResponse {
    let status = aws_smithy_runtime_api::http::StatusCode::try_from(200);
    let mut response = HttpResponse::new(status.unwrap_or_else(|_| unreachable!()), body.to_owned().into());
    response.headers_mut().insert("etag", "\"mutated\"");
    response
}

/// Changes a request to DynamoDB.
pub(super) fn change(mutation: Mutation, operation: &str, body: &mut Value) {
    match (mutation, operation) {
        ("seal-again", "Query") if text(body, "/IndexName") == "TimeIndex" => {
            let first = &mut body[VALUES][":first"]["S"];
            let since = RecordedAt::parse(first.as_str().unwrap_or_default()).ok();
            if let Some(since) = since.filter(|since| since.to_duration() > LATE) {
                *first = json!(millis(since.after(LATE)));
            }
        }
        ("seal-versions", "BatchGetItem") => {
            let tables = body["RequestItems"].as_object_mut().into_iter().flatten();
            for (_, request) in tables.filter(|(table, _)| [TABLE, HISTORY].contains(&table.as_str())) {
                request["ConsistentRead"] = json!(false);
            }
        }
        ("seal-swap" | "seal-keys", "PutItem" | "TransactWriteItems") => {
            for put in writes("Put", operation, body) {
                let is_state = put["TableName"] == STATE && sort_key(put) == "state";
                let is_it = if mutation == "seal-swap" {
                    is_state
                } else {
                    put["TableName"] == KEYS
                };
                if is_it {
                    remove_condition(put);
                }
            }
        }
        ("erase-commitment", "PutItem" | "TransactWriteItems") => {
            for put in writes("Put", operation, body) {
                let entries = put.pointer_mut("/Item/Erased/M").and_then(Value::as_object_mut);
                for (_, entry) in entries.into_iter().flatten() {
                    remove(&mut entry["M"], "Commitment");
                }
            }
        }
        _ => {}
    }
}

/// Returns `true` if a request is answered without being executed.
pub(super) fn skips(mutation: Mutation, caller: Option<&Caller>, operation: &str, body: &Value) -> bool {
    let is_operator = caller.is_some_and(Caller::is_operator);
    mutation == "erase-keys" && is_operator && operation == "PutItem" && body["TableName"] == KEYS
}

/// Changes a response of DynamoDB.
pub(super) fn change_read(
    mutation: Mutation,
    operation: &str,
    caller: Option<&Caller>,
    request: &Value,
    response: &mut Value,
) {
    let is_state = request["TableName"] == STATE && caller.is_some_and(Caller::is_sealer);
    let partition = text(request, &format!("/{VALUES}/:pk/S"));
    match (mutation, operation, partition) {
        ("seal-batches", "Query", "batches") | ("seal-operations", "Query", "pending") if is_state => {
            response["Items"] = json!([]);
        }
        ("erase-marker", "BatchGetItem", _) if caller.is_some_and(Caller::is_stream_function) => {
            let tables = response["Responses"].as_object_mut().into_iter().flatten();
            let items = tables.filter_map(|(_, items)| items.as_array_mut()).flatten();
            items.for_each(|item| remove(item, "Erasures"));
        }
        _ => {}
    }
}

/// Makes a lost swap look successful.
pub(super) fn succeed(request: &Value, response: &mut Response) -> bool {
    let is_failed = response.body.contains("TransactionCanceled") && request.to_string().contains("\"Staging\"");
    if is_failed {
        *response = Response::ok(&json!({}));
    }
    is_failed
}
