//! Places in an item that are undone independently of each other.

use std::collections::{BTreeMap, HashMap};

use shared::domain::{
    AttributeValue, Item,
    attributes::{s, same_value},
};

use crate::{
    alignment::identities,
    path::{Path, Step},
    tree::canonical,
};

/// A value, or an item, as a tree of places.
#[derive(Debug, Clone)]
pub(super) enum Node {
    /// A value without places.
    Value(AttributeValue),
    /// A value whose parts are places.
    Parts(Parts),
}

/// A value whose parts are places.
#[derive(Debug, Clone)]
pub(super) struct Parts {
    kind: Kind,
    members: BTreeMap<String, Node>,
    /// Order of the elements of a list.
    order: Vec<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Map,
    /// Elements have different values of this member. `None` is an empty list.
    List(Option<&'static str>),
    /// Elements are texts, numbers or binary values.
    Set(Elements),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Elements {
    Texts,
    Numbers,
    Binaries,
}

impl Kind {
    fn is_like(self, other: Self) -> bool {
        self == other || matches!((self, other), (Self::List(a), Self::List(b)) if a.is_none() || b.is_none())
    }
}

/// A place: the keys of the parts that lead to it. Without keys it is the item.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Place(Vec<Key>);

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Key {
    /// Name of a member, identity of an element, or element of a set.
    Part(String),
    /// Order of the elements of a list that stay in it. After the elements, so that they are there when they are put in order.
    Order,
}

impl Node {
    pub(super) fn of_item(item: &Item) -> Self {
        Self::map(item.iter())
    }

    fn map<'i>(members: impl Iterator<Item = (&'i String, &'i AttributeValue)>) -> Self {
        let members = members.map(|(name, value)| (name.clone(), Self::of(value)));
        Self::parts(Kind::Map, members.collect())
    }

    fn parts(kind: Kind, parts: Vec<(String, Self)>) -> Self {
        let order = match kind {
            Kind::List(_) => parts.iter().map(|(key, _)| key.clone()).collect(),
            _ => Vec::new(),
        };
        let members = parts.into_iter().collect();
        Self::Parts(Parts { kind, members, order })
    }

    fn of(value: &AttributeValue) -> Self {
        use AttributeValue::{B, Bs, L, M, N, Ns, Ss};
        let element = |value: AttributeValue| (key(&value).unwrap_or_default(), Self::Value(value));
        match value {
            M(members) => Self::map(members.iter()),
            Ss(texts) => Self::parts(
                Kind::Set(Elements::Texts),
                texts.iter().map(|text| element(s(text))).collect(),
            ),
            Ns(numbers) => Self::parts(
                Kind::Set(Elements::Numbers),
                numbers.iter().map(|number| element(N(number.clone()))).collect(),
            ),
            Bs(values) => Self::parts(
                Kind::Set(Elements::Binaries),
                values.iter().map(|value| element(B(value.clone()))).collect(),
            ),
            L(elements) if elements.is_empty() => Self::parts(Kind::List(None), Vec::new()),
            L(elements) => match identities().find_map(|member| Some((member, keys(elements, member)?))) {
                Some((member, keys)) => {
                    let elements = keys.into_iter().zip(elements.iter().map(Self::of));
                    Self::parts(Kind::List(Some(member)), elements.collect())
                }
                None => Self::Value(value.clone()),
            },
            _ => Self::Value(value.clone()),
        }
    }

    /// Returns the value, `None` for a set without elements, which DynamoDB does not store.
    pub(super) fn value(&self) -> Option<AttributeValue> {
        let Parts {
            kind,
            members: parts,
            order,
        } = match self {
            Self::Value(value) => return Some(value.clone()),
            Self::Parts(parts) => parts,
        };
        let members = || {
            parts
                .iter()
                .filter_map(|(name, node)| Some((name.clone(), node.value()?)))
        };
        let elements = parts.values().filter_map(Self::value);
        Some(match kind {
            Kind::Map => AttributeValue::M(members().collect()),
            Kind::List(_) => AttributeValue::L(order.iter().filter_map(|key| parts.get(key)?.value()).collect()),
            Kind::Set(_) if parts.is_empty() => return None,
            Kind::Set(Elements::Texts) => AttributeValue::Ss(elements.filter_map(text).collect()),
            Kind::Set(Elements::Numbers) => AttributeValue::Ns(elements.filter_map(text).collect()),
            Kind::Set(Elements::Binaries) => AttributeValue::Bs(elements.filter_map(binary).collect()),
        })
    }

    pub(super) fn into_item(self) -> Item {
        let members = match self.value() {
            Some(AttributeValue::M(members)) => members,
            _ => HashMap::new(),
        };
        members.into()
    }

    /// Returns the places whose values differ.
    pub(super) fn changed(old: Option<&Self>, new: Option<&Self>) -> Vec<Place> {
        let mut found = Vec::new();
        compare(old, new, &mut Vec::new(), &mut found);
        found
    }

    fn as_parts(&self) -> Option<&Parts> {
        match self {
            Self::Value(_) => None,
            Self::Parts(parts) => Some(parts),
        }
    }
}

fn text(value: AttributeValue) -> Option<String> {
    match value {
        AttributeValue::S(text) | AttributeValue::N(text) => Some(text),
        _ => None,
    }
}

fn binary(value: AttributeValue) -> Option<Vec<u8>> {
    match value {
        AttributeValue::B(bytes) => Some(bytes),
        _ => None,
    }
}

/// Returns the key of an element, `None` if it is not a text, a number or a binary value.
fn key(value: &AttributeValue) -> Option<String> {
    match value {
        AttributeValue::S(text) => Some(format!("S{text}")),
        AttributeValue::N(number) => Some(format!("N{}", canonical(number))),
        AttributeValue::B(bytes) => Some(format!("B{:02x?}", &bytes[..])),
        _ => None,
    }
}

/// Returns the values of a member that identifies the elements, `None` if it does not.
fn keys(elements: &[AttributeValue], member: &str) -> Option<Vec<String>> {
    let keys = elements.iter().map(|element| match element {
        AttributeValue::M(members) => key(members.get(member)?),
        _ => None,
    });
    let keys: Vec<_> = keys.collect::<Option<_>>()?;
    let mut sorted: Vec<_> = keys.iter().collect();
    sorted.sort_unstable();
    sorted.windows(2).all(|pair| pair[0] != pair[1]).then_some(keys)
}

fn compare(old: Option<&Node>, new: Option<&Node>, at: &mut Vec<Key>, found: &mut Vec<Place>) {
    match (old, new) {
        (Some(Node::Parts(old)), Some(Node::Parts(new))) if old.kind.is_like(new.kind) => {
            let added = new.members.keys().filter(|key| !old.members.contains_key(*key));
            for key in old.members.keys().chain(added) {
                at.push(Key::Part(key.clone()));
                compare(old.members.get(key), new.members.get(key), at, found);
                at.pop();
            }
            if !old.has_order_of(new) {
                at.push(Key::Order);
                found.push(Place(at.clone()));
                at.pop();
            }
        }
        (Some(Node::Value(old)), Some(Node::Value(new))) if same_value(old, new) => {}
        (None, None) => {}
        _ => found.push(Place(at.clone())),
    }
}

impl Parts {
    /// Returns `true` if the elements that both lists have are in the same order.
    fn has_order_of(&self, other: &Self) -> bool {
        let (a, b) = (&self.order, &other.order);
        let of_both = |order: &'_ [String], parts: &BTreeMap<String, Node>| -> Vec<String> {
            order.iter().filter(|key| parts.contains_key(*key)).cloned().collect()
        };
        of_both(a, &other.members) == of_both(b, &self.members)
    }

