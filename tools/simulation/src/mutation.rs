//! One defence switched off, to see that the simulation misses it.
//!
//! The code of the functions has no switch for it: the request, the record or the answer is changed on its way.

use clap::ValueEnum;
use serde_json::{Value, json};

/// Which defence is switched off.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Mutation {
    /// The check of the request id
    Guard,
    /// The condition of the ledger's marker
    Ledger,
    /// The condition of a version item's put, and that a statement does not overwrite
    Condition,
    /// The mapping's filter and the code's check of the key, together
    Filter,
    /// The comparison of a version that is there already: any item counts as the same
    Compare,
    /// The splitting of a batch before it is parsed
    RawSplit,
}

/// A condition that always holds, in the place of another one.
const HOLDS: &str = "(attribute_exists(#latest) OR attribute_not_exists(#latest))";

impl Mutation {
    /// Changes a request.
    pub(crate) fn request(self, operation: &str, body: &mut Value) {
        match (self, operation) {
            (Self::Guard, "UpdateItem") => {
                if let Some(Value::String(condition)) = body.get_mut("ConditionExpression") {
                    for guard in [
                        "(attribute_not_exists(#request) OR #request <> :request)",
                        "attribute_not_exists(#recent.#hash)",
                    ] {
                        *condition = condition.replace(guard, HOLDS);
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

    /// Changes an answer.
    pub(crate) fn answer(self, operation: &str, request: &Value, answer: &mut Value) {
        match (self, operation) {
            (Self::Compare, "PutItem") if answer.get("Item").is_some() => answer["Item"] = request["Item"].clone(),
            // What a statement meets is read in a request of its own, which then is not sent.
            (Self::Compare, "BatchExecuteStatement") => {
                let responses = answer.get_mut("Responses").and_then(Value::as_array_mut);
                let is_taken = |response: &&mut Value| response["Error"]["Code"] == "DuplicateItem";
                for response in responses.into_iter().flatten().filter(is_taken) {
                    *response = json!({});
                }
            }
            _ => {}
        }
    }

    /// The puts that statements become, without a condition. `None` where they stay what they are.
    pub(crate) fn puts(self, operation: &str, body: &Value) -> Option<Vec<Value>> {
        let statements = match (self, operation) {
            (Self::Condition, "BatchExecuteStatement") => body.get("Statements")?.as_array()?,
            _ => return None,
        };
        statements.iter().map(put).collect()
    }

    /// Changes a record on its way to the function.
    pub(crate) fn record(self, latest_key: &str, record: &mut Value) {
        if self == Self::Filter
            && let Some(key) = record.pointer_mut("/dynamodb/Keys/SK")
        {
            *key = json!({"S": latest_key});
        }
    }
}

/// The put of the item that a statement inserts: `INSERT INTO "TABLE" VALUE {'NAME': ?, …}`.
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
