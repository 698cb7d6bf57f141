//! Requests of many parts: where some of them go wrong and others do not.

use dynoxide::Database;
use serde_json::{Value, json};

use crate::wire::{Answer, STATEMENTS, Wire, dispatch};

impl Wire {
    /// Every other statement is throttled, beginning with the first.
    pub(crate) fn throttled_in_part(&self, mut body: Value) -> Answer {
        let statements = body.get_mut("Statements").and_then(Value::as_array_mut);
        let statements = statements.map(std::mem::take).unwrap_or_default();
        let throttled = json!({"Error": {"Code": "ThrottlingError", "Message": "throttled"}});
        let mut responses = vec![throttled; statements.len()];
        let rest: Vec<_> = statements.into_iter().skip(1).step_by(2).collect();
        if !rest.is_empty() {
            body["Statements"] = Value::Array(rest);
            let answer = self.effect(STATEMENTS, body);
            let Ok(mut answer) = serde_json::from_str::<Value>(&answer.body) else {
                return answer;
            };
            let answered = answer.get_mut("Responses").and_then(Value::as_array_mut);
            let slots = responses.iter_mut().skip(1).step_by(2);
            for (slot, response) in slots.zip(answered.map(std::mem::take).unwrap_or_default()) {
                *slot = response;
            }
        }
        Answer {
            status: 200,
            body: json!({"Responses": responses}).to_string(),
        }
    }

    /// Half of the keys are left for another request.
    pub(crate) fn unprocessed(&self, operation: &str, mut body: Value) -> Answer {
        let mut left = json!({});
        let tables = body.get_mut("RequestItems").and_then(Value::as_object_mut);
        for (table, request) in tables.into_iter().flatten() {
            let mut rest = request.clone();
            if let Some(keys) = request.get_mut("Keys").and_then(Value::as_array_mut) {
                let half = keys.len().div_ceil(2);
                rest["Keys"] = Value::Array(keys.split_off(half));
            }
            if rest["Keys"].as_array().is_some_and(|keys| !keys.is_empty()) {
                left[table] = rest;
            }
        }
        let mut answer = self.effect(operation, body);
        if let Ok(mut parsed) = serde_json::from_str::<Value>(&answer.body) {
            parsed["UnprocessedKeys"] = left;
            answer.body = parsed.to_string();
        }
        answer
    }
}

/// Puts in the place of statements, answered as they are.
pub(crate) fn put_all(database: &Database, puts: Vec<Value>) -> Answer {
    let put = |put| match dispatch(database, "PutItem", put) {
        Ok(_) => json!({}),
        Err(_) => json!({"Error": {"Code": "ValidationError"}}),
    };
    let responses: Vec<_> = puts.into_iter().map(put).collect();
    Answer {
        status: 200,
        body: json!({"Responses": responses}).to_string(),
    }
}
