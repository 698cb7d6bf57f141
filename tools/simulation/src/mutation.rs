//! Mutations: each disables one defense, which the simulation must detect.
//!
//! The functions have no switch for this. Requests, records or responses are changed in transit.

use clap::ValueEnum;
use serde_json::{Value, json};
use shared::domain::{keys::LATEST_KEY, quarantine::PREFIX};

use crate::{
    caller::{Caller, lock},
    schedule::TABLE,
};

/// The disabled defense.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Mutation {
    /// The check of the request id
    Guard,
    /// The condition on the ledger's marker
    Ledger,
    /// The condition on the put of a version item, and the rule that a statement does not overwrite
    Condition,
    /// Both the mapping's filter and the function's check of the key
    Filter,
    /// The comparison with an existing version item: any item counts as equal
    Compare,
    /// The put into quarantine: the record is stored under another key
    Quarantine,
    /// The splitting of a batch before it is parsed
    RawSplit,
    /// The guard of an update that is sent again after a request without a response
    RetryGuard,
    /// The detection of a redelivery: every delivery looks like the first
    Redelivery,
    /// The search of history for an earlier delivery: no version has the request
    HistorySearch,
    /// The wait for versions that are not in history yet: the search passes over them
    HistoryWait,
    /// The raising of `RequestsSince` when requests are removed from the latest item
    RequestsSince,
    /// The condition that a version is later than the one before
    Clock,
    /// The bounds by which a delayed request fails
    Delay,
    /// The removal of an author that the update does not name
    Author,
}

const ALWAYS_TRUE: &str = "(attribute_exists(#latest) OR attribute_not_exists(#latest))";
/// Guard of an update that may have been sent before, and its replacement, which uses the same names and values.
const GUARD: [&str; 2] = [
    "(attribute_not_exists(#since) OR #since <= :sent)",
    "(attribute_not_exists(#since) OR #since <= :sent OR #since > :sent)",
];
/// Condition that the version is later than the one before.
const LATER: [&str; 2] = [
    "(attribute_not_exists(#recorded) OR #recorded < :recorded)",
    "(attribute_not_exists(#recorded) OR #recorded < :recorded OR #recorded >= :recorded)",
];
/// Condition that the version before is recent.
const RECENT: [&str; 2] = ["#recorded < :end", "(#recorded < :end OR #recorded >= :end)"];

impl Mutation {
    /// Changes an event before a writer receives it.
    pub(crate) fn event(self, event: &mut Value) {
        if self != Self::Redelivery {
            return;
        }
        match event.get_mut("Records").and_then(Value::as_array_mut) {
            Some(messages) => {
                for message in messages {
                    if let Some(attributes) = message["attributes"].as_object_mut() {
                        attributes.retain(|name, _| name == "SenderId");
                    }
                    let body = message["body"]
                        .as_str()
                        .and_then(|body| serde_json::from_str(body).ok());
                    message["body"] = json!(untimed(body.unwrap_or_default()).to_string());
                }
            }
            None => *event = untimed(event.take()),
        }
    }

    pub(crate) fn request(self, operation: &str, caller: Option<&Caller>, body: &mut Value) {
        match (self, operation) {
            (Self::Guard, "UpdateItem") => {
                for guard in [
                    "(attribute_not_exists(#request) OR #request <> :request)",
                    "attribute_not_exists(#recent.#hash)",
                ] {
                    replace(body, "ConditionExpression", [guard, ALWAYS_TRUE]);
                }
            }
            (Self::RetryGuard, "UpdateItem") if caller.is_some_and(|caller| *lock(&caller.had_fault)) => {
                replace(body, "ConditionExpression", GUARD);
            }
            // An update that removes requests has the condition that `RequestsSince` does not decrease. It becomes 0.
            (Self::RequestsSince, "UpdateItem") if has(body, "ConditionExpression", "#since <= :since") => {
                let zero = ["#since = :since", "#since = if_not_exists(#since, :zero)"];
                replace(body, "UpdateExpression", zero);
            }
            (Self::Clock, "UpdateItem") => replace(body, "ConditionExpression", LATER),
            (Self::Author, "UpdateItem") => {
                // The removed attributes have the placeholders `#c0`, `#c1`, …
                let names = body["ExpressionAttributeNames"].as_object_mut().into_iter().flatten();
                let is_removed = |placeholder: &str| placeholder.strip_prefix("#c")?.parse::<u8>().ok();
                for (_, name) in names.filter(|(placeholder, _)| is_removed(placeholder).is_some()) {
                    *name = json!(format!("No{}", name.as_str().unwrap_or_default()));
                }
            }
            (Self::Ledger, "TransactWriteItems") => {
                let items = body.get_mut("TransactItems").and_then(Value::as_array_mut);
                for put in items.into_iter().flatten().filter_map(|item| item.get_mut("Put")) {
                    let key = put.pointer("/Item/SK/S").and_then(Value::as_str);
                    if key.is_some_and(|key| key.starts_with("request#")) {
                        unconditional(put);
                    }
                }
            }
            (Self::Condition, "PutItem") => unconditional(body),
            (Self::Quarantine, "TransactWriteItems") => {
                if let Some(key) = body.pointer_mut("/TransactItems/0/Put/Item/SK/S")
                    && let Some(rest) = key.as_str().and_then(|key| key.strip_prefix(PREFIX))
                {
                    *key = json!(format!("lost#{rest}"));
                }
            }
            _ => {}
        }
    }

