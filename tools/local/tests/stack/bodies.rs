//! Events that are not JSON, or not what they seem: the functions reject them themselves, through the real Runtime API. The
//! Invoke API does not pass such events, so they are passed to the function directly.

use serde_json::{Value, json};

use crate::support::{RunningStack, item, start};

async fn answer(stack: &RunningStack, function: &str, body: &[u8]) -> Value {
    let output = stack.lambda.invoke(function, body.to_owned()).await.unwrap();
    serde_json::from_slice(&output.payload).unwrap()
}

fn deep(before: &str, after: &str) -> Vec<u8> {
    format!("{before}{}{}{after}", "[".repeat(10_000), "]".repeat(10_000)).into_bytes()
}

#[tokio::test]
async fn a_body_that_is_no_event_is_an_invalid_event() {
    let stack = start().await;
    let bodies = [
        b"{\"ID\": \"Se9cret\xff\"}".to_vec(),
        b"{\"Records\": [\"Se9cret\xc3\x28\"]}".to_vec(),
        b"{\"Records\": [{\"body\": \"\xed\xa0\x80\"}]}".to_vec(),
        b"\xff\xfe{\0}\0".to_vec(),
        b"\xff".to_vec(),
        b"\xef\xbb\xbf{\"ID\": \"Se9cret\"}".to_vec(),
        b"".to_vec(),
        b" \n".to_vec(),
        b"\0".to_vec(),
        b"{\"ID\": \"a\0b\"}".to_vec(),
        b"{\"ID\": \"Se9cret".to_vec(),
        b"Se9cret".to_vec(),
        b"[]".to_vec(),
        b"[[[]]]".to_vec(),
        b"\"Se9cret\"".to_vec(),
        b"null".to_vec(),
        b"{}".to_vec(),
        b"{\"Records\": \"Se9cret\"}".to_vec(),
        deep("", ""),
    ];
    for function in ["writer-fn", "stream-fn"] {
        for body in &bodies {
            let answer = answer(&stack, function, body).await;
            let body = body.escape_ascii();
            assert_eq!(answer["errorType"], "InvalidEvent", "{function} {body}: {answer}");
            assert!(!answer.to_string().contains("Se9cret"), "{function} {body}: {answer}");
        }
        // The process is still the first one: none of the events ended it.
        assert_eq!(stack.lambda.processes(function).len(), 1);
        let log = std::fs::read_to_string(stack.logs.join(format!("{function}.log"))).unwrap();
        assert!(!log.contains("panicked") && !log.contains("Se9cret"), "{log}");
    }
    let writer = async |body: &[u8]| answer(&stack, "writer-fn", body).await;
    assert_eq!(
        writer(&deep("{\"ID\": \"E\", \"A\": ", "}")).await["errorType"],
        "InvalidEvent"
    );
    assert_eq!(
        writer(b"{\"ID\": \"F\", \"ID\": \"E\", \"A\": 1, \"A\": 2}").await["Outcome"],
        "Written"
    );
    assert_eq!(
        item(&stack, "E", "v0").await["A"],
        json!({"N": "2"}),
        "the last member counts"
    );
    assert_eq!(
        writer(b"{\"Records\": [7], \"Records\": []}").await,
        json!({"batchItemFailures": []})
    );
    let stream = async |body: &[u8]| answer(&stack, "stream-fn", body).await;
    assert_eq!(
        stream(b"{\"Records\": 7, \"Records\": []}").await,
        json!({"batchItemFailures": []})
    );
    // A record without a sequence number cannot be named.
    assert_eq!(stream(&deep("{\"Records\": [", "]}")).await["errorType"], "Malformed");
}
