//! Documents by which a sender could end the process of writer-fn, and with it all messages of the batch: the process survives them
//! within the memory of `template.yaml`.

use serde_json::{Value, json};
use testkit::hostile::overflow;

use crate::support::{RunningStack, item, start};

/// `MemorySize` of `template.yaml`.
const MAX_MEGABYTES: u64 = 512;
/// Maximum length of the event of an invocation.
const MAX_EVENT: usize = 6_000_000;

async fn answer(stack: &RunningStack, event: String) -> Value {
    assert!(event.len() <= MAX_EVENT, "{}", event.len());
    let output = stack.lambda.invoke("writer-fn", event.into_bytes()).await.unwrap();
    serde_json::from_slice(&output.payload).unwrap()
}

fn batch(bodies: &[String]) -> String {
    let message = |(number, body): (usize, &String)| json!({"messageId": number.to_string(), "body": body});
    let messages: Vec<_> = bodies.iter().enumerate().map(message).collect();
    json!({"Records": messages}).to_string()
}

fn failed(answer: &Value) -> Vec<&str> {
    let failures = answer["batchItemFailures"].as_array().unwrap().iter();
    failures
        .map(|failure| failure["itemIdentifier"].as_str().unwrap())
        .collect()
}

fn update(id: &str, list: &str) -> String {
    format!(r#"{{"ID":"{id}","A":[{list}]}}"#)
}

/// Returns lists of this element, as many as fit into the length.
fn repeated(element: &str, length: usize) -> String {
    vec![element; length / (element.len() + 1)].join(",")
}

/// Returns the only process of the function: none has ended.
fn process(stack: &RunningStack) -> u32 {
    let processes = stack.lambda.processes("writer-fn");
    assert_eq!(processes.len(), 1);
    processes[0].pid
}

#[tokio::test]
async fn a_document_that_overflows_the_stack_of_a_parser_ends_no_process() {
    let stack = start().await;
    assert_eq!(
        answer(&stack, r#"{"ID": "first"}"#.to_owned()).await["Outcome"],
        "Written"
    );
    let first = process(&stack);
    for objects in [40, 100] {
        let document = overflow(120, objects);
        let hostile = update("hostile", &document);
        let direct = answer(&stack, hostile.clone()).await;
        assert_eq!(direct["errorType"], "InvalidEvent", "{direct}");
        let mut bodies: Vec<_> = (0..9)
            .map(|number| json!({"ID": format!("E{number}"), "A": objects}).to_string())
            .collect();
        bodies.push(hostile);
        let answer = answer(&stack, batch(&bodies)).await;
        let log = || std::fs::read_to_string(stack.logs.join("writer-fn.log")).unwrap();
        assert_eq!(failed(&answer), ["9"], "{}", log());
        for number in 0..9 {
            let latest = item(&stack, &format!("E{number}"), "v0").await;
            assert_eq!(latest["A"], json!({"N": objects.to_string()}));
        }
    }
    assert_eq!(process(&stack), first);
}

/// Prints the peak memory of the process.
#[cfg(target_os = "linux")]
#[tokio::test]
#[allow(clippy::print_stdout, reason = "figures of the documentation")]
async fn documents_with_many_elements_fit_into_memory() {
    let stack = start().await;
    assert_eq!(
        answer(&stack, r#"{"ID": "first"}"#.to_owned()).await["Outcome"],
        "Written"
    );
    let first = process(&stack);
    let peak = |what: &str| {
        assert_eq!(process(&stack), first, "{what}");
        let status = std::fs::read_to_string(format!("/proc/{first}/status")).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
        let kilobytes: u64 = line.trim().trim_end_matches(" kB").parse().unwrap();
        println!("{what}: peak memory of writer-fn {} MB", kilobytes / 1024);
        assert!(kilobytes / 1024 < MAX_MEGABYTES, "{what}");
    };
    // 29 levels of maps, each of which has an allocation of its own.
    let nested = format!("{}0{}", r#"{"a":"#.repeat(29), "}".repeat(29));
    for (what, element) in [
        ("numbers", "0"),
        ("lists", "[0]"),
        ("objects", r#"{"a":0}"#),
        ("nested objects", &nested),
    ] {
        for length in [MAX_EVENT - 100, 2_000_000, 1_000_000] {
            let rejected = answer(&stack, update("E", &repeated(element, length))).await;
            assert_eq!(rejected["errorType"], "InvalidEvent", "{rejected}");
            peak(&format!("an update of {length} bytes of {what}"));
        }
        // The event has 6 MB at most, with a backslash before each quote.
        for length in [300_000, 420_000] {
            let list = repeated(element, length);
            let bodies: Vec<_> = (0..10).map(|number| update(&format!("E{number}"), &list)).collect();
            let answer = answer(&stack, batch(&bodies)).await;
            let applied = bodies.len() - failed(&answer).len();
            peak(&format!(
                "ten messages of {length} bytes of {what}, of which {applied} are applied"
            ));
        }
    }
    assert_eq!(
        answer(&stack, r#"{"ID": "last"}"#.to_owned()).await["Outcome"],
        "Written"
    );
}
