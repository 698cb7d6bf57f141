//! Mutations: each disables one defense, which the simulation must detect.
//!
//! The functions have no switch for this. Requests, records or responses are changed in transit.

use clap::ValueEnum;
use serde_json::{Value, json};
use shared::domain::keys::LATEST_KEY;

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
    /// The splitting of a batch before it is parsed
    RawSplit,
}

const ALWAYS_TRUE: &str = "(attribute_exists(#latest) OR attribute_not_exists(#latest))";

impl Mutation {
    pub(crate) fn request(self, operation: &str, body: &mut Value) {
        match (self, operation) {
            (Self::Guard, "UpdateItem") => {
                if let Some(Value::String(condition)) = body.get_mut("ConditionExpression") {
                    for guard in [
                        "(attribute_not_exists(#request) OR #request <> :request)",
                        "attribute_not_exists(#recent.#hash)",
                    ] {
                        *condition = condition.replace(guard, ALWAYS_TRUE);
                    }
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
            _ => {}
        }
    }

    pub(crate) fn response(self, operation: &str, request: &Value, response: &mut Value) {
        match (self, operation) {
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
        if self == Self::Filter
            && let Some(key) = record.pointer_mut("/dynamodb/Keys/SK")
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
