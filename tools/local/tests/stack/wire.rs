//! A DynamoDB that writes down who asked for what, in front of an embedded one.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::TcpListener,
    sync::{Arc, Mutex},
};

use axum::{
    Router,
    body::{Body, Bytes},
    extract::State,
    http::{HeaderMap, Response},
};
use local::dynamodb::Embedded;
use serde_json::Value;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};

/// The actions, as IAM names them, by the access key that asked for them.
pub(crate) type Asked = BTreeMap<String, BTreeSet<String>>;

/// A DynamoDB that records its requests.
pub(crate) struct Recorder {
    pub(crate) endpoint: String,
    asked: Arc<Mutex<Asked>>,
    _embedded: Embedded,
}

#[derive(Clone)]
struct Wire {
    behind: String,
    asked: Arc<Mutex<Asked>>,
}

impl Recorder {
    pub(crate) async fn start() -> Self {
        let embedded = Embedded::serve(TcpListener::bind("127.0.0.1:0").unwrap(), None).unwrap();
        let asked = Arc::<Mutex<Asked>>::default();
        let wire = Wire {
            behind: embedded.endpoint().strip_prefix("http://").unwrap().to_owned(),
            asked: asked.clone(),
        };
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let endpoint = format!("http://{}", listener.local_addr().unwrap());
        let router = Router::new().fallback(pass).with_state(wire);
        tokio::spawn(async move { axum::serve(listener, router).await });
        Self {
            endpoint,
            asked,
            _embedded: embedded,
        }
    }

    /// What anybody has asked for.
    #[allow(dead_code, reason = "the tests of `vzero` include this file")]
    pub(crate) fn asked(&self) -> BTreeSet<String> {
        self.asked.lock().unwrap().values().flatten().cloned().collect()
    }

    /// Forgets what was asked for.
    #[allow(dead_code, reason = "the tests of `vzero` include this file")]
    pub(crate) fn forget(&self) {
        self.asked.lock().unwrap().clear();
    }

    /// What this access key has asked for.
    #[allow(dead_code, reason = "the tests of `vzero` include this file")]
    pub(crate) fn asked_by(&self, access_key: &str) -> BTreeSet<String> {
        self.asked.lock().unwrap().get(access_key).cloned().unwrap_or_default()
    }
}

async fn pass(State(wire): State<Wire>, headers: HeaderMap, body: Bytes) -> Response<Body> {
    let header = |name: &str| {
        headers
            .get(name)
            .map(|value| value.to_str().unwrap())
            .unwrap_or_default()
    };
    let (_, credential) = header("authorization").split_once("Credential=").unwrap_or_default();
    let (access_key, _) = credential.split_once('/').unwrap_or_default();
    let (_, operation) = header("x-amz-target").split_once('.').unwrap_or_default();
    let actions = actions(operation, &body);
    wire.asked
        .lock()
        .unwrap()
        .entry(access_key.to_owned())
        .or_default()
        .extend(actions);

    let mut head = format!(
        "POST / HTTP/1.1\r\nhost: {}\r\nconnection: close\r\ncontent-length: {}\r\n",
        wire.behind,
        body.len()
    );
    for name in ["x-amz-target", "content-type", "authorization", "x-amz-date"] {
        head.extend([name, ": ", header(name), "\r\n"]);
    }
    let mut stream = TcpStream::connect(&wire.behind).await.unwrap();
    stream.write_all(format!("{head}\r\n").as_bytes()).await.unwrap();
    stream.write_all(&body).await.unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await.unwrap();
    let end = answer.windows(4).position(|window| window == b"\r\n\r\n").unwrap();
    let (head, body) = (
        String::from_utf8(answer[..end].to_vec()).unwrap(),
        answer[end + 4..].to_vec(),
    );
    let status: u16 = head.split(' ').nth(1).unwrap().parse().unwrap();
    let mut reply = Response::builder().status(status);
    for (name, value) in head.lines().skip(1).filter_map(|line| line.split_once(": ")) {
        let name = name.to_lowercase();
        assert_ne!(name, "transfer-encoding");
        if name.starts_with("x-amz") || name == "content-type" {
            reply = reply.header(name, value);
        }
    }
    reply.body(Body::from(body)).unwrap()
}

/// What IAM is asked for: a transaction, or a batch of statements, is what it is made of.
fn actions(operation: &str, body: &[u8]) -> Vec<String> {
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
    let body: Value = serde_json::from_slice(body).unwrap();
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
