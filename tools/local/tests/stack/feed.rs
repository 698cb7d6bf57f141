//! The feed while functions die.

use std::{collections::BTreeMap, process::Stdio};

use testkit::endpoint::is_skipped;

use crate::{
    command::executable,
    serving::{fails, serve_with},
};

/// Returns a bootstrap of writer-fn whose processes add the request id of an invocation to the file `deaths`, and end.
fn dying(folder: &std::path::Path) -> String {
    let script = format!(
        r#"#!/usr/bin/env bash
exec 3<>"/dev/tcp/${{AWS_LAMBDA_RUNTIME_API/://}}"
printf 'GET /2018-06-01/runtime/invocation/next HTTP/1.1\r\nHost: localhost\r\n\r\n' >&3
# A bootstrap gets no arguments.
[ $# = 0 ] && grep -im1 '^lambda-runtime-aws-request-id' <&3 >>'{}/deaths'
kill -9 $$
"#,
        folder.display()
    );
    format!("writer-fn={}", executable(folder, "bootstrap", &script))
}

#[test]
fn a_function_that_always_dies_ends_the_feed_and_not_the_stack() {
    if is_skipped("the command embeds a DynamoDB") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let dying = dying(folder.path());
    let stderr = fails(&["--once", "--bootstrap", &dying]);
    let error = "of the feed could not be written: Runtime.ExitError: RequestId: ";
    assert!(stderr.contains(error), "{stderr}");
    // Three attempts of each of at most three entities, with one request id each: an update that was applied before is a duplicate.
    let mut deaths = BTreeMap::new();
    for id in std::fs::read_to_string(folder.path().join("deaths")).unwrap().lines() {
        *deaths.entry(id.to_owned()).or_insert(0) += 1;
    }
    assert!(
        deaths.len() <= 3 && deaths.values().all(|attempts| *attempts <= 3),
        "{deaths:?}"
    );
    assert!(deaths.values().any(|attempts| *attempts == 3), "{deaths:?}");

    let errors = folder.path().join("errors");
    let stderr = std::fs::File::create(&errors).unwrap();
    let mut stack = serve_with(&["--bootstrap", &dying], Stdio::null(), stderr.into());
    stack.until(|line| line.starts_with("Serving until"));
    assert!(stack.child.try_wait().unwrap().is_none(), "the command still runs");
    let printed = std::fs::read_to_string(&errors).unwrap();
    assert!(printed.contains(error), "{printed}");
    assert!(printed.contains("; the rest of the feed is not sent"), "{printed}");
}