    /// Puts the elements that another list has into its order. The others stay where they are.
    fn reorder(&mut self, like: &Self) {
        let mut ordered = like.order.iter().filter(|key| self.members.contains_key(*key));
        for key in self.order.iter_mut().filter(|key| like.members.contains_key(*key)) {
            if let Some(next) = ordered.next() {
                key.clone_from(next);
            }
        }
    }

    /// Replaces a part. A new element comes after the element before it in another list, if this list has that.
    fn set(&mut self, key: &str, part: Option<Node>, like: &Self) {
        let was_present = self.members.remove(key).is_some();
        let is_list = matches!(self.kind, Kind::List(_));
        if is_list && was_present && part.is_none() {
            self.order.retain(|other| other != key);
        }
        if is_list && !was_present && part.is_some() {
            let before = like.order.iter().take_while(|other| *other != key);
            let before = before.filter(|other| self.members.contains_key(*other)).last();
            let place = before.and_then(|before| self.order.iter().position(|other| other == before));
            self.order.insert(place.map_or(0, |place| place + 1), key.to_owned());
        }
        self.members.extend(part.map(|part| (key.to_owned(), part)));
    }
}

impl Place {
    /// Returns `true` if the other place is this one or a part of it.
    pub(super) fn contains(&self, other: &Self) -> bool {
        other.0.starts_with(&self.0)
    }

