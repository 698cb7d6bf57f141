//! `vzero console` as a process: its addresses, the options that other machines require, and many requests at the same time.

use std::{
    collections::BTreeMap,
    net::{SocketAddr, TcpListener, TcpStream, UdpSocket},
    sync::atomic::{AtomicUsize, Ordering},
    thread,
};

use serde_json::json;
use testkit::{command::Run, database::put_item, endpoint::Engine, table::Table};

use crate::{html::Page, new_table, served::Console};

const TOKEN: &str = "a-token-of-a-test_0123456789";

/// Starts a console that ends with a usage error.
fn refused(table: &Table, environment: &[(&str, &str)], arguments: &str, why: &str) -> String {
    let run = Run::wait(table.start_with(environment, &format!("console --no-open {arguments}")));
    assert_eq!((run.code, run.stdout.as_str()), (2, ""), "{arguments}: {run:?}");
    assert!(run.stderr.contains(why), "{arguments}: {run:?}");
    run.stderr
}

#[test]
fn listening_for_other_machines_requires_a_strong_token() {
    let table = new_table();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    for (arguments, why) in [
        ("--port 0 --bind 0.0.0.0", "--token <TOKEN>"),
        ("--port 0 --bind 127.0.0.1", "--token <TOKEN>"),
        (
            &format!("--port 0 --host history.example --token {TOKEN}"),
            "--bind <ADDRESS>",
        ),
        (
            &format!("--port {port}"),
            &format!("port {port} is in use: --port 0 selects a free one"),
        ),
        (
            &format!("--port 0 --bind 192.0.2.1 --token {TOKEN}"),
            "cannot listen on 192.0.2.1",
        ),
    ] {
        refused(&table, &[], arguments, why);
    }
    for token in [
        "",
        "short",
        "fifteen-letters",
        "a token with spaces",
        "with/slashes/in/it/all",
        "&to=//evil.example",
    ] {
        for bind in ["", "--bind 0.0.0.0"] {
            let option = refused(&table, &[], &format!("--port 0 --token '{token}' {bind}"), "--token");
            let environment = [("VZERO_CONSOLE_TOKEN", token)];
            let variable = refused(&table, &environment, &format!("--port 0 {bind}"), "VZERO_CONSOLE_TOKEN");
            // The error does not contain the value.
            assert!(token.is_empty() || !(option + &variable).contains(token), "{token}");
        }
    }
    let bind = "--no-open --bind 127.0.0.1 --host history.example";
    for console in [
        Console::start(&table, &[], &format!("{bind} --token {TOKEN}")),
        Console::start(&table, &[("VZERO_CONSOLE_TOKEN", TOKEN)], bind),
    ] {
        assert_eq!(console.token, TOKEN);
        assert!(console.address.starts_with("history.example:"), "{}", console.address);
        console.requests(
            "
            GET /none | Cookie: {cookie} => 404
            GET /none | Host: 192.0.2.1:1 | Cookie: {cookie} => 404
            GET /none | Host: evil.example | Cookie: {cookie} => 421
            ",
        );
    }
}

/// The embedded DynamoDB processes one request after the other. If all pages sent their requests at once, these would wait for
/// longer than an attempt may take.
#[test]
fn many_requests_at_once_have_no_errors() {
    const REQUESTS: usize = 1000;
    const CLIENTS: usize = 200;
    const PAGES: [&str; 3] = ["/", "/entity?id=E1", "/health"];
    let table = new_table();
    table.runtime.block_on(async {
        for (n, sk) in (0..500).flat_map(|n| [(n, "v0"), (n, "v1")]) {
            let (id, text) = (format!("E{n}"), "x".repeat(4000));
            let item = json!({"PK": {"S": id}, "SK": {"S": sk}, "Latest": {"N": "1"}, "Text": {"S": text}});
            put_item(&table.client, &table.name, item).await;
        }
    });
    // DynamoDB Local needs longer for a page of large items.
    let timeout = match table.endpoint.engine {
        Engine::DynamodbLocal => "3000",
        _ => "400",
    };
    let console = Console::start(&table, &[], &format!("--no-open --attempt-timeout-ms {timeout}"));
    // By default, only this machine can connect.
    let address: SocketAddr = console.address.parse().unwrap();
    assert!(address.ip().is_loopback());
    // Another address of this machine, if it has one. Connecting a UDP socket sends no packet.
    let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
    if socket.connect("192.0.2.1:9").is_ok() {
        let ip = socket.local_addr().unwrap().ip();
        assert!(ip.is_loopback() || TcpStream::connect((ip, address.port())).is_err());
    }
    let sent = AtomicUsize::new(0);
    let client = || {
        let mut errors = BTreeMap::<String, usize>::new();
        loop {
            let request = sent.fetch_add(1, Ordering::Relaxed);
            if request >= REQUESTS {
                return errors;
            }
            let answer = console.get(PAGES[request % PAGES.len()]);
            if answer.status != 200 {
                *errors
                    .entry(format!("{} {}", answer.status, Page::parse(&answer.body).text))
                    .or_default() += 1;
            }
        }
    };
    thread::scope(|scope| {
        let clients: Vec<_> = (0..CLIENTS).map(|_| scope.spawn(client)).collect();
        for client in clients {
            assert_eq!(client.join().unwrap(), BTreeMap::new());
        }
    });
}
