//! Invocation of the function.

/// Maximum payload of a synchronous invocation, in bytes.
/// See <https://docs.aws.amazon.com/lambda/latest/dg/gettingstarted-limits.html>.
pub const MAX_PAYLOAD: usize = 6 * 1024 * 1024;

/// Invokes the function and waits for its response.
pub trait Invoker: Send + Sync {
    /// Returns a new request id. Each set of records has one, which its retries share.
    fn request_id(&self) -> String;
    fn invoke(&self, request_id: &str, payload: String) -> impl Future<Output = InvocationOutcome> + Send;
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum InvocationOutcome {
    Response(Vec<u8>),
    /// The function failed, timed out or exited.
    FunctionError,
    /// The invocation did not reach the function: a throttle or a service error.
    NotInvoked,
}
