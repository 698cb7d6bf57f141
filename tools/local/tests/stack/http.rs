//! HTTP requests as bytes, as a browser, a runtime or an attacker could send them.

use testkit::http::Message;
use tokio::{
    io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader},
    net::TcpStream,
};

/// Headers of a signed request for the tables of the embedded DynamoDB.
pub(crate) const SIGNED: &str = "X-Amz-Target: DynamoDB_20120810.ListTables\r\nContent-Type: application/x-amz-json-1.0\r\n\
     Authorization: AWS4-HMAC-SHA256 Credential=local/20260101/us-east-1/dynamodb/aws4_request, SignedHeaders=host;x-amz-date;x-amz-target, Signature=0\r\n\
     X-Amz-Date: 20260101T000000Z\r\n";

/// A connection that stays open for several requests.
pub(crate) struct Connection(pub(crate) BufReader<TcpStream>);

impl Connection {
    /// Connects to an address or a URL.
    pub(crate) async fn open(address: &str) -> Self {
        let address = address.strip_prefix("http://").unwrap_or(address);
        Self(BufReader::new(TcpStream::connect(address).await.unwrap()))
    }

    pub(crate) async fn write(&mut self, bytes: &[u8]) {
        self.0.write_all(bytes).await.unwrap();
    }

    /// Sends a request with this line and these header lines, each with its line end, and a body.
    pub(crate) async fn send(&mut self, line: &str, headers: &str, body: &[u8]) {
        let length = body.len();
        let head = format!("{line}\r\n{headers}Content-Length: {length}\r\n\r\n");
        self.write(&[head.as_bytes(), body].concat()).await;
    }

    pub(crate) async fn line(&mut self) -> String {
        let mut line = String::new();
        assert!(self.0.read_line(&mut line).await.unwrap() > 0, "the connection ends");
        line
    }

    pub(crate) async fn receive(&mut self, has_body: bool) -> Message {
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            head += &self.line().await;
        }
        let mut response = Message { head, body: Vec::new() };
        let length = response.header("content-length").filter(|_| has_body);
        response.body = vec![0; length.map_or(0, |length| length.parse().unwrap())];
        self.0.read_exact(&mut response.body).await.unwrap();
        response
    }

    pub(crate) async fn ask(&mut self, line: &str, headers: &str, body: &[u8]) -> Message {
        self.send(line, headers, body).await;
        self.receive(!line.starts_with("HEAD ")).await
    }

    /// Sends a request of a program: a method and a path.
    pub(crate) async fn request(&mut self, line: &str, headers: &str, body: &[u8]) -> Message {
        let headers = format!("Host: localhost\r\n{headers}");
        self.ask(&format!("{line} HTTP/1.1"), &headers, body).await
    }
}

/// Sends one request.
pub(crate) async fn ask(address: &str, line: &str, headers: &str, body: &str) -> Message {
    Connection::open(address)
        .await
        .ask(line, headers, body.as_bytes())
        .await
}
