//! Decisions about the policies of `docs/access.md`, by an independent evaluator of IAM policies.
//!
//! Requires `tools/local/tests/with-iam`. Another test compares the policies with the requests of the commands.

#![allow(clippy::unwrap_used, reason = "in a test, a panic is the message")]

use serde_json::{Value, json};
use testkit::{
    iam::{ACCOUNT, Decision, Simulation, decide, policy, table_arn},
    pages::access_statements,
};

const READING_ACCOUNT: &str = "210987654321";
const KEY: &str = "arn:aws:kms:us-east-1:000000000000:key/0a1b2c3d-0000-4000-8000-000000000000";
const CHANGES: [&str; 8] = [
    "dynamodb:PutItem",
    "dynamodb:UpdateItem",
    "dynamodb:DeleteItem",
    "dynamodb:BatchWriteItem",
    "dynamodb:PartiQLInsert",
    "dynamodb:PartiQLUpdate",
    "dynamodb:PartiQLDelete",
    "dynamodb:DeleteTable",
];
const READS: [&str; 5] = [
    "dynamodb:DescribeTable",
    "dynamodb:GetItem",
    "dynamodb:BatchGetItem",
    "dynamodb:Query",
    "dynamodb:Scan",
];

fn reader() -> String {
    format!("arn:aws:iam::{READING_ACCOUNT}:role/Reader")
}

/// Returns the documented statements, with ARNs instead of placeholders.
fn documented(sids: &[&str]) -> Value {
    let statements = sids.iter().flat_map(|sid| access_statements(sid));
    let with_arns = statements.map(|statement| {
        let mut text = statement.to_string();
        for (placeholder, arn) in [
            ("LATEST", table_arn("Latest")),
            ("HISTORY", table_arn("Versions")),
            ("READER", reader()),
            ("KEY", KEY.to_owned()),
        ] {
            text = text.replace(&format!("\"{placeholder}\""), &format!("\"{arn}\""));
        }
        serde_json::from_str(&text).unwrap()
    });
    let statements: Vec<_> = with_arns.collect();
    assert!(!statements.is_empty(), "there is no policy {sids:?}");
    policy(statements)
}

fn request(principal: &str, action: &str, resource: &str, identity: Vec<Value>) -> Simulation {
    Simulation {
        principal: principal.to_owned(),
        action: action.to_owned(),
        resource: resource.to_owned(),
        account: ACCOUNT.to_owned(),
        identity,
        resource_policy: None,
        context: json!({}),
    }
}

/// Returns the actions of a list that a principal of this account may perform on a table with these policies.
fn allowed(sids: &[&str], table: &str, actions: &[&str]) -> Vec<String> {
    let operator = format!("arn:aws:iam::{ACCOUNT}:role/Operator");
    let request = |action: &&str| request(&operator, action, &table_arn(table), vec![documented(sids)]);
    let requests: Vec<_> = actions.iter().map(request).collect();
    let decisions = decide(&requests).into_iter();
    let allowed = decisions
        .zip(actions)
        .filter(|(decision, _)| *decision == Decision::Allowed);
    allowed.map(|(_, action)| action.replace("dynamodb:", "")).collect()
}

