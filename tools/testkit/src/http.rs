//! HTTP/1.1 as bytes: messages, a client, and servers of a test.

use std::{
    io::{BufRead, BufReader, Write as _},
    net::{TcpListener, TcpStream},
    sync::Arc,
    thread,
};

use serde_json::Value;

/// A request or a response.
#[derive(Debug, Clone)]
pub struct Message {
    /// First line and header lines, up to the empty line.
    pub head: String,
    pub body: Vec<u8>,
}

impl Message {
    /// Creates a message with the header `Content-Length`. `head` is the first line, and header lines, each after a line end.
    pub fn new(head: &str, body: impl Into<Vec<u8>>) -> Self {
        let body = body.into();
        let head = format!("{head}\r\nContent-Length: {}\r\n\r\n", body.len());
        Self { head, body }
    }

    /// Reads a message, whose body has the length that its header states. Returns `None` at the end of the connection.
    pub fn read(stream: &mut impl BufRead) -> Option<Self> {
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            stream.read_line(&mut head).ok().filter(|read| *read > 0)?;
        }
        let mut message = Self { head, body: Vec::new() };
        assert_eq!(message.header("transfer-encoding"), None);
        let length = message
            .header("content-length")
            .map_or(0, |length| length.parse().unwrap());
        message.body = vec![0; length];
        stream.read_exact(&mut message.body).ok()?;
        Some(message)
    }

    /// Returns the status of a response.
    pub fn status(&self) -> u16 {
        self.head.split(' ').nth(1).unwrap().parse().unwrap()
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        let mut headers = self.head.lines().filter_map(|line| line.split_once(": "));
        let header = headers.find(|(found, _)| found.eq_ignore_ascii_case(name));
        header.map(|(_, value)| value)
    }

    pub fn bytes(&self) -> Vec<u8> {
        [self.head.as_bytes(), &self.body].concat()
    }

    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|_| panic!("{}", self.bytes().escape_ascii()))
    }
}

/// Connects to an address or a URL.
pub fn connect(address: &str) -> std::io::Result<TcpStream> {
    TcpStream::connect(address.strip_prefix("http://").unwrap_or(address).trim_end_matches('/'))
}

/// Sends a request, and returns the response.
pub fn send(address: &str, request: &Message) -> Message {
    let mut stream = connect(address).unwrap();
    stream.write_all(&request.bytes()).unwrap();
    Message::read(&mut BufReader::new(stream)).unwrap()
}

/// Serves each connection in a thread of its own, until the program ends. Returns the endpoint.
pub fn listen(serve: impl Fn(TcpStream) + Send + Sync + 'static) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let endpoint = format!("http://{}", listener.local_addr().unwrap());
    let serve = Arc::new(serve);
    thread::spawn(move || {
        for stream in listener.incoming().map(Result::unwrap) {
            let serve = Arc::clone(&serve);
            thread::spawn(move || serve(stream));
        }
    });
    endpoint
}

/// Serves responses to requests. Returns the endpoint.
pub fn serve(respond: impl Fn(&Message) -> Message + Send + Sync + 'static) -> String {
    listen(move |stream| respond_to(stream, &respond))
}

/// Sends the response to each request of a connection, until the client closes it.
pub fn respond_to(stream: TcpStream, respond: impl Fn(&Message) -> Message) {
    let mut stream = BufReader::new(stream);
    while let Some(request) = Message::read(&mut stream) {
        if stream.get_mut().write_all(&respond(&request).bytes()).is_err() {
            return;
        }
    }
}
