//! Backfill: converts an existing item to the update that makes it version 1 of an entity.

use std::{
    borrow::Cow,
    collections::BTreeMap,
    fmt::{self, Write as _},
    str::FromStr,
};

use sha2::{Digest as _, Sha256};
use shared::{
    config::Ordering,
    domain::{
        AttributeValue, Item,
        change::Change,
        entity::{EntityId, InvalidEntityId},
        names,
        request_id::{InvalidRequestId, RequestId},
        view::time_of,
    },
};
use thiserror::Error;
use writer_fn::update::{ExpectedVersion, MAX_ATTRIBUTES, RESERVED, Update};

/// Prefix of the request ids of a backfill.
pub const REQUEST_PREFIX: &str = "backfill#";

/// Template of an entity's partition key, with attribute names in braces: `{PK}#{SK}`. Texts and attribute names alternate, beginning
/// and ending with a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Template(Vec<String>);

impl Template {
    /// Returns the template that consists of one attribute.
    pub(super) fn attribute(name: &str) -> Self {
        Self(vec![String::new(), name.to_owned(), String::new()])
    }

    /// Returns `true` if the template refers to this attribute.
    pub(super) fn names(&self, name: &str) -> bool {
        self.0.iter().skip(1).step_by(2).any(|attribute| attribute == name)
    }

    /// Joins the texts and what is put for the attributes.
    fn join<'a, E>(&'a self, attribute: impl Fn(&'a String) -> Result<Cow<'a, str>, E>) -> Result<String, E> {
        let parts = self.0.iter().enumerate().map(|(index, part)| match index % 2 {
            0 => Ok(Cow::from(part)),
            _ => attribute(part),
        });
        parts.collect()
    }

    fn fill(&self, item: &Item) -> Result<String, Refusal> {
        self.join(|name| match item.get(name) {
            Some(AttributeValue::S(value) | AttributeValue::N(value)) => Ok(value.clone().into()),
            _ => Err(Refusal::NoText(name.clone())),
        })
    }
}

impl fmt::Display for Template {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.join(|name| Ok(format!("{{{name}}}").into()))?)
    }
}

impl FromStr for Template {
    type Err = InvalidTemplate;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let braces: Vec<_> = text.matches(['{', '}']).collect();
        let template = Self(text.split(['{', '}']).map(str::to_owned).collect());
        match !braces.is_empty() && braces.chunks(2).all(|pair| pair == ["{", "}"]) && !template.names("") {
            true => Ok(template),
            false => Err(InvalidTemplate),
        }
    }
}

/// The text is not a template.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("a template is a text with attribute names in braces, such as {{PK}}#{{SK}}")]
pub struct InvalidTemplate;

/// Mapping of items to updates.
#[derive(Debug, Clone)]
pub struct Mapping {
    /// Name of the items' table.
    pub table: String,
    /// Names of the table's key attributes.
    pub keys: Vec<String>,
    /// Template of the entity's partition key.
    pub id: Template,
    /// Attributes to rename: old name to new name.
    pub rename: BTreeMap<String, String>,
    /// Ordering of the target table's updates.
    pub ordering: Ordering,
}

/// Bookkeeping attributes that an update may set, but an item must not have.
const OWN: [&str; 2] = [names::REQUEST_ID, names::DELETED];

impl Mapping {
    /// Returns the update that makes an item version 1 of its entity, provided that the entity has no version. Values keep
    /// their types.
    ///
    /// # Errors
    ///
    /// Returns [`Refusal`] if the item cannot become a version, with the reason.
    pub fn update(&self, item: &Item) -> Result<Update, Refusal> {
        let entity = EntityId::new(self.id.fill(item)?)?;
        let mut timestamp = None;
        if self.ordering == Ordering::Time {
            timestamp = Some(time_of(item).map_err(|_| Refusal::NoTime)?);
        }
        let mut changes = BTreeMap::new();
        for (name, value) in self.attributes(item) {
            if timestamp.is_some() && name == names::TIMESTAMP {
                continue;
            }
            if let Some(name) = RESERVED.into_iter().chain(OWN).find(|reserved| reserved == name) {
                return Err(Refusal::Reserved(name));
            }
            if changes.insert(name.clone(), Change::Set(value.clone())).is_some() {
                return Err(Refusal::Twice(name.clone()));
            }
        }
        if changes.len() > MAX_ATTRIBUTES {
            return Err(Refusal::TooManyAttributes(changes.len()));
        }
        Ok(Update {
            entity,
            request_id: request_id(&self.table, &self.keys, item)?,
            expected: Some(ExpectedVersion::Absent),
            deleted: false,
            timestamp,
            changes,
            request_payload: None,
            sent_at: None,
            sender: None,
            restored_from: None,
            change_set_size: None,
        })
    }