    /// Returns `true` if this is the order of a list.
    pub(super) fn is_order(&self) -> bool {
        self.0.last() == Some(&Key::Order)
    }

    /// Returns the places that contain this one, from the item on.
    pub(super) fn containers(&self) -> impl Iterator<Item = Self> {
        (0..self.0.len()).map(|length| Self(self.0[..length].to_vec()))
    }

    /// Returns the place as a part of a place that contains it.
    pub(super) fn within(&self, container: &Self) -> Self {
        Self(self.0[container.0.len()..].to_vec())
    }

    /// Returns the node at this place, the list for its order.
    pub(super) fn node<'n>(&self, root: Option<&'n Node>) -> Option<&'n Node> {
        self.0.iter().try_fold(root?, |node, key| match key {
            Key::Order => Some(node),
            Key::Part(key) => node.as_parts()?.members.get(key),
        })
    }

    /// Returns `true` if this place of an item has a value already.
    pub(super) fn is_same(&self, root: Option<&Node>, wanted: Option<&Node>) -> bool {
        match (self.is_order(), self.node(root), wanted) {
            (true, Some(Node::Parts(list)), Some(Node::Parts(wanted))) if list.kind.is_like(wanted.kind) => {
                list.has_order_of(wanted)
            }
            // A list that is gone has no order.
            (true, ..) => true,
            (false, node, wanted) => Node::changed(node, wanted).is_empty(),
        }
    }

    /// Puts a value at this place. `like` is an item that has the containers of the place: one that is missing is copied from it.
    pub(super) fn put(&self, root: &mut Option<Node>, value: Option<Node>, like: Option<&Node>) {
        put(&self.0, root, value, like);
    }

    /// Returns the path in an item, the one of the list if it has no such element. `like` is an item that has the containers of the place.
    pub(super) fn path(&self, root: Option<&Node>, like: Option<&Node>) -> Path {
        let (mut path, mut node, mut like) = (Path::default(), root, like);
        for key in &self.0 {
            let (Key::Part(key), Some(Node::Parts(container))) = (key, like) else {
                break;
            };
            let parts = node.and_then(Node::as_parts);
            let element = || parts?.order.iter().position(|other| other == key);
            let step = match container.kind {
                Kind::Map => Some(Step::Name(key.clone())),
                Kind::List(_) => element().map(Step::Index),
                Kind::Set(_) => None,
            };
            let Some(step) = step else { break };
            path.0.push(step);
            node = parts.and_then(|parts| parts.members.get(key));
            like = container.members.get(key);
        }
        path
    }
}

fn put(keys: &[Key], node: &mut Option<Node>, value: Option<Node>, like: Option<&Node>) {
    let Some((key, rest)) = keys.split_first() else {
        *node = value;
        return;
    };
    let Some(Node::Parts(like)) = like else { return };
    let fits = matches!(node, Some(Node::Parts(parts)) if parts.kind.is_like(like.kind));
    if !fits && value.is_some() {
        *node = Some(Node::Parts(like.clone()));
    }
    let Some(Node::Parts(parts)) = node else { return };
    match key {
        Key::Order => parts.reorder(like),
        Key::Part(key) => {
            let mut part = parts.members.get(key).cloned();
            put(rest, &mut part, value, like.members.get(key));
            parts.set(key, part, like);
        }
    }
}
