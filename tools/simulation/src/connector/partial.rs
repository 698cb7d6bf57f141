//! Responses to requests of which only a part is executed, and to reads that do not show the last writes.

use std::time::Duration;

use serde_json::{Value, json};

use super::Connector;
use crate::{
    database::{self, BATCH_EXECUTE_STATEMENT},
    http::Response,
};

/// Time after which every read shows a write.
const STALENESS: Duration = Duration::from_secs(1);

impl Connector {
    /// Executes every second statement, and reports the others as failed. They are executed, too, if `applied`.
    pub(super) fn fail_every_second(&self, mut body: Value, applied: bool) -> Response {
        let statements = body.get_mut("Statements").and_then(Value::as_array_mut);
        let statements = statements.map(std::mem::take).unwrap_or_default();
        let failed = match applied {
            true => json!({"Error": {"Code": "InternalServerError", "Message": "failed"}}),
            false => json!({"Error": {"Code": "ThrottlingError", "Message": "throttled"}}),
        };
        let mut responses = vec![failed; statements.len()];
        let odd = |list: Vec<Value>| list.into_iter().skip(1).step_by(2).collect::<Vec<_>>();
        let executed = if applied { statements } else { odd(statements) };
        if !executed.is_empty() {
            body["Statements"] = Value::Array(executed);
            let executed = self.execute(BATCH_EXECUTE_STATEMENT, body.to_string().as_bytes());
            let Ok(mut output) = serde_json::from_str::<Value>(&executed.body) else {
                return executed;
            };
            let output = output.get_mut("Responses").and_then(Value::as_array_mut);
            let output = output.map(std::mem::take).unwrap_or_default();
            let output = if applied { odd(output) } else { output };
            for (slot, response) in responses.iter_mut().skip(1).step_by(2).zip(output) {
                *slot = response;
            }
        }
        Response::ok(&json!({"Responses": responses}))
    }

    pub(super) fn leave_half_unprocessed(&self, operation: &str, mut body: Value) -> Response {
        let mut unprocessed = json!({});
        let tables = body.get_mut("RequestItems").and_then(Value::as_object_mut);
        for (table, request) in tables.into_iter().flatten() {
            let mut rest = request.clone();
            if let Some(keys) = request.get_mut("Keys").and_then(Value::as_array_mut) {
                let half = keys.len().div_ceil(2);
                rest["Keys"] = Value::Array(keys.split_off(half));
            }
            if rest["Keys"].as_array().is_some_and(|keys| !keys.is_empty()) {
                unprocessed[table] = rest;
            }
        }
        let mut response = self.execute(operation, body.to_string().as_bytes());
        if let Ok(mut output) = serde_json::from_str::<Value>(&response.body) {
            output["UnprocessedKeys"] = unprocessed;
            if let Some(mutation) = self.mutation() {
                mutation.response(operation, None, &Value::Null, &mut output);
            }
            response.body = output.to_string();
        }
        response
    }

    /// Executes an eventually consistent query without the items of the last moment. `None` for a strongly consistent one, and for
    /// some others.
    pub(super) fn read_earlier(&self, body: &[u8]) -> Option<Response> {
        let mut query: Value = serde_json::from_slice(body).ok()?;
        if query["ConsistentRead"] == true || self.draw(fastrand::Rng::bool) {
            return None;
        }
        let limit = query.as_object_mut()?.remove("Limit").and_then(|limit| limit.as_u64());
        let limit = limit.map_or(usize::MAX, |limit| usize::try_from(limit).unwrap_or(usize::MAX));
        let mut output = database::send(&self.0.database, "Query", &query).ok()?;
        let recent = self
            .0
            .stream
            .written_since(self.0.started.elapsed().saturating_sub(STALENESS));
        let items = output["Items"].as_array_mut()?;
        items.retain(|item| !recent.contains(&json!({"PK": item["PK"], "SK": item["SK"]})));
        if items.len() > limit {
            items.truncate(limit);
            let last = items.last()?;
            output["LastEvaluatedKey"] = json!({"PK": last["PK"], "SK": last["SK"]});
        }
        output["Count"] = json!(output["Items"].as_array()?.len());
        Some(Response::ok(&output))
    }
}