    /// Returns the attributes that an item gives to its entity, with their new names.
    fn attributes<'a>(&'a self, item: &'a Item) -> impl Iterator<Item = (&'a String, &'a AttributeValue)> {
        let renamed = (item.iter()).map(|(name, value)| (self.rename.get(name).unwrap_or(name), value));
        let is_key_of_ours =
            |name: &String| [names::PK, names::SK].contains(&name.as_str()) && self.keys.contains(name);
        renamed.filter(move |(name, _)| !is_key_of_ours(name))
    }

    /// Returns `true` if the latest item of an item's entity has every attribute of the item, with any value.
    pub fn is_complete(&self, item: &Item, latest: &Item) -> bool {
        self.attributes(item).all(|(name, _)| latest.contains_key(name))
    }
}

/// Returns the request id of an item of a table with these key attributes: equal in every run, and different for every item.
///
/// # Errors
///
/// Returns [`Refusal::NoText`] if a key attribute is missing, [`Refusal::RequestId`] if the table name is too long.
pub fn request_id(table: &str, keys: &[String], item: &Item) -> Result<RequestId, Refusal> {
    let mut hash = Sha256::new();
    for name in keys {
        let (kind, text) = match item.get(name) {
            Some(AttributeValue::S(text)) => (b"S", text.as_bytes()),
            Some(AttributeValue::N(text)) => (b"N", text.as_bytes()),
            Some(AttributeValue::B(bytes)) => (b"B", bytes.as_slice()),
            _ => return Err(Refusal::NoText(name.clone())),
        };
        hash.update(kind);
        hash.update(text.len().to_be_bytes());
        hash.update(text);
    }
    let mut id = format!("{REQUEST_PREFIX}{table}#");
    for byte in hash.finalize() {
        // Writing to a String cannot fail.
        let _ = write!(id, "{byte:02x}");
    }
    Ok(RequestId::new(id)?)
}

/// Reason why an item cannot be brought under versioning. It holds names, but no values.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Refusal {
    /// The template needs this attribute, which is neither a string nor a number.
    #[error("{0} is neither a string nor a number")]
    NoText(String),
    /// The template's result is not a valid partition key.
    #[error("it has no partition key")]
    Id(#[from] InvalidEntityId),
    /// The item has this bookkeeping attribute.
    #[error("{0} is reserved: give it another name")]
    Reserved(&'static str),
    /// Another item of the table has the same partition key in the target.
    #[error("another item of the table has the name of its entity")]
    SameName,
    /// An update created the entity, and no update has named all attributes of the item.
    #[error("an update created its entity first, and its attributes are missing there")]
    CreatedByUpdate,
    /// The entity lacks attributes of the item, and its first version was pruned or is missing.
    #[error(
        "its attributes are missing in its entity, and it is not known whether it was imported, because version 1 is not in \
         history"
    )]
    FirstVersionUnknown,
    /// Two attributes would have this name.
    #[error("two attributes would be {0}")]
    Twice(String),
    /// The item has more attributes than one update can set.
    #[error("it has {0} attributes, and {MAX_ATTRIBUTES} are allowed")]
    TooManyAttributes(usize),
    /// Updates are ordered by time, and the item has no time.
    #[error("it has neither a Timestamp nor a Time that can be read, and updates are ordered by time")]
    NoTime,
    /// The table name is too long for a request id.
    #[error(transparent)]
    RequestId(#[from] InvalidRequestId),
    /// Its entity has versions, a floor, or a latest item without `Latest`, so that no latest item counts its versions.
    #[error("its entity exists, but no latest item counts its versions: run `vzero admin repair --revive` first")]
    Uncounted,
    /// DynamoDB rejected the item.
    #[error("DynamoDB rejects it: it is too large or otherwise invalid")]
    Rejected,
}

impl Refusal {
    /// Returns `true` if the item could become a version, but its entity has versions of other updates, and lacks attributes.
    pub fn is_conflict(&self) -> bool {
        matches!(self, Self::CreatedByUpdate | Self::FirstVersionUnknown)
    }
}

#[cfg(test)]
mod tests;
