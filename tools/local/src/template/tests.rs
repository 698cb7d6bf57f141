//! The template of the project, and invalid templates.

mod alarms;
mod policies;

use base64::{Engine as _, engine::general_purpose::STANDARD as BASE64};
use operations::table::settings::TableSettings;
use serde_json::{Value, json};
use shared::{config::MARKER_RETENTION, domain::keys::LATEST_KEY, dynamodb::client::ClientSettings, logging::chain};

use super::*;
use crate::mapping::filter::Filters;

const TEMPLATE: &str = include_str!("../../../../template.yaml");

fn parse(overrides: &[(&str, &str)]) -> Result<Template, String> {
    let overrides = overrides
        .iter()
        .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    Template::parse(TEMPLATE, &overrides.collect::<Vec<_>>()).map_err(|error| chain(&error))
}

fn resources() -> Value {
    yaml::parse(TEMPLATE).unwrap()["Resources"].clone()
}

/// Returns the properties of all resources of a type.
fn properties_of(kind: &str) -> Vec<Value> {
    let resources = resources();
    let of_kind = resources.as_object().unwrap().values();
    let of_kind = of_kind.filter(|resource| resource["Type"] == kind);
    of_kind.map(|resource| resource["Properties"].clone()).collect()
}

/// `vzero admin table create` has the same settings in its code.
#[test]
fn the_table_has_the_settings_of_the_code() {
    let template = parse(&[]).unwrap();
    assert_eq!(template.table.settings, TableSettings::default());
    // Each property of the template is one of these settings. A created table is always billed by request.
    let document = yaml::parse(TEMPLATE).unwrap();
    let resolver = resolve::Resolver::new(&document, &[]).unwrap();
    let properties = resolver.resolve(&document["Resources"]["VersionControl"]["Properties"]);
    let properties = properties.unwrap();
    let names: Vec<_> = properties.as_object().unwrap().keys().map(String::as_str).collect();
    let expected = "BillingMode DeletionProtectionEnabled AttributeDefinitions KeySchema StreamSpecification \
                    TimeToLiveSpecification PointInTimeRecoverySpecification SSESpecification";
    assert_eq!(names.join(" "), expected);
    assert_eq!(properties["BillingMode"], "PAY_PER_REQUEST");
    assert_eq!(properties["TimeToLiveSpecification"]["Enabled"], true);
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
    // Attempts have the bounds and the default of the library.
    let (defaults, attempts) = (ClientSettings::default(), ClientSettings::ATTEMPTS);
    let [below, least, most, above] = [
        attempts.start() - 1,
        *attempts.start(),
        *attempts.end(),
        attempts.end() + 1,
    ]
    .map(|attempts| attempts.to_string());
    for attempts in [least, most] {
        assert!(parse(&[("MaxAttempts", &attempts)]).is_ok(), "{attempts}");
    }
    for (name, value) in [
        ("MaxAttempts", below.as_str()),
        ("MaxAttempts", &above),
        ("MaxAttempts", "x"),
        ("VersionDigits", "21"),
        ("Ordering", "random"),
    ] {
        let error = format!("the parameter {name} does not allow {value}");
        assert_eq!(parse(&[(name, value)]).unwrap_err(), error);
    }
    assert_eq!(parse(&[("Nothing", "1")]).unwrap_err(), "there is no parameter Nothing");
    for function in parse(&[]).unwrap().functions {
        let attempts = defaults.max_attempts.to_string();
        assert_eq!(function.environment["AWS_MAX_ATTEMPTS"], attempts);
        assert!(defaults.operation_timeout < function.timeout);
    }
}

