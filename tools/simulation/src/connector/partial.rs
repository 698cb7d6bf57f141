//! Responses to requests of which only a part is executed.

use serde_json::{Value, json};

use super::Connector;
use crate::database::{BATCH_EXECUTE_STATEMENT, Response};

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
}
