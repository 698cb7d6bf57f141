//! Decisions about the policies of `docs/access.md`, by an independent evaluator of IAM policies.
//!
//! Requires `tools/local/tests/with-iam`. Another test compares the policies with the requests of the commands.

#![allow(clippy::unwrap_used, reason = "in a test, a panic is the message")]

use serde_json::{Value, json};
use testkit::{
    iam::{ACCOUNT, Decision, Simulation, decide, policy, table_arn},
    pages::access_statements,
};

/// Account of the principals with the policy `ReaderReads`.
const READING_ACCOUNT: &str = "210987654321";
const KEY: &str = "arn:aws:kms:us-east-1:000000000000:key/0a1b2c3d-0000-4000-8000-000000000000";
/// Actions on a table. The latter half changes it.
const ALL: &str = "DescribeTable GetItem BatchGetItem Query Scan PartiQLSelect PutItem UpdateItem DeleteItem BatchWriteItem PartiQLInsert \
                   PartiQLUpdate PartiQLDelete DeleteTable";

/// A decision in each line.
const CASES: &str = include_str!("scripts/decisions_of_iam");

fn principal(name: &str) -> String {
    let account = if name == "Operator" { ACCOUNT } else { READING_ACCOUNT };
    format!("arn:aws:iam::{account}:role/{name}")
}

/// Returns the documented statements, with ARNs instead of placeholders. `None` without a name.
fn documented(sids: &str) -> Option<Value> {
    let statements = sids.split_whitespace().flat_map(access_statements);
    let with_arns = statements.map(|statement| {
        let mut text = statement.to_string();
        for (placeholder, arn) in [
            ("LATEST", table_arn("Latest")),
            ("HISTORY", table_arn("Versions")),
            ("READER", principal("Reader")),
            ("KEY", KEY.to_owned()),
        ] {
            text = text.replace(&format!("\"{placeholder}\""), &format!("\"{arn}\""));
            text = text.replace(&format!("\"{placeholder}/"), &format!("\"{arn}/"));
        }
        serde_json::from_str(&text).unwrap()
    });
    let statements: Vec<_> = with_arns.collect();
    assert_eq!(sids.is_empty(), statements.is_empty(), "there is no policy {sids}");
    (!sids.is_empty()).then(|| policy(statements))
}

#[test]
fn each_policy_allows_what_its_readers_and_operators_do_and_nothing_else() {
    let lines = CASES.lines().map(str::trim);
    for line in lines.filter(|line| !line.is_empty() && !line.starts_with("//")) {
        let cells: Vec<_> = line.split('|').map(str::trim).collect();
        let [who, identity, of_resource, resource, context, requested, allowed] = cells.try_into().unwrap();
        let (service, resource) = match resource {
            "KEY" => ("kms", KEY.to_owned()),
            table => ("dynamodb", table_arn(table)),
        };
        let requested = if requested == "all" { ALL } else { requested };
        let request = |action: &str| Simulation {
            principal: principal(who),
            action: format!("{service}:{action}"),
            resource: resource.clone(),
            account: ACCOUNT.to_owned(),
            identity: documented(identity).into_iter().collect(),
            resource_policy: documented(of_resource),
            context: serde_json::from_str(context).unwrap_or_else(|_| json!({})),
        };
        let requests: Vec<_> = requested.split_whitespace().map(request).collect();
        let decisions = decide(&requests).into_iter().zip(requested.split_whitespace());
        let found = decisions.filter(|(decision, _)| *decision == Decision::Allowed);
        let mut found: Vec<_> = found.map(|(_, action)| action).collect();
        let mut allowed: Vec<_> = allowed.split_whitespace().collect();
        found.sort_unstable();
        allowed.sort_unstable();
        assert_eq!(found, allowed, "{line}");
    }
}
