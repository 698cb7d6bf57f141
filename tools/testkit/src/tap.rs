//! A TCP proxy that keeps the requests it passes on, and lists the IAM actions they need.

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
    pub fn actions_by_access_key(&self) -> BTreeMap<String, BTreeSet<String>> {
        let mut found = BTreeMap::<_, BTreeSet<_>>::new();
        for sent in self.sent.lock().unwrap().iter() {
            for (access_key, actions) in requests(sent) {
                found.entry(access_key).or_default().extend(actions);
            }
        }
        found
    }

    pub fn actions(&self) -> BTreeSet<String> {
        self.actions_by_access_key().into_values().flatten().collect()
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
fn requests(mut sent: &[u8]) -> Vec<(String, Vec<String>)> {
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
        let actions = match header("x-amz-target").and_then(|target| target.split_once('.')) {
            // A batch needs the action of its entries.
            Some(("AmazonSQS", operation)) => vec![format!("sqs:{}", operation.trim_end_matches("Batch"))],
            Some((_, operation)) => dynamodb_actions(operation, &serde_json::from_slice(body).unwrap()),
            None if head.starts_with("GET ") && head.contains("list-type=2") => vec!["s3:ListBucket".to_owned()],
            None if head.starts_with("GET ") => vec!["s3:GetObject".to_owned()],
            None => Vec::new(),
        };
        found.push((access_key.to_owned(), actions));
        sent = &sent[end + 4 + length..];
    }
    found
}

/// A transaction, or a batch of statements, needs the actions of its parts.
fn dynamodb_actions(operation: &str, body: &Value) -> Vec<String> {
    let of_item = |item: &Value| {
        let (kind, _) = item.as_object().unwrap().iter().next().unwrap();
        match kind.as_str() {
            "ConditionCheck" => "dynamodb:ConditionCheckItem".to_owned(),
            kind => format!("dynamodb:{kind}Item"),
        }
    };
    let of_statement = |statement: &Value| match statement["Statement"].as_str().unwrap().split_once(' ') {
        Some(("INSERT", _)) => "dynamodb:PartiQLInsert".to_owned(),
        _ => panic!("{statement} is of another kind"),
    };
    match operation {
        "TransactWriteItems" | "TransactGetItems" => {
            body["TransactItems"].as_array().unwrap().iter().map(of_item).collect()
        }
        "BatchExecuteStatement" => body["Statements"]
            .as_array()
            .unwrap()
            .iter()
            .map(of_statement)
            .collect(),
        operation => vec![format!("dynamodb:{operation}")],
    }
}
