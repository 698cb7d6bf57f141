//! Lambda on one machine: functions run as processes of the real runtime, behind the Runtime API and the Invoke API.
//!
//! ```text
//! client ──Invoke API──> Lambda ──> function ──> idle or new process ──Runtime API──> next invocation, response, error
//! ```

mod functions;
mod http;
mod invoke_api;
mod output;
mod process;
mod runtime_api;
mod spawn;

pub use self::{
    functions::{EXITED, FunctionInvoker, InvokeOutput, Lambda, TIMED_OUT},
    process::{ProcessInfo, arn},
    spawn::Host,
};
