//! Erasure of values from version items, and from versions that are stored after the erasure.
//!
//! An item has the form that readers get: the attributes of the user beside the attributes of the library, of an attached table [flat](super::attached::item::flat).
//! In an attached table, `Actor`, `Reason` and `ChangeSet` are copies of attributes, so the erasure of one includes the other. `RequestId`
//! is the place of the record there, and stays.

use std::collections::{BTreeSet, HashMap};

use super::{
    AttributeValue, Item,
    attached::{
        AttachedTable,
        item::{ACTOR_UNCHANGED, ITEM_VERSION, State, join_flat, split_flat},
    },
    attribution::besides_attributes,
    erased::{Erased, ErasedPath, ErasedValue, Erasures, FINGERPRINTS, InsideList, Namespace, check, take_members},
    names,
    tombstone::is_deleted,
    version_item::VersionItem,
};

/// Members that were erased, with their values.
pub type Members = Vec<(ErasedPath, AttributeValue)>;

/// Removes the members at these paths and below from a version item, and puts them into its mark, with what `value_of` returns for each.
/// Request fingerprints are removed too. `attached` is the definition of an attached table. Returns the members.
///
/// # Errors
///
/// Returns [`InsideList`] if a path is inside of a list. The item is then unchanged.
pub fn erase_paths<'a>(
    item: &mut Item,
    paths: impl IntoIterator<Item = &'a ErasedPath>,
    attached: Option<&AttachedTable>,
    mut value_of: impl FnMut(&ErasedPath, &AttributeValue) -> ErasedValue,
) -> Result<Members, InsideList> {
    let paths: BTreeSet<_> = paths.into_iter().cloned().collect();
    let (_, image) = split(item, attached);
    check(&image, &paths)?;
    Ok(erase(item, &paths, attached, &mut value_of))
}

fn erase(
    item: &mut Item,
    paths: &BTreeSet<ErasedPath>,
    attached: Option<&AttachedTable>,
    value_of: &mut impl FnMut(&ErasedPath, &AttributeValue) -> ErasedValue,
) -> Members {
    let (mut outer, mut image) = split(item, attached);
    let members = take(&mut outer, &mut image, paths, attached, is_deleted(item));
    let mut erased = Erased::of(item);
    for (path, value) in &members {
        erased.add(path.clone(), value_of(path, value));
    }
    if !erased.is_empty() {
        outer.retain(|name, _| !FINGERPRINTS.contains(&name.as_str()));
    }
    *item = if attached.is_some() {
        join_flat(outer, image)
    } else {
        outer.extend(HashMap::from(image));
        outer
    };
    erased.put_on(item);
    members
}

/// Removes from a version that is stored after an erasure what the erasure covers, and marks it.
#[must_use]
pub fn erased_version(version: VersionItem, erasures: &Erasures) -> VersionItem {
    let Some(newest) = erasures.newest() else {
        return version;
    };
    let paths = erasures.0.keys().cloned().collect();
    let mut value_of = |path: &ErasedPath, _: &AttributeValue| erasures.covering(path).unwrap_or(newest).value();
    version.changed(|item| {
        erase(item, &paths, None, &mut value_of);
    })
}

/// Removes from a state of an attached table's item what erasures cover, and marks it.
pub fn erase_state(state: &mut State, erasures: &Erasures, table: &AttachedTable) {
    let Some(newest) = erasures.newest() else {
        return;
    };
    let named = state.changed_by.drain(..).map(|(name, value)| (name.to_owned(), value));
    let mut outer = Item::from(named.collect::<HashMap<_, _>>());
    let paths = erasures.0.keys().cloned().collect();
    for (path, _) in take(&mut outer, &mut state.image, &paths, Some(table), state.is_deleted) {
        let value = erasures.covering(&path).unwrap_or(newest).value();
        state.erased.add(path, value);
    }
    let members = [ACTOR_UNCHANGED, names::ACTOR, names::REASON, names::CHANGE_SET].into_iter();
    state.changed_by = members.filter_map(|name| Some((name, outer.remove(name)?))).collect();
}

/// Returns the places of erased values in an image of a latest item, or of an item of an attached table.
pub fn places(erasures: &Erasures, attached: Option<&AttachedTable>) -> BTreeSet<Vec<String>> {
    let paths: BTreeSet<_> = erasures.0.keys().cloned().collect();
    let paths = match attached {
        Some(table) => with_copies(table, &paths, false)
            .into_iter()
            .filter(|path| is_in_image(table, path))
            .collect(),
        None => paths,
    };
    paths.iter().map(|path| path.names().to_vec()).collect()
}

