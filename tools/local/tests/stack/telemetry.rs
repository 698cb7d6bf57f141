//! Compares log lines and metrics of the functions with `docs/telemetry.md`.

use std::collections::{BTreeMap, BTreeSet};

use local::stack::Stack;
use serde_json::{Value, json};
use testkit::pages::rows;

use crate::support::{eventually, failed, first, insert, invoke, item, logged, message, settled, start_with, template};

pub(crate) struct Documented {
    /// Function and metric → unit.
    metrics: BTreeMap<(String, String), String>,
    /// Member → type.
    members: BTreeMap<String, String>,
}

impl Documented {
    pub(crate) fn read() -> Self {
        let (mut metrics, mut members) = (BTreeMap::new(), BTreeMap::new());
        for cells in rows("docs/telemetry.md") {
            let named = |cell: usize| cells[cell].split('`').skip(1).step_by(2).map(str::to_owned);
            match cells[0].as_str() {
                "writer-fn" | "stream-fn" => {
                    let metric = named(1).next().unwrap();
                    metrics.insert((cells[0].clone(), metric), cells[2].clone());
                }
                _ => members.extend(named(0).map(|name| (name, cells[1].clone()))),
            }
        }
        assert!(metrics.len() > 20 && members.len() > 15);
        Self { metrics, members }
    }

    /// Checks that a line is a log line or a line of metrics, and has documented members only.
    pub(crate) fn check(&self, line: &str) {
        let parsed: Value = serde_json::from_str(line).unwrap_or_else(|_| panic!("no JSON: {line}"));
        let parsed = parsed.as_object().unwrap();
        if parsed.contains_key("_aws") {
            self.check_metrics(line, &Value::Object(parsed.clone()));
            return;
        }
        for (name, value) in parsed {
            let expected = self.members.get(name);
            let actual = match value {
                Value::String(_) => "string",
                Value::Number(_) => "number",
                Value::Object(_) => "object",
                _ => "another",
            };
            assert_eq!(expected.map(String::as_str), Some(actual), "{name} of {line}");
        }
        for member in ["timestamp", "level", "message", "target"] {
            assert!(parsed.contains_key(member), "no {member} in {line}");
        }
        // The line is one object without duplicate members.
        for name in parsed.keys() {
            assert_eq!(line.matches(&format!("\"{name}\":")).count(), 1, "{name} of {line}");
        }
    }

    fn check_metrics(&self, line: &str, parsed: &Value) {
        let time = parsed["_aws"]["Timestamp"].as_u64().unwrap();
        assert!(time > 1_700_000_000_000, "{line}");
        let directives = parsed["_aws"]["CloudWatchMetrics"].as_array().unwrap();
        assert_eq!(directives.len(), 1, "{line}");
        assert_eq!(directives[0]["Namespace"], "VersionControl");
        assert_eq!(directives[0]["Dimensions"], json!([["Service", "Function"]]));
        assert_eq!(parsed["Service"], "local");
        let function = parsed["Function"].as_str().unwrap();
        let mut expected: BTreeSet<_> = ["_aws", "Service", "Function", "requestId"].map(str::to_owned).into();
        for metric in directives[0]["Metrics"].as_array().unwrap() {
            let name = metric["Name"].as_str().unwrap().to_owned();
            let unit = self.metrics.get(&(function.to_owned(), name.clone()));
            assert_eq!(unit.map(String::as_str), metric["Unit"].as_str(), "{name} of {line}");
            let values = values(&parsed[&name]);
            let is_valid = (1..=100).contains(&values.len()) && values.iter().all(|value| *value >= 0.0);
            assert!(is_valid, "{line}");
            expected.insert(name);
        }
        let members: BTreeSet<_> = parsed.as_object().unwrap().keys().cloned().collect();
        assert_eq!(members, expected, "{line}");
    }
}

