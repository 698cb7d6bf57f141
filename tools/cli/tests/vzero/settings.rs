//! Settings of requests: consistency of reads, and the number of attempts from the environment.

use std::{
    io::{Read as _, Write as _},
    net::TcpListener,
    process::Command,
};

use testkit::table::Table;

/// Returns the consumed read units of a command that succeeds.
fn units(table: &Table, arguments: &str) -> f64 {
    let run = table.run(&format!("{arguments} --consumed-capacity"));
    assert_eq!(run.code, 0, "{arguments:?}: {}", run.stderr);
    let total = run.stderr.lines().find_map(|line| line.strip_prefix("total: "));
    let (units, _) = total.unwrap().split_once(" units").unwrap();
    units.parse().unwrap()
}

#[test]
fn eventual_halves_the_units_of_reads() {
    let table = crate::new_table();
    for day in 1..=3 {
        let time = format!("2020-01-0{day}");
        let put = format!("put --mode inline E --set State=OK --time {time}");
        table.json(&put, 0);
    }
    let first = table.json("get E --version 1", 0);
    let at = first["RecordedAt"].as_str().unwrap();
    table.json("metadata E --set Name=Equipment-001", 0);
    table.json("state put S --time 2020-01-01 --set State=OK", 0);
    for (arguments, strong) in [
        ("get E", 1.0),
        ("get E --version 2", 1.0),
        (&format!("get E --at {at}"), 3.0),
        ("get E --effective-at 2020-01-01", 3.0),
        ("diff E 1 3", 2.0),
        ("history E", 4.0),
        ("history E --limit 1", 2.0),
        ("metadata E", 1.0),
        ("state latest S", 1.0),
        ("state list S", 1.0),
    ] {
        let eventual = format!("{arguments} --eventual");
        let expected = [strong, strong / 2.0];
        let measured = [arguments, &eventual].map(|arguments| units(&table, arguments));
        assert_eq!(
            measured.map(|units| units.to_string()),
            expected.map(|units| units.to_string()),
            "{arguments:?}"
        );
        assert_eq!(
            table.run(&eventual).stdout,
            table.run(arguments).stdout,
            "{arguments:?}"
        );
    }
}

fn vzero(endpoint: &str, variables: &[(&str, &str)]) -> std::process::Output {
    Command::new(crate::VZERO)
        .env_clear()
        .envs(variables.iter().copied())
        .args(["--endpoint-url", endpoint, "get", "E"])
        .output()
        .unwrap()
}

/// Returns the number of requests to a DynamoDB that fails each of them.
fn attempts(variables: &[(&str, &str)]) -> usize {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let served = std::thread::spawn(move || {
        for count in 0.. {
            let (mut stream, _) = listener.accept().unwrap();
            let mut head = Vec::new();
            let mut byte = [0];
            while !head.ends_with(b"\r\n\r\n") && stream.read(&mut byte).unwrap() > 0 {
                head.push(byte[0]);
            }
            if head.is_empty() {
                return count;
            }
            let failure = r#"{"__type":"InternalServerError"}"#;
            let length = failure.len();
            let head = "HTTP/1.1 500 Internal Server Error\r\nConnection: close";
            write!(stream, "{head}\r\nContent-Length: {length}\r\n\r\n{failure}").unwrap();
        }
        unreachable!()
    });
    let output = vzero(&format!("http://{address}"), variables);
    assert_eq!(output.status.code(), Some(5));
    // A connection without a request ends the server.
    drop(std::net::TcpStream::connect(address).unwrap());
    served.join().unwrap()
}

#[test]
fn attempts_are_those_of_the_environment() {
    // The layout and the identity of the table are read at the same time.
    assert_eq!(attempts(&[]), 2 * 3);
    assert_eq!(attempts(&[("AWS_MAX_ATTEMPTS", "1")]), 2);
    assert_eq!(attempts(&[("AWS_MAX_ATTEMPTS", "4")]), 2 * 4);
}

#[test]
fn an_invalid_number_of_attempts_is_a_usage_error() {
    for value in ["0", "11", "three"] {
        let output = vzero("http://127.0.0.1:9", &[("AWS_MAX_ATTEMPTS", value)]);
        assert_eq!(output.status.code(), Some(2), "{value}");
        let expected =
            "error: the environment variable AWS_MAX_ATTEMPTS cannot be read: expected a whole number from 1 to 10\n";
        assert_eq!(String::from_utf8(output.stderr).unwrap(), expected);
    }
}
