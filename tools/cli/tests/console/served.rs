//! A running console, and requests to it.

use std::{
    io::{BufRead as _, BufReader},
    process::Child,
};

use serde_json::Value;
use testkit::table::Table;

use crate::{
    html::Page,
    http::{self, Answer},
};

pub(crate) const TOKEN: &str = "a-token-of-a-test_0123456789";

/// A console that serves until it is dropped.
pub(crate) struct Console {
    child: Child,
    pub(crate) port: u16,
    pub(crate) address: String,
    pub(crate) token: String,
    /// Session cookie, `name=value`.
    pub(crate) cookie: String,
}

impl Console {
    /// Starts a read-only console.
    pub(crate) fn of(table: &Table) -> Self {
        Self::with(table, "")
    }

    pub(crate) fn with(table: &Table, arguments: &str) -> Self {
        Self::start(table, &[], &format!("--no-open {arguments}"))
    }

    pub(crate) fn with_environment(table: &Table, environment: &[(&str, &str)], arguments: &str) -> Self {
        Self::start(table, environment, &format!("--no-open {arguments}"))
    }

    /// Starts a read-only console that opens the web browser.
    pub(crate) fn opening(table: &Table, environment: &[(&str, &str)]) -> Self {
        Self::start(table, environment, "")
    }

    fn start(table: &Table, environment: &[(&str, &str)], arguments: &str) -> Self {
        let arguments = format!("console --port 0 {arguments}");
        let mut child = table.start_with(environment, &arguments);
        let mut line = String::new();
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        stdout.read_line(&mut line).unwrap();
        if line.is_empty() {
            let output = child.wait_with_output().unwrap();
            panic!("{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        }
        let started: Value = serde_json::from_str(&line).unwrap();
        let url = started["URL"].as_str().unwrap().strip_prefix("http://").unwrap();
        let (address, token) = url.split_once("/?token=").unwrap();
        let mut console = Self {
            child,
            port: address.rsplit_once(':').unwrap().1.parse().unwrap(),
            address: address.to_owned(),
            token: token.to_owned(),
            cookie: String::new(),
        };
        let welcome = console.raw("GET", &format!("/?token={token}"), &[("Host", address)], "");
        let cookie = welcome.header("set-cookie").unwrap().split(';').next().unwrap();
        cookie.clone_into(&mut console.cookie);
        console
    }

    /// Sends a request with exactly these headers.
    pub(crate) fn raw(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> Answer {
        http::send(self.port, method, path, headers, body)
    }

    /// Requests a page with the session cookie.
    pub(crate) fn get(&self, path: &str) -> Answer {
        let headers = [("Host", self.address.as_str()), ("Cookie", &self.cookie)];
        self.raw("GET", path, &headers, "")
    }

    pub(crate) fn page(&self, path: &str) -> Page {
        let answer = self.get(path);
        assert_eq!(answer.status, 200, "{path}: {answer:?}");
        Page::parse(&answer.body)
    }

    /// Requests the JSON form of a page with the access token.
    pub(crate) fn ask(&self, path: &str) -> Answer {
        let bearer = format!("Bearer {}", self.token);
        let headers = [
            ("Host", self.address.as_str()),
            ("Authorization", &bearer),
            ("Accept", "application/json"),
        ];
        self.raw("GET", path, &headers, "")
    }

    pub(crate) fn json(&self, path: &str) -> Value {
        let answer = self.ask(path);
        assert_eq!(answer.status, 200, "{path}: {answer:?}");
        answer.json()
    }

    /// Submits a form of this console with the session cookie.
    pub(crate) fn post(&self, path: &str, fields: &[(&str, &str)]) -> Answer {
        let origin = format!("http://{}", self.address);
        let headers = [
            ("Host", self.address.as_str()),
            ("Cookie", &self.cookie),
            ("Origin", &origin),
        ];
        self.raw("POST", path, &headers, &http::form(fields))
    }
}

impl Drop for Console {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
