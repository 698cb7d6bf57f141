//! The policies of the templates: what they allow, and whom.

use serde_json::{Value, json};
use testkit::policies::{Statement, statements};

use super::TEMPLATE;
use crate::template::{resolve::Resolver, yaml};

const ATTACHED: &str = include_str!("../../../../attach/template.yaml");
const SEAL: &str = include_str!("../../../../seal/template.yaml");
/// Parameters of the template for sealing.
const SEALED: [(&str, &str); 5] = [
    ("Tables", "Orders"),
    (
        "TableArns",
        "arn:aws:dynamodb:us-east-1:000000000000:table/Orders,arn:aws:dynamodb:us-east-1:000000000000:table/History",
    ),
    ("LogOrigin", "example.com/log"),
    ("ErasePrincipalArn", "arn:aws:iam::000000000000:role/eraser"),
    ("AuditorPrincipalArn", "arn:aws:iam::000000000000:role/auditor"),
];

fn all() -> Vec<Statement> {
    statements(TEMPLATE, &[])
}

fn arn(id: &str) -> String {
    format!("arn:aws:local:us-east-1:000000000000:{id}")
}

#[test]
fn no_statement_allows_everything() {
    let [found, of_seal] = [all(), statements(SEAL, &SEALED)];
    assert!(found.len() >= 15 && of_seal.len() >= 15, "{found:?} {of_seal:?}");
    for statement in found.iter().chain(&of_seal).filter(|statement| statement.allows()) {
        assert!(
            !statement.resources().is_empty() && !statement.actions().is_empty(),
            "{statement:?}"
        );
        // X-Ray has no resources to name here.
        let traces = statement.actions().iter().all(|action| action.starts_with("xray:Put"));
        for resource in statement.resources().into_iter().filter(|_| !traces) {
            let named = resource.rsplit(':').next().unwrap_or_default();
            let is_arn = resource.starts_with("arn:") || resource.ends_with(".StreamArn");
            assert!(is_arn && !named.starts_with('*'), "{statement:?}");
        }
        assert!(
            statement.actions().iter().all(|action| !action.contains('*')),
            "{statement:?}"
        );
        assert_ne!(statement.body["Principal"], "*", "{statement:?}");
    }
}

#[test]
fn queues_and_bucket_accept_encrypted_connections_only() {
    let found = all();
    for (id, kind) in [
        ("Updates", "sqs"),
        ("UpdatesDeadLetterQueue", "sqs"),
        ("StreamDeadLetterQueue", "sqs"),
        ("FailedRecords", "s3"),
    ] {
        let refuses = |statement: &&Statement| {
            statement.body["Effect"] == "Deny"
                && statement.body["Principal"] == "*"
                && statement.actions() == [format!("{kind}:*")]
                && statement.resources().contains(&arn(id).as_str())
                && statement.body["Condition"] == json!({"Bool": {"aws:SecureTransport": "false"}})
        };
        let denial = found.iter().find(refuses);
        let denial = denial.unwrap_or_else(|| panic!("{id} accepts plain connections"));
        let objects = format!("{}/*", arn(id));
        assert!(kind == "sqs" || denial.resources().contains(&objects.as_str()));
    }
}

#[test]
fn only_this_stack_writes_to_the_failure_destinations_and_only_this_account_to_the_queue_of_updates() {
    let document = yaml::parse(TEMPLATE).unwrap();
    let resolver = Resolver::new(&document, &[]).unwrap();
    let name = resolver.resolve(&document["Resources"]["FailedRecords"]["Properties"]["BucketName"]);
    let name = name.unwrap().as_str().unwrap().to_owned();
    // S3's maximum.
    assert!(name.len() <= 63, "{name}");
    let bucket = format!("arn:aws:s3:::{name}");
    let found = all();
    let expected = format!(
        r#"{{
            "NotificationsOfThisStacksBucket": {{
                "Effect": "Allow", "Principal": {{"Service": "s3.amazonaws.com"}},
                "Condition": {{"StringEquals": {{"aws:SourceAccount": "000000000000"}}, "ArnEquals": {{"aws:SourceArn": "{bucket}"}}}}
            }},
            "NothingElseSends": {{
                "Effect": "Deny", "Action": "sqs:SendMessage", "Condition": {{"ArnNotEquals": {{"aws:SourceArn": "{bucket}"}}}}
            }},
            "OnlyThisStacksMappingWrites": {{
                "Effect": "Deny", "Action": "s3:PutObject", "Condition": {{"ArnNotEquals": {{"aws:PrincipalArn": "{role}"}}}}
            }},
            "OnlyThisAccount": {{
                "Effect": "Deny", "Condition": {{
                    "StringNotEquals": {{"aws:PrincipalAccount": "000000000000"}}, "Bool": {{"aws:PrincipalIsAWSService": "false"}}
                }}
            }},
            "RulesOfThisAccount": {{
                "Effect": "Allow", "Principal": {{"Service": "events.amazonaws.com"}}, "Action": "sqs:SendMessage",
                "Resource": ["{updates}", "{updates}DeadLetterQueue"],
                "Condition": {{"StringEquals": {{"aws:SourceAccount": "000000000000"}}}}
            }}
        }}"#,
        role = arn("StreamRole"),
        updates = arn("Updates"),
    );
    let expected: Value = serde_json::from_str(&expected).unwrap();
    for (sid, expected) in expected.as_object().unwrap() {
        let statement = found.iter().find(|statement| statement.body["Sid"] == *sid);
        let body = &statement.unwrap_or_else(|| panic!("there is no {sid}")).body;
        for (member, value) in expected.as_object().unwrap() {
            assert_eq!(body[member], *value, "{sid}: {member}");
        }
    }
    let may_send = |statement: &&Statement| {
        statement.owner == "WriterRole" && statement.allows() && statement.actions() == ["sqs:SendMessage"]
    };
    let sends: Vec<_> = found.iter().filter(may_send).flat_map(Statement::resources).collect();
    assert_eq!(sends, [arn("UpdatesDeadLetterQueue")]);
}

