//! History of an entity from the state before the first selected version on.

use std::collections::BTreeSet;

use shared::{
    domain::{entity::EntityId, erased::Erased, version::Version, view::VersionView},
    dynamodb::Store,
    logging::chain,
};

use super::{
    options::Counts,
    selection::{Choice, Selection},
};
use crate::{
    error::{Kind, OperationError},
    read::history::{History, HistoryQuery},
    version_set::VersionSet,
};

/// Versions of an entity, oldest first.
pub(super) struct Versions {
    /// Those that were states of the item, from the one before the first selected version on, if there is one. `true` is selected.
    pub in_order: Vec<(VersionView, bool)>,
    /// Numbers of the selected versions, and of those of them whose author is uncertain.
    pub selected: Vec<Version>,
    pub uncertain: Vec<Version>,
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
        let mut selection = selection.clone();
        if let Some(set) = &selection.written {
            selection.first = selection.first.max(set.first(entity));
        }
        let (views, is_whole) = views(store, entity, &selection).await?.ok_or_else(no_entity)?;
        let mut reason = None;
        if let Some(set) = &selection.written {
            let found = set.versions(store, entity, &views).await;
            selection.versions = Some(found.unwrap_or_else(|error| {
                reason = Some(error);
                BTreeSet::new()
            }));
        }
        let (lowest, newest) = match (views.first(), views.last()) {
            (Some(lowest), Some(newest)) => (lowest.version.get(), newest.version),
            _ => return Err(no_entity()),
        };
        let (mut selected, mut uncertain, mut counts) = (Vec::new(), Vec::new(), Counts::default());
        for view in &views {
            let choice = selection.choose(view);
            uncertain.extend((choice == Choice::Uncertain).then_some(view.version));
            counts.marked += u64::from(choice == Choice::Marked);
            counts.unattributed += u64::from(choice == Choice::Unattributed);
            if matches!(choice, Choice::Selected | Choice::Uncertain) {
                selected.push(view.version);
            }
        }
        (counts.versions, counts.uncertain) = (selected.len() as u64, uncertain.len() as u64);
        let first = selected.first().map(|first| first.get());
        // Without a selected version, a missing one can be it.
        let start = match first {
            Some(first) => (first - 1).max(1),
            None if is_whole => 1,
            None => lowest,
        };
        let seen: VersionSet = views.iter().map(|view| view.version.get()).collect();
        let missing = seen.gaps(start, newest.get());
        if let Some((lowest, _)) = missing.ranges().next() {
            let floor = store.floor(entity, true).await?;
            let next = missing.within(floor.get(), newest.get()).ranges().next();
            reason = reason.or(match first {
                Some(_) if lowest < floor.get() => Some(OperationError::Incomplete(format!(
                    "the state before it was pruned: its history begins at version {floor}"
                ))),
                _ => next
                    .and_then(|(next, _)| Version::new(next))
                    .map(|version| OperationError::NotInHistory { version }),
            });
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
            uncertain,
            counts,
            newest,
        };
        Ok((versions, reason))
    }
}

/// Reads the versions, oldest first, from the state before the first one that can be selected on. The second value is `true` if there is no
/// such state. `None` if the entity does not exist.
async fn views(
    store: &Store,
    entity: &EntityId,
    selection: &Selection,
) -> Result<Option<(Vec<VersionView>, bool)>, OperationError> {
    let mut query = HistoryQuery {
        from: selection.first().and_then(|first| Version::new(first.get() - 1)),
        consistent: true,
        ..HistoryQuery::default()
    };
    let (mut views, mut is_whole) = (Vec::new(), true);
    loop {
        let Some(mut history) = History::read(store, entity, query).await? else {
            return Ok(None);
        };
        while is_whole && let Some(page) = history.next_page().await? {
            let end = page.iter().position(|view| selection.is_before(view));
            is_whole = end.is_none();
            views.extend(page.into_iter().take(end.map_or(usize::MAX, |end| end + 1)));
        }
        // The version before the first one is missing, or is late and so no state of the item.
        query.to = query.from.and_then(|from| Version::new(from.get() - 1));
        query.from = None;
        if !is_whole || query.to.is_none() {
            views.reverse();
            return Ok(Some((views, is_whole)));
        }
    }
}

/// Reads the latest item, which can have what was erased from its history. `None` if nothing was, or if it is not this version.
pub(super) async fn latest_item(
    store: &Store,
    version: &VersionView,
    erased: &Erased,
) -> Result<Option<VersionView>, OperationError> {
    if erased.is_empty() || store.attached_table().is_some() {
        return Ok(None);
    }
    let latest = store.latest(&version.entity, true).await?;
    Ok(latest.filter(|latest| latest.version == version.version))
}

/// Returns the reason why an entity cannot be undone.
///
/// # Errors
///
/// Returns the error of a service that fails, which says nothing about the entity.
pub(super) fn reason_of(error: OperationError) -> Result<String, OperationError> {
    match (&error, error.kind()) {
        (OperationError::NotInHistory { .. } | OperationError::Omitted, _) => Ok(chain(&error)),
        (_, Kind::Unavailable) => Err(error),
        _ => Ok(chain(&error)),
    }
}
