//! Texts after the start: the endpoints of the stack, and what to try.

use std::path::Path;

use attach::shell::argument;
use serde_json::json;
use shared::domain::attached::{AttachedTable, key_attribute::KeyType};

use crate::stack::Stack;

/// Returns the addresses and folders of the stack, one in each line.
pub fn endpoints(stack: &Stack, console: &str, log: Option<&Path>) -> String {
    let tables = match stack.store.own_history() {
        Some(history) => format!("tables {}, {history}", stack.table),
        None => format!("table {}", stack.table),
    };
    let functions = match stack.store.attached_table() {
        Some(_) => "stream-fn",
        None => "writer-fn, stream-fn",
    };
    let log = log.map_or(String::new(), |folder| format!("sealed    {}\n", folder.display()));
    format!(
        "DynamoDB  {}  ({tables})\nLambda    {}  ({functions})\nfailures  {}\nlogs      {}\n{log}console   {console}",
        stack.dynamodb_endpoint(),
        stack.lambda.endpoint(),
        stack.failed.display(),
        stack.logs.display(),
    )
}

/// Returns commands that send an update and read its history, and the address of the console. The address is no argument of a
/// command, because other users of the machine can read arguments, and it contains the access token.
pub fn to_try(stack: &Stack, console: &str) -> String {
    format!(
        "Serving until Ctrl-C. Send an update, read its history, and open it in your web browser:

  curl {lambda}/2015-03-31/functions/writer-fn/invocations \\
    -d '{{\"ID\": \"Equipment#1\", \"State\": \"OK\"}}'
  {vzero} --endpoint-url {dynamodb} log Equipment#1
  {console}",
        vzero = vzero(),
        lambda = stack.lambda.endpoint(),
        dynamodb = stack.dynamodb_endpoint(),
    )
}

/// Returns the command vzero, as cargo runs it if it has started this program.
#[allow(clippy::disallowed_methods, reason = "the environment that cargo sets")]
fn vzero() -> &'static str {
    match std::env::var_os("CARGO_MANIFEST_DIR") {
        Some(_) => "cargo run -p vzero --",
        None => "vzero",
    }
}

/// Returns commands that put an item with the keys of an attached table, and read its history and its first version.
pub fn to_try_attached(table: &AttachedTable, dynamodb: &str, console: &str) -> String {
    let name = table.table();
    let (mut item, mut key) = (json!({}), String::new());
    for attribute in table.keys() {
        let (value, word) = match attribute.kind {
            KeyType::S => (json!({"S": "a"}), " a"),
            KeyType::N => (json!({"N": "1"}), " 1"),
            KeyType::B => (json!({"B": "YQ=="}), " YQ=="),
        };
        item[&attribute.name] = value;
        key.push_str(word);
    }
    let item = argument(&item.to_string());
    let history = match table.history_table() {
        history if history == format!("{name}-history") => String::new(),
        history => format!(" --history-table {history}"),
    };
    let vzero = format!("{} --endpoint-url {dynamodb} --table {name}{history}", vzero());
    let filter = match table.filter() {
        Some(_) => ", with attributes that the filter selects,",
        None => "",
    };
    format!(
        "Serving until Ctrl-C. Write to the table {name} with any client{filter} and read the history:

  aws dynamodb put-item --endpoint-url {dynamodb} --table-name {name} \\
    --item {item}
  {vzero} log{key}
  {vzero} get{key} 1
  {console}"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_single_arguments_of_a_shell() {
        let definition = json!({
            "TableName": "Orders",
            "KeySchema": [{"AttributeName": "customer's", "KeyType": "HASH"}, {"AttributeName": "no", "KeyType": "RANGE"}],
            "AttributeDefinitions": [
                {"AttributeName": "customer's", "AttributeType": "B"},
                {"AttributeName": "no", "AttributeType": "N"}
            ],
        });
        let table = attach::parse(&definition.to_string()).unwrap();
        let text = to_try_attached(&table, "http://127.0.0.1:8000", "http://127.0.0.1:8100");
        for part in [
            r#"--item '{"customer'\''s":{"B":"YQ=="},"no":{"N":"1"}}'"#,
            "--table Orders log YQ== 1",
            "--table Orders get YQ== 1 1",
        ] {
            assert!(text.contains(part), "{part} in {text}");
        }
        assert!(!text.contains("filter"), "{text}");
    }
}
