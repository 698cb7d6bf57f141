//! Commands to try with an attached table: they write an item with the keys of its definition, and read its history.

use std::path::Path;

use serde_json::{Value, json};
use shared::domain::attached::{AttachedTable, key_attribute::KeyType};

/// Returns commands that put an item, and read its history and its first version.
pub fn to_try(table: &AttachedTable, dynamodb: &str, definition: &Path) -> String {
    let name = table.table();
    let (item, key) = example(table);
    let (item, key) = (quoted(&item.to_string()), quoted(&key.to_string()));
    let definition = quoted(&definition.to_string_lossy());
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

/// Returns the text as one argument of a shell.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
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
        let table = AttachedTable::parse(&definition.to_string()).unwrap();
        let text = to_try(&table, "http://127.0.0.1:8000", Path::new("my orders.json"));
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
