//! The command `local` as a process.

use std::{
    io::{BufRead as _, BufReader},
    process::{Child, Command, Stdio},
    sync::mpsc::{self, Receiver},
    time::Duration,
};

use serde_json::Value;

use crate::http::{self, Message};

const TIMEOUT: Duration = Duration::from_secs(60);

/// A stack in a process, which is killed when this value is dropped.
#[derive(Debug)]
pub struct Serving {
    pub child: Child,
    /// Addresses without `http://`.
    pub dynamodb: String,
    pub lambda: String,
    output: Receiver<String>,
}

impl Serving {
    /// Starts a command, and waits for its addresses.
    pub fn start(command: &mut Command) -> Self {
        let ports = ["--dynamodb-port", "0", "--lambda-port", "0"];
        let mut child = command.args(ports).stdout(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        // Reads all output, so that the pipe never blocks the stack.
        let (send, output) = mpsc::channel();
        std::thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                // Most tests do not read it.
                let _ = send.send(line);
            }
        });
        let mut serving = Self {
            child,
            dynamodb: String::new(),
            lambda: String::new(),
            output,
        };
        let address = |name: &str| {
            let line = serving.until(|line| line.starts_with(name));
            let url = line.split_whitespace().nth(1).unwrap();
            url.strip_prefix("http://").unwrap().to_owned()
        };
        (serving.dynamodb, serving.lambda) = (address("DynamoDB"), address("Lambda"));
        serving
    }

    /// Returns the next line that matches.
    pub fn until(&self, matches: impl Fn(&str) -> bool) -> String {
        loop {
            let line = self.output.recv_timeout(TIMEOUT).unwrap();
            if matches(&line) {
                return line;
            }
        }
    }

    /// Sends an update to writer-fn, and returns the response.
    pub fn write(&self, update: &Value) -> Value {
        post(&self.lambda, "/2015-03-31/functions/writer-fn/invocations", "", update)
    }

    /// Sends SIGKILL, as the kernel does when it runs out of memory.
    pub fn kill(&mut self) {
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

/// Posts JSON with these header lines.
pub fn post(address: &str, path: &str, headers: &str, body: &Value) -> Value {
    let head = format!("POST {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n{headers}");
    http::send(address, &Message::new(head.trim_end(), body.to_string())).json()
}