/// Returns the values of a metric in a line.
fn values(metric: &Value) -> Vec<f64> {
    match metric {
        Value::Null => Vec::new(),
        Value::Array(values) => values.iter().map(|value| value.as_f64().unwrap()).collect(),
        value => vec![value.as_f64().unwrap()],
    }
}

fn sum(stack: &Stack, function: &str, metric: &str) -> f64 {
    let lines = logged(stack, function);
    let lines = lines.iter().filter(|line| line.get("_aws").is_some());
    lines.flat_map(|line| values(&line[metric])).sum()
}

fn assert_counts(stack: &Stack, function: &str, counts: &str) {
    for (metric, count) in counts.split(' ').map(|pair| pair.split_once('=').unwrap()) {
        assert_eq!(sum(stack, function, metric).to_string(), count, "{metric}");
    }
}

const MONITORING: &str = include_str!("../../../monitoring/template.yaml");

#[test]
fn the_dashboard_shows_every_metric_and_no_other() {
    let body = MONITORING.split("DashboardBody: !Sub\n        - |\n").nth(1).unwrap();
    let body = body.split("        - Namespace:").next().unwrap();
    let body: Value = serde_json::from_str(&body.replace("${NotPolled}", "")).unwrap();
    let mut shown = BTreeSet::new();
    for widget in body["widgets"].as_array().unwrap() {
        let mut before: Vec<&str> = Vec::new();
        for metric in widget["properties"]["metrics"].as_array().into_iter().flatten() {
            // "." repeats the value at the same position of the previous line, "..." all values before.
            let fields = metric.as_array().unwrap().iter().filter_map(Value::as_str);
            let mut fields: Vec<_> = fields.collect();
            if fields[0] == "..." {
                let repeated = before.len() + 1 - fields.len();
                fields.splice(..1, before[..repeated].iter().copied());
            }
            for (place, field) in fields.iter_mut().enumerate().filter(|(_, field)| **field == ".") {
                *field = before[place];
            }
            if fields[0] == "${Namespace}" {
                assert_eq!(fields[2..5], ["Service", "${StackName}", "Function"]);
                shown.insert((fields[5].to_owned(), fields[1].to_owned()));
            }
            before = fields;
        }
    }
    let mut documented: BTreeSet<_> = Documented::read().metrics.into_keys().collect();
    // The queue's own metrics show the rest.
    documented.remove(&("writer-fn".to_owned(), "Messages".to_owned()));
    assert_eq!(shown, documented);
}

#[test]
fn every_saved_query_is_documented() {
    let page = include_str!("../../../../docs/operations.md");
    let definitions = MONITORING.split("Type: AWS::Logs::QueryDefinition").skip(1);
    let names = definitions.map(|definition| definition.split(['/', '"']).nth(2).unwrap());
    let names: Vec<_> = names.collect();
    assert_eq!(names.len(), 6);
    for name in names {
        assert!(page.contains(&format!("| `{name}` |")), "{name}");
    }
    let documented = Documented::read();
    // Queries use members that lines have.
    let fields = MONITORING
        .lines()
        .filter_map(|line| line.strip_prefix("        fields "));
    let fields = fields.flat_map(|fields| fields.split(", "));
    for field in fields.filter(|field| !field.starts_with('@')) {
        assert!(documented.members.contains_key(field), "{field}");
    }
}

