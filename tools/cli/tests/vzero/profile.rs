//! Credentials and Region of requests.

use std::{
    io::{Read as _, Write as _},
    net::TcpListener,
    process::Command,
};

/// Returns the `Authorization` of the first request, with credentials and a Region in the environment.
fn authorization(arguments: &[&str]) -> String {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path
    };
    let config = file("config", "[profile other]\nregion = eu-west-3\n");
    let credentials = file(
        "credentials",
        "[other]\naws_access_key_id = PROFILEKEY\naws_secret_access_key = x\n",
    );
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let endpoint = format!("http://{}", listener.local_addr().unwrap());
    let asked = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut head = Vec::new();
        let mut byte = [0];
        while !head.ends_with(b"\r\n\r\n") && stream.read(&mut byte).unwrap() > 0 {
            head.push(byte[0]);
        }
        let refusal = r#"{"__type":"AccessDeniedException"}"#;
        let length = refusal.len();
        write!(
            stream,
            "HTTP/1.1 400 Bad Request\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n{refusal}"
        )
        .unwrap();
        String::from_utf8(head).unwrap()
    });
    let output = Command::new(crate::VZERO)
        .env_clear()
        .envs([
            ("AWS_ACCESS_KEY_ID", "ENVKEY"),
            ("AWS_SECRET_ACCESS_KEY", "x"),
            ("AWS_REGION", "us-east-1"),
        ])
        .env("AWS_CONFIG_FILE", config)
        .env("AWS_SHARED_CREDENTIALS_FILE", credentials)
        .args(["--endpoint-url", &endpoint])
        .args(arguments)
        .args(["get", "E"])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(5));
    let head = asked.join().unwrap();
    let line = head
        .lines()
        .find(|line| line.to_lowercase().starts_with("authorization:"));
    line.unwrap().to_owned()
}

#[test]
fn a_profile_takes_precedence_over_the_environment() {
    let by_environment = authorization(&[]);
    assert!(
        by_environment.contains("Credential=ENVKEY/") && by_environment.contains("/us-east-1/"),
        "{by_environment}"
    );
    let by_profile = authorization(&["--profile", "other"]);
    assert!(
        by_profile.contains("Credential=PROFILEKEY/") && by_profile.contains("/eu-west-3/"),
        "{by_profile}"
    );
    let by_both = authorization(&["--profile", "other", "--region", "us-west-2"]);
    assert!(
        by_both.contains("Credential=PROFILEKEY/") && by_both.contains("/us-west-2/"),
        "{by_both}"
    );
}
