//! Repair: restores what an audit finds. No version item is overwritten.
//!
//! ```text
//! findings ─▶ plan of each entity's own items ─▶ missing versions from the sources of a redrive ─▶ steps ─▶ tally
//! ```

mod apply;
mod findings;
mod missing;
mod plan;
mod quarantined;
mod run;

pub use apply::execute;
pub use findings::{Findings, of_entities, of_table};
pub use plan::{Plan, Planned};
pub use run::{Options, Repair, Scope};
