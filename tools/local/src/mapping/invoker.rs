//! Invocation of the function.

/// Maximum payload of a synchronous invocation, in bytes.
/// See <https://docs.aws.amazon.com/lambda/latest/dg/gettingstarted-limits.html>.
pub const MAX_PAYLOAD: usize = 6 * 1024 * 1024;

/// Invokes the function and waits for its response.
pub trait Invoker: Send + Sync {
    fn invoke(&self, payload: String) -> impl Future<Output = Invocation> + Send;
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Invocation {
    pub request_id: String,
    pub outcome: InvocationOutcome,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum InvocationOutcome {
    Response(Vec<u8>),
    /// The function failed, timed out or exited.
    FunctionError,
    /// The invocation did not reach the function: a throttle or a service error.
    NotInvoked,
}
