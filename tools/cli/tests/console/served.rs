//! A console on a table, and requests to it.

use std::{
    io::{BufRead as _, BufReader},
    process::Child,
    sync::Mutex,
};

use serde_json::{Value, json};
use shared::dynamodb::Store;
use testkit::{command::Run, table::Table, vzero::Vzero};

use crate::{
    console,
    html::Page,
    http::{self, Answer},
};

type Form = (String, Vec<(String, String)>);

/// A page of the entity `E`.
pub(crate) const PAGE: &str = "/entity?id=E";

/// A console that serves until it is dropped.
pub(crate) struct Console {
    _here: Option<history_console::Console>,
    process: Option<Child>,
    pub(crate) port: u16,
    pub(crate) address: String,
    pub(crate) token: String,
    authorization: String,
    /// `name=value`.
    pub(crate) cookie: String,
    /// Forms that a script opened, with the addresses that they are sent to.
    opened: Mutex<Vec<Form>>,
}

impl Console {
    /// Serves a read-only console in this process.
    pub(crate) fn of(table: &Table) -> Self {
        Self::serving(table, &table.store, false)
    }

    /// Serves a console that allows changes.
    pub(crate) fn writing(table: &Table) -> Self {
        Self::serving(table, &table.store, true)
    }

    /// Serves a console of any kind of table.
    pub(crate) fn serving(vzero: &Vzero, store: &Store, allows_writes: bool) -> Self {
        let console = console::serve(vzero, store, None, allows_writes);
        let url = console.url().to_owned();
        Self::at(&url, Some(console), None)
    }

    /// Starts `vzero console`.
    pub(crate) fn start(table: &Table, environment: &[(&str, &str)], arguments: &str) -> Self {
        let arguments = format!("console --port 0 {arguments}");
        let mut child = table.start_with(environment, &arguments);
        let mut line = String::new();
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        stdout.read_line(&mut line).unwrap();
        let started: Value = serde_json::from_str(&line).unwrap_or_default();
        match started["URL"].as_str() {
            Some(url) => Self::at(url, None, Some(child)),
            None => panic!("{arguments:?}: {:?}", Run::wait(child)),
        }
    }

    /// Signs in at the printed address.
    fn at(url: &str, here: Option<history_console::Console>, process: Option<Child>) -> Self {
        let (address, token) = url.strip_prefix("http://").unwrap().split_once("/?token=").unwrap();
        let mut console = Self {
            _here: here,
            process,
            port: address.rsplit_once(':').unwrap().1.parse().unwrap(),
            address: address.to_owned(),
            token: token.to_owned(),
            authorization: format!("Bearer {token}"),
            cookie: String::new(),
            opened: Mutex::default(),
        };
        let welcome = console.send("GET", &format!("/?token={token}"), &[], "");
        let cookie = welcome.header("set-cookie").unwrap().split(';').next().unwrap();
        cookie.clone_into(&mut console.cookie);
        console
    }

    /// Sends a request with these headers, and `Host` if they do not contain it.
    pub(crate) fn send(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> Answer {
        let has_host = headers.iter().any(|(name, _)| *name == "Host");
        let host = (!has_host).then_some(("Host", self.address.as_str()));
        let headers: Vec<_> = host.into_iter().chain(headers.iter().copied()).collect();
        http::send(self.port, method, path, &headers, body)
    }

    /// Replaces `{token}`, `{port}`, `{address}`, `{page}`, and the cookie, `{cookie}`, with its name and value, `{name}` and `{value}`.
    pub(crate) fn fill(&self, text: &str) -> String {
        let (name, value) = self.cookie.split_once('=').unwrap();
        let replaced = [
            ("{token}", &*self.token),
            ("{port}", &self.port.to_string()),
            ("{address}", &self.address),
            ("{page}", PAGE),
            ("{cookie}", &self.cookie),
            ("{name}", name),
            ("{value}", value),
        ];
        replaced
            .iter()
            .fold(text.to_owned(), |text, (name, value)| text.replace(name, value))
    }

    /// Sends the requests of a text, one a line: `METHOD path | Header: value | form: a=b => 303 | location: /`. The expectations are
    /// statuses, headers, with an empty value for none, and `field NAME: value`, `~ text` and `!~ text` of the body.
    pub(crate) fn requests(&self, text: &str) {
        for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
            let filled = self.fill(line);
            let (request, expected) = filled.split_once(" => ").unwrap();
            let mut parts = request.split(" | ");
            let (method, path) = parts.next().unwrap().split_once(' ').unwrap();
            let (forms, headers): (Vec<_>, Vec<_>) = parts.map(pair).partition(|(name, _)| *name == "form");
            let answer = self.send(method, path, &headers, forms.first().map_or("", |(_, form)| form));
            for expected in expected.split(" | ") {
                let is_met = match expected.split_once(' ') {
                    Some(("~", text)) => answer.body.contains(text),
                    Some(("!~", text)) => !answer.body.contains(text),
                    Some(("field", field)) => {
                        let (name, value) = pair(field);
                        Page::parse(&answer.body).field(name) == Some(value)
                    }
                    _ if expected.starts_with(|c: char| c.is_ascii_digit()) => {
                        expected.split(',').any(|status| status == answer.status.to_string())
                    }
                    _ => {
                        let (name, value) = pair(expected);
                        answer.header(name).unwrap_or_default() == value
                    }
                };
                assert!(is_met, "{line}: {expected}: {answer:?}");
            }
        }
    }

