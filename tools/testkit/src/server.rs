//! Servers of others, as the scripts `with-*` start them.

use std::{
    io::{self, BufRead as _, BufReader},
    process::{Child, Command, Stdio},
};

use crate::pages::root;

/// A server that stops when this value is dropped.
#[derive(Debug)]
pub struct Server {
    endpoint: String,
    script: Child,
}

impl Server {
    pub fn dynamodb_local() -> io::Result<Self> {
        Self::start("tools/local/tests/with-dynamodb-local", "VZERO_TEST_ENDPOINT")
    }

    /// Starts moto, which serves S3 and SQS.
    pub fn moto() -> io::Result<Self> {
        Self::start("tools/cli/tests/with-moto", "VZERO_TEST_MOTO")
    }

    /// Starts a script whose command prints this variable, then runs until its standard input is closed.
    fn start(script: &str, variable: &str) -> io::Result<Self> {
        let mut script = Command::new(root().join(script))
            .args(["sh", "-c", &format!("echo ${variable}; cat")])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let mut endpoint = String::new();
        if let Some(stdout) = script.stdout.take() {
            BufReader::new(stdout).read_line(&mut endpoint)?;
        }
        if endpoint.is_empty() {
            return Err(io::Error::other(format!("the script ended with {}", script.wait()?)));
        }
        let endpoint = endpoint.trim().to_owned();
        Ok(Self { endpoint, script })
    }

    pub fn endpoint(&self) -> &str {
        &self.endpoint
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.script.stdin.take());
        let _ = self.script.wait();
    }
}
