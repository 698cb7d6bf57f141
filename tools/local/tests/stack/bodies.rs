//! Events that are not JSON, or not what they seem: the functions reject them themselves, through the real Runtime API. The
//! Invoke API does not pass such events, so they are passed to the function directly.

use serde_json::{Value, json};

use crate::support::{RunningStack, failed, item, start};

async fn answer(stack: &RunningStack, function: &str, body: &[u8]) -> Value {
    let output = stack.lambda.invoke(function, body.to_owned()).await.unwrap();
    serde_json::from_slice(&output.payload).unwrap()
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
    let nested = writer(&deep(r#"{"ID": "E", "A": "#, "}")).await;
    assert_eq!(nested["errorType"], "InvalidEvent");
    // The last member counts.
    let written = writer(br#"{"ID": "F", "ID": "E", "A": 1, "A": 2}"#).await;
    assert_eq!(written["Outcome"], "Written");
    assert_eq!(item(&stack, "E", "v0").await["A"], json!({"N": "2"}));
    assert_eq!(writer(br#"{"Records": [7], "Records": []}"#).await, failed(&[]));
    let stream = async |body: &[u8]| answer(&stack, "stream-fn", body).await;
    assert_eq!(stream(br#"{"Records": 7, "Records": []}"#).await, failed(&[]));
    // A record without a sequence number cannot be named.
    assert_eq!(stream(&deep("{\"Records\": [", "]}")).await["errorType"], "Malformed");
}
