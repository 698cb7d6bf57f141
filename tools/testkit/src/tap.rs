//! A proxy that keeps the requests it passes on, and lists the IAM actions they need, on which tables.

use std::{
    collections::{BTreeMap, BTreeSet},
    io::{self, BufReader, Write as _},
    net::{Shutdown, TcpListener},
    sync::{Arc, Mutex},
    thread,
};

use local::dynamodb::Embedded;
use serde_json::Value;

use crate::http::{self, Message};

/// An action that a request needs.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Needed {
    /// As IAM names it, such as `dynamodb:PartiQLInsert`.
    pub action: String,
    /// Name or ARN of the table in the request, with its index if there is one: `Versions/index/ByTime`. `None` for requests without a table.
    pub table: Option<String>,
}

pub struct Tap {
    pub endpoint: String,
    sent: Arc<Mutex<Vec<Message>>>,
    /// Runs as long as the proxy.
    embedded: Option<Embedded>,
}

impl Tap {
    pub fn of(endpoint: &str) -> Self {
        let (server, sent) = (endpoint.to_owned(), Arc::<Mutex<Vec<_>>>::default());
        let kept = Arc::clone(&sent);
        let endpoint = http::listen(move |mut client| {
            let server = http::connect(&server).unwrap();
            let (mut requests, mut forwarded) =
                (BufReader::new(client.try_clone().unwrap()), server.try_clone().unwrap());
            thread::spawn(move || {
                let _ = io::copy(&mut &server, &mut client);
                let _ = client.shutdown(Shutdown::Write);
            });
            while let Some(request) = Message::read(&mut requests) {
                let bytes = request.bytes();
                kept.lock().unwrap().push(request);
                if forwarded.write_all(&bytes).is_err() {
                    break;
                }
            }
            let _ = forwarded.shutdown(Shutdown::Write);
        });
        Self {
            endpoint,
            sent,
            embedded: None,
        }
    }

    pub fn embedded() -> Self {
        let embedded = Embedded::serve(TcpListener::bind("127.0.0.1:0").unwrap(), None).unwrap();
        let mut tap = Self::of(embedded.endpoint());
        tap.embedded = Some(embedded);
        tap
    }

    /// Returns the actions that the requests need, as IAM names them, by access key.
    pub fn actions_by_access_key(&self) -> BTreeMap<String, BTreeSet<Needed>> {
        let mut found = BTreeMap::<_, BTreeSet<_>>::new();
        for request in self.sent.lock().unwrap().iter() {
            let (access_key, actions) = needed(request);
            found.entry(access_key).or_default().extend(actions);
        }
        found
    }

    pub fn needed(&self) -> BTreeSet<Needed> {
        self.actions_by_access_key().into_values().flatten().collect()
    }

    pub fn actions(&self) -> BTreeSet<String> {
        self.needed().into_iter().map(|needed| needed.action).collect()
    }

    pub fn clear(&self) {
        self.sent.lock().unwrap().clear();
    }
}

/// Returns the access key of a request, and the actions that it needs.
fn needed(request: &Message) -> (String, Vec<Needed>) {
    let (_, credential) = request
        .header("authorization")
        .unwrap()
        .split_once("Credential=")
        .unwrap();
    let (access_key, _) = credential.split_once('/').unwrap();
    let other = |action: &str| {
        let (action, table) = (action.to_owned(), None);
        vec![Needed { action, table }]
    };
    let actions = match request.header("x-amz-target").and_then(|target| target.split_once('.')) {
        // A batch needs the action of its entries.
        Some(("AmazonSQS", operation)) => other(&format!("sqs:{}", operation.trim_end_matches("Batch"))),
        Some((_, operation)) => dynamodb_actions(operation, &request.json()),
        None if request.head.starts_with("GET ") && request.head.contains("list-type=2") => other("s3:ListBucket"),
        None if request.head.starts_with("GET ") => other("s3:GetObject"),
        None => Vec::new(),
    };
    (access_key.to_owned(), actions)
}

/// A transaction, or a batch of statements, needs the actions of its parts.
fn dynamodb_actions(operation: &str, body: &Value) -> Vec<Needed> {
    let needed = |action: &str, table: Option<&str>| Needed {
        action: format!("dynamodb:{action}"),
        table: table.map(str::to_owned),
    };
    let of_item = |item: &Value| {
        let (kind, body) = item.as_object().unwrap().iter().next().unwrap();
        let action = match kind.as_str() {
            "ConditionCheck" => "ConditionCheckItem".to_owned(),
            kind => format!("{kind}Item"),
        };
        needed(&action, body["TableName"].as_str())
    };
    let of_statement = |statement: &Value| {
        // INSERT INTO "TABLE" VALUE {…}
        let statement = statement["Statement"].as_str().unwrap();
        assert!(
            statement.starts_with("INSERT INTO \""),
            "{statement} is of another kind"
        );
        needed("PartiQLInsert", statement.split('"').nth(1))
    };
    let all = |member: &str, of_part: &dyn Fn(&Value) -> Needed| {
        let parts = body[member].as_array().unwrap();
        parts.iter().map(of_part).collect()
    };
    match operation {
        "TransactWriteItems" | "TransactGetItems" => all("TransactItems", &of_item),
        "BatchExecuteStatement" => all("Statements", &of_statement),
        "ExecuteTransaction" => all("TransactStatements", &of_statement),
        "BatchGetItem" | "BatchWriteItem" => {
            let tables = body["RequestItems"].as_object().unwrap().keys();
            tables.map(|table| needed(operation, Some(table))).collect()
        }
        operation => {
            let mut needed = needed(operation, body["TableName"].as_str());
            if let (Some(table), Some(index)) = (&mut needed.table, body["IndexName"].as_str()) {
                *table = format!("{table}/index/{index}");
            }
            vec![needed]
        }
    }
}
