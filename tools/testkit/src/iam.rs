//! Decisions of IAM by an independent evaluator, which `tools/local/tests/with-iam` installs.

use std::{
    io::Write as _,
    process::{Command, Stdio},
};

use serde_json::{Value, json};

pub const ACCOUNT: &str = "000000000000";

/// A request of a principal, and the policies that decide about it.
#[derive(Debug, Clone)]
pub struct Simulation {
    /// ARN of the user or role.
    pub principal: String,
    /// Such as `dynamodb:GetItem`.
    pub action: String,
    /// ARN of the table or key, in the account of this number.
    pub resource: String,
    pub account: String,
    /// Policies of the principal.
    pub identity: Vec<Value>,
    /// Policy of the resource.
    pub resource_policy: Option<Value>,
    /// Condition keys of the request.
    pub context: Value,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decision {
    Allowed,
    /// No policy allows it.
    NotAllowed,
    /// A statement with the effect `Deny` applies.
    Denied,
}

impl Simulation {
    fn json(&self) -> Value {
        let named = |(index, policy): (usize, &Value)| json!({"name": format!("policy {index}"), "policy": policy});
        let identity: Vec<_> = self.identity.iter().enumerate().map(named).collect();
        let mut simulation = json!({
            "request": {
                "principal": self.principal, "action": self.action, "contextVariables": self.context,
                "resource": {"resource": self.resource, "accountId": self.account},
            },
            "identityPolicies": identity, "serviceControlPolicies": [], "resourceControlPolicies": [],
        });
        if let Some(policy) = &self.resource_policy {
            simulation["resourcePolicy"] = policy.clone();
        }
        simulation
    }
}

/// Returns the decision about each request.
#[allow(clippy::disallowed_methods, reason = "the evaluator is a parameter of the tests")]
pub fn decide(simulations: &[Simulation]) -> Vec<Decision> {
    let program = std::env::var("VZERO_TEST_IAM");
    let program = program.unwrap_or_else(|_| panic!("run the tests with tools/local/tests/with-iam"));
    let mut node = Command::new("node")
        .arg(program)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let input: Value = simulations.iter().map(Simulation::json).collect();
    // The program reads everything before it prints.
    let mut stdin = node.stdin.take().unwrap();
    stdin.write_all(input.to_string().as_bytes()).unwrap();
    drop(stdin);
    let output = node.wait_with_output().unwrap();
    assert!(output.status.success(), "the evaluator failed");
    let decisions: Vec<String> = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(decisions.len(), simulations.len());
    let decisions = decisions.iter().map(|decision| match decision.as_str() {
        "Allowed" => Decision::Allowed,
        "ImplicitlyDenied" => Decision::NotAllowed,
        "ExplicitlyDenied" => Decision::Denied,
        other => panic!("{other} is no decision"),
    });
    decisions.collect()
}

/// Returns a policy with these statements.
pub fn policy(statements: Vec<Value>) -> Value {
    json!({"Version": "2012-10-17", "Statement": statements})
}

/// Returns the ARN of a table in the account and Region of the local stack.
pub fn table_arn(table: &str) -> String {
    format!("arn:aws:dynamodb:us-east-1:{ACCOUNT}:table/{table}")
}
