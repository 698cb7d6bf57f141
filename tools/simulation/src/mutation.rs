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
    /// The condition of a version item's put
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

    /// Changes an answer that refuses a put.
    pub(crate) fn refusal(self, operation: &str, request: &Value, answer: &mut Value) {
        if self == Self::Compare && operation == "PutItem" && answer.get("Item").is_some() {
            answer["Item"] = request["Item"].clone();
        }
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

fn unconditional(put: &mut Value) {
    if let Some(put) = put.as_object_mut() {
        put.remove("ConditionExpression");
        put.remove("ExpressionAttributeNames");
    }
}
