//! Settings of requests: consistency of reads, the number of attempts, credentials and Region.

use std::{
    io::{Read as _, Write as _},
    net::TcpListener,
    process::Command,
};

crate::script::script_tests! {
    fn eventual_halves_the_units_of_reads();
}

/// Runs the command against a DynamoDB that fails each request, and returns the heads of the requests.
fn requests(command: &mut Command) -> Vec<String> {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let served = std::thread::spawn(move || {
        let mut heads = Vec::new();
        loop {
            let (mut stream, _) = listener.accept().unwrap();
            let mut head = Vec::new();
            let mut byte = [0];
            while !head.ends_with(b"\r\n\r\n") && stream.read(&mut byte).unwrap() > 0 {
                head.push(byte[0]);
            }
            if head.is_empty() {
                return heads;
            }
            heads.push(String::from_utf8(head).unwrap());
            let failure = r#"{"__type":"InternalServerError"}"#;
            let length = failure.len();
            let head = "HTTP/1.1 500 Internal Server Error\r\nConnection: close";
            write!(stream, "{head}\r\nContent-Length: {length}\r\n\r\n{failure}").unwrap();
        }
    });
    let endpoint = format!("http://{address}");
    let output = command
        .args(["--endpoint-url", &endpoint, "get", "E"])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(5));
    // A connection without a request ends the server.
    drop(std::net::TcpStream::connect(address).unwrap());
    served.join().unwrap()
}

fn vzero() -> Command {
    let mut command = Command::new(crate::VZERO);
    command.env_clear();
    command
}

#[test]
fn attempts_are_those_of_the_environment() {
    // The layout and the identity of the table are read at the same time.
    assert_eq!(requests(&mut vzero()).len(), 2 * 3);
    for attempts in [1, 4] {
        let sent = requests(vzero().env("AWS_MAX_ATTEMPTS", attempts.to_string()));
        assert_eq!(sent.len(), 2 * attempts);
    }
}

#[test]
fn an_invalid_number_of_attempts_is_a_usage_error() {
    for value in ["0", "11", "three"] {
        let mut command = vzero();
        command.args(["--endpoint-url", "http://127.0.0.1:9", "get", "E"]);
        let output = command.env("AWS_MAX_ATTEMPTS", value).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{value}");
        let expected =
            "error: the environment variable AWS_MAX_ATTEMPTS cannot be read: expected a whole number from 1 to 10\n";
        assert_eq!(String::from_utf8(output.stderr).unwrap(), expected);
    }
}

#[test]
fn a_profile_takes_precedence_over_the_environment() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path
    };
    let config = file("config", "[profile other]\nregion = eu-west-3\n");
    let keys = "[other]\naws_access_key_id = PROFILEKEY\naws_secret_access_key = x\n";
    let credentials = file("credentials", keys);
    for (arguments, key, region) in [
        (&[][..], "ENVKEY", "us-east-1"),
        (&["--profile", "other"], "PROFILEKEY", "eu-west-3"),
        (
            &["--profile", "other", "--region", "us-west-2"],
            "PROFILEKEY",
            "us-west-2",
        ),
    ] {
        let mut command = vzero();
        command
            .env("AWS_ACCESS_KEY_ID", "ENVKEY")
            .env("AWS_SECRET_ACCESS_KEY", "x");
        command.env("AWS_REGION", "us-east-1").env("AWS_MAX_ATTEMPTS", "1");
        command
            .env("AWS_CONFIG_FILE", &config)
            .env("AWS_SHARED_CREDENTIALS_FILE", &credentials);
        for head in requests(command.args(arguments)) {
            let head = head.to_lowercase();
            let line = head.lines().find(|line| line.starts_with("authorization:")).unwrap();
            let signed = format!("credential={}/", key.to_lowercase());
            assert!(
                line.contains(&signed) && line.contains(&format!("/{region}/")),
                "{line}"
            );
        }
    }
}
