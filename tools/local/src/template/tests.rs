//! The template of the project, and invalid templates.

use std::time::Duration;

use base64::{Engine as _, engine::general_purpose::STANDARD as BASE64};
use operations::table::settings::TableSettings;
use serde_json::{Value, json};
use shared::{
    domain::{keys::LATEST_KEY, ledger::Retention},
    dynamodb::client::ClientSettings,
    logging::chain,
};

use super::*;
use crate::mapping::{filter::Filters, settings::Settings};

const TEMPLATE: &str = include_str!("../../../../template.yaml");

fn parse(overrides: &[(&str, &str)]) -> Result<Template, String> {
    let overrides: Vec<_> = overrides
        .iter()
        .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
        .collect();
    Template::parse(TEMPLATE, &overrides).map_err(|error| chain(&error))
}

fn edited(from: &str, to: &str) -> String {
    assert!(TEMPLATE.contains(from), "{from}");
    chain(&Template::parse(&TEMPLATE.replacen(from, to, 1), &[]).unwrap_err())
}

/// `vzero admin table create` has the same settings in its code.
#[test]
fn the_table_has_the_settings_of_the_code() {
    let template = parse(&[]).unwrap();
    assert_eq!(template.table.settings, TableSettings::default());
    // Each property of the template is one of these settings.
    let document = yaml::parse(TEMPLATE).unwrap();
    let resolver = resolve::Resolver::new(&document, &[]).unwrap();
    let properties = resolver.resolve(&document["Resources"]["VersionControl"]["Properties"]);
    let properties = properties.unwrap();
    let is_given = |(name, value): (_, &Value)| (!value.is_null()).then_some(name);
    let names: Vec<_> = properties.as_object().unwrap().iter().filter_map(is_given).collect();
    let expected = [
        "BillingMode",
        "DeletionProtectionEnabled",
        "AttributeDefinitions",
        "KeySchema",
        "StreamSpecification",
        "TimeToLiveSpecification",
        "PointInTimeRecoverySpecification",
        "SSESpecification",
    ];
    assert_eq!(names, expected);
    // A created table is always billed by request, and time to live is enabled.
    assert_eq!(properties["BillingMode"], "PAY_PER_REQUEST");
    assert_eq!(
        properties["TimeToLiveSpecification"],
        json!({"AttributeName": "TTL", "Enabled": true})
    );
}

#[test]
fn the_projects_own_template() {
    let template = parse(&[]).unwrap();
    assert_eq!(template.table.name, "VersionControl");
    let binaries: Vec<_> = template
        .functions
        .iter()
        .map(|function| function.binary.as_str())
        .collect();
    assert!(binaries.len() == 2 && binaries.contains(&"stream-fn"));
    let writer = template
        .functions
        .iter()
        .find(|function| function.binary == "writer-fn")
        .unwrap();
    assert_eq!(writer.timeout, Duration::from_secs(30));
    assert_eq!(writer.environment["TABLE_NAME"], "VersionControl");
    assert_eq!(writer.environment["VERSION_DIGITS"], "1");
    assert_eq!(template.stream_function, "stream-fn");
    let mapping = template.mapping;
    assert_eq!(mapping.batch_size, 100);
    // Only the age limits retries: a throttle of minutes must not use them up.
    assert_eq!(mapping.maximum_retry_attempts, None);
    assert_eq!(mapping.maximum_record_age, Some(Duration::from_secs(43_200)));
    assert_eq!(mapping.parallelization_factor, 2);
    assert!(mapping.bisect_on_function_error && mapping.report_batch_item_failures);
}

#[test]
fn the_filter_lets_only_new_images_of_the_latest_item_through() {
    let filters = |change_stream| parse(&[("ChangeStream", change_stream)]).unwrap().mapping.filters;
    let (filters, kinesis) = (filters("DynamoDBStreams"), filters("Kinesis"));
    let record = |key: &str| json!({"dynamodb": {"Keys": {"SK": {"S": key}}, "NewImage": {"SK": {"S": key}}}});
    let carried = |record: &Value| json!({"kinesis": {"data": BASE64.encode(record.to_string())}});
    assert!(filters.matches(&record(LATEST_KEY)));
    assert!(kinesis.matches(&carried(&record(LATEST_KEY))));
    assert!(!kinesis.matches(&record(LATEST_KEY)));
    let remove = json!({"dynamodb": {"Keys": {"SK": {"S": LATEST_KEY}}}});
    for other in ["v1", "v00", "v0000000001", "Metadata", "floor"]
        .map(record)
        .iter()
        .chain([&remove])
    {
        assert!(!filters.matches(other) && !kinesis.matches(&carried(other)), "{other}");
    }
}

