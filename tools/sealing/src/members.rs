//! A version as the members that its leaf commits to.

use std::collections::HashMap;

use seal::{
    Hash,
    format::{
        FormatError,
        commitment::{commitment, content_root},
        leaf::{Kind, Leaf},
        member::{Namespace, Path, members},
    },
};
use shared::domain::{
    AttributeValue, Item,
    attached::{
        change::STREAM,
        item::{ACTOR_UNCHANGED, AFTER, BACKFILL, ITEM_VERSION, OMITTED, StateOrigin},
    },
    attributes::{n, s},
    erased::{self, ErasedPath},
    names,
    version_item::RECORDED_BY_STREAM,
    view::VersionView,
};

use crate::keys::EntityKeys;

/// Metadata that every leaf has.
pub const ALWAYS: [&str; 4] = ["Table", "Entity", "Version", "Kind"];

/// Maximum number of bytes of the paths of an attribute's members. One with more is a list with this map, so that it is one member: each path
/// repeats the names of the maps around it, and an item of 400 KB could have paths of gigabytes.
const MAX_PATH_BYTES: usize = 1 << 20;

/// One member of a version.
#[derive(Debug, Clone, PartialEq)]
pub struct Member {
    /// Its path.
    pub path: Path,
    /// What is committed.
    pub content: Content,
}

/// What is committed for a path.
#[derive(Clone, PartialEq)]
pub enum Content {
    /// A value.
    Value(AttributeValue),
    /// The value was erased, and this is its commitment.
    Erased(Hash),
}

impl std::fmt::Debug for Content {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Value(_) => "Value",
            Self::Erased(_) => "Erased",
        })
    }
}

/// Returns the members of a version of a table, in the order of their paths.
pub fn members_of(table: &str, view: &VersionView) -> Vec<Member> {
    let metadata = metadata(table, view);
    let mut image = view.attributes.clone();
    for (name, value) in image.iter_mut() {
        if path_bytes(value, name.len()) > MAX_PATH_BYTES {
            *value = AttributeValue::L(vec![value.clone()]);
        }
    }
    let attributes = members(Namespace::Attribute, &image);
    let whole = metadata.into_iter().map(|(name, value)| Member {
        path: Path {
            namespace: Namespace::Metadata,
            names: vec![name.to_owned()],
        },
        content: Content::Value(value),
    });
    let attributes = attributes.into_iter().map(|(path, value)| Member {
        path,
        content: Content::Value(value.clone()),
    });
    // A value that was erased before its version was sealed, or stored, has no commitment.
    let erased = view.erased.0.iter().filter_map(|(path, value)| {
        Some(Member {
            path: path_of(path),
            content: Content::Erased(value.commitment?),
        })
    });
    let mut all: Vec<_> = attributes.chain(whole).chain(erased).collect();
    all.sort_unstable_by(|a, b| a.path.cmp(&b.path));
    all
}

/// Returns the number of bytes of the paths of all members of a value.
fn path_bytes(value: &AttributeValue, path: usize) -> usize {
    match value {
        AttributeValue::M(map) => map
            .iter()
            .map(|(name, value)| path_bytes(value, path + name.len()))
            .sum(),
        _ => path,
    }
}

/// Returns the path of an erased value as leaves commit to it.
pub fn path_of(path: &ErasedPath) -> Path {
    let namespace = match path.namespace() {
        erased::Namespace::Attribute => Namespace::Attribute,
        erased::Namespace::Metadata => Namespace::Metadata,
    };
    let names = path.names().to_vec();
    Path { namespace, names }
}

/// Returns what history says about a version. Each has one name; a map is a list with this map, so that it is one member.
fn metadata(table: &str, view: &VersionView) -> Vec<(&'static str, AttributeValue)> {
    let change = view.change.as_ref();
    let kind = match change.map(|change| change.origin) {
        Some(StateOrigin::Late) => "late",
        Some(StateOrigin::Missed) => "missed",
        Some(StateOrigin::Baseline) => "baseline",
        _ if view.deleted => "delete",
        _ => "write",
    };
    let recorded_by = view.recorded_by_stream.then(|| match change {
        Some(change) if change.stream == BACKFILL => BACKFILL,
        _ => RECORDED_BY_STREAM,
    });
    let omitted = change.and_then(|change| Some(s(serde_json::to_string(&change.omission?).ok()?)));
    let all = [
        ("Table", Some(s(table))),
        ("Entity", Some(s(view.entity.as_str()))),
        ("Version", Some(n(view.version))),
        ("Kind", Some(s(kind))),
        (names::DELETED, view.deleted.then_some(AttributeValue::Bool(true))),
        (names::RECORDED_AT, view.recorded_at.map(|time| s(time.to_string()))),
        (names::RECORDED_BY, recorded_by.map(s)),
        (names::REQUEST_ID, view.request_id.as_ref().map(s)),
        (names::ACTOR, view.actor.clone()),
        (
            ACTOR_UNCHANGED,
            view.actor_unchanged.then_some(AttributeValue::Bool(true)),
        ),
        (names::REASON, view.reason.clone()),
        (names::CHANGE_SET, view.change_set.clone()),
        (names::CHANGE_SET_SIZE, view.change_set_size.map(n)),
        (names::SENDER, view.sender.as_ref().map(s)),
        (names::RESTORED_FROM, view.restored_from.map(n)),
        (STREAM, change.map(|change| s(&change.stream))),
        (ITEM_VERSION, change.and_then(|change| change.item_version.clone())),
        (AFTER, change.and_then(|change| change.after.map(n))),
        (OMITTED, omitted),
    ];
    let whole = |value| match value {
        AttributeValue::M(map) => AttributeValue::L(vec![AttributeValue::M(map)]),
        value => value,
    };
    all.into_iter()
        .filter_map(|(name, value)| Some((name, whole(value?))))
        .collect()
}

