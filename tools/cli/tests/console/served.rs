//! A running console, and requests to it.

use std::{
    io::{BufRead as _, BufReader},
    process::Child,
};

use serde_json::Value;
use testkit::{
    command::{self, Run},
    table::Table,
};

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
        console.cookie = console.sign_in();
        console
    }

    /// Sends a request with exactly these headers.
    pub(crate) fn raw(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> Answer {
        http::send(self.port, method, path, headers, body)
    }

    /// Sends a request with `Host` and these headers.
    pub(crate) fn plain(&self, method: &str, path: &str, headers: &[(&str, &str)]) -> Answer {
        let headers = [&[("Host", self.address.as_str())], headers].concat();
        self.raw(method, path, &headers, "")
    }

    /// Signs in with the printed address, and returns the session cookie.
    pub(crate) fn sign_in(&self) -> String {
        let welcome = self.plain("GET", &format!("/?token={}", self.token), &[]);
        let cookie = welcome.header("set-cookie").unwrap().split(';').next().unwrap();
        cookie.to_owned()
    }

    pub(crate) fn origin(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Replaces `{token}`, `{port}`, `{address}`, and name and value of the session cookie, `{name}` and `{value}`.
    pub(crate) fn fill(&self, text: &str) -> String {
        let (name, value) = self.cookie.split_once('=').unwrap();
        let text = text.replace("{token}", &self.token).replace("{address}", &self.address);
        let text = text.replace("{port}", &self.port.to_string());
        text.replace("{name}", name).replace("{value}", value)
    }

    /// Requests a page with the session cookie.
    pub(crate) fn get(&self, path: &str) -> Answer {
        self.plain("GET", path, &[("Cookie", &self.cookie)])
    }

    pub(crate) fn page(&self, path: &str) -> Page {
        let answer = self.get(path);
        assert_eq!(answer.status, 200, "{path}: {answer:?}");
        Page::parse(&answer.body)
    }

    /// Requests the JSON form of a page with the access token.
    pub(crate) fn ask(&self, path: &str) -> Answer {
        let bearer = format!("Bearer {}", self.token);
        self.plain(
            "GET",
            path,
            &[("Authorization", &bearer), ("Accept", "application/json")],
        )
    }

    pub(crate) fn json(&self, path: &str) -> Value {
        let answer = self.ask(path);
        assert_eq!(answer.status, 200, "{path}: {answer:?}");
        answer.json()
    }

    /// Requests pages, and checks their JSON forms and their texts as [`command::check`] does those of commands. The code is 0, or
    /// the status of a page that is not shown.
    pub(crate) fn check(&self, text: &str) {
        let request = |path: &str| {
            let (json, page) = (self.ask(path), self.get(path));
            assert_eq!(json.status, page.status, "{path}");
            let text = Page::parse(&page.body).text;
            Run {
                code: if page.status == 200 { 0 } else { page.status.into() },
                lines: vec![json.json()],
                stdout: text.split_whitespace().collect::<Vec<_>>().join(" "),
                stderr: String::new(),
            }
        };
        command::check(request, text);
    }

    /// Submits a form of this console with the session cookie.
    pub(crate) fn post(&self, path: &str, fields: &[(&str, &str)]) -> Answer {
        self.post_text(path, &http::form(fields))
    }

    pub(crate) fn post_text(&self, path: &str, body: &str) -> Answer {
        let origin = self.origin();
        let headers = [
            ("Host", self.address.as_str()),
            ("Cookie", &self.cookie),
            ("Origin", &origin),
        ];
        self.raw("POST", path, &headers, body)
    }
}

impl Drop for Console {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