/// Returns `false` for metadata, and for a key, whose value is the name of the history.
fn is_in_image(table: &AttachedTable, path: &ErasedPath) -> bool {
    path.namespace() == Namespace::Attribute && !table.keys().any(|key| key.name == path.names()[0])
}

/// Takes the members at these paths out of the attributes of the library and of the user.
fn take(
    outer: &mut Item,
    image: &mut Item,
    paths: &BTreeSet<ErasedPath>,
    attached: Option<&AttachedTable>,
    is_deleted: bool,
) -> Members {
    let Some(table) = attached else {
        let of_path = |path: &ErasedPath| match path.namespace() {
            Namespace::Attribute => take_members(image, path),
            Namespace::Metadata => take_members(outer, path),
        };
        return paths.iter().flat_map(of_path).collect();
    };
    let mut members = Members::new();
    for path in with_copies(table, paths, is_deleted) {
        match path.namespace() {
            Namespace::Attribute if is_in_image(table, &path) => members.extend(take_members(image, &path)),
            Namespace::Metadata if path.names() != [names::REQUEST_ID] => members.extend(take_members(outer, &path)),
            _ => {}
        }
    }
    let copy = |outer: &mut Item, name| {
        let path = ErasedPath::metadata(name);
        path.map_or_else(|_| Members::new(), |path| take_members(outer, &path))
    };
    let own = table
        .version_attribute()
        .and_then(|name| ErasedPath::attribute([name]).ok());
    if own.is_some_and(|own| paths.iter().any(|path| own.covers(path))) {
        members.extend(copy(outer, ITEM_VERSION));
    }
    if !outer.contains_key(names::ACTOR) {
        members.extend(copy(outer, ACTOR_UNCHANGED));
    }
    members
}

/// Returns the paths with those of their copies. A deletion names its author itself.
fn with_copies(table: &AttachedTable, paths: &BTreeSet<ErasedPath>, is_deleted: bool) -> BTreeSet<ErasedPath> {
    let (mut all, settings) = (paths.clone(), table.settings());
    for (attribute, metadata) in [
        (&settings.actor_attribute, names::ACTOR),
        (&settings.reason_attribute, names::REASON),
        (&settings.change_set_attribute, names::CHANGE_SET),
    ] {
        let own = attribute.iter().find_map(|name| ErasedPath::attribute([name]).ok());
        let Some((own, copy)) = own.zip(ErasedPath::metadata(metadata).ok()) else {
            continue;
        };
        if paths.contains(&copy) {
            all.insert(own);
        } else if !is_deleted && paths.iter().any(|path| own.covers(path)) {
            all.insert(copy);
        }
    }
    all
}

/// Returns paths with those of all copies of their values: an operator erases both. The author that a deletion names has the path of the copy.
pub fn with_all_copies(table: &AttachedTable, paths: &BTreeSet<ErasedPath>) -> BTreeSet<ErasedPath> {
    let mut all = with_copies(table, paths, false);
    let covers = |path: Result<ErasedPath, _>| path.is_ok_and(|path| all.iter().any(|other| path.covers(other)));
    let own = table.version_attribute().map(|name| ErasedPath::attribute([name]));
    let copies = [
        (own.is_some_and(covers), ITEM_VERSION),
        (covers(ErasedPath::metadata(names::ACTOR)), ACTOR_UNCHANGED),
    ];
    let copies = copies.into_iter().filter(|(is_copied, _)| *is_copied);
    all.extend(
        copies
            .filter_map(|(_, name)| ErasedPath::metadata(name).ok())
            .collect::<Vec<_>>(),
    );
    all
}

/// Splits an item into the attributes of the library and the attributes of the user.
fn split(item: &Item, attached: Option<&AttachedTable>) -> (Item, Item) {
    if attached.is_some() {
        return split_flat(item.clone());
    }
    let is_ours = |name: &str| besides_attributes().any(|own| own == name);
    let attributes = HashMap::<String, AttributeValue>::from(item.clone()).into_iter();
    let (outer, image): (HashMap<_, _>, HashMap<_, _>) = attributes.partition(|(name, _)| is_ours(name));
    (Item::from(outer), Item::from(image))
}

#[cfg(test)]
mod tests;