/// Returns the salt of a path in a version or an operation, `None` if it has no key.
///
/// # Errors
///
/// A name has 4 GiB.
pub fn salt(
    keys: &EntityKeys,
    path: &Path,
    version: u64,
    operation: Option<[u8; 16]>,
) -> Result<Option<Hash>, FormatError> {
    Ok(keys.of(path)?.map(|key| match operation {
        Some(id) => key.salt_of_operation(&keys.table, version, id),
        None => key.salt(&keys.table, version),
    }))
}

/// Returns the commitments of members, in their order. `None` if a path has no key.
///
/// # Errors
///
/// A value has no canonical form.
pub fn commitments(
    members: &[Member],
    keys: &EntityKeys,
    version: u64,
    operation: Option<[u8; 16]>,
) -> Result<Option<Vec<Hash>>, FormatError> {
    let mut all = Vec::with_capacity(members.len());
    for member in members {
        all.push(match &member.content {
            Content::Erased(hash) => *hash,
            Content::Value(value) => {
                let Some(salt) = salt(keys, &member.path, version, operation)? else {
                    return Ok(None);
                };
                commitment(&salt, &member.path, value)?
            }
        });
    }
    Ok(Some(all))
}

/// Returns the leaf of a version or an operation, `None` if a path has no key.
///
/// # Errors
///
/// A value has no canonical form.
pub fn leaf(
    kind: Kind,
    members: &[Member],
    keys: &EntityKeys,
    version: u64,
    operation: Option<[u8; 16]>,
) -> Result<Option<Leaf>, FormatError> {
    let Some(commitments) = commitments(members, keys, version, operation)? else {
        return Ok(None);
    };
    Ok(Some(Leaf {
        kind,
        tag: keys.tag()?,
        version,
        content: content_root(commitments),
    }))
}

/// Returns the members of an item of metadata, for a leaf of an operation.
pub fn operation_members(metadata: HashMap<String, AttributeValue>) -> Vec<Member> {
    let item = Item::from(metadata);
    let all = members(Namespace::Metadata, &item);
    let member = |(path, value): (Path, &AttributeValue)| Member {
        path,
        content: Content::Value(value.clone()),
    };
    all.into_iter().map(member).collect()
}

#[cfg(test)]
mod tests {
    use shared::domain::{entity::EntityId, version::Version};

    use super::*;

    fn map(name: &str, value: AttributeValue) -> AttributeValue {
        AttributeValue::M([(name.to_owned(), value)].into())
    }

    /// Returns the leaf of a version with an attribute and an author, and the number of its members.
    fn sealed(attribute: AttributeValue, actor: AttributeValue) -> (Leaf, usize) {
        let item = HashMap::from([("A".to_owned(), attribute), (names::ACTOR.to_owned(), actor)]);
        let entity = EntityId::new("E").unwrap();
        let view = VersionView::new(entity.clone(), Version::FIRST, item.into());
        let members = members_of("table", &view);
        let mut keys = EntityKeys::new("table", &entity).unwrap();
        keys.add(members.iter().map(|member| &member.path)).unwrap();
        let leaf = leaf(Kind::Version, &members, &keys, 1, None).unwrap().unwrap();
        (leaf, members.len())
    }

    #[test]
    fn every_value_of_dynamodb_is_sealed() {
        let deepest = (0..31).fold(map("x", n(1)), |value, _| map("x", value));
        let many = (0..20_000).map(|number| (number.to_string(), n(number))).collect();
        // Each path would repeat the long name.
        let long = map(&"x".repeat(200_000), AttributeValue::M(many));
        for (attribute, actor) in [(deepest.clone(), deepest), (long.clone(), long)] {
            assert_eq!(sealed(attribute, actor).1, 6);
        }
        assert_eq!(sealed(map("x", map("y", n(1))), s("amy")).1, 6);
    }
}
