//! The emulator of S3 and KMS, by the SDK clients.

#![allow(clippy::unwrap_used, reason = "in a test, a panic is the message")]

use std::future::ready;

use aws_sdk_kms::types::{MessageType, SigningAlgorithmSpec};
use aws_sdk_s3::{
    Client,
    error::ProvideErrorMetadata,
    primitives::{Blob, ByteStream, DateTime},
    types::{Object, ObjectLockMode},
};
use ring::signature::{ED25519, UnparsedPublicKey};
use serde_json::{Value, json};
use testkit::{
    cases::cases,
    cloud::{Cloud, Fault, Process},
    replay::Replay,
};

fn cloud() -> Cloud {
    let cloud = Cloud::default();
    cloud.create_bucket("log", true);
    cloud.create_bucket("staging", false);
    cloud.create_key("key", &[7; 32]);
    cloud
}

fn outcome<T, E: ProvideErrorMetadata>(result: Result<T, E>) -> String {
    result.map_or_else(|error| error.code().unwrap_or("none").to_owned(), |_| "ok".to_owned())
}

/// Executes `[operation, bucket, key, content, condition]`. The condition `=` is the current `ETag`.
async fn step(cloud: &Cloud, process: &Process, step: &Value) -> String {
    let s3 = Client::new(&process.config());
    let text = |index: usize| step[index].as_str().unwrap_or_default();
    let (bucket, key, content) = (text(1), text(2), text(3).as_bytes());
    let (versions, delete) = (cloud.versions(bucket, key), s3.delete_object().bucket(bucket).key(key));
    let put = s3.put_object().bucket(bucket).key(key).body(content.to_vec().into());
    let put = match text(4) {
        "" => put,
        "*" => put.if_none_match("*"),
        "=" => put.if_match(versions.last().unwrap().etag()),
        tag => put.if_match(tag),
    };
    match text(0) {
        "put" => outcome(put.send().await),
        "corrupt" => outcome(put.checksum_crc32("AAAAAA==").send().await),
        "stream" => {
            let stream = ByteStream::from_path("Cargo.toml").await.unwrap();
            outcome(put.body(stream).send().await)
        }
        "retain" => {
            let put = put.object_lock_retain_until_date(DateTime::from_secs(1_900_000_000));
            outcome(put.object_lock_mode(ObjectLockMode::Compliance).send().await)
        }
        "delete" => outcome(delete.send().await),
        "erase" => {
            let mut erased = versions
                .iter()
                .skip_while(|version| version.content.as_deref() != Some(content));
            outcome(delete.version_id(&erased.next().unwrap().id).send().await)
        }
        "head" => outcome(s3.head_object().bucket(bucket).key(key).send().await),
        "list" => {
            let list = s3.list_objects_v2().bucket(bucket).prefix(key).send().await.unwrap();
            let keys: Vec<_> = list.contents().iter().filter_map(Object::key).collect();
            format!("{keys:?}")
        }
        _ => match s3.get_object().bucket(bucket).key(key).send().await {
            Ok(object) => String::from_utf8(object.body.collect().await.unwrap().to_vec()).unwrap(),
            error => outcome(error),
        },
    }
}

#[tokio::test]
async fn buckets() {
    let cloud = cloud();
    let process = cloud.process(|_| ready(None));
    let table = r#"
        ["get", "log", "a"] -> NoSuchKey
        ["head", "log", "a"] -> NotFound
        ["put", "log", "a", "1", "x"] -> NoSuchKey
        ["put", "log", "a", "1", "*"] -> ok
        ["head", "log", "a"] -> ok
        ["put", "log", "a", "1", "*"] -> PreconditionFailed
        ["put", "log", "a", "2", "x"] -> PreconditionFailed
        ["retain", "log", "a", "2", "="] -> ok
        ["get", "log", "a"] -> 2
        ["corrupt", "log", "a", "3"] -> BadDigest
        ["stream", "log", "a"] -> NotImplemented
        ["put", "log", "b/å +%", "3", "*"] -> ok
        ["list", "log", ""] -> ["a", "b/å +%"]
        ["delete", "log", "a"] -> ok
        ["get", "log", "a"] -> NoSuchKey
        ["list", "log", "a"] -> []
        ["erase", "log", "a", "2"] -> AccessDenied
        ["erase", "log", "a", "1"] -> ok
        ["put", "log", "a", "4", "*"] -> ok
        ["retain", "staging", "a", "1"] -> InvalidRequest
        ["put", "staging", "a", "1", "*"] -> ok
        ["put", "staging", "a", "2", "="] -> ok
        ["delete", "staging", "a"] -> ok
        ["put", "staging", "a", "3", "*"] -> ok
    "#;
    for (case, expected) in cases(table) {
        assert_eq!(step(&cloud, &process, &case).await, expected, "{case}");
    }
    let versions = cloud.versions("log", "a");
    let contents = versions.iter().map(|version| version.content.as_deref());
    assert_eq!(contents.collect::<Vec<_>>(), [Some(&b"2"[..]), None, Some(b"4")]);
    let retained_until = &versions[0].headers["x-amz-object-lock-retain-until-date"];
    assert_eq!(retained_until, "2030-03-17T17:46:40Z");
    assert_eq!(cloud.versions("staging", "a").len(), 1);
}