    /// Changes a request that is executed after its sender has stopped waiting for it.
    pub(crate) fn delayed(self, operation: &str, body: &mut Value) {
        if self == Self::Delay && operation == "UpdateItem" {
            replace(body, "ConditionExpression", LATER);
            replace(body, "ConditionExpression", RECENT);
        }
    }

    pub(crate) fn response(self, operation: &str, caller: Option<&Caller>, request: &Value, response: &mut Value) {
        let is_writer = caller.is_some_and(|caller| caller.is_writer);
        match (self, operation) {
            (Self::HistorySearch, "BatchGetItem" | "Query") if is_writer => {
                let found = match operation {
                    "Query" => &mut response["Items"],
                    _ => &mut response["Responses"][TABLE],
                };
                for item in found
                    .as_array_mut()
                    .into_iter()
                    .flatten()
                    .filter_map(Value::as_object_mut)
                {
                    item.remove("RequestId");
                }
            }
            (Self::HistoryWait, "BatchGetItem") if is_writer => {
                let keys = request["RequestItems"][TABLE]["Keys"].as_array().into_iter().flatten();
                if let Some(found) = response["Responses"][TABLE].as_array_mut() {
                    let is_missing = |key: &&Value| !found.iter().any(|item| item["SK"] == key["SK"]);
                    let missing: Vec<_> = keys.filter(is_missing).cloned().collect();
                    found.extend(missing);
                }
            }
            (Self::Compare, "PutItem") if response.get("Item").is_some() => response["Item"] = request["Item"].clone(),
            // A statement that fails is followed by a read of the existing item. A success prevents that read.
            (Self::Compare, "BatchExecuteStatement") => {
                let responses = response.get_mut("Responses").and_then(Value::as_array_mut);
                let is_taken = |response: &&mut Value| response["Error"]["Code"] == "DuplicateItem";
                for response in responses.into_iter().flatten().filter(is_taken) {
                    *response = json!({});
                }
            }
            _ => {}
        }
    }

    /// Returns unconditional puts that replace the statements of a request. `None` if the request stays as it is.
    pub(crate) fn puts(self, operation: &str, body: &Value) -> Option<Vec<Value>> {
        let statements = match (self, operation) {
            (Self::Condition, "BatchExecuteStatement") => body.get("Statements")?.as_array()?,
            _ => return None,
        };
        statements.iter().map(put).collect()
    }

    /// Changes a stream record before the function receives it.
    pub(crate) fn record(self, record: &mut Value) {
        // Without an end, if the record of an item in quarantine were quarantined, too.
        if self == Self::Filter
            && let Some(key) = record.pointer_mut("/dynamodb/Keys/SK")
            && !key["S"].as_str().is_some_and(|key| key.starts_with(PREFIX))
        {
            *key = json!({"S": LATEST_KEY});
        }
    }
}

/// Converts a statement to a put of the same item: `INSERT INTO "TABLE" VALUE {'NAME': ?, …}`.
fn put(statement: &Value) -> Option<Value> {
    let text = statement.get("Statement")?.as_str()?.strip_prefix("INSERT INTO \"")?;
    let (table, mut names) = text.split_once("\" VALUE {")?;
    let mut item = serde_json::Map::new();
    for parameter in statement.get("Parameters")?.as_array()? {
        let quoted = names.trim_start_matches(", ").strip_prefix('\'')?;
        let (name, rest) = quoted.split_once("': ?")?;
        item.insert(name.replace("''", "'"), parameter.clone());
        names = rest;
    }
    Some(json!({"TableName": table, "Item": item}))
}

/// Removes the times of an event or update.
fn untimed(mut event: Value) -> Value {
    if let Some(members) = event.as_object_mut() {
        members.remove("RequestSentAt");
        members.remove("time");
    }
    event
}

fn has(body: &Value, expression: &str, part: &str) -> bool {
    body[expression]
        .as_str()
        .is_some_and(|expression| expression.contains(part))
}

/// Replaces a part of an expression.
fn replace(body: &mut Value, expression: &str, [part, replacement]: [&str; 2]) {
    if let Some(Value::String(expression)) = body.get_mut(expression) {
        *expression = expression.replace(part, replacement);
    }
}

fn unconditional(put: &mut Value) {
    if let Some(put) = put.as_object_mut() {
        put.remove("ConditionExpression");
        put.remove("ExpressionAttributeNames");
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "in a test, a panic is the message")]

    use super::*;

    #[test]
    fn a_statement_becomes_the_put_of_its_item() {
        let statement = json!({
            "Statement": "INSERT INTO \"T\" VALUE {'PK': ?, 'it''s': ?, 'SK': ?}",
            "Parameters": [{"S": "E"}, {"N": "1"}, {"S": "v1"}],
        });
        let item = json!({"PK": {"S": "E"}, "it's": {"N": "1"}, "SK": {"S": "v1"}});
        let body = json!({"Statements": [statement]});
        let puts = Mutation::Condition.puts("BatchExecuteStatement", &body);
        assert_eq!(puts, Some(vec![json!({"TableName": "T", "Item": item})]));
        assert_eq!(Mutation::Compare.puts("BatchExecuteStatement", &body), None);
    }
}
