//! The spans that a collector receives, with the feature `otel`.

use std::sync::{Arc, Mutex};

use axum::{Router, body::Bytes, extract::State, routing::post};
use opentelemetry_proto::tonic::{
    collector::trace::v1::ExportTraceServiceRequest,
    common::v1::any_value,
    trace::v1::{Span, span::SpanKind},
};
use prost::Message as _;

use super::*;
use crate::{deadline, support::silent_endpoint};

type Received = Arc<Mutex<Vec<Span>>>;

async fn collector() -> (String, Received) {
    let received = Received::default();
    let take = async |State(received): State<Received>, body: Bytes| {
        let request = ExportTraceServiceRequest::decode(body).unwrap();
        let spans = (request.resource_spans.into_iter())
            .flat_map(|resource| resource.scope_spans)
            .flat_map(|scope| scope.spans);
        received.lock().unwrap().extend(spans);
    };
    let router = Router::new()
        .route("/v1/traces", post(take))
        .with_state(received.clone());
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let endpoint = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move { axum::serve(listener, router).await });
    (endpoint, received)
}

fn attribute(span: &Span, name: &str) -> Option<String> {
    let found = span.attributes.iter().find(|attribute| attribute.key == name)?;
    Some(match found.value.clone()?.value? {
        any_value::Value::StringValue(text) => text,
        any_value::Value::IntValue(number) => number.to_string(),
        any_value::Value::DoubleValue(number) => number.to_string(),
        _ => return None,
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn the_spans_of_an_invocation_are_a_tree() {
    const SECRET: &str = "Se9cret";
    let (endpoint, received) = collector().await;
    let mut template = template(&[]);
    for function in &mut template.functions {
        let endpoint = ("OTEL_EXPORTER_OTLP_ENDPOINT".to_owned(), endpoint.clone());
        function.environment.extend([endpoint]);
    }
    let stack = start_with(template).await;
    for update in [
        json!({"ID": SECRET, "A": SECRET, "RequestId": SECRET}),
        json!({"ID": SECRET, "A": SECRET, "RequestId": "2", "ExpectedVersion": 7}),
    ] {
        invoke(&stack, "writer-fn", &update).await;
    }
    settled(&stack).await;
    let spans = eventually("spans of both functions", async || {
        let spans = received.lock().unwrap().clone();
        let both = ["writer-fn", "stream-fn"]
            .iter()
            .all(|name| spans.iter().any(|span| span.name == *name));
        both.then_some(spans)
    })
    .await;
    assert!(spans.iter().all(|span| !format!("{span:?}").contains(SECRET)));
    let children = |parent: &Span| -> Vec<&Span> {
        spans
            .iter()
            .filter(|span| span.parent_span_id == parent.span_id)
            .collect()
    };
    let writers: Vec<_> = spans.iter().filter(|span| span.name == "writer-fn").collect();
    assert_eq!(writers.len(), 2);
    let mut outcomes = Vec::new();
    for invocation in writers {
        assert_eq!(invocation.kind(), SpanKind::Server);
        // The span is part of the trace that Lambda assigned.
        assert!(!invocation.parent_span_id.is_empty());
        let [update] = children(invocation)[..] else {
            panic!("{invocation:?}")
        };
        assert_eq!(update.name, "update");
        assert_eq!(update.trace_id, invocation.trace_id);
        // The first update of an entity needs a second one, because it has no map of recent requests yet, and a Query in
        // between, which makes sure that there are no versions.
        let (requests, queries): (Vec<_>, Vec<_>) = children(update)
            .into_iter()
            .partition(|request| request.name == "DynamoDB.UpdateItem");
        assert!(queries.iter().all(|request| request.name == "DynamoDB.Query"));
        assert_eq!(requests.len(), queries.len() + 1);
        let request = requests
            .iter()
            .max_by_key(|request| request.start_time_unix_nano)
            .unwrap();
        assert_eq!(attribute(request, "attempts").as_deref(), Some("1"));
        outcomes.push((
            attribute(update, "outcome").unwrap(),
            attribute(request, "capacity"),
            attribute(request, "error"),
        ));
    }
    outcomes.sort();
    let failed = Some("ConditionalCheckFailedException".to_owned());
    assert_eq!(
        outcomes,
        [
            ("VersionConflict".to_owned(), None, failed),
            ("Written".to_owned(), Some("1".to_owned()), None),
        ]
    );
    let stream = spans.iter().find(|span| span.name == "stream-fn").unwrap();
    let [part] = children(stream)[..] else {
        panic!("{stream:?}")
    };
    assert_eq!(
        (part.name.as_str(), attribute(part, "records").as_deref()),
        ("part", Some("1"))
    );
    let [put] = children(part)[..] else { panic!("{part:?}") };
    assert_eq!(put.name, "DynamoDB.PutItem");
}

/// The export of the spans does not delay the response beyond the end of the invocation.
#[tokio::test(flavor = "multi_thread")]
async fn a_silent_collector_does_not_delay_the_response_beyond_the_deadline() {
    let logs = tempfile::tempdir().unwrap();
    let silent = [
        ("AWS_ENDPOINT_URL_DYNAMODB", silent_endpoint()),
        ("OTEL_EXPORTER_OTLP_ENDPOINT", silent_endpoint()),
    ];
    let lambda = deadline::functions(&silent, logs.path());
    assert_eq!(
        deadline::failures(&lambda, "writer-fn", &deadline::messages(10, 10)).await,
        10
    );
    let log = std::fs::read_to_string(logs.path().join("writer-fn.log")).unwrap();
    assert!(log.contains("spans were not sent"), "{log}");
}