/// The attached table itself is neither read nor written. Of its history, only the definition can be overwritten.
#[test]
fn the_function_of_an_attached_table_reads_its_stream_and_only_inserts_into_history() {
    let table = "arn:aws:dynamodb:us-east-1:000000000000:table/Orders";
    let stream = format!("{table}/stream/2026-11-22T06:24:48.123");
    let parameters = [("TableName", "Orders"), ("StreamArn", &stream)];
    let statements = statements(ATTACHED, &parameters);
    let of_role = statements.iter().filter(|statement| statement.owner == "StreamRole");
    let found: Vec<_> = of_role
        .map(|statement| {
            assert!(statement.allows(), "{statement:?}");
            let (actions, resources) = (statement.actions().join(" "), statement.resources().join(" "));
            format!("{actions} {resources} {}", statement.body["Condition"])
        })
        .filter(|allowed| allowed.starts_with("dynamodb:"))
        .collect();
    let history = "arn:aws:local:us-east-1:000000000000:History";
    let expected = [
        format!("dynamodb:DescribeStream dynamodb:GetRecords dynamodb:GetShardIterator {stream} null"),
        format!("dynamodb:DescribeTable {table} null"),
        format!("dynamodb:ListStreams {table}/stream/* null"),
        format!("dynamodb:PartiQLInsert dynamodb:Query dynamodb:GetItem dynamodb:BatchGetItem {history} null"),
        format!(
            r##"dynamodb:UpdateItem {history} {{"ForAllValues:StringEquals":{{"dynamodb:LeadingKeys":["#vzero"]}}}}"##
        ),
    ];
    assert_eq!(found, expected);
    // The table policy denies these actions, even if another policy of the role allows them.
    let denied = |action: &str| {
        let denies = |statement: &&Statement| statement.owner == "History" && statement.actions().contains(&action);
        statements.iter().find(denies).unwrap().body["Condition"].clone()
    };
    let of_entities = json!({"ForAnyValue:StringNotEquals": {"dynamodb:LeadingKeys": ["#vzero"]}});
    assert_eq!(
        [denied("dynamodb:UpdateItem"), denied("dynamodb:PutItem")],
        [of_entities, Value::Null]
    );
    // A parameter leads from the name of the table to its history, whose reference is its id here.
    let document = yaml::parse(ATTACHED).unwrap();
    let parameters = parameters.map(|(name, value)| (name.to_owned(), value.to_owned()));
    let resolver = Resolver::new(&document, &parameters).unwrap();
    let parameter = &document["Resources"]["AttachedTable"]["Properties"];
    let [name, value] = ["Name", "Value"].map(|member| resolver.resolve(&parameter[member]).unwrap());
    assert_eq!(
        (&parameter["Type"], name),
        (&json!("String"), json!("/vzero/attached/Orders"))
    );
    assert_eq!(value, r#"{"TableName": "Orders", "HistoryTable": "History"}"#);
}

/// Who changes what of a sealed history, with everything that denies it.
#[test]
fn seal_fn_only_creates_only_the_role_for_erasing_deletes_keys_and_the_auditor_only_reads() {
    let found = statements(SEAL, &SEALED);
    let lines: Vec<_> = found
        .iter()
        .filter(|statement| !statement.actions()[0].starts_with(['l', 'x']))
        .map(|statement| {
            let Statement { owner, body } = statement;
            let effect = if statement.allows() { "may" } else { "denies" };
            let others = body["NotResource"]
                .as_str()
                .map(|resource| format!("all but {resource}"));
            let resources = others.unwrap_or_else(|| statement.resources().join(" "));
            let condition = body
                .get("Condition")
                .map_or(String::new(), |condition| format!(" if {condition}"));
            format!(
                "{owner} {effect} {} of {resources}{condition}",
                statement.actions().join(" ")
            )
            .replace("arn:aws:dynamodb:us-east-1:000000000000:table/", "")
            .replace("arn:aws:local:us-east-1:000000000000:", "")
            .replace("dynamodb:", "")
        })
        .collect();
    let expected = include_str!("sealed.txt");
    assert_eq!(lines.join("\n"), expected.trim_end());
    // Only the policy of the key allows to sign.
    let document = yaml::parse(SEAL).unwrap();
    let resolver = Resolver::new(
        &document,
        &SEALED.map(|(name, value)| (name.to_owned(), value.to_owned())),
    )
    .unwrap();
    let key = resolver.resolve(&document["Resources"]["SigningKey"]["Properties"]["KeyPolicy"]["Statement"]);
    let key = key.unwrap();
    let signs = key
        .as_array()
        .unwrap()
        .iter()
        .filter(|statement| statement["Action"].to_string().contains("kms:Sign"));
    assert_eq!(
        signs
            .map(|statement| &statement["Principal"]["AWS"])
            .collect::<Vec<_>>(),
        [&arn("SealRole")]
    );
    assert!(
        !key.to_string().contains("kms:*") && !key.to_string().contains("CreateGrant"),
        "{key}"
    );
}
