//! Commands of a test, and the actions of others on its table, as one text.

use std::cell::RefCell;

use aws_sdk_dynamodb::types::ScalarAttributeType;
use serde_json::{Value, json};
use testkit::{
    command::{self, Run},
    database,
    endpoint::is_about_one_table,
    table::{self, Table},
};

/// Runs the lines of a script that are no actions, on this table.
pub(crate) type Runner = for<'a> fn(&'a Table) -> Box<dyn Fn(&str) -> Run + 'a>;

/// Runs a script on a new table. Its first lines can name what it needs:
///
/// | line | means |
/// |---|---|
/// | `for NAME in A; B` | the script runs once for each value, which replaces `$NAME`, on a table of its own |
/// | `for DIGITS in 1; 3` | the same, with this width of version keys |
/// | `one table` | the script is skipped if history has its own table |
pub(crate) fn run_new(vzero: &'static str, name: &str, text: &str) {
    let text = text.trim_start();
    let (line, rest) = text.split_once('\n').unwrap_or((text, ""));
    if line == "one table" {
        if !is_about_one_table(name) {
            run_new(vzero, name, rest);
        }
    } else if let Some((variable, values)) = line.strip_prefix("for ").and_then(|line| line.split_once(" in ")) {
        for value in values.split("; ") {
            let digits = format!("digits {value}\n");
            let header = if variable == "DIGITS" { &*digits } else { "" };
            run_new(
                vzero,
                name,
                &(header.to_owned() + &rest.replace(&format!("${variable}"), value)),
            );
        }
    } else if let Some(digits) = line.strip_prefix("digits ") {
        run(&Table::with_digits(vzero, digits.parse().unwrap()), rest);
    } else {
        run(&Table::new(vzero), text);
    }
}

/// A test for each script of these names in `tests/scripts`.
macro_rules! script_tests {
    ($(fn $name:ident();)*) => {
        $(#[test]
        fn $name() {
            let text = include_str!(concat!("../scripts/", stringify!($name), ".txt"));
            crate::script::run_new(env!("CARGO_BIN_EXE_vzero"), stringify!($name), text);
        })*
    };
}
pub(crate) use script_tests;

/// Runs the commands of a text as [`Table::check`] does. `$TABLE` and `$SCRIPTS` are the table and the folder of the scripts.
/// `as NAME /Name/0/Name` beside the expectations stores the text at this place of the last line, which replaces `$NAME` in the
/// following lines. Lines that begin with `@` are actions on the table:
///
/// | action | of |
/// |---|---|
/// | `@write {…}` | the writer, with this update |
/// | `@writes COUNT {…}` | the writer, with this update again and again, and its number in `N` |
/// | `@at SECOND {…}` | the writer, whose clock is at this second of 1970 |
/// | `@each_second SECOND COUNT {…}` | the same, once in each second from this one, with the number in `N` |
/// | `@put ID KEY {…}` | another client, which puts an item in DynamoDB JSON |
/// | `@quarantine ID NUMBER {…}` | stream-fn, which puts a record of this image into quarantine |
/// | `@set ID KEY {…}` | another client, which replaces attributes of an item; null removes one |
/// | `@delete ID KEY` | another client |
/// | `@item ID KEY` | none: the output is the item, null if it does not exist |
/// | `@keys ID` | none: the output is the list of the entity's sort keys |
/// | `@table NAME KEY,KEY [{…}]` | an operator, who creates a table of these keys and items: the output is `{NAME: …}`, its name |
pub(crate) fn run(table: &Table, text: &str) {
    let other = crate::RUNNER(table);
    let scripts = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/scripts");
    let mut variables = vec![
        ("$TABLE".to_owned(), table.name.clone()),
        ("$SCRIPTS".to_owned(), scripts.to_owned()),
    ];
    for line in text.lines().map(str::trim) {
        let filled = variables
            .iter()
            .fold(line.to_owned(), |line, (name, value)| line.replace(name, value));
        let (stored, parts): (Vec<_>, Vec<_>) = filled.split(" => ").partition(|part| part.starts_with("as "));
        let last = RefCell::new(Value::Null);
        let run = |line: &str| {
            let run = match line.strip_prefix('@') {
                Some(action) => act(table, action),
                None => other(line),
            };
            last.replace(run.lines.last().cloned().unwrap_or_default());
            run
        };
        command::check(run, &parts.join(" => "));
        let last = last.into_inner();
        for stored in stored {
            let (name, place) = stored[3..].split_once(' ').unwrap();
            let value = last.pointer(place).unwrap_or_else(|| panic!("{line}: {last}"));
            let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            // A later value replaces an earlier one.
            variables.insert(0, (format!("${name}"), text));
        }
    }
}

