//! The feed while functions are killed.

use std::{
    io::{BufRead as _, BufReader, Write as _},
    process::Stdio,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicU32, Ordering},
    },
};

use futures::stream;
use local::{dynamodb::endpoint::Dynamodb, feed, lambda::Lambda, stack::Stack};
use testkit::{
    endpoint::{Endpoint, is_skipped},
    http::{self, Message},
    stack::options,
};

use crate::{
    command::executable,
    serving::{command, fails},
    support::{PROGRAM, settled, template},
};

const SAMPLE: &str = include_str!("../../sample.jsonl");
/// A line is sent up to three times, and each kill fails a line at most once.
const KILLS: u32 = 2;

/// A proxy of a DynamoDB that kills all functions after the database has applied an update, and before they receive the response.
fn killing_proxy(server: String, lambda: Arc<OnceLock<Lambda>>) -> String {
    let kills = AtomicU32::new(0);
    http::listen(move |stream| {
        let mut client = BufReader::new(stream);
        let mut server = BufReader::new(http::connect(&server).unwrap());
        while let Some(request) = Message::read(&mut client) {
            server.get_mut().write_all(&request.bytes()).unwrap();
            let Some(response) = Message::read(&mut server) else {
                return;
            };
            let text = request.head + &String::from_utf8_lossy(&request.body);
            let is_update = text.contains("DynamoDB_20120810.UpdateItem") && text.contains("RecentRequests");
            // An update whose condition fails has another status.
            let is_applied = is_update && response.head.starts_with("HTTP/1.1 200 ");
            if is_applied && kills.fetch_add(1, Ordering::Relaxed) < KILLS {
                lambda.get().unwrap().kill_all();
                // The kernel closes the connection when it has ended the process.
                while Message::read(&mut client).is_some() {}
                return;
            }
            let _ = client.get_mut().write_all(&response.bytes());
        }
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn an_update_whose_function_was_killed_is_sent_again_and_counts_once() {
    let name = "an_update_whose_function_was_killed_is_sent_again_and_counts_once";
    if is_skipped(name, "the proxy needs an endpoint without TLS") {
        return;
    }
    let endpoint = Endpoint::open().await;
    let lambda = Arc::new(OnceLock::new());
    let proxy = killing_proxy(endpoint.url(), lambda.clone());
    let options = options(template(&[]), Some(PROGRAM));
    let stack = Stack::start_on(options, Some(Dynamodb::At(proxy))).await.unwrap();
    assert!(lambda.set(stack.lambda.clone()).is_ok());
    let lines: Vec<_> = feed::read(SAMPLE.as_bytes()).collect();
    let sent = lines.len();
    let summary = feed::send(&stack.lambda, stream::iter(lines)).await.unwrap();
    // Updates that were applied before the kill are duplicates.
    assert!(summary.conflicts.is_empty(), "{summary:?}");
    assert!(summary.outcomes.contains_key("Duplicate"), "{summary:?}");
    assert_eq!(summary.outcomes.values().sum::<usize>(), sent, "{summary:?}");
    let table = settled(&stack).await;
    let count = |entity: &str| table[entity].items().iter().filter(|(key, _)| *key != "v0").count();
    assert_eq!([count("Press#12"), count("Conveyor#7"), count("Robot#3")], [4, 2, 2]);
}

/// Returns a bootstrap of writer-fn whose processes leave a folder, and end when they have received an invocation.
fn dying(folder: &std::path::Path) -> String {
    let script = format!(
        r#"#!/usr/bin/env bash
# A bootstrap gets no arguments.
[ $# = 0 ] && mktemp -d '{}'/death-XXXXXX >/dev/null
exec 3<>"/dev/tcp/${{AWS_LAMBDA_RUNTIME_API/://}}"
printf 'GET /2018-06-01/runtime/invocation/next HTTP/1.1\r\nHost: localhost\r\n\r\n' >&3
read -r _ <&3
kill -9 $$
"#,
        folder.display()
    );
    format!("writer-fn={}", executable(folder, "bootstrap", &script))
}

#[test]
fn a_function_that_always_dies_ends_the_feed_and_not_the_stack() {
    let name = "a_function_that_always_dies_ends_the_feed_and_not_the_stack";
    if is_skipped(name, "the command embeds a DynamoDB") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let dying = dying(folder.path());
    let stderr = fails(&["--once", "--bootstrap", &dying]);
    let error = "of the feed could not be written: Runtime.ExitError: RequestId: ";
    assert!(stderr.contains(error), "{stderr}");
    let deaths = || std::fs::read_dir(folder.path()).unwrap().count();
    // Three attempts of each of at most three entities.
    assert!((3..=9).contains(&(deaths() - 1)), "{}", deaths());

    let errors = folder.path().join("errors");
    let mut child = command(&["--bootstrap", &dying])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(std::fs::File::create(&errors).unwrap())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let serves = lines.any(|line| line.unwrap().starts_with("Serving until"));
    assert!(child.try_wait().unwrap().is_none(), "the command still runs");
    child.kill().unwrap();
    child.wait().unwrap();
    let printed = std::fs::read_to_string(&errors).unwrap();
    assert!(serves && printed.contains(error), "{printed}");
    assert!(printed.contains("; the rest of the feed is not sent"), "{printed}");
}
