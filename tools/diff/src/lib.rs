//! Differences between two items, and between two versions. Everything is pure.
//!
//! ```text
//! two items ─> Changes ─┬─> JSON, and back to the second item         module `change`
//!                       ├─> one line: Status: placed → paid, -Note    module `line`
//!                       └─> what differs in one value                 module `detail`
//! two versions ─> Comparison, of their items                          module `versions`
//! all versions ─> the version that set each value                     module `blame`
//!             └─> the path of one value in each of them               module `trace`
//! selected versions ─> the item without their changes             module `undo`
//! ```
//!
//! Values are equal if DynamoDB treats them as equal: `1` and `1.0`, and sets in any order.

pub mod alignment;
pub mod blame;
pub mod change;
pub mod detail;
pub mod line;
pub mod path;
pub mod trace;
mod tree;
pub mod undo;
pub mod versions;
