//! Permissions of the functions with a history table, decided by an independent evaluator of IAM policies.
//!
//! Requires `tools/local/tests/with-iam`.

#![allow(clippy::unwrap_used, reason = "in a test, a panic is the message")]

use std::collections::BTreeSet;

use serde_json::{Value, json};
use testkit::{
    iam::{ACCOUNT, Decision, Simulation, decide, policy, table_arn},
    pages::root,
    policies::{self, Statement},
};

const STREAM: &str = "StreamRole";
const WRITER: &str = "WriterRole";
const LATEST: &str = "VersionControl";
const HISTORY: &str = "History";

/// Actions that change or delete an item, and those that would allow them.
const CHANGES: &str =
    "UpdateItem DeleteItem BatchWriteItem PartiQLUpdate PartiQLDelete PutItem PutResourcePolicy DeleteResourcePolicy";
const OTHERS: &str = "PartiQLInsert GetItem BatchGetItem Query Scan PartiQLSelect ConditionCheckItem DescribeTable";

fn all() -> impl Iterator<Item = &'static str> {
    CHANGES.split(' ').chain(OTHERS.split(' '))
}

/// Returns the statements of the template.
fn of_template(mode: &str) -> Vec<Statement> {
    let text = std::fs::read_to_string(root().join("template.yaml")).unwrap();
    let parameters = [("HistoryTable", "own"), ("WriteMode", mode)];
    policies::statements(&text, &parameters)
}

/// Returns the statements of the template, with the ARNs that its resources have on AWS.
fn statements(mode: &str) -> Vec<Statement> {
    let with_arns = of_template(mode).into_iter().map(|mut statement| {
        let mut body = statement.body.to_string();
        let local = |id: &str| format!("arn:aws:local:us-east-1:{ACCOUNT}:{id}");
        let stream = format!("{}/stream/2026-11-22T00:00:00.000", table_arn(LATEST));
        for (from, to) in [
            (local(LATEST), table_arn(LATEST)),
            (local(HISTORY), table_arn(HISTORY)),
            (local(STREAM), role_arn(STREAM)),
            (local(WRITER), role_arn(WRITER)),
            (format!("{LATEST}.StreamArn"), stream),
        ] {
            body = body.replace(&from, &to);
        }
        statement.body = serde_json::from_str(&body).unwrap();
        statement
    });
    let is_for_tables = |statement: &Statement| statement.actions()[0].starts_with("dynamodb:");
    with_arns.filter(is_for_tables).collect()
}

fn role_arn(role: &str) -> String {
    format!("arn:aws:iam::{ACCOUNT}:role/{role}")
}

/// Returns the policy of a role or table.
fn policy_of(statements: &[Statement], owner: &str) -> Option<Value> {
    let of_owner = statements.iter().filter(|statement| statement.owner == owner);
    let bodies: Vec<_> = of_owner.map(|statement| statement.body.clone()).collect();
    (!bodies.is_empty()).then(|| policy(bodies))
}

/// A request of a role for a table, with these policies beside those of the template.
fn request(statements: &[Statement], role: &str, action: &str, table: &str, added: &[Value]) -> Simulation {
    let mut identity = vec![policy_of(statements, role).unwrap()];
    identity.extend_from_slice(added);
    Simulation {
        principal: role_arn(role),
        action: format!("dynamodb:{action}"),
        resource: table_arn(table),
        account: ACCOUNT.to_owned(),
        identity,
        resource_policy: policy_of(statements, table),
        // An entity. The writer may insert the owner of the history table at any time, and versions in some modes.
        context: json!({"dynamodb:LeadingKeys": ["E"]}),
    }
}

/// Returns the actions for which the evaluator decides so.
fn decided(requests: &[Simulation], decision: Decision) -> BTreeSet<String> {
    let decisions = decide(requests);
    let matching = requests
        .iter()
        .zip(decisions)
        .filter(|(_, decided)| *decided == decision);
    let names = matching.map(|(request, _)| request.action.trim_start_matches("dynamodb:").to_owned());
    names.collect()
}

fn set(actions: &str) -> BTreeSet<String> {
    actions.split_whitespace().map(str::to_owned).collect()
}

#[test]
fn no_function_can_change_a_version() {
    for mode in ["stream", "inline", "transaction"] {
        let statements = statements(mode);
        let named = policies::allowed(&of_template(mode));
        let writes = match mode {
            "stream" => "",
            "inline" => " PartiQLInsert",
            // A transaction cannot contain statements beside other writes: only the condition of the put protects history.
            _ => " PutItem",
        };
        for (role, table, actions) in [
            (STREAM, HISTORY, "PartiQLInsert GetItem BatchGetItem"),
            (STREAM, LATEST, "GetItem DescribeTable"),
            (
                WRITER,
                HISTORY,
                &format!("GetItem BatchGetItem Query DescribeTable{writes}"),
            ),
            (WRITER, LATEST, "GetItem BatchGetItem UpdateItem Scan DescribeTable"),
        ] {
            let mut requests: Vec<_> = all()
                .map(|action| request(&statements, role, action, table, &[]))
                .collect();
            let allowed = decided(&requests, Decision::Allowed);
            assert_eq!(allowed, set(actions), "{mode}: {role} on {table}");
            // `stack::actions` compares the requests of the functions with the names in the template: the evaluator allows these.
            let of_table = |action: &String| action.split_once(' ').is_some_and(|(_, named)| named == table);
            let named = named[role].iter().filter(|action| of_table(action));
            let named = named.map(|action| action.replace("dynamodb:", "").replace(&format!(" {table}"), ""));
            // For settings only: the owner of the history table, and since when TimeIndex exists.
            let of_settings = match (role, table) {
                (STREAM, HISTORY) => " UpdateItem",
                (_, HISTORY) => " PartiQLInsert",
                _ => "",
            };
            let expected = set(&format!("{actions}{of_settings}"));
            assert_eq!(named.collect::<BTreeSet<_>>(), expected, "{mode}: {role} on {table}");
            for action in ["PartiQLInsert"]
                .into_iter()
                .chain((role == STREAM).then_some("UpdateItem"))
            {
                let mut setting = request(&statements, role, action, HISTORY, &[]);
                setting.context = json!({"dynamodb:LeadingKeys": ["#vzero"]});
                assert_eq!(decide(&[setting]), [Decision::Allowed], "{mode}: {role} {action}");
            }
            // The policies of the role suffice.
            for request in &mut requests {
                request.resource_policy = None;
            }
            let allowed = decided(&requests, Decision::Allowed);
            assert_eq!(allowed, set(actions), "{mode}: {role} on {table}, without its policy");
        }
    }
}

#[test]
fn the_policy_of_the_history_table_denies_changes_that_a_role_allows() {
    let everything = policy(vec![
        json!({"Effect": "Allow", "Action": "dynamodb:*", "Resource": "*"}),
    ]);
    for mode in ["stream", "inline", "transaction"] {
        let statements = statements(mode);
        for role in [STREAM, WRITER] {
            let added = std::slice::from_ref(&everything);
            let requests: Vec<_> = all()
                .map(|action| request(&statements, role, action, HISTORY, added))
                .collect();
            let mut denied = set(CHANGES);
            if (mode, role) == ("transaction", WRITER) {
                denied.remove("PutItem");
            }
            assert_eq!(decided(&requests, Decision::Denied), denied, "{mode}: {role}");
            let mut allowed = set(OTHERS);
            allowed.extend(set(CHANGES).difference(&denied).cloned());
            assert_eq!(decided(&requests, Decision::Allowed), allowed, "{mode}: {role}");
        }
    }
}
