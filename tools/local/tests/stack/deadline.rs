//! The functions respond before Lambda ends the invocation, although DynamoDB accepts each connection and does not respond.

use std::{
    io::{Read as _, Write as _},
    time::Duration,
};

use futures::future::join_all;
use local::lambda::{Host, Lambda};
use serde_json::{Value, json};
use testkit::http;

use crate::support::{PROGRAM, first, function, host, insert, message, silent_endpoint};

const TIMEOUT: Duration = Duration::from_secs(3);

/// Serves both functions with this endpoint of DynamoDB.
fn functions(dynamodb: String, logs: &std::path::Path) -> Lambda {
    let host = Host {
        concurrency: 4,
        ..host(PROGRAM, &[local::function::ARGUMENT], dynamodb, logs)
    };
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let functions = ["writer-fn", "stream-fn"].map(|binary| function(binary, TIMEOUT));
    Lambda::serve(listener, &functions, &host).unwrap()
}

/// Messages of a queue; `entities` is the number of their entities.
fn messages(count: usize, entities: usize) -> Value {
    let message = |number: usize| message(&number.to_string(), &json!({"ID": format!("E{}", number % entities)}));
    json!({"Records": (0..count).map(message).collect::<Vec<_>>()})
}

fn records(count: usize) -> Value {
    let record = |number: usize| insert(&number.to_string(), &first(&number.to_string()));
    json!({"Records": (1..=count).map(record).collect::<Vec<_>>()})
}

/// Returns the number of failed messages or records: all of them, if the layout of the table was not checked in time.
async fn failures(lambda: &Lambda, function: &str, event: &Value) -> usize {
    let invoked = lambda.invoke(function, event.to_string().into_bytes()).await.unwrap();
    let response: Value = serde_json::from_slice(&invoked.payload).unwrap();
    match (response["batchItemFailures"].as_array(), response["errorType"].as_str()) {
        (Some(failures), _) => failures.len(),
        (None, Some("Internal" | "Layout")) => event["Records"].as_array().unwrap().len(),
        (None, _) => panic!("{response}"),
    }
}

/// Returns an endpoint that sends one byte of each response every 50 ms.
fn trickling_endpoint() -> String {
    http::listen(|mut stream| {
        let head = "HTTP/1.1 200 OK\r\ncontent-type: application/x-amz-json-1.0\r\ncontent-length: 1000\r\n\r\n{";
        let _ = stream.read(&mut [0; 1024]);
        let mut sent = stream.write_all(head.as_bytes());
        while sent.is_ok() {
            std::thread::sleep(Duration::from_millis(50));
            sent = stream.write_all(b" ");
        }
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn a_function_responds_before_the_end_of_its_invocation() {
    let logs = tempfile::tempdir().unwrap();
    let endpoints = [silent_endpoint(), trickling_endpoint()];
    let lambdas = endpoints.map(|endpoint| functions(endpoint, logs.path()));
    let events = [
        ("writer-fn", messages(10, 1), 10),
        ("writer-fn", messages(120, 120), 120),
        ("stream-fn", records(120), 120),
    ];
    // One after the other: the time that is left must not be used up by other invocations.
    for (function, event, count) in &events {
        let invoked = lambdas.iter().map(async |lambda| {
            assert_eq!(failures(lambda, function, event).await, *count, "{function}");
        });
        join_all(invoked).await;
    }
}
