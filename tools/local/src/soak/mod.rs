//! The soak test: senders repeat each update until it is acknowledged, function processes are killed at random moments, and
//! an audit compares the table with the acknowledgements.

mod audit;
pub mod edge;
mod plan;
mod run;
mod senders;

pub use self::{
    plan::Settings,
    run::{Summary, run},
    senders::SoakError,
};
