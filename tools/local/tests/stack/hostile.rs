//! Events that are no JSON, or not what they seem, through the real Runtime API, and documents of many elements: the process of writer-fn
//! survives them within the memory of `template.yaml`.

use serde_json::{Value, json};
use testkit::endpoint::is_skipped;

use crate::support::{RunningStack, eventually, failed, item, log, start};

/// `MemorySize` of `template.yaml`.
const MAX_MEGABYTES: u64 = 512;
/// Maximum length of the event of an invocation.
const MAX_EVENT: usize = 6_000_000;

/// Passes a body to a function directly: the Invoke API accepts JSON only.
async fn raw(stack: &RunningStack, function: &str, body: &[u8]) -> Value {
    assert!(body.len() <= MAX_EVENT, "{}", body.len());
    let output = stack.lambda.invoke(function, body.to_owned()).await.unwrap();
    serde_json::from_slice(&output.payload).unwrap()
}

async fn answer(stack: &RunningStack, event: String) -> Value {
    raw(stack, "writer-fn", event.as_bytes()).await
}

fn batch(bodies: &[String]) -> String {
    let message = |(number, body): (usize, &String)| json!({"messageId": number.to_string(), "body": body});
    let messages: Vec<_> = bodies.iter().enumerate().map(message).collect();
    json!({"Records": messages}).to_string()
}

fn update(id: &str, list: &str) -> String {
    format!(r#"{{"ID":"{id}","A":[{list}]}}"#)
}

/// Returns lists of this element, as many as fit into the length.
fn repeated(element: &str, length: usize) -> String {
    vec![element; length / (element.len() + 1)].join(",")
}

/// Starts a process with a first invocation, and returns it.
async fn first_process(stack: &RunningStack) -> u32 {
    let written = answer(stack, r#"{"ID": "first"}"#.to_owned()).await;
    assert_eq!(written["Outcome"], "Written");
    process(stack)
}

/// Returns the only process of the function: none has ended.
fn process(stack: &RunningStack) -> u32 {
    let processes = stack.lambda.processes("writer-fn");
    assert_eq!(processes.len(), 1);
    processes[0].pid
}

/// Prints the peak memory of the process.
#[cfg(target_os = "linux")]
#[tokio::test]
#[allow(clippy::print_stdout, reason = "figures of the documentation")]
async fn documents_with_many_elements_fit_into_memory() {
    if is_skipped("an invocation that waits for a slow database for 30 s ends its process") {
        return;
    }
    let stack = start().await;
    let first = first_process(&stack).await;
    let peak = |what: &str| {
        assert_eq!(process(&stack), first, "{what}");
        let status = std::fs::read_to_string(format!("/proc/{first}/status")).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
        let kilobytes: u64 = line.trim().trim_end_matches(" kB").parse().unwrap();
        println!("{what}: peak memory of writer-fn {} MB", kilobytes / 1024);
        assert!(kilobytes / 1024 < MAX_MEGABYTES, "{what}");
    };
    // With a backslash before each quote, a batch has up to 6 MB. Shorter lists of numbers can be stored.
    for (what, element, length) in [("numbers", "0", 300_000), ("objects", r#"{"a":0}"#, 420_000)] {
        let rejected = answer(&stack, update("E", &repeated(element, MAX_EVENT - 100))).await;
        assert_eq!(rejected["errorType"], "InvalidEvent", "{rejected}");
        peak(&format!("an update of {MAX_EVENT} bytes of {what}"));
        let list = repeated(element, length);
        let bodies: Vec<_> = (0..10)
            .map(|number| update(&format!("{what}#{number}"), &list))
            .collect();
        answer(&stack, batch(&bodies)).await;
        peak(&format!("ten messages of {length} bytes of {what}"));
    }
    // It still works.
    eventually("an update", async || {
        let written = answer(&stack, r#"{"ID": "last"}"#.to_owned()).await;
        written["errorType"].is_null().then_some(())
    })
    .await;
    peak("all of them");
}

fn deep(before: &str, after: &str) -> Vec<u8> {
    format!("{before}{}{}{after}", "[".repeat(10_000), "]".repeat(10_000)).into_bytes()
}

#[tokio::test]
async fn a_body_that_is_no_event_is_an_invalid_event() {
    let (stack, deep_list) = (start().await, deep("", ""));
    let bodies = [
        &b"{\"ID\": \"Se9cret\xff\"}"[..],
        b"{\"Records\": [\"Se9cret\xc3\x28\"]}",
        b"{\"Records\": [{\"body\": \"\xed\xa0\x80\"}]}",
        b"\xff\xfe{\0}\0",
        b"\xef\xbb\xbf{\"ID\": \"Se9cret\"}",
        b"",
        b" \n",
        b"{\"ID\": \"a\0b\"}",
        b"{\"ID\": \"Se9cret",
        b"[]",
        b"\"Se9cret\"",
        b"null",
        b"{}",
        b"{\"Records\": \"Se9cret\"}",
        &deep_list,
    ];
    for function in ["writer-fn", "stream-fn"] {
        for body in bodies {
            let answer = raw(&stack, function, body).await;
            let body = body.escape_ascii();
            assert_eq!(answer["errorType"], "InvalidEvent", "{function} {body}: {answer}");
            assert!(!answer.to_string().contains("Se9cret"), "{function} {body}: {answer}");
        }
        // The process is still the first one: none of the events ended it.
        assert_eq!(stack.lambda.processes(function).len(), 1);
        let log = log(&stack, function).concat();
        assert!(!log.contains("panicked") && !log.contains("Se9cret"), "{log}");
    }
    let writer = async |body: &[u8]| raw(&stack, "writer-fn", body).await;
    let nested = writer(&deep(r#"{"ID": "E", "A": "#, "}")).await;
    assert_eq!(nested["errorType"], "InvalidEvent");
    // The last member counts.
    let written = writer(br#"{"ID": "F", "ID": "E", "A": 1, "A": 2}"#).await;
    assert_eq!(written["Outcome"], "Written");
    assert_eq!(item(&stack, "E", "v0").await["A"], json!({"N": "2"}));
    assert_eq!(writer(br#"{"Records": [7], "Records": []}"#).await, failed(&[]));
    let stream = async |body: &[u8]| raw(&stack, "stream-fn", body).await;
    assert_eq!(stream(br#"{"Records": 7, "Records": []}"#).await, failed(&[]));
    // A record without a sequence number cannot be named.
    assert_eq!(stream(&deep("{\"Records\": [", "]}")).await["errorType"], "Malformed");
}
