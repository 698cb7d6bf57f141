//! What the console keeps of a table: the last result of a scan, and the last undo.

use std::sync::{Arc, Mutex};

use super::{plan::Undo, scan::Scan};

/// The last result and the last undo of a table.
#[derive(Default)]
pub(crate) struct Changes {
    pub(super) scan: Mutex<Option<Arc<Scan>>>,
    pub(super) undo: Mutex<Option<Arc<Undo>>>,
}
