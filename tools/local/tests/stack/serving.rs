//! Runs of the command `local`.

use std::process::{Command, Output, Stdio};

use serde_json::{Value, json};
use testkit::serving::{Serving, post};

use crate::{
    http::SIGNED,
    support::{PROGRAM, root},
};

fn command(arguments: &[&str], stdin: Stdio) -> Command {
    let mut command = Command::new(PROGRAM);
    command.current_dir(root()).args(arguments).stdin(stdin);
    command
}

/// Starts a stack that serves.
pub(crate) fn serve(arguments: &[&str]) -> Serving {
    serve_with(arguments, Stdio::null(), Stdio::null())
}

pub(crate) fn serve_with(arguments: &[&str], stdin: Stdio, stderr: Stdio) -> Serving {
    Serving::start(command(arguments, stdin).stderr(stderr))
}

pub(crate) fn run(arguments: &[&str]) -> Output {
    let ports = ["--dynamodb-port", "0", "--lambda-port", "0"];
    // Of two values of an option, clap accepts none.
    let ports = ports.chunks(2).filter(|port| !arguments.contains(&port[0])).flatten();
    command(arguments, Stdio::null()).args(ports).output().unwrap()
}

/// Runs the command, which must succeed, and returns its output.
pub(crate) fn succeeds(arguments: &[&str]) -> String {
    let output = run(arguments);
    assert_eq!(output.status.code(), Some(0), "{arguments:?}: {}", text(&output.stderr));
    text(&output.stdout)
}

/// Runs the command, which must fail, and returns its errors.
pub(crate) fn fails(arguments: &[&str]) -> String {
    let output = run(arguments);
    assert_eq!(output.status.code(), Some(1), "{arguments:?}: {}", text(&output.stderr));
    text(&output.stderr)
}

pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Puts an item as another client does.
pub(crate) fn put(stack: &Serving, item: &Value) {
    let headers = SIGNED.replace("ListTables", "PutItem");
    let put = json!({"TableName": "VersionControl", "Item": item});
    assert_eq!(post(&stack.dynamodb, "/", &headers, &put), json!({}));
}
