//! The emulator of S3 and KMS, by the SDK clients.

#![allow(clippy::unwrap_used, reason = "in a test, a panic is the message")]

use std::future::ready;

use aws_sdk_kms::types::{MessageType, SigningAlgorithmSpec};
use aws_sdk_s3::{
    Client,
    error::ProvideErrorMetadata,
    primitives::{Blob, ByteStream, DateTime},
    types::ObjectLockMode,
};
use ring::signature::{ED25519, UnparsedPublicKey};
use serde_json::{Value, json};
use testkit::{
    cases::cases,
    cloud::{Cloud, Fault, Process, Version},
    replay::Replay,
};

fn cloud() -> Cloud {
    let cloud = Cloud::default();
    cloud.create_bucket("log", true);
    cloud.create_bucket("staging", false);
    cloud.create_key("key", &[7; 32]);
    cloud
}

fn code(error: impl ProvideErrorMetadata) -> String {
    error.code().unwrap_or("none").to_owned()
}

/// Executes `[operation, bucket, key, content or version, condition]`. A condition is `*`, or the content whose `ETag` it is.
async fn step(cloud: &Cloud, process: &Process, step: &Value) -> String {
    let s3 = Client::new(&process.config());
    let text = |index: usize| step[index].as_str().unwrap_or_default();
    let (bucket, key, condition) = (text(1), text(2), step[4].as_str());
    let etag = |content: &str| {
        Version {
            id: String::new(),
            content: Some(content.into()),
            headers: [].into(),
        }
        .etag()
    };
    let done = match text(0) {
        "list" => {
            let list = s3
                .list_objects_v2()
                .bucket(bucket)
                .prefix(key)
                .send()
                .await
                .map_err(code);
            return list
                .unwrap()
                .contents()
                .iter()
                .filter_map(|object| object.key())
                .collect();
        }
        "get" => match s3.get_object().bucket(bucket).key(key).send().await {
            Ok(object) => return String::from_utf8(object.body.collect().await.unwrap().to_vec()).unwrap(),
            Err(error) => Err(code(error)),
        },
        "head" => s3
            .head_object()
            .bucket(bucket)
            .key(key)
            .send()
            .await
            .map(|_| ())
            .map_err(code),
        "delete" => s3
            .delete_object()
            .bucket(bucket)
            .key(key)
            .send()
            .await
            .map(|_| ())
            .map_err(code),
        "erase" => {
            let id = &cloud.versions(bucket, key)[usize::try_from(step[3].as_u64().unwrap()).unwrap()].id;
            s3.delete_object()
                .bucket(bucket)
                .key(key)
                .version_id(id)
                .send()
                .await
                .map(|_| ())
                .map_err(code)
        }
        operation => {
            let mut put = s3
                .put_object()
                .bucket(bucket)
                .key(key)
                .body(text(3).as_bytes().to_vec().into());
            match condition {
                Some("*") => put = put.if_none_match("*"),
                tag => put = put.set_if_match(tag.map(etag)),
            }
            match operation {
                "retain" => {
                    put = put.object_lock_mode(ObjectLockMode::Compliance);
                    put = put.object_lock_retain_until_date(DateTime::from_secs(1_900_000_000));
                }
                "corrupt" => put = put.checksum_crc32("AAAAAA=="),
                "stream" => put = put.body(ByteStream::from_path("Cargo.toml").await.unwrap()),
                _ => {}
            }
            put.send().await.map(|_| ()).map_err(code)
        }
    };
    done.err().unwrap_or_else(|| "ok".to_owned())
}

#[tokio::test]
async fn buckets() {
    let cloud = cloud();
    let process = cloud.process(|_| ready(None));
    let table = r#"
        ["get", "log", "a"] -> NoSuchKey
        ["head", "log", "a"] -> NotFound
        ["put", "log", "a", "1", "1"] -> NoSuchKey
        ["put", "log", "a", "1", "*"] -> ok
        ["head", "log", "a"] -> ok
        ["put", "log", "a", "1", "*"] -> PreconditionFailed
        ["put", "log", "a", "2", "x"] -> PreconditionFailed
        ["retain", "log", "a", "2", "1"] -> ok
        ["get", "log", "a"] -> 2
        ["corrupt", "log", "a", "3"] -> BadDigest
        ["stream", "log", "a"] -> NotImplemented
        ["put", "log", "b/å +%", "3", "*"] -> ok
        ["list", "log", ""] -> ab/å +%
        ["list", "log", "b/"] -> b/å +%
        ["delete", "log", "a"] -> ok
        ["get", "log", "a"] -> NoSuchKey
        ["list", "log", "a"] ->
        ["erase", "log", "a", 1] -> AccessDenied
        ["erase", "log", "a", 2] -> ok
        ["get", "log", "a"] -> 2
        ["retain", "staging", "a", "1"] -> InvalidRequest
        ["put", "staging", "a", "1", "*"] -> ok
        ["put", "staging", "a", "2"] -> ok
        ["delete", "staging", "a"] -> ok
        ["put", "staging", "a", "3", "*"] -> ok
        ["put", "none", "a", "1"] -> NoSuchBucket
    "#;
    for (case, expected) in cases(table) {
        assert_eq!(step(&cloud, &process, &case).await, expected, "{case}");
    }
    let versions = cloud.versions("log", "a");
    assert_eq!(
        versions
            .iter()
            .map(|version| version.content.as_deref().unwrap())
            .collect::<Vec<_>>(),
        [b"1", b"2"]
    );
    assert_eq!(
        versions[1].headers["x-amz-object-lock-retain-until-date"],
        "2030-03-17T17:46:40Z"
    );
    assert!(versions[1].headers.contains_key("x-amz-checksum-crc32"));
    assert_eq!(cloud.versions("staging", "a").len(), 1);
    assert_eq!(cloud.requests()[3].to_string(), "PutObject log/a if-none-match: *");
}

