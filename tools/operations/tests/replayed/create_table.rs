//! Creation of a table whose status and settings take time, or fail, with replayed responses.

use operations::table::{
    create::{CREATE_TIMEOUT, CreateOutcome, CreateTableError, create_table},
    settings::TableSettings,
};
use serde_json::{Value, json};
use shared::{domain::keys::VersionDigits, dynamodb::Store, logging::chain};
use testkit::replay::Replay;

async fn created(responses: impl IntoIterator<Item = Value>) -> (Result<CreateOutcome, CreateTableError>, Vec<String>) {
    let replay = Replay::new(responses);
    let store = Store::new(replay.client(), "Table", VersionDigits::default());
    let outcome = create_table(&store, &TableSettings::default()).await;
    (outcome, replay.operations())
}

fn missing() -> Value {
    json!({"__type": "ResourceNotFoundException"})
}

fn with_status(status: &str) -> Value {
    json!({"Table": {"TableStatus": status}})
}

fn error(code: &str) -> Value {
    json!({"__type": code})
}

const DESCRIBE: &str = "DescribeTable";

#[tokio::test(start_paused = true)]
async fn a_missing_table_is_created_and_gets_its_settings_when_it_is_active() {
    let early = || error("ContinuousBackupsUnavailableException");
    let [active, creating] = ["ACTIVE", "CREATING"].map(with_status);
    // Descriptions are eventually consistent.
    let until_active = [missing(), json!({}), missing(), creating, active];
    let settings = [json!({}), early(), early(), json!({})];
    let (outcome, operations) = created(until_active.into_iter().chain(settings)).await;
    assert_eq!(outcome, Ok(CreateOutcome::Created(Vec::new())));
    let backups = "UpdateContinuousBackups";
    let sent = [
        DESCRIBE,
        "CreateTable",
        DESCRIBE,
        DESCRIBE,
        DESCRIBE,
        "UpdateTimeToLive",
    ];
    assert_eq!(operations, [&sent[..], &[backups; 3]].concat());
}

#[tokio::test(start_paused = true)]
async fn an_existing_table_is_not_changed() {
    let [active, creating] = ["ACTIVE", "CREATING"].map(with_status);
    for (responses, expected) in [
        (vec![active.clone(), active.clone()], vec![DESCRIBE; 2]),
        // Another client creates it, also between the two requests.
        (vec![creating.clone(), creating, active.clone()], vec![DESCRIBE; 3]),
        (
            vec![missing(), error("ResourceInUseException"), active],
            vec![DESCRIBE, "CreateTable", DESCRIBE],
        ),
    ] {
        let (outcome, operations) = created(responses).await;
        assert_eq!(outcome, Ok(CreateOutcome::Exists));
        assert_eq!(operations, expected);
    }
}

#[tokio::test(start_paused = true)]
async fn each_setting_that_fails_is_named_and_the_others_are_applied() {
    let (ttl, backups) = (error("AccessDeniedException"), error("UnknownOperationException"));
    let (outcome, operations) = created([missing(), json!({}), with_status("ACTIVE"), ttl, backups]).await;
    assert_eq!(operations.last().unwrap(), "UpdateContinuousBackups");
    let Ok(CreateOutcome::Created(not_applied)) = outcome else {
        panic!("{outcome:?}");
    };
    let named = not_applied
        .iter()
        .map(|failed| (failed.setting, failed.error.is_unsupported));
    let expected = [("time to live", false), ("point-in-time recovery", true)];
    assert_eq!(named.collect::<Vec<_>>(), expected);
}

#[tokio::test(start_paused = true)]
async fn a_failed_creation_names_the_reason() {
    // The SDK's three attempts.
    let limited = || error("LimitExceededException");
    for (responses, reason) in [
        (
            vec![missing(), limited(), limited(), limited()],
            "CreateTable failed with LimitExceededException",
        ),
        (
            vec![error("AccessDeniedException")],
            "DescribeTable failed with AccessDeniedException",
        ),
    ] {
        let text = chain(&created(responses).await.0.unwrap_err());
        assert!(text.contains(reason), "{text}");
    }
    let started = tokio::time::Instant::now();
    let creating = std::iter::repeat_n(with_status("CREATING"), 1000);
    let (outcome, _) = created(creating).await;
    assert_eq!(outcome, Err(CreateTableError::NotActive));
    assert!(started.elapsed() >= CREATE_TIMEOUT);
}