#[test]
fn queues_buckets_and_events_have_these_settings() {
    let resources = resources();
    // Only the age limits retries of the stream: a throttle of minutes must not use them up. Asynchronous updates have Lambda's maximum
    // of attempts and age. Failed asynchronous updates go to the queue that is redriven. In the lifecycle, delete
    // markers need a rule of their own.
    for line in r#"WriterFunction/Properties/Events/Updates/Properties/Queue {"Fn::GetAtt": ["Updates", "Arn"]}
        WriterFunction/Properties/Events/Updates/Properties/BatchSize 10
        WriterFunction/Properties/Events/Updates/Properties/ScalingConfig {"MaximumConcurrency": 20}
        WriterFunction/Properties/Events/Updates/Properties/FunctionResponseTypes ["ReportBatchItemFailures"]
        WriterFunction/Properties/EventInvokeConfig/MaximumRetryAttempts 2
        WriterFunction/Properties/EventInvokeConfig/MaximumEventAgeInSeconds 21600
        WriterFunction/Properties/EventInvokeConfig/DestinationConfig/OnFailure/Type "SQS"
        WriterFunction/Properties/EventInvokeConfig/DestinationConfig/OnFailure/Destination {"Fn::GetAtt": ["UpdatesDeadLetterQueue", "Arn"]}
        StreamFunction/Properties/Events/NewImages/Properties/MaximumRetryAttempts -1
        StreamFunction/Properties/Events/NewImages/Properties/MaximumRecordAgeInSeconds 43200
        StreamFunction/Properties/Events/NewImages/Properties/BatchSize 100
        StreamFunction/Properties/Events/NewImages/Properties/ParallelizationFactor 2
        StreamFunction/Properties/Events/NewImages/Properties/BisectBatchOnFunctionError true
        StreamFunction/Properties/Events/NewImages/Properties/FunctionResponseTypes ["ReportBatchItemFailures"]
        Updates/Properties/VisibilityTimeout 180
        Updates/Properties/RedrivePolicy/maxReceiveCount 5
        StreamDeadLetterQueue/Properties/RedriveAllowPolicy {"redrivePermission": "denyAll"}
        FailedRecords/Properties/VersioningConfiguration/Status "Enabled"
        FailedRecords/Properties/NotificationConfiguration/QueueConfigurations/0/Queue {"Fn::GetAtt": ["StreamDeadLetterQueue", "Arn"]}
        FailedRecords/Properties/LifecycleConfiguration/Rules/0 {"Id": "ExpireDocuments", "Status": "Enabled", "ExpirationInDays": 365, "NoncurrentVersionExpiration": {"NoncurrentDays": 30}, "AbortIncompleteMultipartUpload": {"DaysAfterInitiation": 7}}
        FailedRecords/Properties/LifecycleConfiguration/Rules/1 {"Id": "RemoveDeleteMarkers", "Status": "Enabled", "ExpiredObjectDeleteMarker": true}"#
        .lines()
    {
        let (pointer, expected) = line.trim().split_once(' ').unwrap();
        let expected: Value = serde_json::from_str(expected).unwrap();
        assert_eq!(resources.pointer(&format!("/{pointer}")), Some(&expected), "{pointer}");
    }
    let kept = &resources["StreamDeadLetterQueue"]["Properties"]["MessageRetentionPeriod"];
    assert!(
        365 * 86_400 > kept.as_u64().unwrap(),
        "failure documents are kept longer than their notifications"
    );
}

#[test]
fn everything_at_rest_is_encrypted_and_nothing_is_public() {
    let [queues, buckets, tables] = ["AWS::SQS::Queue", "AWS::S3::Bucket", "AWS::DynamoDB::Table"].map(properties_of);
    assert_eq!((queues.len(), buckets.len(), tables.len()), (3, 1, 2));
    // Markers of the ledger are kept longer than messages.
    for queue in &queues {
        assert_eq!(queue["SqsManagedSseEnabled"], true, "{queue}");
        assert!(
            queue["MessageRetentionPeriod"].as_u64().unwrap() < MARKER_RETENTION.as_secs(),
            "{queue}"
        );
        // A name would replace a deployed queue, whose messages would stay behind.
        assert!(queue.get("QueueName").is_none(), "{queue}");
    }
    // No queue moves messages to the dead-letter queue of the stream.
    let targets = queues
        .iter()
        .filter_map(|queue| queue.pointer("/RedrivePolicy/deadLetterTargetArn"));
    assert_eq!(
        targets.collect::<Vec<_>>(),
        [&json!({"Fn::GetAtt": ["UpdatesDeadLetterQueue", "Arn"]})]
    );
    let are_encrypted = tables
        .iter()
        .all(|table| table["SSESpecification"]["SSEEnabled"] == true);
    assert!(are_encrypted);
    let blocked = buckets[0]["PublicAccessBlockConfiguration"].as_object().unwrap();
    assert!(blocked.len() == 4 && blocked.values().all(|blocked| *blocked == true));
    let encryption = &buckets[0]["BucketEncryption"]["ServerSideEncryptionConfiguration"][0];
    assert_eq!(encryption["ServerSideEncryptionByDefault"]["SSEAlgorithm"], "AES256");
}

