//! Web pages cannot use the ports of the stack. Requests are sent as bytes, as a browser or an attacker could send them.

use std::{
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::TcpStream,
    process::Stdio,
    time::Duration,
};

use crate::{
    command::executable,
    serving::{Serving, command},
};
use serde_json::{Value, json};

const INVOKE: &str = "/2015-03-31/functions/writer-fn/invocations";
const SIGNED: &str = "X-Amz-Target: DynamoDB_20120810.ListTables\r\nContent-Type: application/x-amz-json-1.0\r\n\
     Authorization: AWS4-HMAC-SHA256 Credential=local/20260101/us-east-1/dynamodb/aws4_request, SignedHeaders=host;x-amz-date;x-amz-target, Signature=0\r\n\
     X-Amz-Date: 20260101T000000Z\r\n";

/// A connection that stays open for several requests.
struct Connection(BufReader<TcpStream>);

struct Response {
    status: u16,
    head: String,
    body: String,
}

impl Connection {
    fn open(address: &str) -> Self {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        Self(BufReader::new(stream))
    }

    /// Sends a request with these header lines, each with its line end, and a body.
    fn send(&mut self, line: &str, headers: &str, body: &str) -> Response {
        let length = body.len();
        let request = format!("{line}\r\n{headers}Content-Length: {length}\r\n\r\n{body}");
        self.0.get_mut().write_all(request.as_bytes()).unwrap();
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            assert!(self.0.read_line(&mut head).unwrap() > 0, "{request}: {head}");
        }
        let head = head.to_lowercase();
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
        let mut body = vec![0; length.map_or(0, |length| length.parse().unwrap())];
        if !line.starts_with("HEAD ") {
            self.0.read_exact(&mut body).unwrap();
        }
        Response {
            status: head.split(' ').nth(1).unwrap().parse().unwrap(),
            head,
            body: String::from_utf8(body).unwrap(),
        }
    }
}

fn send(address: &str, line: &str, headers: &str, body: &str) -> Response {
    Connection::open(address).send(line, headers, body)
}

/// Header lines of foreign pages, with the status of the response. `{}` is the address of the listener.
const FOREIGN: [(&str, u16); 19] = [
    ("Host: {}\r\nOrigin: http://evil.example\r\n", 403),
    ("Host: {}\r\nORIGIN: HTTPS://EVIL.EXAMPLE\r\n", 403),
    ("Host: {}\r\nOrigin: null\r\n", 403),
    ("Host: {}\r\nOrigin: \r\n", 403),
    ("Host: {}\r\nOrigin: http://127.0.0.1:1\r\n", 403),
    ("Host: {}\r\nOrigin: https://{}\r\n", 403),
    ("Host: {}\r\nOrigin: http://{}.evil.example\r\n", 403),
    ("Host: {}\r\nOrigin: http://{}\r\nOrigin: http://evil.example\r\n", 403),
    ("Host: {}\r\nSec-Fetch-Site: cross-site\r\n", 403),
    ("Host: {}\r\nSec-Fetch-Site: same-site\r\n", 403),
    ("Host: {}\r\nOrigin: http://{}\r\nSec-Fetch-Site: cross-site\r\n", 403),
    ("Host: evil.example\r\n", 421),
    (
        "Host: evil.example:8000\r\nOrigin: http://evil.example:8000\r\nSec-Fetch-Site: same-origin\r\n",
        421,
    ),
    ("Host: localhost.\r\n", 421),
    ("Host: user@{}\r\n", 421),
    ("Host: {}@evil.example\r\n", 421),
    ("Host:\r\n", 421),
    ("", 400),
    ("Host: {}\r\nHost: evil.example\r\n", 400),
];

