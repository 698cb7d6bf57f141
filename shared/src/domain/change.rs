//! Changes of attributes.

use std::collections::BTreeMap;

use super::AttributeValue;

/// Change of one attribute.
#[derive(Clone, PartialEq)]
pub enum Change {
    /// Sets a value.
    Set(AttributeValue),
    /// Removes the attribute.
    Remove,
    /// Changes members of a map, which must exist.
    Update(BTreeMap<String, Change>),
}