#[test]
fn both_change_streams_are_delivered_alike() {
    let (streams, kinesis) = (parse(&[]).unwrap(), parse(&[("ChangeStream", "Kinesis")]).unwrap());
    assert_eq!([streams.is_kinesis, kinesis.is_kinesis], [false, true]);
    // All settings except the filter, which differs for Kinesis.
    let settings = |template: Template| {
        let mut settings = template.mapping;
        settings.filters = Filters::default();
        format!("{settings:?}")
    };
    assert_eq!(settings(streams), settings(kinesis));
}

#[test]
fn errors_name_their_cause() {
    let edited = |from: &str, to: &str| {
        assert!(TEMPLATE.contains(from), "{from}");
        chain(&Template::parse(&TEMPLATE.replacen(from, to, 1), &[]).unwrap_err())
    };
    for line in "MaximumRetryAttempts: -1 | MaximumRetryAttempts: ten | invalid value of MaximumRetryAttempts in {mapping}
        MaximumRetryAttempts: -1 | MaximumRetryAttempts: 10001 | invalid value of MaximumRetryAttempts in {mapping}
        ParallelizationFactor: 2 | ParallelizationFactor: 11 | invalid value of ParallelizationFactor in {mapping}
        MaximumBatchingWindowInSeconds: 0 | MaximumBatchingWindowInSeconds: 301 | invalid value of MaximumBatchingWindowInSeconds in {mapping}
        MaximumRecordAgeInSeconds: 43200 | MaximumRecordAgeInSeconds: 59 | invalid value of MaximumRecordAgeInSeconds in {mapping}
        BatchSize: 100 | BatchSize: 0 | invalid value of BatchSize in {mapping}
        BatchSize: 100 | BatchSize: 10001 | invalid value of BatchSize in {mapping}
        ParallelizationFactor: 2 | TumblingWindowInSeconds: 2 | {mapping} has TumblingWindowInSeconds, which the local stack does not support
        {\"dynamodb\":{\"Keys\" | {\"dynamodb\":{ | a pattern of FilterCriteria in {mapping} cannot be read: it is not JSON
        Binary: stream-fn | Other: stream-fn | StreamFunction has no Metadata.BuildProperties.Binary
        StreamViewType: NEW_IMAGE | Other: 1 | VersionControl has no StreamSpecification.StreamViewType
        Stream: !GetAtt VersionControl.StreamArn | Stream: x | {mapping} has no Stream: !GetAtt <table>.StreamArn
        Type: DynamoDB\n | Type: Kinesis\n | it does not have exactly one event of type DynamoDB
        BatchSize: 100 | BatchSize: !Ref Size | there is no parameter or resource Size
        BatchSize: 100 | BatchSize: !Cidr x | the local stack does not support Fn::Cidr
        Resources: | Things: | Resources is missing or not an object"
        .split("\n        ")
    {
        let [from, to, message] = line.split(" | ").collect::<Vec<_>>()[..] else {
            panic!("{line}")
        };
        assert_eq!(edited(from, to), message.replace("{mapping}", "StreamFunction.Events.NewImages"));
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
