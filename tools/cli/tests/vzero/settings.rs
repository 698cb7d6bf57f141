//! Settings of requests: consistency of reads, the number of attempts, credentials and Region.

use std::{
    fs,
    sync::{Arc, Mutex},
};

use testkit::{
    command::Run,
    http::{self, Message},
    script_tests,
    table::Table,
};

script_tests! {
    Table;
    fn eventual_halves_the_units_of_reads();
    fn an_invalid_number_of_attempts_is_a_usage_error();
    fn an_unreachable_database_is_named_with_the_cause_and_the_next_step();
}

/// Runs the command against a DynamoDB that fails each request, and returns the requests.
fn requests(environment: &[(&str, &str)], options: &str) -> Vec<Message> {
    let sent = Arc::<Mutex<Vec<_>>>::default();
    let kept = Arc::clone(&sent);
    let endpoint = http::serve(move |request| {
        kept.lock().unwrap().push(request.clone());
        Message::new(
            "HTTP/1.1 500 Internal Server Error",
            r#"{"__type":"InternalServerError"}"#,
        )
    });
    let run = Run::alone(
        crate::VZERO,
        environment,
        &format!("{options} --endpoint-url {endpoint} get E"),
    );
    assert_eq!(run.code, 5, "{run:?}");
    let sent = sent.lock().unwrap();
    sent.clone()
}

#[test]
fn attempts_are_those_of_the_environment() {
    // The layout and the identity of the table are read at the same time.
    assert_eq!(requests(&[], "").len(), 2 * 3);
    for attempts in [1, 4] {
        let sent = requests(&[("AWS_MAX_ATTEMPTS", &attempts.to_string())], "");
        assert_eq!(sent.len(), 2 * attempts);
    }
}

#[test]
fn a_profile_takes_precedence_over_the_environment() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        let path = folder.path().join(name);
        fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let config = file("config", "[profile other]\nregion = eu-west-3\n");
    let keys = "[other]\naws_access_key_id = PROFILEKEY\naws_secret_access_key = x\n";
    let environment = [
        ("AWS_ACCESS_KEY_ID", "ENVKEY"),
        ("AWS_SECRET_ACCESS_KEY", "x"),
        ("AWS_REGION", "us-east-1"),
        ("AWS_MAX_ATTEMPTS", "1"),
        ("AWS_CONFIG_FILE", &config),
        ("AWS_SHARED_CREDENTIALS_FILE", &file("credentials", keys)),
    ];
    for (options, key, region) in [
        ("", "ENVKEY", "us-east-1"),
        ("--profile other", "PROFILEKEY", "eu-west-3"),
        ("--profile other --region us-west-2", "PROFILEKEY", "us-west-2"),
    ] {
        for request in requests(&environment, options) {
            let signed = request.header("authorization").unwrap();
            let is_of_key = signed.contains(&format!("Credential={key}/"));
            assert!(is_of_key && signed.contains(&format!("/{region}/")), "{signed}");
        }
    }
}
