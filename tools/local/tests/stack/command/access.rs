//! Web pages cannot use the ports of the stack. `listener::access` has a test of each rule.

use serde_json::json;
use tokio::io::AsyncReadExt as _;

use crate::{
    command::executable,
    http::{Connection, SIGNED, ask},
    serving::serve,
    support::eventually,
};

const INVOKE: &str = "/2015-03-31/functions/writer-fn/invocations";

/// Header lines of foreign pages, with the status of the response. `{}` is the address of the listener.
const FOREIGN: [(&str, u16); 4] = [
    ("Host: {}\r\nOrigin: http://evil.example\r\n", 403),
    ("Host: {}\r\nOrigin: http://{}\r\nSec-Fetch-Site: same-site\r\n", 403),
    ("Host: evil.example\r\n", 421),
    ("Host: {}\r\nHost: evil.example\r\n", 400),
];

/// The preface of HTTP/2, its settings, and `GET / HTTP/2` with `:authority: localhost`.
const HTTP_2: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\
    \x00\x00\x00\x04\x00\x00\x00\x00\x00\
    \x00\x00\x0e\x01\x05\x00\x00\x00\x01\x82\x84\x86\x41\x09localhost";

#[tokio::test]
async fn requests_of_foreign_pages_are_refused_and_those_of_programs_accepted() {
    let stack = serve(&["--feed", "/dev/null"]);
    let update = json!({"ID": "Attacked#1"}).to_string();
    let (invoke, list) = (format!("POST {INVOKE} HTTP/1.1"), "POST / HTTP/1.1".to_owned());
    for (address, line, headers, body, error) in [
        (&stack.lambda, &invoke, "", update.as_str(), "AccessDeniedException"),
        (&stack.dynamodb, &list, SIGNED, "{}", "AccessDeniedException"),
    ] {
        for (foreign, status) in FOREIGN {
            let headers = foreign.replace("{}", address) + headers;
            let response = ask(address, line, &headers, body).await;
            assert_eq!(response.status(), status, "{headers}: {response:?}");
            assert!(
                String::from_utf8(response.bytes()).unwrap().contains(error),
                "{headers}"
            );
        }
        // In an absolute request target, and on each method, path and version.
        let own = format!("Host: {address}\r\n");
        let absolute = line.replace("POST ", "POST http://evil.example");
        let response = ask(address, &absolute, &(own.clone() + headers), body).await;
        assert_eq!(response.status(), 421, "{absolute}");
        let foreign = format!("{own}Origin: http://evil.example\r\n{headers}");
        for line in [
            "GET / HTTP/1.1",
            "HEAD / HTTP/1.1",
            "PUT /other HTTP/1.1",
            "OPTIONS / HTTP/1.1",
            &line.replace("HTTP/1.1", "HTTP/1.0"),
        ] {
            assert_eq!(ask(address, line, &foreign, "").await.status(), 403, "{line}");
        }
        for target in ["evil.example:443", address] {
            let connect = ask(address, &format!("CONNECT {target} HTTP/1.1"), &own, "").await;
            assert!((400..500).contains(&connect.status()), "{connect:?}");
        }
        // No response allows a page to read it.
        let preflight = "Access-Control-Request-Method: POST\r\nAccess-Control-Request-Private-Network: true\r\n";
        for (method, more) in [("OPTIONS", preflight), ("POST", headers), ("GET", "")] {
            let own = format!("{own}Origin: http://{address}\r\n{more}");
            let response = ask(address, &line.replace("POST", method), &own, "{}").await;
            let head = response.head.to_lowercase();
            assert!(!head.contains("access-control-"), "{response:?}");
        }
        // Requests of programs, and of the listener's own origin, on one connection: each of them is checked.
        let mut connection = Connection::open(address).await;
        let port = address.rsplit_once(':').unwrap().1;
        let localhost = format!("Host: localhost:{port}\r\nOrigin: http://localhost:{port}\r\n");
        let page = format!("{own}Origin: http://{address}\r\nSec-Fetch-Site: same-origin\r\n");
        let ipv6 = format!("Host: [::1]:{port}\r\n");
        for (own, status) in [
            (&own, 200),
            (&localhost, 200),
            (&page, 200),
            (&ipv6, 200),
            (&foreign, 403),
        ] {
            let response = connection.ask(line, &(own.clone() + headers), body.as_bytes()).await;
            assert_eq!(response.status(), status, "{own}: {response:?}");
        }
        // A listener of a build without HTTP/2 responds in HTTP/1.1.
        let mut connection = Connection::open(address).await;
        connection.write(HTTP_2).await;
        let mut response = Vec::new();
        while !String::from_utf8_lossy(&response).contains("HTTP/1.1") {
            let read = connection.0.read_buf(&mut response).await.unwrap();
            assert!(read > 0, "{}", response.escape_ascii());
        }
    }
    // Without options, curl sends a form, and `text/plain` is what a page can send without a preflight: programs may send both.
    for kind in ["application/x-www-form-urlencoded", "text/plain"] {
        let headers = format!("Host: {}\r\nContent-Type: {kind}\r\n", stack.lambda);
        let response = ask(&stack.lambda, &invoke, &headers, r#"{"ID": "a"}"#).await;
        assert_eq!(response.status(), 200, "{kind}");
    }
    // No refused request had an effect.
    let response = ask(&stack.lambda, &invoke, "Host: localhost\r\n", &update).await;
    assert_eq!(response.json()["Version"], 5);

    // The body is forwarded up to the limit of DynamoDB.
    let own = format!("Host: localhost\r\nAccept-Encoding: identity\r\n{SIGNED}");
    let padded = |length: usize| format!("{{{}}}", " ".repeat(length - 2));
    for (length, status) in [(16 * 1024 * 1024, 200), (16 * 1024 * 1024 + 1, 413)] {
        let response = ask(&stack.dynamodb, &list, &own, &padded(length)).await;
        assert_eq!(response.status(), status, "{length}: {response:?}");
    }
    // A body in chunks.
    let mut connection = Connection::open(&stack.dynamodb).await;
    let request = format!("{list}\r\n{own}Transfer-Encoding: chunked\r\n\r\n1\r\n{{\r\n1\r\n}}\r\n0\r\n\r\n");
    connection.write(request.as_bytes()).await;
    assert_eq!(connection.line().await, "HTTP/1.1 200 OK\r\n");
}

/// A Runtime API accepts requests of its process only. An image of a page could otherwise take an invocation.
#[tokio::test]
async fn a_page_cannot_take_an_invocation() {
    let folder = tempfile::tempdir().unwrap();
    let address = folder.path().join("address");
    // A function that names its Runtime API, and takes no invocation.
    let script = format!(
        "#!/bin/sh\necho \"$AWS_LAMBDA_RUNTIME_API\" >'{0}.new'\nmv '{0}.new' '{0}'\nexec sleep 60\n",
        address.display()
    );
    let bootstrap = executable(folder.path(), "bootstrap", &script);
    let stack = serve(&["--feed", "/dev/null", "--bootstrap", &format!("writer-fn={bootstrap}")]);
    let mut invoked = Connection::open(&stack.lambda).await;
    let invoke = format!("POST {INVOKE} HTTP/1.1");
    invoked.send(&invoke, "Host: localhost\r\n", b"{}").await;
    let address = eventually("the address", async || std::fs::read_to_string(&address).ok()).await;
    let (address, own) = (address.trim(), format!("Host: {}\r\n", address.trim()));
    let next = "GET /2018-06-01/runtime/invocation/next HTTP/1.1";
    for (headers, status) in FOREIGN {
        let response = ask(address, next, &headers.replace("{}", address), "").await;
        assert_eq!(response.status(), status, "{headers}: {response:?}");
    }
    let response = "POST /2018-06-01/runtime/invocation/id/response HTTP/1.1";
    assert_eq!(ask(address, response, &own, "{}").await.status(), 400);
    // Without waiting for the body: only the process can send one.
    let mut slow = Connection::open(address).await;
    slow.write(format!("{response}\r\n{own}Content-Length: 1\r\n\r\n").as_bytes())
        .await;
    assert_eq!(slow.line().await, "HTTP/1.1 400 Bad Request\r\n");
    let init_error = "POST /2018-06-01/runtime/init/error HTTP/1.1";
    let foreign = format!("{own}Origin: null\r\nContent-Type: text/plain\r\n");
    assert_eq!(ask(address, init_error, &foreign, "{}").await.status(), 403);
    let large = "x".repeat(64 * 1024 + 1);
    assert_eq!(ask(address, init_error, &own, &large).await.status(), 413);
    // The invocation is still there.
    let taken = ask(address, next, &own, "").await;
    assert_eq!((taken.status(), &taken.body[..]), (200, &b"{}"[..]));
}