/// A conditional put: its outcome, the number of its attempts, and the outcome of a following process that reads.
#[tokio::test]
async fn faults() {
    let lost = |executed, retried| Fault::Lost { executed, retried };
    let table = [
        (Fault::THROTTLED, "ok", 2, "1"),
        (Fault::CONFLICT, "ConditionalRequestConflict", 1, "NoSuchKey"),
        (Fault::DENIED, "AccessDenied", 1, "NoSuchKey"),
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
        let put = json!(["put", "log", "a", "1", "*"]);
        assert_eq!(step(&cloud, &process, &put).await, outcome, "{fault:?}");
        assert_eq!(cloud.requests().len(), attempts, "{fault:?}");
        let (get, next) = (json!(["get", "log", "a"]), cloud.process(|_| ready(None)));
        let read = if process.is_killed() { "none" } else { stored };
        assert_eq!(step(&cloud, &process, &get).await, read, "{fault:?}");
        assert_eq!(step(&cloud, &next, &get).await, stored, "{fault:?}");
    }
}

/// Another process writes between two requests of a process, whose requests to DynamoDB end with it.
#[tokio::test]
async fn processes() {
    let cloud = cloud();
    let (other, inner) = (cloud.process(|_| ready(None)), cloud.clone());
    let process = cloud.process(move |request| {
        let (cloud, other, number) = (inner.clone(), other.clone(), request.number);
        async move {
            if number == 1 {
                step(&cloud, &other, &json!(["put", "log", "a", "1"])).await;
            }
            (number == 3).then_some(Fault::Killed { executed: true })
        }
    });
    assert_eq!(step(&cloud, &process, &json!(["get", "log", "a"])).await, "NoSuchKey");
    assert_eq!(
        step(&cloud, &process, &json!(["put", "log", "a", "2", "*"])).await,
        "PreconditionFailed"
    );
    let replay = Replay::new([json!({}), json!({}), json!({})]);
    let config = process.config().to_builder().http_client(replay.http()).build();
    let dynamodb = aws_sdk_dynamodb::Client::new(&process.wrap(&config));
    let is_ok = [dynamodb.list_tables().send().await, dynamodb.list_tables().send().await].map(|result| result.is_ok());
    assert_eq!(is_ok, [true, false]);
    assert!(process.is_killed() && dynamodb.list_tables().send().await.is_err());
    assert_eq!(replay.operations(), ["ListTables"; 2]);
    let processes: Vec<_> = cloud
        .requests()
        .iter()
        .map(|request| (request.process, request.number))
        .collect();
    assert_eq!(processes, [(1, 0), (1, 1), (0, 0), (1, 2), (1, 3)]);
}

#[tokio::test]
async fn signatures() {
    let kms = aws_sdk_kms::Client::new(&cloud().process(|_| ready(None)).config());
    let sign = async |id: &str, message: &[u8]| {
        let request = kms
            .sign()
            .key_id(id)
            .message(Blob::new(message))
            .message_type(MessageType::Raw);
        let output = request
            .signing_algorithm(SigningAlgorithmSpec::Ed25519Sha512)
            .send()
            .await;
        output
            .map(|output| output.signature.unwrap().into_inner())
            .map_err(code)
    };
    let der = kms
        .get_public_key()
        .key_id("key")
        .send()
        .await
        .unwrap()
        .public_key
        .unwrap()
        .into_inner();
    let key = der
        .strip_prefix(b"\x30\x2a\x30\x05\x06\x03\x2b\x65\x70\x03\x21\x00")
        .unwrap();
    let signature = sign("key", b"note").await.unwrap();
    UnparsedPublicKey::new(&ED25519, key)
        .verify(b"note", &signature)
        .unwrap();
    assert_eq!(sign("none", b"note").await.unwrap_err(), "NotFoundException");
    assert_eq!(sign("key", &[0; 4097]).await.unwrap_err(), "ValidationException");
}
