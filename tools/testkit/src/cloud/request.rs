//! Requests as the services read them, and responses.

use std::collections::BTreeMap;

use aws_smithy_runtime_api::client::orchestrator::{HttpRequest, HttpResponse};
use percent_encoding::percent_decode_str;
use serde_json::json;

/// A request. Each attempt of the SDK is a request.
#[derive(Debug, Clone, Default)]
pub struct Request {
    pub process: usize,
    /// Number of the requests that the process sent before.
    pub number: usize,
    /// For example `PutObject` or `Sign`.
    pub operation: String,
    pub bucket: String,
    pub key: String,
    pub(super) query: BTreeMap<String, String>,
    /// By names in lowercase.
    pub headers: BTreeMap<String, String>,
    /// Empty for S3.
    pub body: String,
}

impl Request {
    pub(super) fn read(http: &HttpRequest) -> Self {
        let headers = http
            .headers()
            .iter()
            .map(|(name, value)| (name.to_owned(), value.to_owned()));
        let mut request = Self {
            headers: headers.collect(),
            ..Self::default()
        };
        if let Some(target) = request.header("x-amz-target") {
            request.operation = target.rsplit('.').next().unwrap().to_owned();
            request.body = String::from_utf8_lossy(http.body().bytes().unwrap_or_default()).into_owned();
            return request;
        }
        // https://BUCKET.s3.REGION.amazonaws.com/KEY?QUERY
        let decode = |text: &str| percent_decode_str(text).decode_utf8().unwrap().into_owned();
        let (address, query) = http.uri().split_once('?').unwrap_or((http.uri(), ""));
        let mut parts = address.splitn(4, '/').skip(2);
        request.bucket = decode(parts.next().unwrap().split(".s3.").next().unwrap());
        request.key = decode(parts.next().unwrap());
        let parameters = query.split('&').filter_map(|parameter| parameter.split_once('='));
        request.query = parameters.map(|(name, value)| (decode(name), decode(value))).collect();
        request.operation = match (http.method(), request.key.as_str()) {
            ("GET", "") => "ListObjectsV2".to_owned(),
            (method, _) => format!("{}{}Object", &method[..1], method[1..].to_lowercase()),
        };
        request
    }

    pub(super) fn is_s3(&self) -> bool {
        self.header("x-amz-target").is_none()
    }

    /// Returns `true` for a service other than S3 and KMS.
    pub fn is_other(&self) -> bool {
        self.header("x-amz-target")
            .is_some_and(|target| !target.starts_with("TrentService."))
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(String::as_str)
    }

    pub(super) fn error(&self, status: u16, code: &str) -> HttpResponse {
        match self.operation.as_str() {
            "HeadObject" => response(status, ""),
            _ if self.is_s3() => response(status, format!("<Error><Code>{code}</Code></Error>")),
            _ => response(status, json!({"__type": code}).to_string()),
        }
    }
}

pub(super) fn response(status: u16, body: impl Into<Vec<u8>>) -> HttpResponse {
    HttpResponse::new(status.try_into().unwrap(), body.into().into())
}
