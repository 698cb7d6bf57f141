//! What Lambda's event source mappings did on AWS, and what the ADR decides, in `tests/fixtures/mapping`. This mapping does the same.

use std::{fs, path::Path};

use jiff::Timestamp;
use serde::Deserialize;
use serde_json::Value;

use super::*;
use crate::template;

/// Observations of a scenario. A member is absent if it was not recorded.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Recording {
    #[serde(rename = "source")]
    _source: String,
    scenario: Scenario,
    /// Invocations, failure documents and number of dropped records. Records are indices, and requests letters by first use.
    expected: Value,
    last_processing_result: String,
    /// `functionError` of the document.
    #[serde(default, deserialize_with = "some")]
    function_error: Option<Value>,
    /// `false` if the document has no context of a response.
    response_context: Option<bool>,
    /// Time of each invocation, in seconds.
    seconds: Option<Vec<f64>>,
    /// Range of the wait before each retry, in seconds.
    seconds_before_retries: Option<Vec<(f64, f64)>>,
    milliseconds_from_next_part_to_document: Option<(i64, i64)>,
    #[serde(default)]
    payload_starts_with: String,
    #[serde(default)]
    payload_contains: String,
}

#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct Scenario {
    /// Properties of the mapping, as in a template.
    #[serde(default)]
    settings: serde_json::Map<String, Value>,
    records: Vec<Given>,
    /// Behaviour of the function with a bad record: `raise`, `partial`, or `empty-identifier`.
    function: String,
    /// `s3`, `sqs`, whose documents have no records, or `denied`.
    destination: String,
    /// Seconds until the first read.
    #[serde(default)]
    startup: u64,
}

#[derive(Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Given {
    bad: bool,
    /// Age in seconds at the start.
    age: u64,
    /// Seconds until the record is put.
    at: u64,
    /// Number of bytes that the record has in addition.
    padding: usize,
}

/// Distinguishes `null` from a missing member.
fn some<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(deserializer).map(Some)
}

fn recorded((index, given): (usize, &Given)) -> Record {
    let created = (START + Duration::from_secs(given.at)).saturating_sub(Duration::from_secs(given.age));
    let json = json!({"dynamodb": {
        "ApproximateCreationDateTime": created.as_secs(),
        "Keys": {"PK": {"S": index.to_string()}},
        "NewImage": {"Bad": {"BOOL": given.bad}, "Padding": {"S": "x".repeat(given.padding)}},
        "SequenceNumber": sequence(index),
    }});
    Record::new(SequenceNumber::new(sequence(index)).unwrap(), created, json)
}

/// Returns what the function does with a batch.
fn outcome(scenario: &Scenario, reports: bool, numbers: &[String]) -> (&'static str, InvocationOutcome) {
    let is_bad = |number: &&String| scenario.records[number.parse::<usize>().unwrap()].bad;
    let bad: Vec<_> = numbers.iter().filter(is_bad).collect();
    let (name, outcome) = match scenario.function.as_str() {
        _ if bad.is_empty() => ("success", failing([])),
        "raise" => return ("function error", InvocationOutcome::FunctionError),
        "partial" => ("batch item failures", failing(bad)),
        "empty-identifier" => ("invalid response", failing([&String::new()])),
        other => panic!("{other}"),
    };
    (if reports { name } else { "success" }, outcome)
}

