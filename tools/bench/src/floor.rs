//! The floor: a function that does nothing but send the requests which an event requires. It reads no JSON, signs nothing, and sends
//! prepared requests of the usual size on open connections, as many at a time as our functions. What it needs is what the database, the network and
//! the runtime's API cost on this machine; no function that writes the same can need less.

use std::{io, process::ExitCode};

use futures::future::try_join_all;
use serde_json::json;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};

use crate::{events, print_error, subject::Role};

/// Hidden argument before the handler.
pub(crate) const ARGUMENT: &str = "__floor";
/// Versions that one request inserts.
const STATEMENTS: usize = 25;

/// Returns the function whose floor this process must be, if any.
pub(crate) fn requested() -> Option<Role> {
    let mut arguments = std::env::args().skip(1);
    let is_floor = arguments.next().as_deref() == Some(ARGUMENT);
    let handler = arguments.next().filter(|_| is_floor)?;
    Role::BOTH.into_iter().find(|role| role.name() == handler)
}

pub(crate) fn main(role: Role) -> ExitCode {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    match runtime.and_then(|runtime| runtime.block_on(serve(role))) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            print_error(&format!("the floor failed: {error}"));
            ExitCode::FAILURE
        }
    }
}

/// Serves invocations until the runtime's API ends.
#[allow(clippy::disallowed_methods, reason = "the environment that the benchmark sets")]
async fn serve(role: Role) -> io::Result<()> {
    let variable = |name| std::env::var(name).unwrap_or_default();
    let (address, database) = (
        variable("AWS_LAMBDA_RUNTIME_API"),
        variable("AWS_ENDPOINT_URL_DYNAMODB"),
    );
    let database = database.trim_start_matches("http://");
    let (marker, each, concurrency) = match role {
        Role::Stream => (&b"\"eventID\""[..], STATEMENTS, 16),
        Role::Writer => (&b"\"messageId\""[..], 1, 64),
    };
    let request = request(role, database);
    let next = format!("GET /2018-06-01/runtime/invocation/next HTTP/1.1\r\nHost: {address}\r\n\r\n");
    let (mut api, mut connections) = (Connection::open(&address).await?, Vec::new());
    loop {
        let (head, event) = api.exchange(next.as_bytes()).await?;
        let items = event.windows(marker.len()).filter(|window| *window == marker).count();
        let id = header(&head, "lambda-runtime-aws-request-id").to_owned();
        let requests = items.div_ceil(each);
        let used = requests.min(concurrency);
        while connections.len() < used {
            connections.push(Connection::open(database).await?);
        }
        let request = &request;
        let send = connections[..used]
            .iter_mut()
            .enumerate()
            .map(async |(first, connection)| {
                for _ in (first..requests).step_by(used) {
                    connection.exchange(request).await?;
                }
                Ok::<_, io::Error>(())
            });
        try_join_all(send).await?;
        let body = r#"{"batchItemFailures":[]}"#;
        let (path, length) = (format!("/2018-06-01/runtime/invocation/{id}/response"), body.len());
        let response = format!("POST {path} HTTP/1.1\r\nHost: {address}\r\nContent-Length: {length}\r\n\r\n{body}");
        api.exchange(response.as_bytes()).await?;
    }
}

/// Returns a request as our functions send it, without a valid signature.
fn request(role: Role, host: &str) -> Vec<u8> {
    let image = events::image(0);
    let (operation, body) = match role {
        Role::Stream => {
            let values: Vec<_> = image.as_object().into_iter().flat_map(|image| image.values()).collect();
            let members = image.as_object().into_iter().flat_map(|image| image.keys());
            let members: Vec<_> = members.map(|name| format!("'{name}':?")).collect();
            let text = format!("INSERT INTO \"VersionControl\" VALUE {{{}}}", members.join(","));
            let statement = json!({"Statement": text, "Parameters": values});
            (
                "BatchExecuteStatement",
                json!({"Statements": vec![statement; STATEMENTS]}),
            )
        }
        Role::Writer => (
            "UpdateItem",
            json!({"TableName": "VersionControl", "ExpressionAttributeValues": image}),
        ),
    };
    let (body, unsigned) = (body.to_string(), "0".repeat(300));
    let head = format!(
        "POST / HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/x-amz-json-1.0\r\nX-Amz-Target: DynamoDB_20120810.{operation}\r\n\
         Authorization: {unsigned}\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    [head, body].concat().into_bytes()
}

/// A connection of HTTP/1.1, whose responses have a `Content-Length`.
pub(crate) struct Connection(TcpStream);

impl Connection {
    pub(crate) async fn open(address: &str) -> io::Result<Self> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        Ok(Self(stream))
    }

    /// Sends a request, and returns head and body of its response.
    pub(crate) async fn exchange(&mut self, request: &[u8]) -> io::Result<(String, Vec<u8>)> {
        self.0.write_all(request).await?;
        let mut received = Vec::with_capacity(4096);
        loop {
            if self.0.read_buf(&mut received).await? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            let Some(end) = received.windows(4).position(|window| window == b"\r\n\r\n") else {
                continue;
            };
            let head = String::from_utf8_lossy(&received[..end]).into_owned();
            let length: usize = header(&head, "content-length").parse().unwrap_or(0);
            let mut body = received.split_off(end + 4);
            let read = body.len();
            body.resize(length, 0);
            self.0.read_exact(&mut body[read..]).await?;
            return Ok((head, body));
        }
    }
}

/// Returns the value of a header, or nothing.
fn header<'a>(head: &'a str, name: &str) -> &'a str {
    let lines = head.lines().filter_map(|line| line.split_once(':'));
    let mut found = lines.filter(|(other, _)| other.eq_ignore_ascii_case(name));
    found.next().map_or("", |(_, value)| value.trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_has_as_many_statements_as_ours() {
        for (role, word, expected) in [
            (Role::Stream, "\"Statement\":", STATEMENTS),
            (Role::Writer, "UpdateItem", 1),
        ] {
            let request = String::from_utf8(request(role, "localhost:8000")).unwrap();
            let (head, body) = request.split_once("\r\n\r\n").unwrap();
            assert_eq!(header(head, "content-length"), body.len().to_string());
            assert_eq!(request.matches(word).count(), expected, "{word}");
        }
    }
}