/// A conditional put: its outcome, its attempts, and what the next process reads.
#[tokio::test]
async fn faults() {
    let lost = |executed, retried| Fault::Lost { executed, retried };
    let table = [
        (Fault::THROTTLED, "ok", 2, "1"),
        (Fault::CONFLICT, "ConditionalRequestConflict", 1, "NoSuchKey"),
        (lost(false, true), "ok", 2, "1"),
        (lost(false, false), "none", 1, "NoSuchKey"),
        // The SDK retries a put that succeeded.
        (lost(true, true), "PreconditionFailed", 2, "1"),
        (lost(true, false), "none", 1, "1"),
        (Fault::Killed { executed: false }, "none", 1, "NoSuchKey"),
        (Fault::Killed { executed: true }, "none", 1, "1"),
    ];
    for (fault, outcome, attempts, stored) in table {
        let cloud = cloud();
        let process = cloud.process(move |request| ready((request.number == 0).then_some(fault)));
        let (put, get) = (json!(["put", "log", "a", "1", "*"]), json!(["get", "log", "a"]));
        assert_eq!(step(&cloud, &process, &put).await, outcome, "{fault:?}");
        assert_eq!(cloud.requests().len(), attempts, "{fault:?}");
        let read = if process.is_killed() { "none" } else { stored };
        assert_eq!(step(&cloud, &process, &get).await, read, "{fault:?}");
        let next = cloud.process(|_| ready(None));
        assert_eq!(step(&cloud, &next, &get).await, stored, "{fault:?}");
    }
}

/// A process is overtaken by another one, and is killed by a request to DynamoDB.
#[tokio::test]
async fn processes() {
    let cloud = cloud();
    let (other, inner) = (cloud.process(|_| ready(None)), cloud.clone());
    let process = cloud.process(move |request| {
        let (cloud, other, number) = (inner.clone(), other.clone(), request.number);
        async move {
            if number == 0 {
                step(&cloud, &other, &json!(["put", "log", "a", "1"])).await;
            }
            (number == 2).then_some(Fault::Killed { executed: true })
        }
    });
    let put = json!(["put", "log", "a", "2", "*"]);
    assert_eq!(step(&cloud, &process, &put).await, "PreconditionFailed");
    let replay = Replay::new([json!({}), json!({})]);
    let config = process.config().into_builder().http_client(replay.http()).build();
    let dynamodb = aws_sdk_dynamodb::Client::new(&process.wrap(&config));
    for is_ok in [true, false, false] {
        assert_eq!(dynamodb.list_tables().send().await.is_ok(), is_ok);
    }
    assert_eq!(replay.operations(), ["ListTables"; 2]);
    let senders = cloud.requests().into_iter().map(|request| request.process);
    assert_eq!(senders.collect::<Vec<_>>(), [1, 0, 1, 1]);
}

#[tokio::test]
async fn signatures() {
    let kms = aws_sdk_kms::Client::new(&cloud().process(|_| ready(None)).config());
    let sign = async |id: &str, message: &[u8]| {
        let request = kms.sign().key_id(id).message(Blob::new(message));
        let request = request.signing_algorithm(SigningAlgorithmSpec::Ed25519Sha512);
        let output = request.message_type(MessageType::Raw).send().await;
        output.map_err(|error| error.code().unwrap().to_owned())
    };
    let output = kms.get_public_key().key_id("key").send().await.unwrap();
    let der = output.public_key.unwrap().into_inner();
    assert_eq!(der[..12], *b"\x30\x2a\x30\x05\x06\x03\x2b\x65\x70\x03\x21\x00");
    let signature = sign("key", b"note").await.unwrap().signature.unwrap();
    let key = UnparsedPublicKey::new(&ED25519, &der[12..]);
    key.verify(b"note", signature.as_ref()).unwrap();
    assert_eq!(sign("none", b"note").await.unwrap_err(), "NotFoundException");
    assert_eq!(sign("key", &[0; 4097]).await.unwrap_err(), "ValidationException");
}
