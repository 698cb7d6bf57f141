//! A TCP proxy that keeps the requests it passes on, and lists the IAM actions they need, on which tables.

use std::{
    collections::{BTreeMap, BTreeSet},
    io::{Read as _, Write as _},
    net::{Shutdown, TcpListener, TcpStream},
    sync::{Arc, Mutex},
    thread,
};

use local::dynamodb::Embedded;
use serde_json::Value;

/// Bytes that clients sent, by connection.
type Sent = Arc<Mutex<Vec<Vec<u8>>>>;

/// An action that a request needs.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Needed {
    /// As IAM names it, such as `dynamodb:PartiQLInsert`.
    pub action: String,
    /// Name or ARN of the table in the request, `None` for requests without a table.
    pub table: Option<String>,
}

pub struct Tap {
    pub endpoint: String,
    sent: Sent,
    /// Runs as long as the proxy.
    embedded: Option<Embedded>,
}

impl Tap {
    pub fn of(endpoint: &str) -> Self {
        let server = endpoint
            .strip_prefix("http://")
            .unwrap()
            .trim_end_matches('/')
            .to_owned();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let tap = Self {
            endpoint: format!("http://{}", listener.local_addr().unwrap()),
            sent: Sent::default(),
            embedded: None,
        };
        let sent = Arc::clone(&tap.sent);
        thread::spawn(move || {
            for (index, client) in listener.incoming().enumerate() {
                let (client, sent) = (client.unwrap(), Arc::clone(&sent));
                sent.lock().unwrap().push(Vec::new());
                let server = TcpStream::connect(&server).unwrap();
                let (from, to) = (client.try_clone().unwrap(), server.try_clone().unwrap());
                thread::spawn(move || copy(from, to, |bytes| sent.lock().unwrap()[index].extend(bytes)));
                thread::spawn(move || copy(server, client, |_| ()));
            }
        });
        tap
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
        for sent in self.sent.lock().unwrap().iter() {
            for (access_key, actions) in requests(sent) {
                found.entry(access_key).or_default().extend(actions);
            }
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
        self.sent.lock().unwrap().iter_mut().for_each(Vec::clear);
    }
}

fn copy(mut from: TcpStream, mut to: TcpStream, mut keep: impl FnMut(&[u8])) {
    let mut buffer = [0; 16 * 1024];
    while let Ok(read @ 1..) = from.read(&mut buffer) {
        keep(&buffer[..read]);
        if to.write_all(&buffer[..read]).is_err() {
            break;
        }
    }
    let _ = to.shutdown(Shutdown::Write);
}

/// Access key and actions of each request that was sent completely.
fn requests(mut sent: &[u8]) -> Vec<(String, Vec<Needed>)> {
    let mut found = Vec::new();
    while let Some(end) = sent.windows(4).position(|window| window == b"\r\n\r\n") {
        let head = String::from_utf8_lossy(&sent[..end]);
        let header = |name: &str| {
            let mut headers = head.lines().filter_map(|line| line.split_once(": "));
            let found = headers.find(|(found, _)| found.eq_ignore_ascii_case(name));
            found.map(|(_, value)| value)
        };
        assert_eq!(header("transfer-encoding"), None);
        let length: usize = header("content-length").map_or(0, |length| length.parse().unwrap());
        let Some(body) = sent.get(end + 4..end + 4 + length) else {
            break;
        };
        let (_, credential) = header("authorization").unwrap().split_once("Credential=").unwrap();
        let (access_key, _) = credential.split_once('/').unwrap();
        let other = |action: &str| {
            vec![Needed {
                action: action.to_owned(),
                table: None,
            }]
        };
        let actions = match header("x-amz-target").and_then(|target| target.split_once('.')) {
            // A batch needs the action of its entries.
            Some(("AmazonSQS", operation)) => other(&format!("sqs:{}", operation.trim_end_matches("Batch"))),
            Some((_, operation)) => dynamodb_actions(operation, &serde_json::from_slice(body).unwrap()),
            None if head.starts_with("GET ") && head.contains("list-type=2") => other("s3:ListBucket"),
            None if head.starts_with("GET ") => other("s3:GetObject"),
            None => Vec::new(),
        };
        found.push((access_key.to_owned(), actions));
        sent = &sent[end + 4 + length..];
    }
    found
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
        operation => vec![needed(operation, body["TableName"].as_str())],
    }
}