#[tokio::test]
async fn every_outcome_is_counted_once() {
    let mut template = template(&[("Ordering", "time"), ("SkipUnchanged", "true")]);
    template.mapping.maximum_retry_attempts = Some(0);
    let stack = start_with(template).await;
    let at = |id: &str, second: u32, request: &str, state: &str| json!({"ID": id, "Time": format!("2020-11-01T20:04:{second:02}"), "RequestId": request, "State": state});
    let mut expecting = at("E", 9, "r-5", "x");
    expecting["ExpectedVersion"] = json!(7);
    for update in [
        at("E", 1, "r-1", "OK"),
        at("E", 3, "r-2", "BAD"),
        at("E", 3, "r-2", "BAD"),
        at("E", 2, "r-3", "OLD"),
        at("E", 3, "r-4", "BAD"),
        expecting,
        json!({"ID": 7}),
        json!({"Records": 7}),
    ] {
        invoke(&stack, "writer-fn", &update).await;
    }
    let batch = json!({"Records": [message("m-1", &at("F", 1, "f-1", "OK")), message("m-2", &json!({}))]});
    invoke(&stack, "writer-fn", &batch).await;
    settled(&stack).await;
    let counts = "Written=3 Duplicate=1 Stale=1 Unchanged=1 Conflict=1 Invalid=3 Messages=2";
    assert_counts(&stack, "writer-fn", counts);
    // An existing version, one with other attributes, and an item without a version.
    let mine = json!({"PK": {"S": "T"}, "SK": {"S": "v1"}, "A": {"S": "mine"}});
    stack.put(mine).await;
    let record = |number: &str, id: &str| {
        let mut image = first(id);
        image["A"] = json!({"S": "other"});
        insert(number, &image)
    };
    // A version exists before the invocation that put it writes its metrics.
    let recorded = 3.0;
    eventually("metrics of the versions", async || {
        (sum(&stack, "stream-fn", "Recorded") >= recorded).then_some(())
    })
    .await;
    let (mut removed, mut empty) = (record("3", "G"), record("4", "T"));
    removed["eventName"] = json!("REMOVE");
    empty["dynamodb"]["NewImage"] = json!({});
    let batch = json!({"Records": [record("1", "T"), record("2", "G"), removed, empty, record("5", "G"), json!({})]});
    invoke(&stack, "stream-fn", &batch).await;
    let counts = "Recorded=4 AlreadyRecorded=1 Skipped=1 Quarantined=2 FailedMalformed=1";
    assert_counts(&stack, "stream-fn", counts);
    // Versions from the stream have a lag of seconds at most, and all versions have a size.
    let lag = sum(&stack, "stream-fn", "HistoryLag");
    assert!(lag > 0.0 && lag < 120_000.0 * recorded, "{lag}");
    assert!(sum(&stack, "stream-fn", "BatchSize") > recorded + 4.0);
}

#[tokio::test]
async fn no_namespace_no_metrics() {
    let stack = start_with(template(&[("MetricsNamespace", ""), ("LogLevel", "INFO")])).await;
    invoke(&stack, "writer-fn", &json!({"ID": "E", "A": 1})).await;
    settled(&stack).await;
    let lines = ["writer-fn", "stream-fn"]
        .map(|function| logged(&stack, function))
        .concat();
    assert!(!lines.is_empty() && lines.iter().all(|line| line.get("_aws").is_none()));
}

#[tokio::test]
async fn a_success_writes_no_line_but_that_of_its_metrics() {
    let stack = start_with(template(&[])).await;
    invoke(&stack, "writer-fn", &json!({"ID": "E", "A": 1})).await;
    let batch = json!({"Records": [message("m-1", &json!({"ID": "F", "A": 1}))]});
    invoke(&stack, "writer-fn", &batch).await;
    let is_recorded = async || (sum(&stack, "stream-fn", "Recorded") >= 2.0).then_some(());
    eventually("metrics of the versions", is_recorded).await;
    for function in ["writer-fn", "stream-fn"] {
        let lines = logged(&stack, function);
        assert!(lines.iter().all(|line| line.get("_aws").is_some()), "{lines:?}");
    }
}

