//! Reads that only operators and their programs need.

pub mod attached_items;
pub mod blame;
pub mod histories;
pub mod history;
pub mod items;
pub mod lag;
pub mod paced;
pub mod scans;
pub mod version_run;
pub mod versions_in_history;
