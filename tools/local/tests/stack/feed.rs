//! The feed while functions are killed.

use std::{
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::{TcpListener, TcpStream},
    process::Stdio,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicU32, Ordering},
    },
    thread,
};

use futures::stream;
use local::{dynamodb::endpoint::Dynamodb, feed, lambda::Lambda, stack::Stack};
use testkit::{
    endpoint::{Endpoint, is_skipped},
    stack::options,
};

use crate::{
    command::executable,
    serving::{command, fails, succeeds},
    support::{PROGRAM, settled, template, versions},
};

/// Reason to skip a test on another DynamoDB.
const COMMAND: &str = "the command embeds a DynamoDB";
const SAMPLE: &str = include_str!("../../sample.jsonl");
/// A line is sent up to three times, and each kill fails a line at most once.
const KILLS: u32 = 2;

/// A TCP proxy of a DynamoDB that kills all functions after the database has applied an update, and before they receive the response.
fn killing_proxy(server: String, lambda: Arc<OnceLock<Lambda>>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let endpoint = format!("http://{}", listener.local_addr().unwrap());
    let kills = Arc::new(AtomicU32::new(0));
    thread::spawn(move || {
        for client in listener.incoming().map(Result::unwrap) {
            let server = TcpStream::connect(&server).unwrap();
            let (lambda, kills) = (lambda.clone(), kills.clone());
            thread::spawn(move || forward(client, server, &lambda, &kills));
        }
    });
    endpoint
}

/// Requests of a connection follow each other: a request is complete when the server sends its response.
fn forward(mut client: TcpStream, mut server: TcpStream, lambda: &OnceLock<Lambda>, kills: &AtomicU32) -> Option<()> {
    loop {
        let request = message(&mut client)?;
        server.write_all(&request).ok()?;
        let response = message(&mut server)?;
        // An update whose condition fails has another status.
        let text = String::from_utf8_lossy(&request);
        let is_update = text.contains("DynamoDB_20120810.UpdateItem") && text.contains("RecentRequests");
        let is_applied = is_update && response.starts_with(b"HTTP/1.1 200 ");
        if is_applied && kills.fetch_add(1, Ordering::Relaxed) < KILLS {
            lambda.get().unwrap().kill_all();
            // The kernel closes the connection when it has ended the process.
            while message(&mut client).is_some() {}
            return None;
        }
        client.write_all(&response).ok()?;
    }
}

/// Reads a request or a response, or returns `None` at the end of the connection.
fn message(stream: &mut TcpStream) -> Option<Vec<u8>> {
    let mut reader = BufReader::new(stream);
    let (mut head, mut length) = (Vec::new(), 0);
    while !head.ends_with(b"\r\n\r\n") {
        let start = head.len();
        reader.read_until(b'\n', &mut head).ok().filter(|read| *read > 0)?;
        let line = String::from_utf8_lossy(&head[start..]).to_lowercase();
        let given = line.strip_prefix("content-length: ");
        length = given.map_or(length, |given| given.trim().parse().unwrap());
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    Some([head, body].concat())
}

#[tokio::test(flavor = "multi_thread")]
async fn an_update_whose_function_was_killed_is_sent_again_and_counts_once() {
    let name = "an_update_whose_function_was_killed_is_sent_again_and_counts_once";
    if is_skipped(name, "the proxy needs an endpoint without TLS") {
        return;
    }
    let endpoint = Endpoint::open().await;
    let lambda = Arc::new(OnceLock::new());
    let server = endpoint.url().strip_prefix("http://").unwrap().to_owned();
    let proxy = killing_proxy(server, lambda.clone());
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

/// Returns a bootstrap of writer-fn whose first processes end when they have received an invocation.
fn dying(folder: &std::path::Path, deaths: usize) -> String {
    let script = format!(
        r#"#!/usr/bin/env bash
for death in $(seq {deaths}); do
    if mkdir '{folder}'/death-$death 2>/dev/null; then
        exec 3<>"/dev/tcp/${{AWS_LAMBDA_RUNTIME_API/://}}"
        printf 'GET /2018-06-01/runtime/invocation/next HTTP/1.1\r\nHost: localhost\r\n\r\n' >&3
        read -r _ <&3
        kill -9 $$
    fi
done
exec '{PROGRAM}' __function writer-fn
"#,
        folder = folder.display()
    );
    let bootstrap = executable(folder, "bootstrap", &script);
    format!("writer-fn={bootstrap}")
}

#[test]
fn a_process_that_is_killed_does_not_end_the_command() {
    if is_skipped("a_process_that_is_killed_does_not_end_the_command", COMMAND) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let dump = folder.path().join("dump").to_string_lossy().into_owned();
    // Each of the three entities is sent at most twice in vain.
    let stdout = succeeds(&["--once", "--bootstrap", &dying(folder.path(), 2), "--dump", &dump]);
    let versions = versions(&std::fs::read_to_string(&dump).unwrap());
    let expected = [("Conveyor#7", 2), ("Press#12", 4), ("Robot#3", 2)];
    assert_eq!(
        versions,
        expected.map(|(entity, count)| (entity.to_owned(), count)).into()
    );
    // An update counts once, with its last attempt.
    let summary = "summary updates=8 refused=0 versions=8 ";
    assert!(stdout.contains(summary), "{stdout}");
}

#[test]
fn a_function_that_always_dies_ends_the_feed_and_not_the_stack() {
    if is_skipped("a_function_that_always_dies_ends_the_feed_and_not_the_stack", COMMAND) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let dying = dying(folder.path(), 1000);
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
