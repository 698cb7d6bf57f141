//! Invocation of the function.

/// Maximum payload of a synchronous invocation, in bytes.
/// See <https://docs.aws.amazon.com/lambda/latest/dg/gettingstarted-limits.html>.
pub const MAX_PAYLOAD: usize = 6 * 1024 * 1024;

/// Invokes the function and waits for its response.
pub trait Invoker: Send + Sync {
    /// Performs one synchronous invocation.
    fn invoke(&self, payload: String) -> impl Future<Output = Invocation> + Send;
}

/// A finished invocation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Invocation {
    /// Request id of the invocation.
    pub request_id: String,
    /// Outcome of the invocation.
    pub outcome: InvocationOutcome,
}

/// The outcome of an invocation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum InvocationOutcome {
    /// The function returned a response.
    Response(Vec<u8>),
    /// The function failed, timed out or exited.
    FunctionError,
    /// The invocation did not reach the function: a throttle or a service error.
    NotInvoked,
}
