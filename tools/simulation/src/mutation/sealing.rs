//! Mutations of sealing and of erasures: requests and responses of seal-fn, and the items that an erasure writes and reads.

use aws_smithy_runtime_api::client::orchestrator::{HttpRequest, HttpResponse};
use serde_json::{Value, json};
use shared::domain::{
    recorded_at::RecordedAt,
    time_index::{LATE, millis},
};

use crate::{
    caller::Caller,
    mutation::{
        Mutation, Mutations,
        expressions::{VALUES, remove, remove_condition, writes},
        reads::remove_all,
    },
    requests::text,
    schedule::{KEYS, STATE},
};

/// Changes a request to S3.
pub(crate) fn change_request(mutations: Mutations, request: &mut HttpRequest) {
    for header in ["if-match", "if-none-match"] {
        let is_guarded = is_publication(request) && request.headers().contains_key(header);
        if is_guarded && mutations.disable("seal-checkpoint") {
            request.headers_mut().remove(header);
        }
    }
}

/// Returns `true` for the put of the published checkpoint.
pub(crate) fn is_publication(request: &HttpRequest) -> bool {
    request.method() == "PUT" && request.uri().contains("/checkpoint?")
}

/// Changes a response of S3.
pub(crate) fn change_response(mutations: Mutations, uri: &str, http: &mut HttpResponse) {
    let body = http.body().bytes().unwrap_or_default();
    if mutations.is("seal-known") && uri.starts_with("https://staging.") {
        let mut batch: Value = serde_json::from_slice(body).unwrap_or_default();
        if batch["Known"].as_object().is_some_and(|known| !known.is_empty()) && mutations.disable("seal-known") {
            batch["Known"] = json!({});
            *http = response(&batch.to_string());
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
        // A batch that is sealed twice has the same item.
        ("seal-swap", "TransactWriteItems") => of_table(STATE, "Put", operation, body).for_each(remove_condition),
        ("seal-keys", "PutItem") => of_table(KEYS, "Put", operation, body).for_each(remove_condition),
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

/// Returns the writes of a kind to a table.
fn of_table<'a>(table: &str, kind: &str, operation: &str, body: &'a mut Value) -> impl Iterator<Item = &'a mut Value> {
    let writes = writes(kind, operation, body).into_iter();
    writes.filter(move |write| write["TableName"] == table)
}

/// Returns `true` if a request is answered without being executed.
pub(super) fn skips(mutation: Mutation, caller: Option<&Caller>, operation: &str, body: &Value) -> bool {
    let is_operator = caller.is_some_and(Caller::is_operator);
    let table = text(body, "/TableName");
    let skipped = [("erase-keys", KEYS), ("seal-removals", STATE)];
    is_operator && operation == "PutItem" && skipped.contains(&(mutation, table))
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
        ("erase-redrive", "BatchGetItem", _) if caller.is_some_and(Caller::is_operator) => {
            remove_all(response, "Erasures");
        }
        ("erase-compare", _, _) if caller.is_some_and(Caller::is_stream_function) => remove_all(response, "Erased"),
        _ => {}
    }
}