#[test]
fn each_policy_allows_what_its_readers_and_operators_do_and_nothing_else() {
    let all = [&READS[..], &CHANGES].concat();
    let auditor = ["ReadLatest", "ReadHistory", "Audit"];
    let with = |more| [&auditor[..], &[more]].concat();
    let reads = ["GetItem", "BatchGetItem", "Query", "Scan"];
    let of_latest = |more: &[&'static str]| [&["DescribeTable"], &reads[..], more].concat();
    let reads_and = |more: &[&'static str]| [&reads[..], more].concat();
    for (sids, latest, history) in [
        (vec!["ReadLatest"], vec!["DescribeTable", "GetItem"], vec![]),
        (
            auditor[..2].to_vec(),
            vec!["DescribeTable", "GetItem", "Query"],
            vec!["GetItem", "BatchGetItem", "Query"],
        ),
        (auditor.to_vec(), of_latest(&[]), reads.to_vec()),
        (with("Prune"), of_latest(&[]), reads_and(&["UpdateItem"])),
        (
            with("Purge"),
            of_latest(&["DeleteItem", "BatchWriteItem"]),
            reads_and(&["PutItem", "BatchWriteItem"]),
        ),
    ] {
        assert_eq!(allowed(&sids, "Latest", &all), latest, "{sids:?}");
        assert_eq!(allowed(&sids, "Versions", &all), history, "{sids:?}");
    }
}

#[test]
fn leading_keys_distinguish_entities_and_not_versions() {
    let decision = |key: &str| {
        let reader = format!("arn:aws:iam::{ACCOUNT}:role/Reader");
        let mut request = request(
            &reader,
            "dynamodb:GetItem",
            &table_arn("Latest"),
            vec![documented(&["ReadOneEntity"])],
        );
        // The condition key has no more than this: the sort key, v0 or v7, is not part of a request's context.
        request.context = json!({"dynamodb:LeadingKeys": [key]});
        decide(&[request])[0]
    };
    assert_eq!(decision("Equipment#1"), Decision::Allowed);
    assert_eq!(decision("#vzero"), Decision::Allowed);
    assert_eq!(decision("Equipment#2"), Decision::NotAllowed);
}

#[test]
fn a_reader_of_another_account_needs_both_policies() {
    let identity = documented(&["ReaderReads", "ReaderDecrypts"]);
    let other = format!("arn:aws:iam::{READING_ACCOUNT}:role/Other");
    for (table, sid, actions) in [
        (
            "Latest",
            "OtherAccountReadsLatest",
            &["DescribeTable", "GetItem", "Query"][..],
        ),
        (
            "Versions",
            "OtherAccountReadsHistory",
            &["GetItem", "Query", "BatchGetItem"],
        ),
    ] {
        let decision = |principal: &str, action: &str, identity: &[Value], resource_policy: Option<Value>| {
            let action = format!("dynamodb:{action}");
            let mut request = request(principal, &action, &table_arn(table), identity.to_vec());
            request.resource_policy = resource_policy;
            decide(&[request])[0]
        };
        let (identity, of_table) = (std::slice::from_ref(&identity), Some(documented(&[sid])));
        for action in actions {
            assert_eq!(
                decision(&reader(), action, identity, of_table.clone()),
                Decision::Allowed,
                "{action} {table}"
            );
            for (principal, identity, of_table) in [
                (reader(), &[][..], of_table.clone()),
                (reader(), identity, None),
                (other.clone(), identity, of_table.clone()),
            ] {
                let decision = decision(&principal, action, identity, of_table);
                assert_eq!(decision, Decision::NotAllowed, "{action} {table} {principal}");
            }
        }
        for action in CHANGES.iter().chain(&["dynamodb:Scan", "dynamodb:PartiQLSelect"]) {
            let action = action.trim_start_matches("dynamodb:");
            let decision = decision(&reader(), action, identity, of_table.clone());
            assert_eq!(decision, Decision::NotAllowed, "{action} {table}");
        }
    }
}

#[test]
fn a_reader_of_another_account_decrypts_through_dynamodb_only() {
    let decision = |identity: Vec<Value>, service: &str| {
        let mut request = request(&reader(), "kms:Decrypt", KEY, identity);
        request.resource_policy = Some(documented(&["OtherAccountDecrypts"]));
        request.context = json!({"kms:ViaService": format!("{service}.us-east-1.amazonaws.com")});
        decide(&[request])[0]
    };
    let identity = || vec![documented(&["ReaderDecrypts"])];
    assert_eq!(decision(identity(), "dynamodb"), Decision::Allowed);
    assert_eq!(decision(identity(), "s3"), Decision::NotAllowed);
    assert_eq!(decision(Vec::new(), "dynamodb"), Decision::NotAllowed);
}