#[test]
fn parameters_are_overridden_within_their_bounds() {
    let template = parse(&[("Ordering", "time")]).unwrap();
    assert_eq!(template.functions[0].environment["ORDERING"], "time");
    for (name, value) in [
        ("MaxAttempts", "0"),
        ("MaxAttempts", "x"),
        ("VersionDigits", "21"),
        ("Ordering", "random"),
    ] {
        assert_eq!(
            parse(&[(name, value)]).unwrap_err(),
            format!("the parameter {name} does not allow {value}")
        );
    }
    assert_eq!(parse(&[("Nothing", "1")]).unwrap_err(), "there is no parameter Nothing");
}

#[test]
fn attempts_have_the_default_and_the_bounds_of_the_library() {
    let variables = |overrides: &[(&str, &str)]| {
        let functions = parse(overrides)?.functions;
        Ok::<_, String>(
            functions
                .into_iter()
                .map(|function| function.environment["AWS_MAX_ATTEMPTS"].clone()),
        )
    };
    let defaults = ClientSettings::default();
    assert!(
        variables(&[])
            .unwrap()
            .all(|attempts| attempts == defaults.max_attempts.to_string())
    );
    let bounds = ClientSettings::ATTEMPTS;
    for value in [bounds.start(), bounds.end()].map(u32::to_string) {
        let mut attempts = variables(&[("MaxAttempts", &value)]).unwrap();
        assert!(attempts.all(|attempts| attempts == value), "{value}");
    }
    for value in [bounds.start() - 1, bounds.end() + 1] {
        assert!(variables(&[("MaxAttempts", &value.to_string())]).is_err(), "{value}");
    }
    let functions = parse(&[]).unwrap().functions;
    assert!(
        functions
            .iter()
            .all(|function| defaults.operation_timeout < function.timeout)
    );
}

#[test]
fn the_queue_of_updates_invokes_writer_fn() {
    let resources = yaml::parse(TEMPLATE).unwrap()["Resources"].clone();
    let event = &resources["WriterFunction"]["Properties"]["Events"]["Updates"]["Properties"];
    assert_eq!(event["Queue"], json!({"Fn::GetAtt": ["Updates", "Arn"]}));
    assert_eq!(
        (&event["BatchSize"], &event["ScalingConfig"]),
        (&json!(10), &json!({"MaximumConcurrency": 20}))
    );
    assert_eq!(event["FunctionResponseTypes"], json!(["ReportBatchItemFailures"]));
    let queue = &resources["Updates"]["Properties"];
    assert_eq!(queue["VisibilityTimeout"], json!(180));
    assert_eq!(queue["RedrivePolicy"]["maxReceiveCount"], json!(5));
    let bucket = &resources["FailedRecords"]["Properties"];
    assert_eq!(bucket["VersioningConfiguration"]["Status"], json!("Enabled"));
    let notified = bucket.pointer("/NotificationConfiguration/QueueConfigurations/0/Queue");
    assert_eq!(notified, Some(&json!({"Fn::GetAtt": ["StreamDeadLetterQueue", "Arn"]})));
}

#[test]
fn markers_of_the_ledger_are_kept_longer_than_every_queue_keeps_messages() {
    let document = yaml::parse(TEMPLATE).unwrap();
    let resources = document["Resources"].as_object().unwrap();
    let queues: Vec<_> = (resources.values())
        .filter(|resource| resource["Type"] == "AWS::SQS::Queue")
        .collect();
    assert_eq!(queues.len(), 3);
    let kept: u64 = Retention::default().to_string().parse().unwrap();
    for queue in queues {
        let retention = queue["Properties"]["MessageRetentionPeriod"].as_u64().unwrap();
        assert!(retention < kept * 86_400, "{queue}");
    }
}

#[test]
fn failure_documents_are_kept_longer_than_their_notifications() {
    let document = yaml::parse(TEMPLATE).unwrap();
    let properties = |id: &str| document["Resources"][id]["Properties"].clone();
    let seconds = properties("StreamDeadLetterQueue")["MessageRetentionPeriod"]
        .as_u64()
        .unwrap();
    let rules = properties("FailedRecords")["LifecycleConfiguration"]["Rules"].clone();
    assert_eq!(
        rules,
        json!([
            {
                "Id": "ExpireDocuments", "Status": "Enabled", "ExpirationInDays": 365,
                "NoncurrentVersionExpiration": {"NoncurrentDays": 30},
                "AbortIncompleteMultipartUpload": {"DaysAfterInitiation": 7},
            },
            // Not in one rule with an expiration.
            {"Id": "RemoveDeleteMarkers", "Status": "Enabled", "ExpiredObjectDeleteMarker": true},
        ])
    );
    assert!(rules[0]["ExpirationInDays"].as_u64().unwrap() * 86_400 > seconds);
}

