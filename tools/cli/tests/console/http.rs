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
    headers: Vec<(String, String)>,
    pub(crate) body: String,
}

impl Answer {
    /// Returns a header that occurs at most once.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let mut found = self.headers.iter().filter(|(known, _)| known == name);
        let value = found.next().map(|(_, value)| value.as_str());
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
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    stream.set_read_timeout(Some(READ_TIMEOUT)).unwrap();
    let mut request = format!("{method} {path} HTTP/1.1\r\nConnection: close\r\n");
    for (name, value) in headers {
        request.extend([name, ": ", value, "\r\n"]);
    }
    if !body.is_empty() {
        request.push_str("Content-Type: application/x-www-form-urlencoded\r\n");
        request.extend(["Content-Length: ", &body.len().to_string(), "\r\n"]);
    }
    write!(stream, "{request}\r\n{body}").unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    let answer = String::from_utf8(answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    let mut lines = head.lines();
    let status = lines.next().unwrap().split(' ').nth(1).unwrap().parse().unwrap();
    let headers = lines.map(|line| {
        let (name, value) = line.split_once(':').unwrap();
        (name.to_lowercase(), value.trim().to_owned())
    });
    let answer = Answer {
        status,
        headers: headers.collect(),
        body: body.to_owned(),
    };
    let length = answer.header("content-length").map(|length| length.parse().unwrap());
    assert!(
        method == "HEAD" || length == Some(answer.body.len()),
        "incomplete response"
    );
    answer
}

/// Sends a request line and headers, and returns the version and the status code, or nothing if the server closes the
/// connection.
pub(crate) fn try_send(port: u16, request: &str) -> String {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    stream.set_read_timeout(Some(READ_TIMEOUT)).unwrap();
    // The server can close the connection before it has read everything.
    let _ = write!(stream, "{request}Host: 127.0.0.1\r\nConnection: close\r\n\r\n");
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    let answer = String::from_utf8_lossy(&answer);
    answer.chars().take("HTTP/1.1 200".len()).collect()
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
