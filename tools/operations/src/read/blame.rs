//! Search of history for the versions that set the values of an item, from a version down.

use std::{collections::BTreeSet, sync::Arc};

use item_diff::{blame::Blame, change::Changes, path::Step};
use shared::{
    domain::{attached::item::StateOrigin, version::Version, view::VersionView},
    dynamodb::{Store, read::versions::ReadError},
};

use super::history::{History, HistoryQuery};

/// A version that set a value. Without certainty, one before it can have set it.
pub struct Setter {
    /// The version, without its attributes.
    pub view: VersionView,
    /// Number of the last version that does not have the value, `None` if it is not known.
    pub after: Option<u64>,
}

impl Setter {
    pub fn is_certain(&self) -> bool {
        self.after.is_some_and(|after| after + 1 == self.view.version.get())
    }
}

/// Search for the setters of the values of an item, `None` for a value whose setter was not found.
pub type Search = Blame<Option<Arc<Setter>>>;

/// Reads versions until the setter of each value is known. `is_over` is asked before each version, and ends the search once a version was
/// compared. `runs` are the numbers of versions that are read together, first and later, `None` for all.
///
/// Returns the version that continues the search, `None` at the end of history.
///
/// # Errors
///
/// Returns [`ReadError`] if a request fails.
pub async fn search(
    store: &Store,
    newest: &VersionView,
    search: &mut Search,
    (consistent, runs): (bool, [Option<usize>; 2]),
    mut is_over: impl FnMut(Version) -> bool,
) -> Result<Option<Version>, ReadError> {
    let attributes = search.open().filter_map(|path| match path.0.first() {
        Some(Step::Name(name)) => Some(name.clone()),
        _ => None,
    });
    // Only these attributes are compared.
    let names: BTreeSet<_> = attributes.collect();
    let searched = |mut view: VersionView| {
        view.attributes.retain(|name, _| names.contains(name));
        view
    };
    let before = |version: Version| Version::new(version.get() - 1);
    let (mut current, mut late, [mut limit, later]) = (searched(newest.clone()), 0, runs);
    let mut next = before(newest.version);
    while let Some(to) = next.take().filter(|_| !search.is_done()) {
        let query = HistoryQuery {
            to: Some(to),
            limit: std::mem::replace(&mut limit, later),
            consistent,
            ..HistoryQuery::default()
        };
        let mut history = History::read(store, &newest.entity, query).await?;
        while let Some(history) = history.as_mut().filter(|_| !search.is_done())
            && let Some(views) = history.next_page().await?
        {
            for view in views {
                let is_over = is_over(view.version) && current.version < newest.version;
                if search.is_done() || is_over {
                    return Ok(Some(current.version));
                }
                next = before(view.version);
                late += u64::from(view.is_late());
                // A late version never was the state of the item.
                if !view.is_late() && !view.is_omitted() {
                    let is_next = view.version.get() + late + 1 == current.version.get();
                    let older = searched(view);
                    step(search, current, Some(&older), is_next);
                    (current, late) = (older, 0);
                }
            }
        }
    }
    let is_first = current.version.get() == late + 1;
    step(search, current, None, is_first);
    Ok(None)
}

/// Adds the changes of a version. `is_next` is `false` if versions between it and the one before are not known.
fn step(search: &mut Search, mut view: VersionView, before: Option<&VersionView>, is_next: bool) {
    let after = match view.change.as_ref().map(|change| change.origin) {
        // The change that these show is older than their version.
        Some(StateOrigin::Baseline | StateOrigin::Missed) => None,
        _ if is_next => Some(view.version.get() - 1),
        _ => before.map(|view| view.version.get()),
    };
    let attributes = std::mem::take(&mut view.attributes);
    let changes = Changes::between(before.map(|view| &view.attributes), Some(&attributes));
    search.step(&changes, &Some(Arc::new(Setter { view, after })));
}
