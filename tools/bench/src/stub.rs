//! A stub of DynamoDB: it stores nothing, responds to every request after a fixed time, and counts the requests.

use std::{
    convert::Infallible,
    net::{Ipv4Addr, TcpListener},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use http_body_util::{BodyExt as _, Full};
use hyper::{
    Request, Response,
    body::{Bytes, Incoming},
    header::CONTENT_TYPE,
    server::conn::http1,
    service::service_fn,
};
use hyper_util::rt::TokioIo;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    sync::oneshot,
};
use tokio_rustls::TlsAcceptor;

use crate::{certificate::Certificate, error::BenchError};

/// A stub that stops when this value is dropped.
pub(crate) struct Stub {
    endpoint: String,
    certificate: Option<Certificate>,
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
        let (stop, stopped) = oneshot::channel::<()>();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let counting = counts.clone();
        std::thread::Builder::new().name("stub".to_owned()).spawn(move || {
            runtime.block_on(async move {
                tokio::select! {
                    () = accept(listener, latency, acceptor, counting) => {}
                    _ = stopped => {}
                }
            });
        })?;
        Ok(Self {
            endpoint,
            certificate: certificate.cloned(),
            counts,
            _stop: stop,
        })
    }

    pub(crate) fn endpoint(&self) -> &str {
        &self.endpoint
    }

    /// Certificate that its clients have to trust.
    pub(crate) fn certificate(&self) -> Option<&Certificate> {
        self.certificate.as_ref()
    }

    pub(crate) fn requests(&self) -> u64 {
        self.counts.requests.load(Ordering::Relaxed)
    }
}

async fn accept(listener: TcpListener, latency: Duration, acceptor: Option<TlsAcceptor>, counts: Arc<Counts>) {
    let Ok(listener) = tokio::net::TcpListener::from_std(listener) else {
        return;
    };
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            continue;
        };
        let _ = stream.set_nodelay(true);
        let (acceptor, counts) = (acceptor.clone(), counts.clone());
        tokio::spawn(async move {
            match acceptor {
                Some(acceptor) => {
                    if let Ok(stream) = acceptor.accept(stream).await {
                        serve_connection(stream, latency, &counts).await;
                    }
                }
                None => serve_connection(stream, latency, &counts).await,
            }
        });
    }
}

async fn serve_connection(stream: impl AsyncRead + AsyncWrite + Unpin, latency: Duration, counts: &Counts) {
    let service = service_fn(|request| respond(request, latency, counts));
    // Clients close connections at any time.
    let _ = http1::Builder::new()
        .serve_connection(TokioIo::new(stream), service)
        .await;
}

async fn respond(
    request: Request<Incoming>,
    latency: Duration,
    counts: &Counts,
) -> Result<Response<Full<Bytes>>, Infallible> {
    let target = request.headers().get("x-amz-target").cloned();
    let is = |operation: &[u8]| {
        target
            .as_ref()
            .is_some_and(|target| target.as_bytes().ends_with(operation))
    };
    let (updates, describes) = (is(b".UpdateItem"), is(b".DescribeTable"));
    let body = request
        .into_body()
        .collect()
        .await
        .map(http_body_util::Collected::to_bytes);
    counts.requests.fetch_add(1, Ordering::Relaxed);
    if !latency.is_zero() {
        tokio::time::sleep(latency).await;
    }
    let body = if updates {
        let latest = counts.latest.fetch_add(1, Ordering::Relaxed) + 1;
        format!(r#"{{"Attributes":{{"Latest":{{"N":"{latest}"}}}}}}"#)
    } else if describes {
        r#"{"Table":{"TableId":"STUB"}}"#.to_owned()
    } else if body.as_ref().is_ok_and(|body| count(body, b"\"#vzero\"") > 0) {
        // The layout of the table, which functions read when they start.
        r#"{"Item":{"VersionDigits":{"N":"1"},"TableId":{"S":"STUB"},"TableName":{"S":"STUB"}}}"#.to_owned()
    } else {
        let statements = body.map_or(0, |body| count(&body, b"\"Statement\":"));
        let responses = vec!["{}"; statements].join(",");
        format!(r#"{{"Responses":[{responses}]}}"#)
    };
    let mut response = Response::new(Full::from(body));
    let headers = response.headers_mut();
    headers.insert(
        CONTENT_TYPE,
        hyper::header::HeaderValue::from_static("application/x-amz-json-1.0"),
    );
    headers.insert("x-amzn-requestid", hyper::header::HeaderValue::from_static("STUB"));
    Ok(response)
}

fn count(body: &[u8], word: &[u8]) -> usize {
    body.windows(word.len()).filter(|window| *window == word).count()
}
