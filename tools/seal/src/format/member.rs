//! Members of an item: the parts that are committed one by one, so that each can be shown, withheld or erased alone.

use shared::domain::{AttributeValue, Item};

use super::{FormatError, put_bytes};

/// Namespace of a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Namespace {
    /// Attributes of the item.
    Attribute = 0,
    /// What the history says about the version: time, actor, entity.
    Metadata = 1,
}

/// Path of a member: names of maps, the outermost first.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Path {
    /// What the names are.
    pub namespace: Namespace,
    /// At least one name.
    pub names: Vec<String>,
}

impl Path {
    /// Returns the bytes of the path: the namespace, and each name after its length.
    ///
    /// # Errors
    ///
    /// A name has 4 GiB.
    pub fn bytes(&self) -> Result<Vec<u8>, FormatError> {
        let mut out = vec![self.namespace as u8];
        self.names
            .iter()
            .try_for_each(|name| put_bytes(name.as_bytes(), &mut out))?;
        Ok(out)
    }
}

/// Returns the members of an item in the order of their paths: maps member by member, everything else as a whole. An empty map is a member, so
/// that its presence is committed.
pub fn members(namespace: Namespace, item: &Item) -> Vec<(Path, &AttributeValue)> {
    let mut members = Vec::new();
    let mut rest: Vec<(Vec<String>, &AttributeValue)> = item
        .inner()
        .iter()
        .map(|(name, value)| (vec![name.clone()], value))
        .collect();
    while let Some((names, value)) = rest.pop() {
        match value {
            AttributeValue::M(map) if !map.is_empty() => rest.extend(map.iter().map(|(name, value)| {
                let names = names.iter().chain([name]).cloned().collect();
                (names, value)
            })),
            value => members.push((Path { namespace, names }, value)),
        }
    }
    members.sort_unstable_by(|(a, _), (b, _)| a.cmp(b));
    members
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn maps_are_committed_member_by_member_and_lists_as_a_whole() {
        let map = |members: &[(&str, AttributeValue)]| {
            AttributeValue::M(
                members
                    .iter()
                    .map(|(name, value)| ((*name).to_owned(), value.clone()))
                    .collect(),
            )
        };
        let (text, list) = (AttributeValue::S("x".to_owned()), AttributeValue::L(vec![map(&[])]));
        let item: Item = [
            (
                "b".to_owned(),
                map(&[("z", text.clone()), ("e", map(&[])), ("m", map(&[("k", list.clone())]))]),
            ),
            ("a.b".to_owned(), text.clone()),
        ]
        .into_iter()
        .collect::<std::collections::HashMap<_, _>>()
        .into();
        let found: Vec<_> = members(Namespace::Attribute, &item)
            .into_iter()
            .map(|(path, value)| (path.names.join("/"), value.clone()))
            .collect();
        let expected = [("a.b", text.clone()), ("b/e", map(&[])), ("b/m/k", list), ("b/z", text)];
        assert_eq!(found, expected.map(|(path, value)| (path.to_owned(), value)));
    }

    #[test]
    fn different_paths_have_different_bytes() {
        let path = |namespace, names: &[&str]| {
            let names = names.iter().map(|name| (*name).to_owned()).collect();
            Path { namespace, names }.bytes().unwrap()
        };
        assert_eq!(path(Namespace::Attribute, &["a", "bc"]), b"\0\0\0\0\x01a\0\0\0\x02bc");
        let paths = [
            path(Namespace::Attribute, &["a", "bc"]),
            path(Namespace::Attribute, &["ab", "c"]),
            path(Namespace::Attribute, &["abc"]),
            path(Namespace::Attribute, &["a.bc"]),
            path(Namespace::Metadata, &["abc"]),
        ];
        for (index, one) in paths.iter().enumerate() {
            assert!(!paths[..index].contains(one));
        }
    }
}