#[tokio::test]
async fn one_id_connects_the_message_and_the_version() {
    const ID: &str = "0c2ad5cf-6a0e-4f5e-8e05-4a4c3e0f1b77";
    let stack = start_with(template(&[("LogLevel", "INFO")])).await;
    let batch = json!({"Records": [message(ID, &json!({"ID": "E", "A": 1}))]});
    invoke(&stack, "writer-fn", &batch).await;
    settled(&stack).await;
    let find = async |function: &str, member: &'static str| {
        logged(&stack, function).into_iter().find(|line| {
            let ids = line[member].as_str().unwrap_or_default();
            ids.split(' ').any(|id| id == ID)
        })
    };
    let update = eventually("the line of the update", async || find("writer-fn", "request").await).await;
    assert_eq!((&update["message_id"], &update["version"]), (&json!(ID), &json!(1)));
    // Each line has the ids of its invocation and its trace.
    assert!(update["span"]["xrayTraceId"].as_str().unwrap().starts_with("Root=1-"));
    let batch = eventually("the line of the batch", async || find("stream-fn", "requests").await).await;
    assert_eq!(batch["message"], "batch");
    assert_eq!(item(&stack, "E", "v1").await["RequestId"], json!({"S": ID}));
    // At the level ERROR, only the span of the invocation is present.
    let stack = start_with(template(&[("LogLevel", "WARN")])).await;
    let refused = json!({"ID": "E", "RequestId": "of my own", "ExpectedVersion": 7});
    invoke(&stack, "writer-fn", &refused).await;
    let mut lines = logged(&stack, "writer-fn").into_iter();
    let refused = lines.find(|line| line["message"] == "update").unwrap();
    let length = |text: &Value| text.as_str().map(str::len);
    let lengths = (length(&refused["request"]), length(&refused["span"]["requestId"]));
    assert_eq!(lengths, (Some(11), Some(36)), "{refused}");
}

#[tokio::test]
async fn debug_lines_report_each_request() {
    let stack = start_with(template(&[("LogLevel", "DEBUG")])).await;
    let requests = async |function: &'static str, operation: &'static str, error: Value| {
        let is_it =
            |line: &Value| line["message"] == "request" && line["operation"] == operation && line["error"] == error;
        eventually("the line of a request", async || {
            logged(&stack, function).into_iter().rfind(is_it)
        })
        .await
    };
    invoke(&stack, "writer-fn", &json!({"ID": "E", "A": 1})).await;
    settled(&stack).await;
    for (function, operation) in [("writer-fn", "UpdateItem"), ("stream-fn", "PutItem")] {
        let line = requests(function, operation, Value::Null).await;
        let numbers = (line["attempts"].as_u64(), line["capacity"].as_f64());
        assert_eq!(numbers, (Some(1), Some(1.0)), "{line}");
        assert!(
            line["span"]["requestId"].is_string() && line["micros"].is_u64(),
            "{line}"
        );
    }
    invoke(&stack, "writer-fn", &json!({"ID": "E", "ExpectedVersion": 7})).await;
    let failed = requests("writer-fn", "UpdateItem", json!("ConditionalCheckFailedException")).await;
    assert_eq!((&failed["attempts"], &failed["capacity"]), (&json!(1), &Value::Null));
}

#[tokio::test]
async fn the_lines_of_a_large_batch_name_each_request_once() {
    const RECORDS: usize = 300;
    let stack = start_with(template(&[("LogLevel", "INFO")])).await;
    let request = |index: usize| format!("0c2ad5cf-6a0e-4f5e-8e05-{index:012}");
    let record = |index: usize| {
        let mut image = first(&format!("E{index}"));
        image["RequestId"] = json!({"S": request(index)});
        insert(&index.to_string(), &image)
    };
    let batch = json!({"Records": (0..RECORDS).map(record).collect::<Vec<_>>()});
    assert_eq!(invoke(&stack, "stream-fn", &batch).await, failed(&[]));
    let lines = logged(&stack, "stream-fn");
    let mut named: BTreeMap<String, usize> = BTreeMap::new();
    for id in lines
        .iter()
        .filter_map(|line| line["requests"].as_str())
        .flat_map(|requests| requests.split(' '))
    {
        *named.entry(id.to_owned()).or_default() += 1;
    }
    assert_eq!(named, (0..RECORDS).map(|index| (request(index), 1)).collect());
    let batches: Vec<_> = lines.iter().filter(|line| line["message"] == "batch").collect();
    assert_eq!((batches.len(), &batches[0]["recorded"]), (1, &json!(RECORDS)));
}
