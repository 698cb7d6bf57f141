//! A stub of DynamoDB: it stores nothing, responds to every request after a fixed time, and counts the requests.

use std::{
    io,
    net::{Ipv4Addr, SocketAddr, TcpListener},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use axum::{
    Router,
    body::Bytes,
    extract::DefaultBodyLimit,
    http::{HeaderMap, header::CONTENT_TYPE},
    response::IntoResponse,
    serve::{Listener, ListenerExt as _},
};
use serde_json::json;
use tokio::{net::TcpStream, sync::oneshot};
use tokio_rustls::{TlsAcceptor, server::TlsStream};

use crate::{certificate::Certificate, error::BenchError, events};

/// A stub that stops when this value is dropped.
pub(crate) struct Stub {
    pub(crate) endpoint: String,
    /// Certificate that its clients have to trust.
    pub(crate) certificate: Option<Certificate>,
    counts: Arc<Counts>,
    _stop: oneshot::Sender<()>,
}

#[derive(Default)]
struct Counts {
    requests: AtomicU64,
    /// Version in the response to the last update.
    latest: AtomicU64,
}

impl Stub {
    /// Serves on a free port, on its own thread, over TLS if there is a certificate.
    pub(crate) fn serve(latency: Duration, certificate: Option<&Certificate>) -> Result<Self, BenchError> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        listener.set_nonblocking(true)?;
        let port = listener.local_addr()?.port();
        let endpoint = match certificate {
            Some(_) => format!("https://localhost:{port}"),
            None => format!("http://127.0.0.1:{port}"),
        };
        let acceptor = certificate.map(|certificate| certificate.acceptor.clone());
        let counts = Arc::<Counts>::default();
        let counting = counts.clone();
        let router = Router::new()
            .fallback(async move |headers: HeaderMap, body: Bytes| respond(&headers, &body, latency, &counting).await)
            .layer(DefaultBodyLimit::disable());
        let (stop, stopped) = oneshot::channel::<()>();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let listener = {
            let _entered = runtime.enter();
            tokio::net::TcpListener::from_std(listener)?
        };
        std::thread::Builder::new().name("stub".to_owned()).spawn(move || {
            runtime.block_on(async move {
                let listener = listener.tap_io(|connection| {
                    let _ = connection.set_nodelay(true);
                });
                match acceptor {
                    Some(acceptor) => tokio::spawn(axum::serve(Tls(listener, acceptor), router).into_future()),
                    None => tokio::spawn(axum::serve(listener, router).into_future()),
                };
                stopped.await
            })
        })?;
        Ok(Self {
            endpoint,
            certificate: certificate.cloned(),
            counts,
            _stop: stop,
        })
    }

    pub(crate) fn requests(&self) -> u64 {
        self.counts.requests.load(Ordering::Relaxed)
    }
}

/// A listener over TLS.
struct Tls<L>(L, TlsAcceptor);

impl<L: Listener<Io = TcpStream, Addr = SocketAddr>> Listener for Tls<L> {
    type Io = TlsStream<TcpStream>;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Self::Io, SocketAddr) {
        loop {
            let (stream, address) = self.0.accept().await;
            if let Ok(stream) = self.1.accept(stream).await {
                return (stream, address);
            }
        }
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.0.local_addr()
    }
}

async fn respond(headers: &HeaderMap, body: &[u8], latency: Duration, counts: &Counts) -> impl IntoResponse + use<> {
    let target = headers.get("x-amz-target").map_or(&b""[..], |target| target.as_bytes());
    counts.requests.fetch_add(1, Ordering::Relaxed);
    if !latency.is_zero() {
        tokio::time::sleep(latency).await;
    }
    let body = if target.ends_with(b".UpdateItem") {
        let latest = counts.latest.fetch_add(1, Ordering::Relaxed) + 1;
        format!(r#"{{"Attributes":{{"Latest":{{"N":"{latest}"}}}}}}"#)
    } else if target.ends_with(b".DescribeTable") {
        // The keys, which stream-fn reads of an attached table.
        let keys = [("PK", "HASH"), ("SK", "RANGE")];
        let schema = keys.map(|(name, kind)| json!({"AttributeName": name, "KeyType": kind}));
        let types = keys.map(|(name, _)| json!({"AttributeName": name, "AttributeType": "S"}));
        json!({"Table": {"TableId": "STUB", "KeySchema": schema, "AttributeDefinitions": types}}).to_string()
    } else if target.ends_with(b".Query") && count(body, br#"{\"PK\""#) > 0 {
        // The history of an item of an attached table.
        json!({"Items": [events::newest_version(body)], "Count": 1}).to_string()
    } else if target.ends_with(b".BatchGetItem") {
        json!({ "Responses": events::latest_items(body) }).to_string()
    } else if count(body, b"\"#vzero\"") > 0 {
        // The layout of the table, which functions read when they start.
        r#"{"Item":{"VersionDigits":{"N":"1"},"TableId":{"S":"STUB"},"TableName":{"S":"STUB"}}}"#.to_owned()
    } else {
        let responses = vec!["{}"; count(body, b"\"Statement\":")].join(",");
        format!(r#"{{"Responses":[{responses}]}}"#)
    };
    let headers = [
        (CONTENT_TYPE.as_str(), "application/x-amz-json-1.0"),
        ("x-amzn-requestid", "STUB"),
    ];
    (headers, body)
}

fn count(body: &[u8], word: &[u8]) -> usize {
    body.windows(word.len()).filter(|window| *window == word).count()
}
