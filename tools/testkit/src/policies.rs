//! The IAM, table, queue and bucket policies of a template.

use std::collections::{BTreeMap, BTreeSet};

use local::template::{resolve::Resolver, yaml};
use serde_json::Value;

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

/// Returns all statements of the template with these parameters, except trust policies.
pub fn statements(template: &str, parameters: &[(&str, &str)]) -> Vec<Statement> {
    let document = yaml::parse(template).unwrap();
    let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
    let parameters: Vec<_> = parameters.iter().map(owned).collect();
    let resolver = Resolver::new(&document, &parameters).unwrap();
    let mut found = Vec::new();
    for (kind, member) in [
        ("AWS::IAM::Role", "/Policies"),
        ("AWS::IAM::Policy", ""),
        ("AWS::DynamoDB::Table", "/ResourcePolicy"),
        ("AWS::SQS::QueuePolicy", ""),
        ("AWS::S3::BucketPolicy", ""),
    ] {
        for (id, resource) in resolver.resources(kind).unwrap() {
            let properties = resolver.resolve(&resource["Properties"]).unwrap();
            let owners = match kind {
                "AWS::IAM::Policy" => texts(&properties["Roles"]),
                _ => vec![id],
            };
            let policies = properties.pointer(member).cloned().unwrap_or_default();
            let policies = policies.as_array().cloned().unwrap_or_else(|| vec![policies]);
            let bodies = policies
                .iter()
                .filter_map(|policy| policy["PolicyDocument"]["Statement"].as_array());
            for body in bodies.flatten() {
                found.extend(owners.iter().map(|owner| Statement {
                    owner: (*owner).to_owned(),
                    body: body.clone(),
                }));
            }
        }
    }
    found
}

/// Returns the actions that each role is allowed, with the logical ids of their tables: `dynamodb:GetItem History`. Other
/// resources are not named.
pub fn allowed(statements: &[Statement]) -> BTreeMap<String, BTreeSet<String>> {
    let mut allowed: BTreeMap<_, BTreeSet<_>> = BTreeMap::new();
    let is_of_role = |statement: &&Statement| statement.owner.ends_with("Role") && statement.allows();
    for statement in statements.iter().filter(is_of_role) {
        let actions: &mut BTreeSet<_> = allowed.entry(statement.owner.clone()).or_default();
        for resource in statement.resources() {
            // A stream is a path, or an attribute.
            let table = resource.rsplit(':').next().filter(|name| !name.contains(['/', '.']));
            actions.extend(statement.actions().into_iter().map(|action| match table {
                Some(table) if action.starts_with("dynamodb:") => format!("{action} {table}"),
                _ => action.to_owned(),
            }));
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
