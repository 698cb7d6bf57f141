//! Texts after the start: the endpoints of the stack, and what to try.

use std::path::Path;

use attach::shell::argument;
use history_console::Console;
use serde_json::{Value, json};
use shared::domain::attached::{AttachedTable, key_attribute::KeyType};

use crate::stack::Stack;

/// Returns the addresses and folders of the stack, one in each line.
pub fn endpoints(stack: &Stack, console: Option<&Console>) -> String {
    let tables = match stack.store.own_history() {
        Some(history) => format!("tables {}, {history}", stack.table),
        None => format!("table {}", stack.table),
    };
    let functions = match stack.store.attached_table() {
        Some(_) => "stream-fn",
        None => "writer-fn, stream-fn",
    };
    let mut lines = format!(
        "DynamoDB  {}  ({tables})\nLambda    {}  ({functions})\nfailures  {}\nlogs      {}",
        stack.dynamodb_endpoint(),
        stack.lambda.endpoint(),
        stack.failed.display(),
        stack.logs.display(),
    );
    if let Some(console) = console {
        lines.extend(["\nconsole   ", console.url()]);
    }
    lines
}

/// Returns commands that send an update and read its history, and the address of the console. The address is no argument of a
/// command, because other users of the machine can read arguments, and it contains the access token.
pub fn to_try(stack: &Stack, console: Option<&Console>) -> String {
    let browse = match console {
        Some(_) => ", and open it in your web browser",
        None => "",
    };
    let mut text = format!(
        "Serving until Ctrl-C. Send an update, read its history{browse}:

  curl {lambda}/2015-03-31/functions/writer-fn/invocations \\
    -d '{{\"ID\": \"Equipment#1\", \"State\": \"OK\"}}'
  cargo run -p vzero -- --endpoint-url {dynamodb} history Equipment#1",
        lambda = stack.lambda.endpoint(),
        dynamodb = stack.dynamodb_endpoint(),
    );
    if let Some(console) = console {
        text.extend(["\n  ", console.url()]);
    }
    text
}

/// Returns commands that put an item with the keys of an attached table, and read its history and its first version.
pub fn to_try_attached(table: &AttachedTable, dynamodb: &str, definition: &Path) -> String {
    let name = table.table();
    let (item, key) = example(table);
    let (item, key) = (argument(&item.to_string()), argument(&key.to_string()));
    let definition = argument(&definition.to_string_lossy());
    let vzero = format!("cargo run -p vzero -- --endpoint-url {dynamodb} --attached {definition}");
    let filter = match table.filter() {
        Some(_) => ", with attributes that the filter selects,",
        None => "",
    };
    format!(
        "Serving until Ctrl-C. Write to the table {name} with any client{filter} and read the history:

  aws dynamodb put-item --endpoint-url {dynamodb} --table-name {name} \\
    --item {item}
  {vzero} \\
    history {key}
  {vzero} \\
    get {key} --version 1"
    )
}

/// Returns an item that consists of a key, as DynamoDB JSON, and its key, as `vzero` reads it.
fn example(table: &AttachedTable) -> (Value, Value) {
    let (mut item, mut example) = (json!({}), json!({}));
    for key in table.keys() {
        let (attribute, value) = match key.kind {
            KeyType::S => (json!({"S": "a"}), json!("a")),
            KeyType::N => (json!({"N": "1"}), json!(1)),
            KeyType::B => (json!({"B": "YQ=="}), json!("YQ==")),
        };
        item[&key.name] = attribute;
        example[&key.name] = value;
    }
    (item, example)
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
        let text = to_try_attached(&table, "http://127.0.0.1:8000", Path::new("my orders.json"));
        for part in [
            r#"--item '{"customer'\''s":{"B":"YQ=="},"no":{"N":"1"}}'"#,
            r"--attached 'my orders.json' \",
            r#"history '{"customer'\''s":"YQ==","no":1}'"#,
            r#"get '{"customer'\''s":"YQ==","no":1}' --version 1"#,
        ] {
            assert!(text.contains(part), "{part} in {text}");
        }
        assert!(!text.contains("filter"), "{text}");
    }
}
