//! End to end: the template, both functions as real processes of the real runtime, the stream between them.

#![allow(clippy::unwrap_used, reason = "in a test, a panic is the message")]

mod actions;
mod command;
mod events;
mod feed;
mod hostile;
mod http;
mod invoke_api;
mod killed;
mod kinesis;
mod logs;
mod pipe;
mod public_port;
mod quarantine;
mod retries;
mod serving;
mod support;
mod telemetry;
mod time_index;