    /// Requests a page with the cookie.
    pub(crate) fn get(&self, path: &str) -> Answer {
        self.send("GET", path, &[("Cookie", &self.cookie)], "")
    }

    pub(crate) fn page(&self, path: &str) -> Page {
        let answer = self.get(path);
        assert_eq!(answer.status, 200, "{path}: {answer:?}");
        Page::parse(&answer.body)
    }

    /// Requests the JSON form of a page with the access token.
    pub(crate) fn ask(&self, path: &str) -> Answer {
        self.send("GET", path, &self.bearer(), "")
    }

    /// Returns the headers of a program.
    fn bearer(&self) -> [(&str, &str); 2] {
        [("Authorization", &self.authorization), ("Accept", "application/json")]
    }

    pub(crate) fn json(&self, path: &str) -> Value {
        let answer = self.ask(path);
        assert_eq!(answer.status, 200, "{path}: {answer:?}");
        answer.json()
    }

    /// Runs a line of a script: the path of a page, `links PATH`, or `form PATH NAME=VALUE,NAME=VALUE`, which sends the form of a page
    /// with these fields. `open PATH` opens such a form, `form 0` sends the first one that was opened, and `submit 0` sends it as programs
    /// do, with the token. The code is 0, or the status of a page that is not shown.
    pub(crate) fn run(&self, line: &str) -> Run {
        let words: Vec<_> = line.splitn(3, ' ').collect();
        let (status, json, text) = match words[..] {
            ["links", path] => (200, json!(self.page(path).links()), String::new()),
            ["open", path] => {
                self.opened.lock().unwrap().push(self.form(path));
                (200, Value::Null, String::new())
            }
            ["form" | "submit", path, more] => {
                let (action, mut fields) = match path.parse::<usize>() {
                    Ok(opened) => self.opened.lock().unwrap()[opened].clone(),
                    Err(_) => self.form(path),
                };
                for (name, value) in more.split(',').filter_map(|field| field.split_once('=')) {
                    fields.retain(|(known, _)| known != name);
                    fields.push((name.to_owned(), value.to_owned()));
                }
                if words[0] == "submit" {
                    let answer = self.send("POST", &action, &self.bearer(), &http::form(&fields));
                    (answer.status, answer.json(), String::new())
                } else {
                    let answer = self.post(&action, &fields);
                    let status = if answer.status == 303 { 200 } else { answer.status };
                    let text = Page::parse(&answer.body).text;
                    (status, json!({"Location": answer.header("location")}), text)
                }
            }
            _ => {
                let (json, page) = (self.ask(line), self.get(line));
                assert_eq!(json.status, page.status, "{line}");
                assert!(page.body.starts_with("<!DOCTYPE html>"), "{line}: {page:?}");
                let (status, json) = (page.status, json.json());
                assert_eq!(json["Error"].is_string(), status >= 400, "{line}: {json}");
                (status, json, Page::parse(&page.body).text)
            }
        };
        let text: Vec<_> = text.split_whitespace().collect();
        Run {
            code: if status == 200 { 0 } else { status.into() },
            stdout: if text.is_empty() {
                json.to_string()
            } else {
                text.join(" ")
            },
            lines: vec![json],
            stderr: String::new(),
        }
    }

    /// Returns the action of the form of a page, and its fields.
    pub(crate) fn form(&self, path: &str) -> Form {
        let form = self.json(path)["Form"].clone();
        let fields = form.as_object().unwrap_or_else(|| panic!("{path} has no form")).iter();
        let fields = fields.filter_map(|(name, value)| Some((name.clone(), value.as_str()?.to_owned())));
        let (action, fields): (Vec<_>, Vec<_>) = fields.partition(|(name, _)| name == "Action");
        (action[0].1.clone(), fields)
    }

    /// Submits a form with the cookie.
    pub(crate) fn post(&self, path: &str, fields: &[(String, String)]) -> Answer {
        let origin = format!("http://{}", self.address);
        let headers = [("Cookie", self.cookie.as_str()), ("Origin", &origin)];
        self.send("POST", path, &headers, &http::form(fields))
    }
}

fn pair(text: &str) -> (&str, &str) {
    text.split_once(": ").unwrap_or((text.trim_end_matches(':'), ""))
}

impl Drop for Console {
    fn drop(&mut self) {
        if let Some(process) = &mut self.process {
            let _ = process.kill();
            let _ = process.wait();
        }
    }
}
