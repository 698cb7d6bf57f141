//! Tables that are found by their names, with keys as arguments.

use std::collections::{BTreeSet, HashMap};

use aws_sdk_dynamodb::Client;
use serde_json::json;
use testkit::{
    command::{Arguments as _, Run},
    database::{create_table, put_into},
    endpoint::{is_skipped, sdk_config},
    http::{self, Message},
    pages::access_statements,
    table,
    tap::Tap,
};

/// Tables with their keys, history tables with two versions, their definitions, the parameters of SSM, and commands.
const LINES: &str = include_str!("../scripts/tables_are_found_by_name");

/// Serves these parameters.
fn parameter_store(parameters: HashMap<String, &'static str>) -> String {
    let documented = access_statements("FindAttached").remove(0);
    let (action, resource) = (
        documented["Action"].clone(),
        documented["Resource"].as_str().unwrap().to_owned(),
    );
    let names = resource.replace("arn:aws:ssm:*:*:parameter", "").replace('*', "");
    http::serve(move |request| {
        let (_, operation) = request.header("x-amz-target").unwrap().split_once('.').unwrap();
        assert_eq!(action, json!([format!("ssm:{operation}")]));
        assert!(request.json()["Name"].as_str().unwrap().starts_with(&names));
        let failed = |code: &str| ("400 Bad Request", json!({"__type": code}));
        let (status, body) = match parameters.get(request.json()["Name"].as_str().unwrap()) {
            Some(&"denied") => failed("AccessDeniedException"),
            Some(value) => ("200 OK", json!({"Parameter": {"Value": value}})),
            None => failed("ParameterNotFound"),
        };
        Message::new(&format!("HTTP/1.1 {status}"), body.to_string())
    })
}

/// Serves a database to a reader who may read neither items nor one history.
fn of_reader(database: String) -> String {
    http::serve(move |request| {
        let table = request.json()["TableName"].as_str().unwrap_or_default().to_owned();
        let is_item = request.header("x-amz-target").unwrap().ends_with(".GetItem") && !table.contains('-');
        match table == "Secret-history" || (is_item && table != "Secret") {
            true => Message::new(
                "HTTP/1.1 400 Bad Request",
                json!({"__type": "AccessDeniedException"}).to_string(),
            ),
            false => http::send(&database, request),
        }
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn the_history_of_a_table_is_found_by_its_name() {
    if is_skipped("its tables have fixed names") {
        return;
    }
    let tap = Tap::embedded();
    let client = Client::new(&sdk_config(&tap.endpoint).await);
    let (mut parameters, mut ssm) = (HashMap::new(), String::new());
    for line in LINES.lines().filter(|line| !line.starts_with("//")) {
        let (first, rest) = line.split_once(' ').unwrap();
        let (name, value) = rest.split_once(' ').unwrap();
        let own = |sort_key: &str, attribute: &str| json!({"PK": {"S": "#vzero"}, "SK": {"S": sort_key}, attribute: {"S": value}});
        match first {
            "table" => {
                let keys = value.split(' ').map(|key| key.split_once(':').unwrap());
                let keys: Vec<_> = keys.map(|(name, kind)| (name, kind.into())).collect();
                create_table(&client, name, &keys).await.unwrap();
            }
            "history" => {
                table::create_history(&client, name).await.unwrap();
                for (key, state) in [("v0000000001", "a"), ("v0000000002", "b")] {
                    let image = json!({"state": {"S": state}});
                    let item = json!({"PK": {"S": value}, "SK": {"S": key}, "Image": {"M": image}});
                    put_into(&client, name, item).await;
                }
            }
            "definition" => put_into(&client, name, own("attached", "Definition")).await,
            "owner" => put_into(&client, name, own("owner", "TableName")).await,
            "item" => put_into(&client, name, serde_json::from_str(value).unwrap()).await,
            "parameter" => _ = parameters.insert(format!("/vzero/attached/{name}"), value),
            _ => {
                if ssm.is_empty() {
                    ssm = parameter_store(std::mem::take(&mut parameters));
                }
                let (command, expected) = line.split_once(" => ").unwrap();
                let (code, text) = expected.split_once(' ').unwrap();
                let global = |command| format!("--endpoint-url {} --table {command}", tap.endpoint);
                let run = match command.split_once(' ').unwrap() {
                    ("reader", command) => {
                        let endpoint = of_reader(tap.endpoint.clone());
                        let words = format!("--endpoint-url {endpoint} --table {command}");
                        Run::alone(crate::VZERO, &[], &words)
                    }
                    ("ssm", command) => Run::alone(crate::VZERO, &[("AWS_ENDPOINT_URL_SSM", &*ssm)], &global(command)),
                    // As the scripts of the shells do.
                    (shell @ ("bash" | "fish"), command) => {
                        let words = format!("-- vzero {}", global(command)).words();
                        let (index, typed) = ((words.len() - 2).to_string(), words.last().unwrap());
                        let variables = [
                            ("COMPLETE", shell),
                            ("_CLAP_COMPLETE_INDEX", &index),
                            ("VZERO_WORD", typed),
                        ];
                        Run::alone(crate::VZERO, &variables, &words)
                    }
                    _ => Run::alone(crate::VZERO, &[], &global(command)),
                };
                assert_eq!(run.code.to_string(), code, "{line}: {run:?}");
                assert!(
                    format!("{}{}", run.stdout, run.stderr).contains(text),
                    "{line}: {run:?}"
                );
            }
        }
    }

    tap.clear();
    Run::alone(
        crate::VZERO,
        &[],
        &format!("--endpoint-url {} --table Orders diff c -7 1 2", tap.endpoint),
    );
    let needed = tap
        .needed()
        .into_iter()
        .filter(|needed| needed.table.as_deref() == Some("Orders"));
    let needed: BTreeSet<_> = needed.map(|needed| needed.action).collect();
    // The layout need not be readable.
    let documented = access_statements("ReadAttached")[0]["Action"].clone();
    let documented: Vec<String> = serde_json::from_value(documented).unwrap();
    assert_eq!(
        needed,
        documented.into_iter().chain(["dynamodb:GetItem".to_owned()]).collect()
    );
}