async fn run(scenario: &Scenario) -> (RunResult, Value) {
    let settings = Settings {
        startup: Duration::from_secs(scenario.startup),
        ..template::mapping_settings(&scenario.settings)
    };
    let reports = settings.report_batch_item_failures;
    let mut run = Run::new(settings, scenario.records.iter().enumerate().map(recorded).collect());
    run.in_time = true;
    run.is_denied = scenario.destination == "denied";
    let function = scenario.clone();
    let result = run.with(move |numbers, _| outcome(&function, reports, numbers).1).await;
    let index = |number: &String| number.parse::<usize>().unwrap();
    let indices = |numbers: &[String]| numbers.iter().map(index).collect::<Vec<_>>();
    // request-1 is a.
    let letter = |request: &str| {
        let number: u8 = request.strip_prefix("request-").unwrap().parse().unwrap();
        char::from(b'a' - 1 + number).to_string()
    };
    let batches = result.batches.iter().zip(&result.requests);
    let invocations = batches.map(|((_, numbers), request)| {
        let (outcome, _) = outcome(scenario, reports, numbers);
        json!({"records": indices(numbers), "request": letter(request), "outcome": outcome})
    });
    let documents = result.documents.iter().map(|document| {
        let numbers = numbers_of(document);
        let context = &document.body["requestContext"];
        json!({
            "records": indices(&numbers),
            "condition": context["condition"],
            "approximateInvokeCount": context["approximateInvokeCount"],
            "request": letter(context["requestId"].as_str().unwrap()),
            // A string, and not the JSON itself.
            "payload": (scenario.destination == "s3").then_some("string"),
        })
    });
    let found = json!({
        "invocations": invocations.collect::<Vec<_>>(), "documents": documents.collect::<Vec<_>>(), "dropped": result.dropped,
    });
    (result, found)
}

fn check(name: &str, recording: &Recording, result: &RunResult) {
    let text = match result.result {
        LastProcessingResult::NoRecordsProcessed => "No records processed",
        LastProcessingResult::OK => "OK",
        LastProcessingResult::FunctionCallFailed => "PROBLEM: Function call failed",
        // Only the beginning of Lambda's text is known.
        LastProcessingResult::InvalidSequenceNumber => "PROBLEM: Sequence number in function response is invalid.",
    };
    assert_eq!(text, recording.last_processing_result, "{name}");
    let times: Vec<_> = result.batches.iter().map(|(at, _)| *at).collect();
    if let Some(seconds) = &recording.seconds {
        let seconds = seconds.iter().copied().map(Duration::from_secs_f64);
        assert_eq!(times, seconds.collect::<Vec<_>>(), "{name}");
    }
    if let Some(ranges) = &recording.seconds_before_retries {
        assert_eq!(times.len(), ranges.len() + 1, "{name}");
        for (pair, (least, most)) in times.windows(2).zip(ranges) {
            let wait = pair[1].saturating_sub(pair[0]).as_secs_f64();
            assert!((*least..=*most).contains(&wait), "{name}: {wait}");
        }
    }
    let Some(document) = result.documents.first() else {
        return;
    };
    if let Some((least, most)) = recording.milliseconds_from_next_part_to_document {
        let written: Timestamp = document.body["timestamp"].as_str().unwrap().parse().unwrap();
        let next = START + *times.last().unwrap();
        let after = written.as_millisecond() - i64::try_from(next.as_millis()).unwrap();
        assert!((least..=most).contains(&after), "{name}: {after}");
    }
    if let Some(error) = &recording.function_error {
        assert_eq!(&document.body["responseContext"]["functionError"], error, "{name}");
    }
    if let Some(expected) = recording.response_context {
        assert_eq!(document.body.get("responseContext").is_some(), expected, "{name}");
    }
    let payload = document.body["payload"].as_str().unwrap();
    let has_start = payload.starts_with(&recording.payload_starts_with);
    assert!(
        has_start && payload.contains(&recording.payload_contains),
        "{name}: {payload}"
    );
}

#[tokio::test(start_paused = true)]
async fn the_mapping_does_what_lambda_did() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/mapping");
    let mut count = 0;
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_stem().unwrap().to_string_lossy().into_owned();
        let recording: Recording = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
        let (result, found) = run(&recording.scenario).await;
        assert_eq!(found, recording.expected, "{name}");
        // All records are done or given up, also those that the filter excludes.
        assert_eq!(result.position, after(recording.scenario.records.len() - 1), "{name}");
        check(&name, &recording, &result);
        count += 1;
    }
    assert_eq!(count, 18);
}
