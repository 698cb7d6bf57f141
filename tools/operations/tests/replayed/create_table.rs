//! Creation of a table whose status and settings take time, or fail, with replayed responses.

use operations::{
    error::OperationError,
    table::{
        create::{CREATE_TIMEOUT, NotApplied, create_table},
        settings::TableSettings,
    },
};
use serde_json::json;
use shared::{domain::keys::VersionDigits, dynamodb::Store, logging::chain};
use testkit::replay::Replay;

/// Creates the table with the responses that these words stand for: `-` is an empty one, a word in capitals the status of the table,
/// and any other an error. Returns the outcome and the operations.
async fn created(responses: &str) -> (Result<Option<NotApplied>, OperationError>, String) {
    let replay = Replay::new(responses.split_whitespace().map(|word| match word {
        "-" => json!({}),
        status if status == status.to_uppercase() => json!({"Table": {"TableStatus": status}}),
        error => json!({"__type": error}),
    }));
    let store = Store::new(replay.client(), "Table", VersionDigits::default());
    let outcome = create_table(&store, &TableSettings::default()).await;
    (outcome, replay.operations().join(" "))
}

const MISSING: &str = "ResourceNotFoundException";

#[tokio::test(start_paused = true)]
async fn a_missing_table_is_created_and_gets_its_settings_when_it_is_active() {
    // Descriptions are eventually consistent.
    let until_active = format!("{MISSING} - {MISSING} CREATING ACTIVE");
    let early = "ContinuousBackupsUnavailableException";
    let (outcome, operations) = created(&format!("{until_active} - {early} {early} -")).await;
    assert_eq!(outcome.unwrap(), Some(Vec::new()));
    let sent = "DescribeTable CreateTable DescribeTable DescribeTable DescribeTable UpdateTimeToLive UpdateContinuousBackups \
                UpdateContinuousBackups UpdateContinuousBackups";
    assert_eq!(operations, sent);
}

#[tokio::test(start_paused = true)]
async fn an_existing_table_is_not_changed() {
    for (responses, expected) in [
        ("ACTIVE ACTIVE", "DescribeTable DescribeTable"),
        // Another client creates it, also between the two requests.
        ("CREATING CREATING ACTIVE", "DescribeTable DescribeTable DescribeTable"),
        (
            &format!("{MISSING} ResourceInUseException ACTIVE"),
            "DescribeTable CreateTable DescribeTable",
        ),
    ] {
        let (outcome, operations) = created(responses).await;
        assert_eq!((outcome.unwrap(), operations.as_str()), (None, expected));
    }
}

#[tokio::test(start_paused = true)]
async fn each_setting_that_fails_is_named_and_the_others_are_applied() {
    let failed = "AccessDeniedException UnknownOperationException";
    let (outcome, operations) = created(&format!("{MISSING} - ACTIVE {failed}")).await;
    assert!(operations.ends_with("UpdateContinuousBackups"));
    let not_applied = outcome.unwrap().unwrap();
    let named = not_applied
        .iter()
        .map(|(setting, error)| (*setting, error.is_unsupported));
    let expected = [("time to live", false), ("point-in-time recovery", true)];
    assert_eq!(named.collect::<Vec<_>>(), expected);
}

#[tokio::test(start_paused = true)]
async fn a_failed_creation_names_the_reason() {
    // The SDK's three attempts.
    let limited = format!("{MISSING} {}", "LimitExceededException ".repeat(3));
    for (responses, reason) in [
        (limited.as_str(), "CreateTable failed with LimitExceededException"),
        (
            "AccessDeniedException",
            "DescribeTable failed with AccessDeniedException",
        ),
    ] {
        let text = chain(&created(responses).await.0.unwrap_err());
        assert!(text.contains(reason), "{text}");
    }
    let started = tokio::time::Instant::now();
    let (outcome, _) = created(&"CREATING ".repeat(1000)).await;
    assert!(matches!(outcome, Err(OperationError::NotActive(180))));
    assert!(started.elapsed() >= CREATE_TIMEOUT);
}
