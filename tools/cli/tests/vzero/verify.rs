//! `vzero verify`, without a table.

use axum::http::{StatusCode, Uri};
use serde_json::json;
use testkit::{command::Run, pages::root};

#[test]
fn a_proof_holds_only_if_nothing_was_changed() {
    let folder = root().join("tools/seal/example");
    let (proof, vkey) = (folder.join("proof.json"), folder.join("vkey"));
    let verify = |proof: &std::path::Path, vkey: &std::path::Path, more: &str| {
        let arguments = format!("verify {} --vkey {} {more}", proof.display(), vkey.display());
        Run::alone(crate::VZERO, &[], &arguments)
    };
    let run = verify(&proof, &vkey, "--output json");
    let expected = json!({
        "Holds": true, "Log": "example.com/log", "Size": 8, "Entity": "Press#12", "Versions": [1, 2, 3, 4], "Leaves": 4, "Shown": 36,
        "Withheld": 4, "Table": "arn:aws:dynamodb:us-east-1:000000000000:table/VersionControl",
    });
    assert_eq!((run.code, run.json()), (0, expected));
    let run = verify(&proof, &vkey, "--output table");
    assert!(
        run.stdout.contains("versions 1 to 4 of \"Press#12\" in \"arn:") && run.stdout.contains("Not proven:"),
        "{run:?}"
    );

    let log = |name: &str| format!("--log {} --output json", folder.join(name).display());
    let run = verify(&proof, &vkey, &log("log"));
    assert_eq!((run.code, &run.json()["NewestInLog"]), (0, &json!(4)));
    let run = verify(&proof, &vkey, &log("log/tile"));
    assert!(
        run.code == 1 && run.stderr.contains("no readable file checkpoint"),
        "{run:?}"
    );

    let text = std::fs::read_to_string(&proof).unwrap();
    let temporary = tempfile::tempdir().unwrap();
    let changed = temporary.path().join("proof.json");
    for (from, to, reason) in [
        ("H2", "H3", "no such leaf at index 2"),
        ("\"Index\": 2", "\"Index\": 02", "is no proof"),
        ("\"amy\"", "\"amy\", \"S\": \"bob\"", "is no proof"),
    ] {
        std::fs::write(&changed, text.replacen(from, to, 1)).unwrap();
        let run = verify(&changed, &vkey, "");
        assert_eq!((run.code, run.stdout.as_str()), (1, ""), "{from}");
        assert!(run.stderr.contains(reason), "{}", run.stderr);
    }
    std::fs::write(&changed, [text.as_bytes(), b"\xff"].concat()).unwrap();
    let run = verify(&changed, &vkey, "");
    assert!(
        run.code == 1 && run.stderr.contains("does not hold: invalid utf-8"),
        "{run:?}"
    );
    let run = verify(&proof, &proof, "");
    assert_eq!(run.code, 2, "{run:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_log_in_a_bucket_is_read_as_in_a_folder() {
    let folder = root().join("tools/seal/example");
    let log = folder.join("log");
    let object = async move |uri: Uri| match std::fs::read(log.join(uri.path().trim_start_matches("/bucket/"))) {
        Ok(bytes) => (StatusCode::OK, bytes),
        Err(_) => (StatusCode::NOT_FOUND, b"<Error><Code>NoSuchKey</Code></Error>".to_vec()),
    };
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async { axum::serve(listener, axum::Router::new().fallback(object)).await });
    let verify = |place: &str, url: &str| {
        let file = |name: &str| folder.join(name).display().to_string();
        let (proof, vkey) = (file("proof.json"), file("vkey"));
        let words = [
            "verify",
            &proof,
            "--vkey",
            &vkey,
            "--log",
            place,
            "--s3-endpoint-url",
            url,
            "--output",
            "json",
        ];
        let variables = ["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_REGION"].map(|name| (name, "us-east-1"));
        tokio::task::block_in_place(|| Run::alone(crate::VZERO, &variables, &words))
    };
    let run = verify("s3://bucket", &url);
    assert_eq!((run.code, &run.json()["NewestInLog"]), (0, &json!(4)), "{run:?}");
    let run = verify("s3://other", &url);
    assert!(
        run.code == 1 && run.stderr.contains("no readable file checkpoint"),
        "{run:?}"
    );
    assert_eq!(verify("s3://bucket", "http://127.0.0.1:9").code, 5);
}