fn act(table: &Table, action: &str) -> Run {
    let (kind, rest) = action.split_once(' ').unwrap();
    let json = |text: &str| serde_json::from_str::<Value>(text).unwrap_or_else(|error| panic!("{action}: {error}"));
    let words: Vec<_> = rest.splitn(3, ' ').collect();
    let mut output = Value::Null;
    match (kind, &words[..]) {
        ("write", _) => output = json!(table.write(json(rest))),
        ("at" | "each_second", _) => {
            let (second, rest) = rest.split_once(' ').unwrap();
            let (count, update) = match kind {
                "at" => ("1", rest),
                _ => rest.split_once(' ').unwrap(),
            };
            for number in 0..count.parse::<u64>().unwrap() {
                let mut update = json(update);
                if kind == "each_second" {
                    update["N"] = json!(number);
                }
                let store = database::at_second(&table.store, second.parse::<u64>().unwrap() + number);
                output = json!(table.runtime.block_on(table::write(&store, update)));
            }
        }
        ("writes", _) => {
            let (count, update) = rest.split_once(' ').unwrap();
            for number in 1..=count.parse::<u64>().unwrap() {
                let mut update = json(update);
                update["N"] = json!(number);
                output = json!(table.write(update));
            }
        }
        ("put", [id, key, item]) => {
            let mut item = json(item);
            (item["PK"], item["SK"]) = (json!({"S": id}), json!({"S": key}));
            table.put(item);
        }
        ("quarantine", [id, number, image]) => {
            let mut image = json(image);
            (image["PK"], image["SK"]) = (json!({"S": id}), json!({"S": "v0"}));
            table.quarantine(id, number, "Conflict", &image);
        }
        ("set", [id, key, members]) => {
            let mut item = table.items_of(id)[*key].clone();
            for (name, value) in json(members).as_object().unwrap() {
                item[name] = value.clone();
            }
            item.as_object_mut().unwrap().retain(|_, value| !value.is_null());
            table.put(item);
        }
        ("delete", [id, key]) => table.delete(id, key),
        ("item", [id, key]) => output = table.items_of(id).remove(*key).unwrap_or_default(),
        ("keys", [id]) => output = json!(table.items_of(id).into_keys().collect::<Vec<_>>()),
        ("table", [name, keys, items]) => {
            let keys: Vec<_> = keys.split(',').map(|key| (key, ScalarAttributeType::S)).collect();
            output = json!({*name: other(table, name, &keys, json(items).as_array().unwrap())});
        }
        _ => panic!("{action} is no action"),
    }
    Run {
        code: 0,
        stdout: output.to_string(),
        lines: vec![output],
        stderr: String::new(),
    }
}

/// Creates another table with these keys and items, and returns its name.
pub(crate) fn other(table: &Table, name: &str, keys: &[(&str, ScalarAttributeType)], items: &[Value]) -> String {
    let name = table.endpoint.table(name);
    table.runtime.block_on(async {
        database::create_table(&table.client, &name, keys).await.unwrap();
        table.endpoint.wait_until_active(&name).await;
        for item in items {
            database::put_into(&table.client, &name, item.clone()).await;
        }
    });
    name
}
