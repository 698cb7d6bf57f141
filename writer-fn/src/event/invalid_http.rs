//! Reasons why an HTTP request contains no valid update.

use shared::domain::names;
use thiserror::Error;

use crate::update::{EXPECTED_VERSION, set::UPDATES};

/// Reason why an HTTP request contains no valid update, which no part of the request is in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum InvalidHttp {
    /// The event of a REST API or of a load balancer.
    #[error("the HTTP request does not have the payload format version 2.0")]
    PayloadFormat,
    /// The URL or the route does not require authorization, or with another authorizer.
    #[error("the request has no caller: it requires AWS_IAM or a JWT authorizer")]
    NoCaller,
    /// The request is not a `POST`.
    #[error("the method is not POST")]
    Method,
    /// `content-type` is missing or another one.
    #[error("content-type is not application/json")]
    ContentType,
    /// `content-encoding` names a compression.
    #[error("content-encoding is not supported")]
    ContentEncoding,
    /// A header is not a string, or there twice.
    #[error("the header {0} is not one string")]
    Header(&'static str),
    /// `idempotency-key` is there twice, which the platform joins by a comma, or not a key.
    #[error("idempotency-key is not 1 to 1,000 visible ASCII characters without a comma")]
    IdempotencyKey,
    /// `if-match` is a list, `*`, a weak tag or no tag of a version.
    #[error("if-match is not one ETag of a version, such as \"7\"")]
    IfMatch,
    /// `if-none-match` is not `*`, or comes with `if-match`.
    #[error("if-none-match is not * alone")]
    IfNoneMatch,
    /// `isBase64Encoded` is neither `true` nor `false`.
    #[error("isBase64Encoded is not true or false")]
    Encoding,
    /// The body has a member that a header replaces.
    #[error("{} in the body: use the header idempotency-key", names::REQUEST_ID)]
    RequestId,
    /// The body has a member that a header replaces.
    #[error("{EXPECTED_VERSION} in the body: use the header if-match, or if-none-match")]
    ExpectedVersion,
    /// The body is a change set.
    #[error("{UPDATES} in the body: a request has one update")]
    ChangeSet,
}

impl InvalidHttp {
    /// Returns the status code of the response.
    pub fn status(self) -> u16 {
        match self {
            Self::NoCaller => 403,
            Self::Method => 405,
            Self::ContentType | Self::ContentEncoding => 415,
            _ => 400,
        }
    }
}
