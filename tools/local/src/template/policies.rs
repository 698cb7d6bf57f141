//! The IAM, table, queue and bucket policies of a template.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::{
    error::{TemplateError, object},
    resolve::Resolver,
    yaml,
};

/// A policy statement, and the logical id of its owner.
#[derive(Debug, Clone)]
pub struct Statement {
    /// Logical id of the role, table, queue policy or bucket policy.
    pub owner: String,
    pub body: Value,
}

impl Statement {
    pub fn actions(&self) -> Vec<&str> {
        texts(&self.body["Action"])
    }

    pub fn resources(&self) -> Vec<&str> {
        texts(&self.body["Resource"])
    }

    pub fn allows(&self) -> bool {
        self.body["Effect"] == "Allow"
    }
}

/// Returns all statements of the template under these parameters, except trust policies.
pub fn statements(text: &str, overrides: &[(String, String)]) -> Result<Vec<Statement>, TemplateError> {
    let document = yaml::parse(text)?;
    let resolver = Resolver::new(&document, overrides)?;
    let mut found = Vec::new();
    for (id, resource) in object(document.get("Resources"), "Resources")? {
        let condition = resource.get("Condition").and_then(Value::as_str);
        if !condition.map_or(Ok(true), |condition| resolver.named_condition(condition))? {
            continue;
        }
        let properties = resource.get("Properties").cloned().unwrap_or_default();
        let mut owners = vec![id.clone()];
        let policies = match resource["Type"].as_str() {
            Some("AWS::IAM::Role") => properties["Policies"].as_array().cloned().unwrap_or_default(),
            Some("AWS::IAM::Policy") => {
                let roles = resolver.resolve(&properties["Roles"])?;
                owners = texts(&roles).into_iter().map(str::to_owned).collect();
                vec![properties]
            }
            Some("AWS::DynamoDB::Table") => properties.get("ResourcePolicy").cloned().into_iter().collect(),
            Some("AWS::SQS::QueuePolicy" | "AWS::S3::BucketPolicy") => vec![properties],
            _ => Vec::new(),
        };
        for policy in policies {
            let policy = resolver.resolve(&policy["PolicyDocument"])?;
            let statements = policy["Statement"].as_array().cloned().unwrap_or_default();
            for owner in &owners {
                found.extend(statements.iter().map(|body| Statement {
                    owner: owner.clone(),
                    body: body.clone(),
                }));
            }
        }
    }
    Ok(found)
}

/// Returns the actions that each role is allowed, with the logical ids of their tables: `dynamodb:GetItem History`. Other
/// resources are not named.
pub fn allowed(statements: &[Statement]) -> BTreeMap<String, BTreeSet<String>> {
    let mut allowed: BTreeMap<_, BTreeSet<_>> = BTreeMap::new();
    for statement in statements
        .iter()
        .filter(|statement| statement.owner.ends_with("Role") && statement.allows())
    {
        let actions: &mut BTreeSet<_> = allowed.entry(statement.owner.clone()).or_default();
        for (action, resource) in statement.actions().into_iter().flat_map(|action| {
            statement
                .resources()
                .into_iter()
                .map(move |resource| (action, resource))
        }) {
            // A stream is a path, or an attribute.
            let table = resource.rsplit(':').next().filter(|name| !name.contains(['/', '.']));
            actions.insert(match table {
                Some(table) if action.starts_with("dynamodb:") => format!("{action} {table}"),
                _ => action.to_owned(),
            });
        }
    }
    allowed
}

