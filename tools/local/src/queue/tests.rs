//! Recordings of `tests/fixtures/queue`.

use std::{collections::BTreeSet, fs, path::Path, sync::Mutex};

use serde::Deserialize;
use serde_json::Value;

use super::{event::done_indices, mapping::invoke};
use crate::mapping::{InvocationOutcome, Invoker};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Recording {
    #[serde(rename = "source")]
    _source: String,
    report_batch_item_failures: bool,
    messages: Vec<String>,
    outcome: Outcome,
    deleted: Vec<String>,
    tries_within_the_receive: usize,
}

#[derive(Deserialize)]
enum Outcome {
    #[serde(rename = "response")]
    Response(Value),
    #[serde(rename = "function error")]
    FunctionError,
    #[serde(rename = "not invoked")]
    NotInvoked,
}

/// Responds to each invocation with the next outcome, and keeps the request ids.
struct Function {
    outcomes: Mutex<Vec<InvocationOutcome>>,
    requests: Mutex<Vec<String>>,
}

impl Function {
    fn new(outcomes: Vec<InvocationOutcome>) -> Self {
        Self {
            outcomes: Mutex::new(outcomes),
            requests: Mutex::default(),
        }
    }
}

impl Invoker for Function {
    fn request_id(&self) -> String {
        "r".to_owned()
    }

    async fn invoke(&self, request_id: &str, payload: String) -> InvocationOutcome {
        assert_eq!(payload, "{}");
        self.requests.lock().unwrap().push(request_id.to_owned());
        self.outcomes.lock().unwrap().remove(0)
    }
}

#[tokio::test(start_paused = true)]
async fn each_recording_is_replayed() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/queue");
    let mut names = BTreeSet::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let recording: Recording = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
        let outcome = match &recording.outcome {
            Outcome::Response(response) => InvocationOutcome::Response(response.to_string().into_bytes()),
            Outcome::FunctionError => InvocationOutcome::FunctionError,
            Outcome::NotInvoked => InvocationOutcome::NotInvoked,
        };
        let function = Function::new(vec![outcome; 10]);
        let outcome = invoke(&function, "{}").await;
        let ids: Vec<_> = recording.messages.iter().map(String::as_str).collect();
        let done = done_indices(&ids, &outcome, recording.report_batch_item_failures);
        let deleted: Vec<_> = done.into_iter().map(|index| ids[index]).collect();
        assert_eq!(deleted, recording.deleted, "{}", path.display());
        let tries = function.requests.lock().unwrap().len();
        assert_eq!(tries, recording.tries_within_the_receive, "{}", path.display());
        names.insert(path.file_stem().unwrap().to_string_lossy().into_owned());
    }
    let expected = [
        "empty_id",
        "missing_id",
        "number_id",
        "partial",
        "raise",
        "throttle",
        "unknown_id",
        "wrong_list",
    ];
    assert_eq!(names, expected.map(str::to_owned).into());
}

#[tokio::test(start_paused = true)]
async fn a_throttled_batch_is_tried_again_within_the_same_receive() {
    let throttled = |times| vec![InvocationOutcome::NotInvoked; times];
    let response = || InvocationOutcome::Response(b"{}".to_vec());
    for (outcomes, expected, tries) in [
        (vec![response()], response(), 1),
        ([throttled(3), vec![response()]].concat(), response(), 4),
        // Only a throttle is tried again.
        (
            [throttled(1), vec![InvocationOutcome::FunctionError]].concat(),
            InvocationOutcome::FunctionError,
            2,
        ),
    ] {
        let function = Function::new(outcomes);
        assert_eq!(invoke(&function, "{}").await, expected);
        assert_eq!(*function.requests.lock().unwrap(), vec!["r"; tries]);
    }
}
