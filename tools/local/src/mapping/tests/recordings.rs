//! Replays each recorded scenario of `tests/fixtures/mapping`.

use std::{fs, path::Path, time::Duration};

use serde::Deserialize;
use serde_json::Value;

use crate::mapping::replay::{Replay, Scenario, replay};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Recording {
    #[serde(rename = "source")]
    _source: String,
    scenario: Value,
    expected: Value,
    last_processing_result: String,
    /// `functionError` of the document. Absent: not compared.
    #[serde(default, deserialize_with = "some")]
    function_error: Option<Value>,
    /// `false` if the document has none.
    response_context: Option<bool>,
    /// Time of each invocation, in seconds.
    seconds: Option<Vec<f64>>,
    /// Range of the wait before each retry, in seconds.
    seconds_before_retries: Option<Vec<(f64, f64)>>,
    milliseconds_from_next_part_to_document: Option<(u64, u64)>,
    payload_starts_with: Option<String>,
    payload_contains: Option<String>,
}

/// Distinguishes `null` from a missing member.
fn some<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(deserializer).map(Some)
}

fn check(name: &str, recording: &Recording, replayed: &Replay) {
    assert_eq!(serde_json::to_value(replayed).unwrap(), recording.expected, "{name}");
    assert_eq!(replayed.result.to_string(), recording.last_processing_result, "{name}");
    let times: Vec<_> = replayed.invocations.iter().map(|invocation| invocation.at).collect();
    if let Some(seconds) = &recording.seconds {
        let seconds: Vec<_> = seconds
            .iter()
            .map(|seconds| Duration::from_secs_f64(*seconds))
            .collect();
        assert_eq!(times, seconds, "{name}");
    }
    if let Some(ranges) = &recording.seconds_before_retries {
        assert_eq!(times.len(), ranges.len() + 1, "{name}");
        for (pair, (least, most)) in times.windows(2).zip(ranges) {
            let wait = pair[1].saturating_sub(pair[0]).as_secs_f64();
            assert!((*least..=*most).contains(&wait), "{name}: {wait}");
        }
    }
    let document = replayed.documents.first();
    if let Some((least, most)) = recording.milliseconds_from_next_part_to_document {
        let next = document.unwrap().at.saturating_sub(*times.last().unwrap()).as_millis();
        assert!((u128::from(least)..=u128::from(most)).contains(&next), "{name}: {next}");
    }
    if let Some(error) = &recording.function_error {
        assert_eq!(
            &document.unwrap().body["responseContext"]["functionError"],
            error,
            "{name}"
        );
    }
    if let Some(expected) = recording.response_context {
        let has_context = document.unwrap().body.get("responseContext").is_some();
        assert_eq!(has_context, expected, "{name}");
    }
    let payload = document.and_then(|document| document.body["payload"].as_str());
    if let Some(start) = &recording.payload_starts_with {
        assert!(payload.unwrap().starts_with(start), "{name}");
    }
    if let Some(part) = &recording.payload_contains {
        assert!(payload.unwrap().contains(part), "{name}: {payload:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn each_recording_is_replayed() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/mapping");
    let mut names = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_stem().unwrap().to_string_lossy().into_owned();
        let recording: Recording = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
        let scenario = Scenario::parse(&recording.scenario.to_string()).unwrap();
        let replayed = replay(&scenario).await.unwrap();
        check(&name, &recording, &replayed);
        names.push(name);
    }
    names.sort();
    let expected = [
        "batch_size",
        "denied",
        "filter",
        "invalid_partial",
        "last_of_six_fails",
        "latest",
        "maximum_age",
        "oversized",
        "partial_bisect",
        "partial_enabled",
        "raise_bisect",
        "raise_retry",
        "s3_failure",
        "trim_horizon",
    ];
    assert_eq!(names, expected);
}
