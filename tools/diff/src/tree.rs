//! Values with numbers: two values have the same number exactly if DynamoDB treats them as equal.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use shared::domain::{AttributeValue, Item, number::Decimal};

/// A value with its number, and with its members or elements.
#[derive(Debug)]
pub(crate) struct Node<'a> {
    pub(crate) number: u32,
    pub(crate) value: &'a AttributeValue,
    pub(crate) children: Children<'a>,
}

#[derive(Debug)]
pub(crate) enum Children<'a> {
    None,
    Map(Members<'a>),
    List(Vec<Node<'a>>),
}

impl Node<'_> {
    /// Returns the number of members of a map, 1 for other values.
    pub(crate) fn members(&self) -> usize {
        match &self.children {
            Children::Map(members) => members.len().max(1),
            _ => 1,
        }
    }
}

/// Members of a map, or attributes of an item.
pub(crate) type Members<'a> = BTreeMap<&'a str, Node<'a>>;

/// Gives each different value a number.
#[derive(Default)]
pub(crate) struct Numbers<'a>(HashMap<Content<'a>, u32>);

/// A value whose members or elements are numbers of values.
#[derive(PartialEq, Eq, Hash)]
enum Content<'a> {
    Text(&'a str),
    Number(String),
    Binary(&'a [u8]),
    Bool(bool),
    Null,
    Texts(BTreeSet<&'a str>),
    Numbers(BTreeSet<String>),
    Binaries(BTreeSet<&'a [u8]>),
    List(Vec<u32>),
    Map(Vec<(&'a str, u32)>),
}

impl<'a> Numbers<'a> {
    pub(crate) fn item(&mut self, item: &'a Item) -> Members<'a> {
        item.iter()
            .map(|(name, value)| (name.as_str(), self.node(value)))
            .collect()
    }

    fn node(&mut self, value: &'a AttributeValue) -> Node<'a> {
        use AttributeValue as Value;
        let mut children = Children::None;
        let content = match value {
            Value::S(text) => Content::Text(text),
            Value::N(number) => Content::Number(canonical(number)),
            Value::B(bytes) => Content::Binary(bytes.as_ref()),
            Value::Bool(bool) => Content::Bool(*bool),
            Value::Null(_) => Content::Null,
            Value::Ss(texts) => Content::Texts(texts.iter().map(String::as_str).collect()),
            Value::Ns(numbers) => Content::Numbers(numbers.iter().map(|number| canonical(number)).collect()),
            Value::Bs(values) => Content::Binaries(values.iter().map(AsRef::as_ref).collect()),
            Value::L(elements) => {
                let nodes: Vec<_> = elements.iter().map(|element| self.node(element)).collect();
                let content = Content::List(nodes.iter().map(|node| node.number).collect());
                children = Children::List(nodes);
                content
            }
            Value::M(members) => {
                let nodes: Members<'a> = members
                    .iter()
                    .map(|(name, value)| (name.as_str(), self.node(value)))
                    .collect();
                let content = Content::Map(nodes.iter().map(|(name, node)| (*name, node.number)).collect());
                children = Children::Map(nodes);
                content
            }
        };
        let next = u32::try_from(self.0.len()).unwrap_or(u32::MAX);
        let number = *self.0.entry(content).or_insert(next);
        Node {
            number,
            value,
            children,
        }
    }
}

pub(crate) fn canonical(number: &str) -> String {
    Decimal::parse(number).map_or_else(|_| number.to_owned(), |number| number.canonical())
}
