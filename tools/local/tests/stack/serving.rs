//! The command `local` as a process.

use std::{
    io::{BufRead as _, BufReader},
    process::{Child, Command, Output, Stdio},
    sync::mpsc::{self, Receiver},
    time::Duration,
};

use serde_json::{Value, json};
use testkit::http::{self, Message};

use crate::{
    http::SIGNED,
    support::{PROGRAM, root},
};

pub(crate) fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(PROGRAM);
    command
        .current_dir(root())
        .args(["--dynamodb-port", "0", "--lambda-port", "0"])
        .args(arguments);
    command
}

pub(crate) fn run(arguments: &[&str]) -> Output {
    command(arguments).stdin(Stdio::null()).output().unwrap()
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

/// A stack in a process, which is killed when this value is dropped.
pub(crate) struct Serving {
    pub(crate) child: Child,
    pub(crate) dynamodb: String,
    pub(crate) lambda: String,
    output: Receiver<String>,
}

impl Serving {
    pub(crate) fn start(arguments: &[&str]) -> Self {
        Self::start_with(arguments, Stdio::null())
    }

    pub(crate) fn start_with(arguments: &[&str], stdin: Stdio) -> Self {
        let mut child = command(arguments)
            .stdin(stdin)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut address = |name: &str| {
            let line = lines.next().unwrap().unwrap();
            assert!(line.starts_with(name), "{line}");
            let url = line.split_whitespace().nth(1).unwrap();
            url.strip_prefix("http://").unwrap().to_owned()
        };
        let (dynamodb, lambda) = (address("DynamoDB"), address("Lambda"));
        // Reads all output, so that the pipe never blocks the stack.
        let (send, output) = mpsc::channel();
        std::thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                // Most tests do not read it.
                let _ = send.send(line);
            }
        });
        Self {
            child,
            dynamodb,
            lambda,
            output,
        }
    }

    pub(crate) fn until(&self, matches: impl Fn(&str) -> bool) -> String {
        loop {
            let line = self.output.recv_timeout(Duration::from_secs(60)).unwrap();
            if matches(&line) {
                return line;
            }
        }
    }

    pub(crate) fn write(&mut self, update: &Value) -> Value {
        post(&self.lambda, "/2015-03-31/functions/writer-fn/invocations", "", update)
    }

    pub(crate) fn put(&mut self, item: &Value) {
        let headers = SIGNED.replace("ListTables", "PutItem");
        let put = json!({"TableName": "VersionControl", "Item": item});
        assert_eq!(post(&self.dynamodb, "/", &headers, &put), json!({}));
    }

    /// Sends SIGKILL, as the kernel does when it runs out of memory.
    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub(crate) fn post(address: &str, path: &str, headers: &str, body: &Value) -> Value {
    let head = format!("POST {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n{headers}");
    let request = Message::new(head.trim_end(), body.to_string());
    http::send(address, &request).json()
}