#[test]
fn requests_of_foreign_pages_are_refused() {
    let stack = Serving::start(&["--feed", "/dev/null"]);
    let update = json!({"ID": "Attacked#1"}).to_string();
    let (invoke, list) = (format!("POST {INVOKE} HTTP/1.1"), "POST / HTTP/1.1".to_owned());
    for (address, line, headers, body, error) in [
        (&stack.lambda, &invoke, "", update.as_str(), "accessdeniedexception"),
        (&stack.dynamodb, &list, SIGNED, "{}", "AccessDeniedException"),
    ] {
        for (foreign, status) in FOREIGN {
            let headers = foreign.replace("{}", address) + headers;
            let response = send(address, line, &headers, body);
            assert_eq!(response.status, status, "{headers}: {}", response.head);
            assert!((response.head + &response.body).contains(error), "{headers}");
        }
        // In an absolute request target, and on each method, path and version.
        let own = format!("Host: {address}\r\n");
        for target in ["http://evil.example", &format!("http://user@{address}")] {
            let line = line.replace("POST ", &format!("POST {target}"));
            assert_eq!(
                send(address, &line, &(own.clone() + headers), body).status,
                421,
                "{line}"
            );
        }
        let foreign = format!("{own}Origin: http://evil.example\r\n{headers}");
        for line in [
            "GET / HTTP/1.1",
            "HEAD / HTTP/1.1",
            "PUT /other HTTP/1.1",
            "OPTIONS / HTTP/1.1",
            &line.replace("POST", "OPTIONS"),
            &line.replace("HTTP/1.1", "HTTP/1.0"),
        ] {
            assert_eq!(send(address, line, &foreign, "").status, 403, "{line}");
        }
        assert!((400..500).contains(&send(address, "CONNECT evil.example:443 HTTP/1.1", &own, "").status));
        let connect = format!("CONNECT {address} HTTP/1.1");
        assert!((400..500).contains(&send(address, &connect, &own, "").status));
        // Requests of programs, and of the listener's own origin.
        let port = address.rsplit_once(':').unwrap().1;
        for own in [
            own.clone(),
            format!("Host: localhost:{port}\r\nOrigin: http://localhost:{port}\r\n"),
            format!("{own}Origin: HTTP://LOCALHOST:{port}\r\nSec-Fetch-Site: same-origin\r\n"),
            format!("{own}Origin: http://{address}\r\nSec-Fetch-Site: none\r\n"),
            format!("Host: [::1]:{port}\r\n"),
        ] {
            let response = send(address, line, &(own.clone() + headers), body);
            assert_eq!(response.status, 200, "{own}: {} {}", response.head, response.body);
        }
    }
    // Each request of a connection is checked.
    for (address, line, headers, body) in [
        (&stack.lambda, &*invoke, "", &*update),
        (&stack.dynamodb, "POST / HTTP/1.1", SIGNED, "{}"),
    ] {
        let mut connection = Connection::open(address);
        for (origin, status) in [("", 200), ("Origin: http://evil.example\r\n", 403)] {
            let headers = format!("Host: {address}\r\n{origin}{headers}");
            assert_eq!(connection.send(line, &headers, body).status, status, "{headers}");
        }
    }
    // Without options, curl sends a form, and `text/plain` is what a page can send without a preflight: programs may send both.
    for kind in ["application/x-www-form-urlencoded", "text/plain", "application/json"] {
        let headers = format!(
            "Host: {}\r\nUser-Agent: curl/8.5.0\r\nAccept: */*\r\nContent-Type: {kind}\r\n",
            stack.lambda
        );
        assert_eq!(
            send(&stack.lambda, &invoke, &headers, r#"{"ID": "a"}"#).status,
            200,
            "{kind}"
        );
    }
    // No refused request had an effect.
    let response = send(&stack.lambda, &invoke, &format!("Host: {}\r\n", stack.lambda), &update);
    let outcome: Value = serde_json::from_str(&response.body).unwrap();
    assert_eq!(outcome["Version"], 7);
}

/// The preface of HTTP/2, its settings, and `GET / HTTP/2` with `:authority: localhost`.
const HTTP_2: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\
    \x00\x00\x00\x04\x00\x00\x00\x00\x00\
    \x00\x00\x0e\x01\x05\x00\x00\x00\x01\x82\x84\x86\x41\x09localhost";

/// A listener of a build without HTTP/2 responds in HTTP/1.1.
#[test]
fn a_request_of_http_2_is_told_the_supported_version() {
    let stack = Serving::start(&["--feed", "/dev/null"]);
    for address in [&stack.lambda, &stack.dynamodb] {
        let mut connection = Connection::open(address).0.into_inner();
        connection.write_all(HTTP_2).unwrap();
        let (mut response, mut part) = (Vec::new(), [0; 1024]);
        while !String::from_utf8_lossy(&response).contains("HTTP/1.1") {
            let read = connection.read(&mut part).unwrap();
            assert!(read > 0, "{}", String::from_utf8_lossy(&response));
            response.extend(&part[..read]);
        }
    }
}

#[test]
fn no_response_allows_pages_to_read_it() {
    let stack = Serving::start(&["--feed", "/dev/null"]);
    for (address, path, headers) in [(&stack.lambda, INVOKE, ""), (&stack.dynamodb, "/", SIGNED)] {
        for origin in ["http://evil.example", "null", &format!("http://{address}")] {
            let foreign = format!("Host: {address}\r\nOrigin: {origin}\r\n");
            let preflight = "Access-Control-Request-Method: POST\r\nAccess-Control-Request-Headers: x-amz-target\r\n\
                             Access-Control-Request-Private-Network: true\r\n";
            for (method, more) in [("OPTIONS", preflight), ("POST", headers), ("GET", "")] {
                let response = send(
                    address,
                    &format!("{method} {path} HTTP/1.1"),
                    &(foreign.clone() + more),
                    "{}",
                );
                assert!(
                    !response.head.contains("access-control-"),
                    "{method} {origin}: {}",
                    response.head
                );
            }
        }
    }
}

/// A Runtime API accepts requests of its process only. An image of a page could otherwise take an invocation.
#[test]
fn a_page_cannot_take_an_invocation() {
    let folder = tempfile::tempdir().unwrap();
    let address = folder.path().join("address");
    // A function that names its Runtime API, and takes no invocation.
    let script = format!(
        "#!/bin/sh\necho \"$AWS_LAMBDA_RUNTIME_API\" >'{0}.new'\nmv '{0}.new' '{0}'\nexec sleep 60\n",
        address.display()
    );
    let bootstrap = executable(folder.path(), "bootstrap", &script);
    let stack = Serving::start(&["--feed", "/dev/null", "--bootstrap", &format!("writer-fn={bootstrap}")]);
    let mut invoked = Connection::open(&stack.lambda);
    let request = format!(
        "POST {INVOKE} HTTP/1.1\r\nHost: {}\r\nContent-Length: 2\r\n\r\n{{}}",
        stack.lambda
    );
    invoked.0.get_mut().write_all(request.as_bytes()).unwrap();
    let address = loop {
        if let Ok(address) = std::fs::read_to_string(&address) {
            break address.trim().to_owned();
        }
        std::thread::yield_now();
    };
    let next = "GET /2018-06-01/runtime/invocation/next HTTP/1.1";
    for (headers, status) in FOREIGN {
        let response = send(&address, next, &headers.replace("{}", &address), "");
        assert_eq!(response.status, status, "{headers}: {}", response.head);
    }
    let response = "POST /2018-06-01/runtime/invocation/id/response HTTP/1.1";
    assert_eq!(
        send(&address, response, &format!("Host: {address}\r\n"), "{}").status,
        400
    );
    // Without waiting for the body: only the process can send one.
    let mut slow = Connection::open(&address);
    let head = format!("{response}\r\nHost: {address}\r\nContent-Length: 1\r\n\r\n");
    slow.0.get_mut().write_all(head.as_bytes()).unwrap();
    let mut line = String::new();
    slow.0.read_line(&mut line).unwrap();
    assert_eq!(line, "HTTP/1.1 400 Bad Request\r\n");
    let init_error = "POST /2018-06-01/runtime/init/error HTTP/1.1";
    let foreign = format!("Host: {address}\r\nOrigin: null\r\nContent-Type: text/plain\r\n");
    assert_eq!(send(&address, init_error, &foreign, "{}").status, 403);
    let own = format!("Host: {address}\r\n");
    assert_eq!(send(&address, init_error, &own, &"x".repeat(64 * 1024 + 1)).status, 413);
    // The invocation is still there.
    let taken = send(&address, next, &format!("Host: {address}\r\n"), "");
    assert_eq!((taken.status, taken.body.as_str()), (200, "{}"));
}

#[test]
fn the_body_is_forwarded_up_to_the_limit_of_dynamodb() {
    let stack = Serving::start(&["--feed", "/dev/null"]);
    let own = format!("Host: {}\r\nAccept-Encoding: identity\r\n{SIGNED}", stack.dynamodb);
    let padded = |length: usize| format!("{{{}}}", " ".repeat(length - 2));
    for (length, status) in [(16 * 1024 * 1024, 200), (16 * 1024 * 1024 + 1, 413)] {
        let response = send(&stack.dynamodb, "POST / HTTP/1.1", &own, &padded(length));
        assert_eq!(response.status, status, "{length}: {}", response.head);
    }
    // A body in chunks.
    let mut connection = Connection::open(&stack.dynamodb);
    let request = format!("POST / HTTP/1.1\r\n{own}Transfer-Encoding: chunked\r\n\r\n1\r\n{{\r\n1\r\n}}\r\n0\r\n\r\n");
    connection.0.get_mut().write_all(request.as_bytes()).unwrap();
    let mut line = String::new();
    connection.0.read_line(&mut line).unwrap();
    assert_eq!(line, "HTTP/1.1 200 OK\r\n");
}

/// Only the printed listeners are at 127.0.0.1, where a page could try all ports.
#[cfg(target_os = "linux")]
#[test]
fn the_server_behind_the_public_port_is_at_a_random_address() {
    let mut child = command(&["--feed", "/dev/null", "--console-port", "0"])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    let mut printed = String::new();
    for line in lines {
        printed.push_str(&line);
        // The last command to copy.
        if line.contains("run -p vzero") {
            break;
        }
    }
    let listeners = listeners(child.id());
    child.kill().unwrap();
    child.wait().unwrap();
    let (known, random): (Vec<&std::net::SocketAddrV4>, Vec<_>) = listeners
        .iter()
        .partition(|address| *address.ip() == std::net::Ipv4Addr::LOCALHOST);
    assert_eq!((known.len(), random.len()), (3, 1), "{listeners:?}");
    assert!(
        known.iter().all(|address| printed.contains(&address.to_string())),
        "{printed}"
    );
    assert!(random.iter().all(|address| address.ip().is_loopback()), "{random:?}");
    assert!(
        random.iter().all(|address| !printed.contains(&address.to_string())),
        "{printed}"
    );
}

/// Returns the addresses at which a process listens.
#[cfg(target_os = "linux")]
fn listeners(pid: u32) -> Vec<std::net::SocketAddrV4> {
    let sockets: Vec<_> = std::fs::read_dir(format!("/proc/{pid}/fd"))
        .unwrap()
        .filter_map(|entry| std::fs::read_link(entry.ok()?.path()).ok())
        .filter_map(|target| Some(target.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?.to_owned()))
        .collect();
    let table = std::fs::read_to_string(format!("/proc/{pid}/net/tcp")).unwrap();
    let rows = table.lines().map(|row| row.split_whitespace().collect::<Vec<_>>());
    // State 0A is LISTEN. The address is a number in the byte order of the machine.
    let listening = rows.filter(|row| row[3] == "0A" && sockets.iter().any(|socket| row[9] == socket));
    let address = |row: Vec<&str>| {
        let (address, port) = row[1].split_once(':').unwrap();
        let octets = u32::from_str_radix(address, 16).unwrap().to_ne_bytes();
        std::net::SocketAddrV4::new(octets.into(), u16::from_str_radix(port, 16).unwrap())
    };
    listening.map(address).collect()
}
