//! seal-fn on an embedded DynamoDB and an emulated S3: killed between any two requests, beside other instances, with faults.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "in a test, a panic is the message"
)]

mod complete;
mod erase;
mod kills;
mod meanwhile;
mod world;
