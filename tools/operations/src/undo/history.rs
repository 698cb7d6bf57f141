//! History of an entity from the state before the first selected version on.

use shared::{
    domain::{entity::EntityId, version::Version, view::VersionView},
    dynamodb::Store,
};

use super::{
    options::Counts,
    selection::{Choice, Selection},
};
use crate::{
    error::OperationError,
    read::history::{History, HistoryQuery},
    version_set::VersionSet,
};

/// Versions of an entity, oldest first.
pub(super) struct Versions {
    /// Those that were states of the item, from the one before the first selected version on, if there is one. `true` is selected.
    pub in_order: Vec<(VersionView, bool)>,
    /// Numbers of the selected versions.
    pub selected: Vec<Version>,
    pub counts: Counts,
    /// Newest version, which can be late.
    pub newest: Version,
}

impl Versions {
    /// Reads the versions. The second value is the reason why they cannot be undone.
    ///
    /// # Errors
    ///
    /// Returns [`OperationError::NoEntity`] if the entity does not exist, and the error of a read.
    pub(super) async fn read(
        store: &Store,
        entity: &EntityId,
        selection: &Selection,
    ) -> Result<(Self, Option<OperationError>), OperationError> {
        let no_entity = || OperationError::NoEntity(entity.as_str().to_owned());
        let query = HistoryQuery {
            consistent: true,
            ..HistoryQuery::default()
        };
        let mut history = History::read(store, entity, query).await?.ok_or_else(no_entity)?;
        let (mut views, mut is_whole) = (Vec::new(), true);
        while is_whole && let Some(page) = history.next_page().await? {
            let end = page.iter().position(|view| selection.is_before(view));
            is_whole = end.is_none();
            views.extend(page.into_iter().take(end.map_or(usize::MAX, |end| end + 1)));
        }
        views.reverse();
        let (lowest, newest) = match (views.first(), views.last()) {
            (Some(lowest), Some(newest)) => (lowest.version.get(), newest.version),
            _ => return Err(no_entity()),
        };
        let (mut selected, mut counts) = (Vec::new(), Counts::default());
        for view in &views {
            let choice = selection.choose(view);
            counts.uncertain += u64::from(choice == Choice::Uncertain);
            counts.marked += u64::from(choice == Choice::Marked);
            counts.unattributed += u64::from(choice == Choice::Unattributed);
            if matches!(choice, Choice::Selected | Choice::Uncertain) {
                selected.push(view.version);
            }
        }
        counts.versions = selected.len() as u64;
        let first = selected.first().map(|first| first.get());
        // Without a selected version, a missing one can be it.
        let start = match first {
            Some(first) => (first - 1).max(1),
            None if is_whole => 1,
            None => lowest,
        };
        let seen: VersionSet = views.iter().map(|view| view.version.get()).collect();
        let missing = seen.gaps(start, newest.get());
        let mut reason = None;
        if let Some((lowest, _)) = missing.ranges().next() {
            let floor = store.floor(entity, true).await?;
            let next = missing.within(floor.get(), newest.get()).ranges().next();
            reason = match first {
                Some(_) if lowest < floor.get() => Some(OperationError::Incomplete(format!(
                    "the state before it was pruned: its history begins at version {floor}"
                ))),
                _ => next
                    .and_then(|(next, _)| Version::new(next))
                    .map(|version| OperationError::NotInHistory { version }),
            };
        }
        let mut in_order: Vec<_> = views.into_iter().filter(|view| !view.is_late()).collect();
        let is_before = |view: &VersionView| first.is_some_and(|first| view.version.get() < first);
        in_order.drain(..in_order.iter().rposition(is_before).unwrap_or(0));
        if first.is_some() && in_order.iter().any(VersionView::is_omitted) {
            reason = reason.or(Some(OperationError::Omitted));
        }
        let in_order = in_order.into_iter().map(|view| {
            let is_selected = selected.binary_search(&view.version).is_ok();
            (view, is_selected)
        });
        let versions = Self {
            in_order: in_order.collect(),
            selected,
            counts,
            newest,
        };
        Ok((versions, reason))
    }
}
