//! Listener addresses, and the options that other machines require.

use std::{
    io::{BufRead as _, BufReader},
    net::TcpListener,
};

use crate::{
    new_table,
    served::{Console, TOKEN},
};

#[test]
fn listening_for_other_machines_requires_a_strong_token() {
    let table = new_table();
    let refused_with = |environment: &[(&str, &str)], arguments: &str, why: &str| {
        let mut child = table.start_with(environment, &format!("console --no-open {arguments}"));
        // A console that starts prints a line.
        let mut said = String::new();
        BufReader::new(child.stdout.take().unwrap())
            .read_line(&mut said)
            .unwrap();
        if !said.is_empty() {
            child.kill().unwrap();
        }
        let output = child.wait_with_output().unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(said, "", "{arguments:?}");
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {stderr}");
        assert!(stderr.contains(why), "{arguments:?}: {stderr}");
        stderr.into_owned()
    };
    let refused = |arguments: &str, why: &str| refused_with(&[], arguments, why);
    refused("--port 0 --bind 0.0.0.0", "--token <TOKEN>");
    refused("--port 0 --bind 127.0.0.1", "--token <TOKEN>");
    refused(
        &format!("--port 0 --host history.example --token {TOKEN}"),
        "--bind <ADDRESS>",
    );
    for token in [
        "",
        "short",
        "fifteen-letters",
        "a token with spaces",
        "with/slashes/in/it/all",
        "&to=//evil.example",
    ] {
        let environment = [("VZERO_CONSOLE_TOKEN", token)];
        for stderr in [
            refused(&format!("--port 0 --token '{token}'"), "--token"),
            refused(&format!("--port 0 --bind 0.0.0.0 --token '{token}'"), "--token"),
            refused_with(&environment, "--port 0", "VZERO_CONSOLE_TOKEN"),
            refused_with(&environment, "--port 0 --bind 0.0.0.0", "VZERO_CONSOLE_TOKEN"),
        ] {
            // The error does not contain the value.
            assert!(token.is_empty() || !stderr.contains(token), "{token}: {stderr}");
        }
    }
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    refused(
        &format!("--port {port}"),
        &format!("port {port} is in use: --port 0 selects a free one"),
    );
    refused(
        &format!("--port 0 --bind 192.0.2.1 --token {TOKEN}"),
        "cannot listen on 192.0.2.1",
    );

    let console = Console::with(
        &table,
        &format!("--bind 127.0.0.1 --host history.example --token {TOKEN}"),
    );
    assert_eq!(console.token, TOKEN);
    // The same with the token of the environment.
    let environment = [("VZERO_CONSOLE_TOKEN", TOKEN)];
    let bound = Console::with_environment(&table, &environment, "--bind 127.0.0.1 --host history.example");
    assert_eq!((bound.token.as_str(), bound.get("/none").status), (TOKEN, 404));
    assert!(console.address.starts_with("history.example:"), "{}", console.address);
    assert_eq!(console.get("/none").status, 404);
    for (host, status) in [("192.0.2.1:1", 404), ("evil.example", 421)] {
        let answer = console.raw("GET", "/none", &[("Host", host), ("Cookie", &console.cookie)], "");
        assert_eq!(answer.status, status, "{host}");
    }
}

#[test]
fn by_default_only_this_machine_can_connect() {
    let console = Console::of(&new_table());
    let address: std::net::SocketAddr = console.address.parse().unwrap();
    assert!(address.ip().is_loopback());
    // Another address of this machine, if it has one. Connecting a UDP socket sends no packet.
    let socket = std::net::UdpSocket::bind("0.0.0.0:0").unwrap();
    if socket.connect("192.0.2.1:9").is_ok() {
        let ip = socket.local_addr().unwrap().ip();
        assert!(ip.is_loopback() || std::net::TcpStream::connect((ip, address.port())).is_err());
    }
}