#[test]
fn no_queue_moves_messages_to_the_dead_letter_queue_of_the_stream() {
    let document = yaml::parse(TEMPLATE).unwrap();
    let resources = document["Resources"].as_object().unwrap();
    let policy = &resources["StreamDeadLetterQueue"]["Properties"]["RedriveAllowPolicy"];
    assert_eq!(*policy, json!({"redrivePermission": "denyAll"}));
    let targets: Vec<_> = resources
        .values()
        .filter_map(|resource| resource.pointer("/Properties/RedrivePolicy/deadLetterTargetArn"))
        .collect();
    assert_eq!(targets, [&json!({"Fn::GetAtt": ["UpdatesDeadLetterQueue", "Arn"]})]);
    // A name would replace a deployed queue, whose messages would stay behind.
    let queues = resources
        .values()
        .filter(|resource| resource["Type"] == "AWS::SQS::Queue");
    assert!(
        queues.clone().count() == 3
            && queues
                .clone()
                .all(|queue| queue["Properties"].get("QueueName").is_none())
    );
}

#[test]
fn both_change_streams_are_delivered_alike() {
    let (streams, kinesis) = (parse(&[]).unwrap(), parse(&[("ChangeStream", "Kinesis")]).unwrap());
    assert_eq!(streams.change_stream, ChangeStream::DynamoDbStreams);
    assert_eq!(kinesis.change_stream, ChangeStream::Kinesis);
    // All settings except the filter, which differs for Kinesis.
    let settings = |template: Template| {
        let filters = Filters::default();
        format!(
            "{:?}",
            Settings {
                filters,
                ..template.mapping
            }
        )
    };
    assert_eq!(settings(streams), settings(kinesis));
}

#[test]
fn errors_name_their_cause() {
    for (from, to, message) in [
        (
            "MaximumRetryAttempts: -1",
            "MaximumRetryAttempts: ten",
            "invalid value of MaximumRetryAttempts in StreamFunction.Events.NewImages",
        ),
        (
            "ParallelizationFactor: 2",
            "ParallelizationFactor: 11",
            "invalid settings of StreamFunction.Events.NewImages: ParallelizationFactor is outside Lambda's bounds",
        ),
        (
            "ParallelizationFactor: 2",
            "TumblingWindowInSeconds: 2",
            "StreamFunction.Events.NewImages has TumblingWindowInSeconds, which the local stack does not support",
        ),
        (
            "{\"dynamodb\":{\"Keys\"",
            "{\"dynamodb\":{",
            "invalid settings of StreamFunction.Events.NewImages: a pattern of FilterCriteria cannot be read: it is not JSON",
        ),
        (
            "Binary: stream-fn",
            "Other: stream-fn",
            "StreamFunction has no Metadata.BuildProperties.Binary",
        ),
        (
            "StreamViewType: NEW_IMAGE",
            "Other: NEW_IMAGE",
            "VersionControl has no StreamSpecification.StreamViewType",
        ),
        (
            "Stream: !GetAtt VersionControl.StreamArn",
            "Stream: x",
            "StreamFunction.Events.NewImages has no Stream: !GetAtt <table>.StreamArn",
        ),
        (
            "          Type: DynamoDB",
            "          Type: Kinesis",
            "it does not have exactly one event of type DynamoDB",
        ),
        (
            "BatchSize: 100",
            "BatchSize: !Ref Size",
            "there is no parameter or resource Size",
        ),
        (
            "BatchSize: 100",
            "BatchSize: !Cidr x",
            "the local stack does not support Fn::Cidr",
        ),
        ("Resources:", "Things:", "Resources is missing or not an object"),
    ] {
        assert_eq!(edited(from, to), message);
    }
    assert!(edited("Parameters:", "Parameters: [").starts_with("it is not YAML: "));
    assert_eq!(
        chain(&Template::parse("", &[]).unwrap_err()),
        "it is not one YAML document"
    );
    for text in ["7", "[]", "a: b", "Resources: 7", "Resources: {A: 7}"] {
        assert!(Template::parse(text, &[]).is_err(), "{text}");
    }
}
