//! Creation of a table whose status and settings take time, or fail, with replayed responses.

use operations::table::{
    create::{CREATE_TIMEOUT, CreateOutcome, CreateTableError, create_table},
    settings::TableSettings,
};
use serde_json::{Value, json};
use shared::{
    domain::keys::VersionDigits,
    dynamodb::{Store, client::error::ErrorKind},
    logging::chain,
};
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

#[tokio::test(start_paused = true)]
async fn a_missing_table_is_created_and_gets_its_settings_when_it_is_active() {
    let early = || error("ContinuousBackupsUnavailableException");
    let responses = [
        missing(),
        json!({}),
        // Descriptions are eventually consistent.
        missing(),
        with_status("CREATING"),
        with_status("ACTIVE"),
        json!({}),
        early(),
        early(),
        json!({}),
    ];
    let (outcome, operations) = created(responses).await;
    assert_eq!(outcome, Ok(CreateOutcome::Created(Vec::new())));
    let describe = "DescribeTable";
    let backups = "UpdateContinuousBackups";
    let expected = [
        describe,
        "CreateTable",
        describe,
        describe,
        describe,
        "UpdateTimeToLive",
        backups,
        backups,
        backups,
    ];
    assert_eq!(operations, expected);
}

#[tokio::test(start_paused = true)]
async fn an_existing_table_is_not_changed() {
    let (outcome, operations) = created([with_status("ACTIVE"), with_status("ACTIVE")]).await;
    assert_eq!(outcome, Ok(CreateOutcome::Exists));
    assert_eq!(operations, ["DescribeTable"; 2]);
    // Another client creates it.
    let (outcome, operations) =
        created([with_status("CREATING"), with_status("CREATING"), with_status("ACTIVE")]).await;
    assert_eq!(outcome, Ok(CreateOutcome::Exists));
    assert_eq!(operations, ["DescribeTable"; 3]);
    // Another client creates it between the two requests.
    let (outcome, operations) = created([missing(), error("ResourceInUseException"), with_status("ACTIVE")]).await;
    assert_eq!(outcome, Ok(CreateOutcome::Exists));
    assert_eq!(operations, ["DescribeTable", "CreateTable", "DescribeTable"]);
}

#[tokio::test(start_paused = true)]
async fn each_setting_that_fails_is_named_and_the_others_are_applied() {
    let responses = |ttl: Value, backups: Value| [missing(), json!({}), with_status("ACTIVE"), ttl, backups];
    let (outcome, operations) = created(responses(
        error("AccessDeniedException"),
        error("UnknownOperationException"),
    ))
    .await;
    assert_eq!(operations.last().unwrap(), "UpdateContinuousBackups");
    let Ok(CreateOutcome::Created(not_applied)) = outcome else {
        panic!("{outcome:?}");
    };
    let [ttl, recovery] = not_applied.as_slice() else {
        panic!("{not_applied:?}");
    };
    assert_eq!((ttl.setting, ttl.error.is_unsupported), ("time to live", false));
    assert_eq!(
        (recovery.setting, recovery.error.is_unsupported),
        ("point-in-time recovery", true)
    );
}

#[tokio::test(start_paused = true)]
async fn a_failed_creation_names_the_reason() {
    // The SDK's three attempts.
    let limited = || error("LimitExceededException");
    let (outcome, _) = created([missing(), limited(), limited(), limited()]).await;
    let text = chain(&outcome.unwrap_err());
    assert!(
        text.contains("CreateTable failed with LimitExceededException"),
        "{text}"
    );
    let (outcome, _) = created([error("AccessDeniedException")]).await;
    let Err(CreateTableError::Service(error)) = outcome else {
        panic!("{outcome:?}");
    };
    assert_eq!((error.operation, error.kind), ("DescribeTable", ErrorKind::Unavailable));

    let started = tokio::time::Instant::now();
    let creating = std::iter::repeat_n(with_status("CREATING"), 1000);
    let (outcome, _) = created(creating).await;
    assert_eq!(outcome, Err(CreateTableError::NotActive));
    assert!(started.elapsed() >= CREATE_TIMEOUT);
}
