//! Repair: restores what an audit finds. No version item is overwritten.
//!
//! ```text
//! findings ─▶ plan of each entity's own items ─▶ missing versions from failure documents and the stream ─▶ steps ─▶ summary
//! ```

mod apply;
mod findings;
mod missing;
mod plan;
mod quarantined;
mod run;

pub use apply::Done;
pub use findings::{Findings, of_entities, of_table};
pub use plan::{NOWHERE, Plan, Planned};
pub use run::{Options, Repair, Repaired, Scope};
