//! What a version changed, in one line: the text of `vzero history --changes`.

use shared::domain::{Item, names};

/// Maximum number of changes in a line.
const MAX_CHANGES: usize = 3;
/// Maximum number of characters of a line. The name of an attribute can have 64 KB.
const MAX_LINE: usize = 300;
/// Times of the client. Each version has its own, so they are no changes.
const TIMES: [&str; 2] = [names::TIME, names::TIMESTAMP];

/// Returns the first changes, as in `Status: placed → paid, +Parcel: 3SABC123, -Note, +2 more`. The text is empty if there are
/// none.
pub(crate) fn line(old: Option<&Item>, new: &Item) -> String {
    let old = old.map(without_times);
    let line = item_diff::line::summary(old.as_ref(), &without_times(new), MAX_CHANGES);
    match line.char_indices().nth(MAX_LINE) {
        None => line,
        Some((end, _)) => format!("{}…", line.get(..end).unwrap_or_default()),
    }
}

fn without_times(item: &Item) -> Item {
    let mut item = item.clone();
    for name in TIMES {
        item.remove(name);
    }
    item
}
