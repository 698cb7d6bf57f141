//! HTTP client that sends exactly the given headers.

use std::{
    io::{Read as _, Write as _},
    net::TcpStream,
    time::Duration,
};

const READ_TIMEOUT: Duration = Duration::from_secs(120);

#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    head: String,
    pub(crate) body: String,
}

impl Answer {
    /// Returns a header that occurs at most once.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let headers = self.head.lines().filter_map(|line| line.split_once(':'));
        let mut found = headers.filter(|(known, _)| known.eq_ignore_ascii_case(name));
        let value = found.next().map(|(_, value)| value.trim());
        assert!(found.next().is_none(), "{name} occurs twice");
        value
    }

    pub(crate) fn json(&self) -> serde_json::Value {
        assert_eq!(self.header("content-type"), Some("application/json"), "{self:?}");
        serde_json::from_str(&self.body).unwrap()
    }
}

/// Sends a request to a local port over a new connection. The path is sent unchanged.
pub(crate) fn send(port: u16, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> Answer {
    let mut head = format!("{method} {path} HTTP/1.1\r\n");
    for (name, value) in headers {
        head.extend([name, ": ", value, "\r\n"]);
    }
    if !body.is_empty() {
        let length = body.len().to_string();
        let kind = "Content-Type: application/x-www-form-urlencoded\r\nContent-Length: ";
        head.extend([kind, &length, "\r\n"]);
    }
    let answer = exchange(port, &head, body);
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    let answer = Answer {
        status: head.split(' ').nth(1).unwrap().parse().unwrap(),
        head: head.to_owned(),
        body: body.to_owned(),
    };
    let length = answer.header("content-length").map(|length| length.parse().unwrap());
    assert!(
        method == "HEAD" || length == Some(answer.body.len()),
        "incomplete response"
    );
    answer
}

/// Sends a request with this head, and returns the response, or nothing if the server closes the connection.
pub(crate) fn exchange(port: u16, head: &str, body: &str) -> String {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    stream.set_read_timeout(Some(READ_TIMEOUT)).unwrap();
    // The server can close the connection before it has read everything.
    let _ = write!(stream, "{head}Connection: close\r\n\r\n{body}");
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    String::from_utf8_lossy(&answer).into_owned()
}

pub(crate) fn form(fields: &[(impl AsRef<str>, impl AsRef<str>)]) -> String {
    let pairs = fields
        .iter()
        .map(|(name, value)| format!("{}={}", encoded(name), encoded(value)));
    pairs.collect::<Vec<_>>().join("&")
}

pub(crate) fn encoded(text: impl AsRef<str>) -> String {
    percent_encoding::utf8_percent_encode(text.as_ref(), percent_encoding::NON_ALPHANUMERIC).to_string()
}