/// Returns one string, or a list of strings, as a list.
fn texts(value: &Value) -> Vec<&str> {
    match value {
        Value::Array(values) => values.iter().filter_map(Value::as_str).collect(),
        value => value.as_str().into_iter().collect(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const TEMPLATE: &str = include_str!("../../../../template.yaml");

    fn all() -> Vec<Statement> {
        statements(TEMPLATE, &[]).unwrap()
    }

    fn arn(id: &str) -> String {
        format!("arn:aws:local:us-east-1:000000000000:{id}")
    }

    #[test]
    fn no_statement_allows_everything() {
        let found = all();
        assert!(found.len() >= 15, "{found:?}");
        for statement in found.iter().filter(|statement| statement.allows()) {
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
    fn a_policy_belongs_to_its_role_if_its_condition_holds() {
        let own = [("HistoryTable".to_owned(), "own".to_owned())];
        let insert = "dynamodb:PartiQLInsert".to_owned();
        for (overrides, table) in [(&[][..], "VersionControl"), (&own, "History")] {
            let allowed = allowed(&statements(TEMPLATE, overrides).unwrap());
            let actions = &allowed["StreamRole"];
            let inserts: Vec<_> = actions.iter().filter(|action| action.starts_with(&insert)).collect();
            assert_eq!(inserts, [&format!("{insert} {table}")]);
        }
        let denials = |overrides: &[_]| {
            let found = statements(TEMPLATE, overrides).unwrap();
            found.iter().filter(|statement| statement.owner == "History").count()
        };
        assert_eq!((denials(&[]), denials(&own)), (0, 2));
    }

    #[test]
    fn queues_and_bucket_accept_encrypted_connections_only() {
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
            let found = all();
            let denial = found.iter().find(refuses);
            let denial = denial.unwrap_or_else(|| panic!("{id} accepts plain connections"));
            let objects = format!("{}/*", arn(id));
            assert!(kind == "sqs" || denial.resources().contains(&objects.as_str()));
        }
    }

    #[test]
    fn only_this_stack_writes_to_the_failure_destinations() {
        let found = all();
        let get = |sid: &str| {
            let statement = found.iter().find(|statement| statement.body["Sid"] == sid);
            statement.unwrap_or_else(|| panic!("there is no {sid}")).body.clone()
        };
        let document = yaml::parse(TEMPLATE).unwrap();
        let resolver = Resolver::new(&document, &[]).unwrap();
        let bucket = resolver
            .resolve(&document["Resources"]["FailedRecords"]["Properties"]["BucketName"])
            .unwrap();
        let bucket = format!("arn:aws:s3:::{}", bucket.as_str().unwrap());
        // A bucket's name has at most 63 characters.
        assert!(bucket.len() - "arn:aws:s3:::".len() <= 63, "{bucket}");
        let allow = get("NotificationsOfThisStacksBucket");
        assert_eq!(allow["Principal"], json!({"Service": "s3.amazonaws.com"}));
        assert_eq!(
            allow["Condition"],
            json!({"StringEquals": {"aws:SourceAccount": "000000000000"}, "ArnEquals": {"aws:SourceArn": bucket}})
        );
        let deny = get("NothingElseSends");
        assert_eq!(
            (&deny["Effect"], &deny["Action"]),
            (&json!("Deny"), &json!("sqs:SendMessage"))
        );
        assert_eq!(deny["Condition"], json!({"ArnNotEquals": {"aws:SourceArn": bucket}}));
        let writes = get("OnlyThisStacksMappingWrites");
        assert_eq!(
            (&writes["Effect"], &writes["Action"]),
            (&json!("Deny"), &json!("s3:PutObject"))
        );
        assert_eq!(
            writes["Condition"],
            json!({"ArnNotEquals": {"aws:PrincipalArn": arn("StreamRole")}})
        );
        let account = get("OnlyThisAccount");
        assert_eq!(account["Effect"], "Deny");
        assert_eq!(
            account["Condition"],
            json!({
                "StringNotEquals": {"aws:PrincipalAccount": "000000000000"}, "Bool": {"aws:PrincipalIsAWSService": "false"},
            })
        );
    }

    #[test]
    fn failed_asynchronous_updates_go_to_the_queue_that_is_redriven() {
        let document = yaml::parse(TEMPLATE).unwrap();
        let config = &document["Resources"]["WriterFunction"]["Properties"]["EventInvokeConfig"];
        // Lambda's maximum.
        assert_eq!(
            (&config["MaximumRetryAttempts"], &config["MaximumEventAgeInSeconds"]),
            (&json!(2), &json!(21_600))
        );
        let destination = json!({"Type": "SQS", "Destination": {"Fn::GetAtt": ["UpdatesDeadLetterQueue", "Arn"]}});
        assert_eq!(config["DestinationConfig"]["OnFailure"], destination);
        let found = all();
        let may_send = |statement: &&Statement| {
            statement.owner == "WriterRole" && statement.allows() && statement.actions() == ["sqs:SendMessage"]
        };
        let sends: Vec<_> = found.iter().filter(may_send).collect();
        assert_eq!(sends.len(), 1);
        assert_eq!(sends[0].resources(), [arn("UpdatesDeadLetterQueue")]);
    }

    #[test]
    fn rules_of_this_account_send_to_the_queue_of_updates() {
        let found = all();
        let rules = found
            .iter()
            .find(|statement| statement.body["Sid"] == "RulesOfThisAccount");
        let rules = rules.expect("a statement for rules");
        assert!(rules.allows() && rules.actions() == ["sqs:SendMessage"]);
        assert_eq!(rules.body["Principal"], json!({"Service": "events.amazonaws.com"}));
        assert_eq!(rules.resources(), [arn("Updates"), arn("UpdatesDeadLetterQueue")]);
        let condition = json!({"StringEquals": {"aws:SourceAccount": "000000000000"}});
        assert_eq!(rules.body["Condition"], condition);
    }

    #[test]
    fn everything_at_rest_is_encrypted_and_nothing_is_public() {
        let document = yaml::parse(TEMPLATE).unwrap();
        let resources = document["Resources"].as_object().unwrap();
        let properties = |kind: &str| -> Vec<&Value> {
            let of_kind = resources.values().filter(|resource| resource["Type"] == kind);
            of_kind.map(|resource| &resource["Properties"]).collect()
        };
        let (queues, buckets) = (properties("AWS::SQS::Queue"), properties("AWS::S3::Bucket"));
        let tables = properties("AWS::DynamoDB::Table");
        assert_eq!((queues.len(), buckets.len(), tables.len()), (3, 1, 2));
        assert!(queues.iter().all(|queue| queue["SqsManagedSseEnabled"] == true));
        assert!(
            tables
                .iter()
                .all(|table| table["SSESpecification"]["SSEEnabled"] == true)
        );
        for bucket in buckets {
            let blocked = bucket["PublicAccessBlockConfiguration"].as_object().unwrap();
            assert_eq!(blocked.len(), 4);
            assert!(blocked.values().all(|blocked| *blocked == true));
            let encryption = &bucket["BucketEncryption"]["ServerSideEncryptionConfiguration"][0];
            assert_eq!(encryption["ServerSideEncryptionByDefault"]["SSEAlgorithm"], "AES256");
        }
    }
}
